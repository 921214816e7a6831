"""The advice on a script's lines: each rule that judges lines, on each device with times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from advisor.devices.entries import CatalogueEntry
from advisor.model.machines import Machine
from advisor.model.simulate import predict_crossings
from advisor.profiles.conclusions import Advice, Preferences
from advisor.profiles.crossings import Ceiling, LineAdvice, ScriptRun
from advisor.rules.lines import LineCase, likely_seconds
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
    figures = {"predictions": tuple(one for one, _ in predicted), "ceilings": (*ceilings(run), *by_target)}
    run = run.model_copy(update=figures)
    return run.model_copy(update={"advice": advise_lines(run, device, entry, targets, wanted)})


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
        beside = _beside(scope, ceiling)
        for i, crossing in scope.crossings:
            seconds = likely_seconds(crossing, machine)
            if not ceiling.predicted:
                spared = spared_seconds(crossing)
                seconds = None if spared is None else spared / crossing.count
            if seconds is not None:
                source = files.get(crossing.place.file, "")
                yield i, LineCase(crossing, scope, ceiling, seconds, machine, source, beside.get(i, 0.0))


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
    """The advice that gains most, and enough of a frame, or of all that memory can change where frames were
    not timed: what spares a copy goes before what makes it faster."""
    whole, most, strongest = case.ceiling.of_seconds or case.ceiling.seconds, 0.0, None
    for rule in RULES:
        if rule.judge_line is None or rule.id in wanted.ignored:
            continue
        finding = rule.judge_line(case, values := limits(rule, wanted))
        gained = (finding and finding.gain and finding.gain.seconds_per_frame) or 0.0
        if finding and gained > most and gained >= values["line_share"] * whole:
            most, strongest = gained, rule.concluded(device, finding)
    return strongest
