"""The bars of an answer: one for each strategy, or for several that are equal, and where they lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from advisor import stats, units
from advisor.profiles.row_figures import ScriptRun
from advisor.profiles.schema import Measured, Predicted, Prediction, Profile
from advisor.report import words
from advisor.report.answer import Answer, Bar
from advisor.strategies.registry import BASELINE
from advisor.verdicts.choice import SAME_MEMORY
from advisor.verdicts.final import known
from advisor.verdicts.measured import baseline, predicted_speed, script_ratio, speeds
from advisor.verdicts.scores import figure_of
from advisor.verdicts.tracks import times

BRIEF = 5
"""Bars on a phone."""
_REACH = 4.0
"""The chart ends at this multiple of the best, or at the baseline if that is slower."""


def measured_bars(profile: Profile, notes: Mapping[str, str]) -> Iterator[Bar]:
    """Contestants clearly within the indifference with the same memory share a bar; others have their own.

    The rows are as the objective counts them; `notes` are what `overlaps` says of them.
    """
    rows, chosen, base = profile.measured(), profile.recommendation, baseline(profile)
    objective, ratios = profile.preferences.objective, speeds(profile)
    name = chosen.strategy if chosen else None
    for group in _joined(rows, chosen.groups if chosen else (), name):
        row = rows[group[0]]
        figures = figure_of(row, objective)
        if figures is None:
            continue
        yield _bar(
            group,
            figures,
            row.footprint.physical_bytes,
            ratios.get(row.strategy),
            write=units.joules if objective == "energy" else units.seconds,
            chosen=name in group,
            baseline=base is not None and base.strategy in group,
            note=words.line(row.outside, 100) if row.outside else "",
            latency=notes.get(row.strategy, ""),
        )


def _joined(
    rows: dict[str, Measured], groups: Sequence[Sequence[str]], chosen: str | None
) -> list[tuple[str, ...]]:
    """All rows as groups, the recommended one first in its own, else the fastest."""
    made: list[tuple[str, ...]] = []
    grouped = [[name for name in group if name in rows] for group in groups]
    alone = [[name] for name in rows if not any(name in group for group in grouped)]
    for group in [*grouped, *alone]:
        ordered = sorted(group, key=lambda name: (name != chosen, rows[name].median_seconds))
        alike = words.grouped(ordered, lambda name: units.size(rows[name].footprint.physical_bytes))
        made += [tuple(same) for same in alike.values()]
    return made


def predicted_bars(made: Prediction, notes: dict[str, str], indifference: float) -> Iterator[Bar]:
    """Joined where the likely times are within the indifference of the first and the memory is the same."""
    chosen = made.recommendation
    name, kept = (chosen.strategy, chosen.baseline or BASELINE) if chosen else (None, BASELINE)
    rows = sorted(
        (row for row in made.results if isinstance(row, Predicted)), key=lambda row: row.likely_seconds
    )
    base = next((row for row in rows if row.strategy == kept), None)
    for group in _alike(rows, base, indifference):
        first = next((row for row in group if row.strategy == name), group[0])
        yield _bar(
            (first.strategy, *(row.strategy for row in group if row is not first)),
            times(first),
            first.physical_bytes,
            predicted_speed(base, first) if base else None,
            chosen=first.strategy == name,
            baseline=base in group,
            latency=notes.get(first.strategy, ""),
        )


def _alike(rows: Sequence[Predicted], base: Predicted | None, indifference: float) -> list[list[Predicted]]:
    """Rows, fastest first, with those that count as equal to the first of each; the baseline stays alone."""
    groups: list[list[Predicted]] = []
    for row in rows:
        near = (g for g in groups if row.likely_seconds <= g[0].likely_seconds * (1 + indifference))
        same = (
            g
            for g in near
            if abs(row.physical_bytes - g[0].physical_bytes) <= SAME_MEMORY * row.physical_bytes
        )
        home = next((g for g in same if base is None or base not in (row, g[0])), None)
        if home is None:
            groups.append(home := [])
        home.append(row)
    return groups


def script_bars(script: ScriptRun, chosen: str | None, confidence: float) -> Iterator[Bar]:
    """Every strategy alone; what its pool took from CUDA stands for its memory."""
    base = next((row for row in script.measured if row.strategy == script.baseline), None)
    for row in script.measured:
        yield _bar(
            (row.strategy,),
            (row.median_seconds, *row.interval_seconds),
            row.memory.reserved_bytes if row.memory else None,
            script_ratio(base, row, script.measured, confidence) if base else None,
            chosen=row.strategy == chosen,
            baseline=row is base,
        )


def _bar(
    names: Sequence[str],
    figures: tuple[float, float, float],
    memory: int | None,
    speed: stats.Ratio | None,
    *,
    write: Callable[[float], str] = units.seconds,
    chosen: bool,
    baseline: bool,
    note: str = "",
    latency: str = "",
) -> Bar:
    amount, low, high = figures
    between = known(speed) if speed and not baseline else None
    return Bar(
        tuple(map(words.name, names)),
        amount,
        low,
        high,
        write(amount),
        words.seconds_between(low, high) if write is units.seconds else "",
        units.size(memory) if memory is not None else "",
        memory or 0,
        ratio=units.ratio(1.0 if baseline else speed.value) if speed else "",
        ratio_between=words.ratio_between(*between).replace("× to ", "–") if between else "",
        speed=speed.value if speed else None,
        latency=latency,
        note=note,
        chosen=chosen,
        baseline=baseline,
    )


def drawn(made: Answer) -> Answer:
    """Fastest first, those outside the final last; with the axis, and the few bars that a phone shows."""
    bars = sorted(made.bars, key=lambda bar: (bool(bar.note), bar.amount))
    if not bars:
        return made
    ranked = sorted(bars, key=lambda bar: not (bar.chosen or bar.baseline))[:BRIEF]
    base = next((bar.amount for bar in bars if bar.baseline), bars[0].amount)
    within = max(base, max(bar.amount for bar in bars if bar.amount <= _REACH * bars[0].amount))
    extent = 1.12 * within
    drawn = tuple(replace(bar, brief=bar in ranked) for bar in bars)
    return replace(made, bars=drawn, extent=extent)
