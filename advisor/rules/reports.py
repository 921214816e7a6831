"""The rules on a report of any program: the ceiling, then each rule by what the report shows, and the gates
of `--fail-if`.

Gains are estimates, at most what the advice can save; of all frames that the figures are of, they are divided
by their number. A report does not hold contents: what depends on them is a question.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from advisor import units
from advisor.errors import UsageError, nearest
from advisor.profiles.conclusions import Advice, Preferences
from advisor.profiles.programs import SMALL, Ceiling, GpuTrace, ProgramTrace
from advisor.rules.base import estimated
from advisor.rules.registry import by_id, limits
from advisor.rules.report_rules import RULES, UP, exposed, judge, stopped, unbalanced_split
from advisor.verdicts.comparing.gates import Gate, Ruling

_PAGES = ("page-fault-migration", "ping-pong-migration")
_COPIES = ("pageable-transfer", "link-below-best", "serial-copies", "small-transfers", "peer-access-off")
_HOST = ("pin-per-frame", "implicit-wait")
"""Rules whose gains are of the same time."""
_ROUNDING = 1e-9
_IN_PLACE = (
    "Page-locked memory is allocated and never copied: do kernels read it in place (zero-copy)? A report "
    "does not show that, so the time of all kernels is in what memory can change."
)

_CEILING = re.compile(r"ceiling=([0-9]{1,3}(?:\.[0-9]{1,6})?) ?%")
_IDS = (*RULES, "unbalanced-split")
_KNOWN = f"Write advice, ceiling=10%, or a rule for reports: {', '.join(_IDS)}."


def judged(program: ProgramTrace, preferences: Preferences | None = None) -> ProgramTrace:
    """The program with its ceilings, advice and questions."""
    wanted = preferences or Preferences()
    # Kernels may read host memory in place: page-locked memory was allocated and never copied.
    flows = (flow for gpu in program.gpus for flow in (*(gpu.flows or ()), *gpu.set_up))
    pinned = any(each.kind == "pinned" for each in program.allocations or ())
    in_place = pinned and not any(flow.memory == "pinned" for flow in flows)
    gpus = tuple(gpu.model_copy(update={"ceiling": ceiling(gpu, in_place=in_place)}) for gpu in program.gpus)
    advice = [one for gpu in gpus for one in _judged(gpu, wanted)]
    if len(gpus) > 1:
        split = unbalanced_split(gpus, limits(by_id("unbalanced-split"), wanted))
        advice.append(by_id("unbalanced-split").concluded("all GPUs", split))
    questions = (*_asked(gpus), *[_IN_PLACE] * in_place)
    return program.model_copy(update={"gpus": gpus, "advice": tuple(advice), "questions": questions})


def _asked(gpus: Sequence[GpuTrace]) -> Iterator[str]:
    """Each question once, with the GPUs that it is for, unless it is for all."""
    labels: dict[str, list[str]] = {}
    for gpu in gpus:
        labels.setdefault(_question(gpu), []).append(gpu.label)
    for question, those in labels.items():
        if question:
            yield question if len(those) == len(gpus) else f"{', '.join(those)}: {question}"


def _judged(gpu: GpuTrace, wanted: Preferences) -> Iterator[Advice]:
    """Each rule's advice on a GPU, no time promised twice: the largest gain first, overlapping last."""
    findings = {rule: judge(rule, gpu, limits(by_id(rule), wanted)) for rule in RULES}
    worth = {r: (f.gain.seconds_per_frame or 0.0) * gpu.units for r, f in findings.items() if f.gain}
    calls = gpu.host_time("copies")
    copying = gpu.copy_seconds - gpu.hidden_seconds + (calls.idle_seconds if calls else 0.0)
    most = gpu.ceiling.seconds if gpu.ceiling else gpu.seconds
    pools = ((_PAGES, _paging(gpu)), (_COPIES, copying), ((*_PAGES, *_COPIES, *_HOST), most))
    before: list[str] = []
    for rule in sorted(worth, key=lambda r: (r == "serial-copies", -worth[r], RULES.index(r))):
        for rules, whole in pools:
            sharing = [each for each in before if each in rules and worth[each]]
            left = max(whole - sum(worth[each] for each in sharing), 0.0)
            if rule in rules and worth[rule] > left + _ROUNDING:
                worth[rule] = left
                also = f" What it saves is partly counted in {' and '.join(sharing)}, and left out here."
                detail = findings[rule].detail + also * bool(sharing)
                findings[rule] = replace(findings[rule], detail=detail, gain=estimated(left / gpu.units))
        before.append(rule)
    return (by_id(rule).concluded(gpu.label, one) for rule, one in findings.items())


def ceiling(gpu: GpuTrace, *, in_place: bool = False) -> Ceiling:
    """The time that memory can change: copies and migrations that no kernel hides, what pages that move by
    faults stop, and idle time in calls that copy, wait, allocate or page-lock; all idle time where the report
    has no calls. in_place: kernels too."""
    idle = gpu.idle_seconds if gpu.removable_seconds is None else gpu.removable_seconds
    most = gpu.copy_seconds - gpu.hidden_seconds + idle + _paging(gpu)
    most = min(most + gpu.kernel_seconds * in_place, gpu.seconds)
    return Ceiling(seconds=most, share=most / gpu.seconds)


def _paging(gpu: GpuTrace) -> float:
    """Migrations that no kernel hides, and what pages that move by faults stop."""
    return gpu.managed.exposed_seconds + stopped(gpu.managed) if gpu.managed else 0.0


def _question(gpu: GpuTrace) -> str:
    """What depends on contents or addresses, which a report does not hold; empty where little is uploaded."""
    uploads = exposed([flow for flow in gpu.flows or () if flow.kind == UP])
    share = by_id("device-resident").text.thresholds[0].default
    if gpu.frames is None or gpu.flows is None or uploads < share * gpu.seconds:
        return ""
    again = set(dict(gpu.frames.uploads)) & set(dict(gpu.frames.downloads))
    if trips := sorted((size for size in again if size > SMALL), reverse=True):
        sizes = ", ".join(map(units.size, trips[:3]))
        return (
            f"Each frame downloads and uploads {sizes}: if it is the same buffer, keep it on the GPU "
            "(device-resident)."
        )
    return (
        f"Do the uploads differ from frame to frame? Upload once what never changes, at most "
        f"{units.seconds(uploads / gpu.units)} a frame (a report does not hold contents)."
    )


def parse_gates(texts: Sequence[str]) -> tuple[Gate, ...]:
    """Gates on a report: a rule, `advice` for all of them, `ceiling=10%`. Raises `UsageError` for another."""
    return tuple(dict.fromkeys(_parse(text.strip()) for text in texts))


def _parse(text: str) -> Gate:
    if ceiling := _CEILING.fullmatch(text):
        return Gate(text, "ceiling", float(ceiling[1]) / 100)
    if text in ("advice", *_IDS):
        return Gate(text, "advice")
    raise UsageError(f"--fail-if {text!r} is not a gate of a report{nearest(text, _IDS)}", next_step=_KNOWN)


def ruled(gate: Gate, program: ProgramTrace | None) -> Ruling:
    """Raises `UsageError` where there is nothing to judge."""
    if program is None or not program.gpus:
        raise UsageError(
            f"--fail-if {gate.text} has nothing to judge: no GPU work, or only that of advisor's strategies",
            next_step="Omit --fail-if, or name the frames with --frame.",
        )
    pieces = [one for one in program.advice if gate.text in ("advice", one.rule)]
    reasons = [f"{one.rule} on {one.device}" for one in pieces if one.outcome == "advice"]
    if gate.kind == "advice" and all(one.outcome == "not-applicable" for one in pieces):
        lacking = dict.fromkeys(one.detail for one in pieces)
        return Ruling(gate, "not applicable", tuple(lacking) or ("The report is of one GPU.",))
    if gate.kind == "ceiling":
        shares = ((gpu.label, gpu.ceiling.share) for gpu in program.gpus if gpu.ceiling)
        above = ((label, share) for label, share in shares if share > gate.limit)
        reasons = [f"memory can change {units.percent(share)} on {label}" for label, share in above]
    return Ruling(gate, "failed" if reasons else "passed", tuple(reasons))
