"""The verdict over a script's strategies: never a winner inside the noise. A pure function of the rows."""

from __future__ import annotations

from collections.abc import Sequence

from advisor import stats, units
from advisor.profiles.schema import Recommendation
from advisor.profiles.scripts import ScriptMeasured
from advisor.strategies.scripts import UNCHANGED
from advisor.verdicts.pairwise import Candidate, Contest, contest

LEAST_RUNS = 2
"""One run has no spread to tell a difference from noise by."""
MORE_ROUNDS = 10


def recommend(rows: Sequence[ScriptMeasured], confidence: float) -> Recommendation | None:
    """Clear, tied or inconclusive, by the intervals of ratios of medians; None without rows."""
    if not rows:
        return None
    every = [Candidate(row.strategy, row.rounds, 0, 0, row.verified) for row in rows]
    if len(rows) > 1 and min(len(row.rounds) for row in every) < LEAST_RUNS:
        return _inconclusive(every, "each strategy ran once, and one run has no spread", 5)
    run = contest(every, confidence, every, UNCHANGED)
    unclear = run.named("unclear")
    if unclear:
        told = ", ".join(
            f"{row.strategy} takes {units.times(run.against_best[row.strategy])} the time" for row in unclear
        )
        rivals = [row for row in every if row in run.rivals]
        return _inconclusive(rivals, f"against {run.best.strategy}, {told}", MORE_ROUNDS)
    equals = [row for row in every if row is run.best or row in run.named("tied")]
    return _chosen(next((row for row in equals if row.strategy == UNCHANGED), run.best), equals, run)


def ratio(row: ScriptMeasured, other: ScriptMeasured, confidence: float) -> stats.Ratio:
    """This one's time over the other's, with its interval."""
    return stats.ratio_interval(row.rounds, other.rounds, confidence=confidence)


def _chosen(chosen: Candidate, equals: Sequence[Candidate], run: Contest) -> Recommendation:
    speedup = run.speedup(chosen)
    unchanged = chosen.strategy == UNCHANGED
    return Recommendation(
        strategy=chosen.strategy,
        verdict="tie" if len(equals) > 1 else "clear",
        speedup=speedup.value if speedup else None,
        interval=(speedup.low, speedup.high) if speedup else None,
        baseline=UNCHANGED if run.baseline else None,
        tied_with=tuple(row.strategy for row in equals if row is not chosen),
        reason=_reason(chosen, equals, run),
        next_step="Keep the script as it is."
        if unchanged
        else f"Set up {chosen.strategy} at the top of the script, as the report shows.",
    )


def _reason(chosen: Candidate, equals: Sequence[Candidate], run: Contest) -> str:
    takes = f"{chosen.strategy} takes {units.seconds(chosen.seconds)} a run"
    if len(run.by_name) == 1:
        reason = f"{takes}; there is nothing to compare it with."
    elif len(equals) > 1:
        names = " and ".join(row.strategy for row in equals)
        reason = f"{names} are within {stats.EQUIVALENCE * 100:g} % of one another; {takes}."
    else:
        nearest = min((row for row in run.by_name.values() if row is not chosen), key=lambda row: row.seconds)
        found = run.against_best[nearest.strategy]
        reason = f"{takes}; {nearest.strategy}, the next best, takes {units.times(found)} that time."
    if chosen.verified:
        return reason
    return f"{reason} Nothing but the exit status could be compared with the unchanged script's."


def _inconclusive(rivals: Sequence[Candidate], why: str, rounds: int) -> Recommendation:
    names = [row.strategy for row in rivals]
    return Recommendation(
        strategy=None,
        verdict="inconclusive",
        baseline=UNCHANGED,
        tied_with=tuple(names),
        reason=f"{' and '.join(names)} cannot be told apart: {why}.",
        next_step=f"Run again with --rounds {rounds}, with other programs closed.",
    )
