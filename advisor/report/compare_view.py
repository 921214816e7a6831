"""A comparison as data for its pages: every word and number ready, the templates only loop and print."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from advisor import units
from advisor.profiles.conclusions import Advice
from advisor.profiles.schema import Profile
from advisor.report import words
from advisor.report.dates import created
from advisor.report.intervals import Scale, Strip, scale, strip
from advisor.report.tables import Gap, together
from advisor.report.verdicts import Verdict
from advisor.verdicts.comparing import Compared, Comparison, DeviceComparison, OneSided, Ruling
from advisor.verdicts.comparing.conditions import Condition
from advisor.verdicts.comparing.recommended import Recommended
from advisor.version import __version__

_LIMIT = 500
_FEW = 3
"""So many strategies are named in a headline; more are counted, and the table has them."""
MORE_ROUNDS = "Profile both again with --rounds 10, on a machine that does nothing else."


@dataclass(frozen=True)
class Side:
    """One of the two profiles: what it is called, and when and by what it was made."""

    label: str
    file: str
    created: str
    tool: str


@dataclass(frozen=True)
class ComparedRow:
    """A strategy in both. `ratio` is HEAD's time over BASE's, `between` its interval or range."""

    strategy: str
    tag: str
    base: str
    head: str
    ratio: str
    between: str
    outcome: str
    memory: str
    memory_changed: bool
    strip: Strip


@dataclass(frozen=True)
class DeviceView:
    """One device: the sentence over it, its table, and what has figures on one side alone."""

    device: str
    basis: str
    verdict: Verdict
    rows: tuple[ComparedRow, ...]
    scale: Scale
    gaps: tuple[Gap, ...]


@dataclass(frozen=True)
class GateView:
    """A gate, its outcome, and what decided it."""

    gate: str
    status: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class AdviceView:
    """Advice that one of the two alone gives."""

    title: str
    rule: str
    where: str
    detail: str


@dataclass(frozen=True)
class CompareReport:
    """All of a comparison's page. `predicted` says that no figure in it was measured on a GPU."""

    title: str
    workload: str
    device: str
    predicted: bool
    per: str
    """What times are of: a frame, or a script's run."""
    tool: str
    sides: tuple[Side, Side]
    statement: str
    alike: str
    unknown: str
    differing: tuple[Condition, ...]
    devices: tuple[DeviceView, ...]
    gates: tuple[GateView, ...]
    new_advice: tuple[AdviceView, ...]
    gone_advice: tuple[AdviceView, ...]
    confidence: str
    notes: tuple[str, ...]


def compare_view(
    found: Comparison, rulings: Sequence[Ruling] = (), files: tuple[str, str] = ("", "")
) -> CompareReport:
    """Everything a comparison says, in words. `files` are what the two profiles are called."""
    workload = words.name(found.head.workload.name)
    apart = tuple(map(_clean, (c for c in found.conditions if c.status == "differs")))
    return CompareReport(
        title=f"{workload}: HEAD against BASE",
        workload=workload,
        device="" if found.predicted else _where(found),
        predicted=found.predicted,
        per="run" if found.head.script else "frame",
        tool=f"advisor {__version__}",
        sides=(_side("BASE", files[0], found.base), _side("HEAD", files[1], found.head)),
        statement=_statement(apart),
        alike=words.listing((c.what for c in found.conditions if c.status == "same"), limit=20),
        unknown=words.listing((c.what for c in found.conditions if c.status == "not known"), limit=20),
        differing=apart,
        devices=tuple(_device(each, found) for each in found.devices),
        gates=tuple(map(_gate, rulings)),
        new_advice=tuple(map(_advice, found.new_advice)),
        gone_advice=tuple(map(_advice, found.gone_advice)),
        confidence=units.percent(found.confidence),
        notes=tuple(words.line(note, _LIMIT) for note in (*found.notes, *_unmatched(found))),
    )


def _side(label: str, file: str, profile: Profile) -> Side:
    tool = f"advisor {words.name(profile.tool.version)}"
    return Side(label, words.name(file) if file else "", created(profile.created), tool)


def _where(found: Comparison) -> str:
    """The measured device; both where HEAD's is another one."""
    before, now = words.name(found.base.device.name), words.name(found.head.device.name)
    return now if now == before else f"{now} (BASE: {before})"


def _clean(told: Condition) -> Condition:
    return Condition(
        words.name(told.what), told.status, words.line(told.base, 120), words.line(told.head, 120), told.kind
    )


def _statement(apart: Sequence[Condition]) -> str:
    """What the ratios show the effect of."""
    subjects = words.listing(f"the {c.what}" for c in apart if c.kind == "subject")
    around = words.listing((c.what for c in apart if c.kind == "condition"), limit=12)
    if subjects and around:
        return f"The ratios show the effect of {subjects}, and of what differs around it: {around}."
    if subjects:
        return f"The ratios show the effect of what differs: {subjects}."
    if around:
        return f"The workload is the same. The ratios show the effect of what differs around it: {around}."
    return "Nothing that was recorded differs, so the ratios show how well these figures repeat."


def _unmatched(found: Comparison) -> Iterator[str]:
    if found.unmatched_devices:
        names = words.listing(map(words.name, found.unmatched_devices))
        yield f"Predicted in one of the two alone: {names}."


def _device(device: DeviceComparison, found: Comparison) -> DeviceView:
    axis = scale([(row.ratio.low, row.ratio.high) for row in device.rows])
    name = words.name(device.device.name) if device.basis == "predicted" else _where(found)
    return DeviceView(
        device=name,
        basis=device.basis,
        verdict=_verdict(device, name, units.percent(found.confidence)),
        rows=tuple(_row(row, device.recommended, axis) for row in device.rows),
        scale=axis,
        gaps=together(map(_gap, device.one_sided)),
    )


def _verdict(device: DeviceComparison, name: str, confidence: str) -> Verdict:
    outcomes = {row.outcome for row in device.rows}
    sure = "slower" not in outcomes and "cannot tell" not in outcomes
    predicted = device.basis == "predicted"
    return Verdict(
        basis=device.basis,
        tone="clear" if sure and device.rows else "inconclusive" if device.rows else "none",
        device=name,
        headline=f"{'Predicted: ' * predicted}{_headline(device.rows)}",
        certainty="" if predicted else f"by {confidence} intervals of the ratio of medians",
        reason=_recommended(device),
        next_step=_next_step(device),
    )


def _headline(rows: Sequence[Compared]) -> str:
    """The slower ones first; names where there are few."""
    if not rows:
        return "no strategy has figures in both"
    told = []
    for outcome, verb in (("slower", "slower"), ("faster", "faster"), ("same", "the same"), (None, "")):
        names = [words.code(row.strategy) for row in rows if row.outcome == (outcome or "cannot tell")]
        if names and outcome:
            few = words.listing(names) if len(names) <= _FEW else f"{len(names)} strategies"
            told.append(f"{few} {verb}")
        elif names:
            every = len(names) == len(rows)
            told.append(
                "no strategy can be told faster or slower" if every else f"{len(names)} cannot be told"
            )
    joined = ", ".join(told)
    return joined[:1].upper() + joined[1:]


def _recommended(device: DeviceComparison) -> str:
    """What both recommend, and how the one that BASE recommends does now."""
    told = device.recommended
    base, head = (words.code(name) if name else "no single strategy" for name in (told.base, told.head))
    if told.change == "same":
        sentence = f"Both recommend {base}"
    else:
        sure = "The recommendation changed" if told.change == "changed" else "It cannot be told whether the "
        sure += "" if told.change == "changed" else "recommendation changed"
        sentence = f"{sure}: {base} in BASE, {head} in HEAD"
    row = next((row for row in device.rows if row.strategy == told.base), None)
    if row is None:
        return f"{sentence}."
    between = words.ratio_between(row.ratio.low, row.ratio.high)
    return f"{sentence}. {base} takes {units.ratio(row.ratio.value)} the time of BASE ({between})."


def _next_step(device: DeviceComparison) -> str:
    if any(row.outcome == "cannot tell" for row in device.rows):
        return "A prediction is a bet: profile both on the device." * (device.basis == "predicted") or (
            MORE_ROUNDS
        )
    return ""


def _row(row: Compared, told: Recommended, axis: Scale) -> ComparedRow:
    tags = [side for side, name in (("BASE", told.base), ("HEAD", told.head)) if name == row.strategy]
    changed = row.base_bytes != row.head_bytes
    before, now = ("not seen" if b is None else units.size(b) for b in (row.base_bytes, row.head_bytes))
    return ComparedRow(
        strategy=words.name(row.strategy),
        tag=f"recommended in {' and '.join(tags)}" if tags else "",
        base=units.seconds(row.base_seconds),
        head=units.seconds(row.head_seconds),
        ratio=units.ratio(row.ratio.value),
        between=words.ratio_between(row.ratio.low, row.ratio.high),
        outcome=row.outcome,
        memory=f"{before} to {now}" if changed else now,
        memory_changed=changed,
        strip=strip(axis, row.ratio.value, row.ratio.low, row.ratio.high),
    )


def _gap(gap: OneSided) -> Gap:
    side = gap.missing_in.upper()
    status = f"{gap.status} in {side}"
    return Gap((words.name(gap.strategy),), status, words.line(gap.reason, _LIMIT))


def _gate(ruling: Ruling) -> GateView:
    reasons: Iterable[str] = (words.line(reason, _LIMIT) for reason in ruling.reasons)
    return GateView(words.name(ruling.gate.text), ruling.status, tuple(reasons))


def _advice(told: Advice) -> AdviceView:
    return AdviceView(
        words.line(told.title, 200), words.name(told.rule), words.name(told.device), words.line(told.detail)
    )
