"""The advice on a script's lines: each rule that judges lines, on each device with times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from advisor.devices.entries import CatalogueEntry
from advisor.model.machines import Machine
from advisor.model.simulate import occurrence, predict_crossings
from advisor.profiles.conclusions import Advice, Preferences
from advisor.profiles.crossings import Ceiling, Crossing, LineAdvice, ScriptRun
from advisor.rules.base import Finding
from advisor.rules.lines import LineCase
from advisor.rules.registry import RULES, limits
from advisor.verdicts.ceilings import (
    Scope,
    ceiling_of,
    ceilings,
    is_little,
    path_seconds,
    scopes,
    spared_seconds,
)


def conclude_lines(
    run: ScriptRun,
    device: str,
    entry: CatalogueEntry | None,
    targets: Sequence[CatalogueEntry],
    wanted: Preferences,
) -> ScriptRun:
    """With ceilings, predictions for the targets, and advice."""
    predicted = [predict_crossings(run, target) for target in targets]
    by_target = (ceiling for _, each in predicted for ceiling in each)
    run = run.model_copy(
        update={
            "predictions": tuple(prediction for prediction, _ in predicted),
            "ceilings": (*ceilings(run), *by_target),
        }
    )
    advice = advise_lines(run, device, entry, targets, wanted)
    return run.model_copy(update={"advice": advice})


def advise_lines(
    run: ScriptRun,
    device: str,
    entry: CatalogueEntry | None,
    targets: Sequence[CatalogueEntry],
    wanted: Preferences,
) -> tuple[LineAdvice, ...]:
    """Advice on lines for the measured device, or without times for each one that was predicted.

    entry: the measured device's, or one like it. Nothing is said where memory is not the problem.
    """
    measured = any(c.of_seconds and c.seconds > 0 for c in run.ceilings if not c.predicted)
    machines = {device: entry} if measured else {target.name: target for target in targets}
    return tuple(
        LineAdvice(place=run.crossings[i].place, crossing=i, advice=advice)
        for name, target in machines.items()
        for i, case in _cases(run, name if not measured else None, Machine(target) if target else None)
        if (advice := _strongest(case, name, wanted)) is not None
    )


def _cases(
    run: ScriptRun, predicted_for: str | None, machine: Machine | None
) -> Iterator[tuple[int, LineCase]]:
    files = {source.file: "\n".join((*source.lines, "")) for source in run.sources}
    for scope in scopes(run):
        ceiling = ceiling_of(run, scope, predicted_for)
        if ceiling is None or is_little(ceiling):
            continue
        shared = machine.entry.memory_class if machine and machine.shares_memory else None
        beside = _beside(scope, ceiling)
        for i, crossing in scope.crossings:
            case = _case(crossing, machine, ceiling)
            if case is not None:
                source = files.get(crossing.place.file, "")
                yield i, LineCase(crossing, scope, ceiling, *case, source, shared, beside.get(i, 0.0))


def _case(
    crossing: Crossing, machine: Machine | None, ceiling: Ceiling
) -> tuple[float, float | None, float, float] | None:
    """Seconds of one occurrence, of one from page-locked memory, of a call, and of a wait for the GPU."""
    drawn, locked = (
        (occurrence(crossing, machine, memory) for memory in ("", "pinned")) if machine else (None, None)
    )
    seconds = spared_seconds(crossing)
    one = None if seconds is None or ceiling.predicted else seconds / crossing.count
    if ceiling.predicted and drawn is not None:
        one = float(drawn[0])
    if one is None:
        return None
    pinned = None
    if machine and drawn is not None and locked is not None:
        pinned = _page_locked(crossing, machine, one / float(drawn[0]), float(locked[0]))
    call, wait = (
        float(machine.get(name)[0]) if machine else 0.0
        for name in ("pinned_copy_call_seconds", "synchronize_seconds")
    )
    return one, pinned, call, wait


def _page_locked(crossing: Crossing, machine: Machine, slower: float, locked: float) -> float:
    """Seconds of one occurrence from page-locked memory, which the model gives as `locked`.

    Scaled as the measured time is: what is wrong with both cancels. Beyond `_SLOWER_LINK` it is the host's
    memory that slows the bytes, such as pages that are new, and page-locked memory has none of that.
    """
    to = "to_device" if crossing.kind == "upload" else "to_host"
    link = float(machine.get(f"pinned_{to}_bytes_per_second")[0])
    moving = min(crossing.bytes / crossing.count / link, locked)
    return min(slower, _SLOWER_LINK) * moving + slower * (locked - moving)


_SLOWER_LINK = 2.0
"""A link with half of its lanes. On H200s copies from and to pageable memory took 1.1 to 11 times as long as
in the model, page-locked ones 1.0 to 1.1 times: the rest is the host's memory."""


def _beside(scope: Scope, ceiling: Ceiling) -> dict[int, float]:
    """Cost of copies from or to pageable memory to other lines of a frame, where that was measured.

    Downloads have it, if there are some: on an H200 one of 2 MiB made other lines take 300 µs longer, into
    page-locked memory nothing.
    """
    if ceiling.predicted:
        return {}
    others = ((i, c) for i, c in scope.crossings if c.kind != "wait")
    own = {i: (path_seconds(c) or 0.0) / scope.frames for i, c in others}
    rest = max(0.0, ceiling.copy_seconds - sum(own.values()))
    staged = [(i, c.kind) for i, c in scope.crossings if c.memory == "pageable" and i in own]
    kind = "download" if any(kind == "download" for _, kind in staged) else "upload"
    shares = {i: own[i] for i, each in staged if each == kind}
    return {i: rest * share / sum(shares.values()) for i, share in shares.items() if share}


def _strongest(case: LineCase, device: str, wanted: Preferences) -> Advice | None:
    """The advice that gains most: what spares a copy goes before what makes it faster."""
    findings = [
        (rule, finding)
        for rule in RULES
        if rule.judge_line and rule.id not in wanted.ignored
        if (finding := rule.judge_line(case, limits(rule, wanted))) is not None
    ]
    if not findings:
        return None
    rule, finding = max(findings, key=lambda pair: _gained(pair[1]))
    return rule.concluded(device, finding)


def _gained(finding: Finding) -> float:
    return (finding.gain and finding.gain.seconds_per_frame) or 0.0
