"""The verdict over a script's strategies: never a winner inside the noise. A pure function of the rows."""

from __future__ import annotations

from collections.abc import Sequence

from advisor import stats, units
from advisor.profiles.schema import Recommendation
from advisor.profiles.scripts import ScriptMeasured
from advisor.strategies.scripts import UNCHANGED

LEAST_RUNS = 2
"""One run has no spread to tell a difference from noise by."""
MORE_ROUNDS = 10


def recommend(rows: Sequence[ScriptMeasured], confidence: float) -> Recommendation | None:
    """Clear, tied or inconclusive, by the intervals of ratios of medians; None without rows."""
    if not rows:
        return None
    best = min(rows, key=lambda row: row.median_seconds)
    if len(rows) > 1 and min(len(row.run_seconds) for row in rows) < LEAST_RUNS:
        return _inconclusive(rows, "each strategy ran once, and one run has no spread", 5)
    ratios = {row.strategy: ratio(row, best, confidence) for row in rows if row is not best}
    tied = [name for name, r in ratios.items() if _within(r)]
    unclear = [name for name, r in ratios.items() if not _within(r) and r.low <= 1]
    if unclear:
        rivals = [row for row in rows if row is best or row.strategy in (*tied, *unclear)]
        told = ", ".join(f"{name} takes {_times(ratios[name])} the time" for name in unclear)
        return _inconclusive(rivals, f"against {best.strategy}, {told}", MORE_ROUNDS)
    equals = [row for row in rows if row is best or row.strategy in tied]
    chosen = next((row for row in equals if row.strategy == UNCHANGED), best)
    return _chosen(chosen, rows, equals, confidence)


def ratio(row: ScriptMeasured, other: ScriptMeasured, confidence: float) -> stats.Ratio:
    """This one's time over the other's, with its interval."""
    return stats.ratio_interval(_rounds(row), _rounds(other), confidence=confidence)


def _chosen(
    chosen: ScriptMeasured,
    rows: Sequence[ScriptMeasured],
    equals: Sequence[ScriptMeasured],
    confidence: float,
) -> Recommendation:
    base = next((row for row in rows if row.strategy == UNCHANGED), None)
    speedup = ratio(base, chosen, confidence) if base and base is not chosen else None
    names = " and ".join(row.strategy for row in equals)
    takes = f"{chosen.strategy} takes {units.seconds(chosen.median_seconds)} a run"
    if len(rows) == 1:
        reason = f"{takes}; there is nothing to compare it with."
    elif len(equals) > 1:
        reason = f"{names} are within {stats.EQUIVALENCE * 100:g} % of one another; {takes}."
    else:
        nearest = min((row for row in rows if row is not chosen), key=lambda row: row.median_seconds)
        found = ratio(nearest, chosen, confidence)
        reason = f"{takes}; {nearest.strategy}, the next best, takes {_times(found)} that time."
    if not chosen.verified:
        reason += " Nothing but the exit status could be compared with the unchanged script's."
    unchanged = chosen.strategy == UNCHANGED
    return Recommendation(
        strategy=chosen.strategy,
        verdict="tie" if len(equals) > 1 else "clear",
        speedup=speedup.value if speedup else 1.0 if base else None,
        interval=(speedup.low, speedup.high) if speedup else (1.0, 1.0) if base else None,
        baseline=UNCHANGED if base else None,
        tied_with=tuple(row.strategy for row in equals if row is not chosen),
        reason=reason,
        next_step="Keep the script as it is."
        if unchanged
        else f"Set up {chosen.strategy} at the top of the script, as the report shows.",
    )


def _inconclusive(rivals: Sequence[ScriptMeasured], why: str, rounds: int) -> Recommendation:
    names = [row.strategy for row in rivals]
    return Recommendation(
        strategy=None,
        verdict="inconclusive",
        baseline=UNCHANGED,
        tied_with=tuple(names),
        reason=f"{' and '.join(names)} cannot be told apart: {why}.",
        next_step=f"Run again with --rounds {rounds}, with other programs closed.",
    )


def _within(found: stats.Ratio) -> bool:
    return found.high <= 1 + stats.EQUIVALENCE and found.low >= 1 / (1 + stats.EQUIVALENCE)


def _times(found: stats.Ratio) -> str:
    return f"{units.ratio(found.value)} ({units.ratio(found.low)} to {units.ratio(found.high)})"


def _rounds(row: ScriptMeasured) -> tuple[tuple[float, ...], ...]:
    return tuple((seconds,) for seconds in row.run_seconds)
