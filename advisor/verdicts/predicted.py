"""The verdict over predicted rows: a bet, and it says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from advisor import stats, units
from advisor.profiles import Predicted, PredictedResult, Recommendation, Verdict
from advisor.strategies import BASELINE
from advisor.verdicts.ties import Equal, break_tie, code_change, listing

CodeChange = Callable[[str], int]


def recommend_predicted(
    results: Sequence[PredictedResult], *, code_change: CodeChange = code_change
) -> Recommendation | None:
    """The bet on predicted rows; None when there are none.

    "clear" only where the best one's whole range lies below every other's. The ranges hold what the model
    does not know of the device, alike for all strategies, so the likely times are compared as well: within
    the equivalence margin it is a tie, broken as a measured one, and otherwise the likely best is named with
    the verdict "inconclusive".
    """
    rows = [row for row in results if isinstance(row, Predicted)]
    if not rows:
        return None
    best = min(rows, key=lambda row: row.likely_seconds)
    overlapping = [row for row in rows if row is not best and row.low_seconds <= best.high_seconds]
    limit = best.likely_seconds * (1 + stats.EQUIVALENCE)
    equals = [best, *(row for row in overlapping if row.likely_seconds <= limit)]
    if len(equals) > 1:
        return _predicted_tie(rows, equals, overlapping, code_change)
    return _predicted(rows, best, overlapping)


def _predicted(
    rows: Sequence[Predicted], best: Predicted, overlapping: Sequence[Predicted]
) -> Recommendation:
    takes = f"{best.strategy} is predicted to take {_span(best)} a frame"
    if overlapping:
        names = listing([best.strategy, *(row.strategy for row in overlapping)])
        reason = f"{takes}: likely the best, not certain, since the ranges of {names} overlap."
        return _bet(rows, best, "inconclusive", reason, overlapping)
    others = [row for row in rows if row is not best]
    if not others:
        return _bet(rows, best, "clear", f"{takes}; no other strategy is predicted.", ())
    second = min(others, key=lambda row: row.low_seconds)
    reason = f"{takes}; no other is predicted to take less than {units.seconds(second.low_seconds)}."
    return _bet(rows, best, "clear", reason, ())


def _predicted_tie(
    rows: Sequence[Predicted],
    equals: Sequence[Predicted],
    overlapping: Sequence[Predicted],
    code_change: CodeChange,
) -> Recommendation:
    winner, why = break_tie(
        [Equal(r.strategy, r.likely_seconds, r.physical_bytes, code_change(r.strategy)) for r in equals]
    )
    chosen = next(row for row in equals if row.strategy == winner)
    reason = (
        f"{listing([row.strategy for row in equals])} are predicted within "
        f"{stats.EQUIVALENCE * 100:g} % of one another ({winner}: {_span(chosen)} a frame); {why}."
    )
    others = [row.strategy for row in overlapping if row not in equals]
    if others:
        reason += f" Likely, not certain: the range of {listing(others)} overlaps theirs."
    return _bet(rows, chosen, "tie", reason, [row for row in equals if row is not chosen])


def _bet(
    rows: Sequence[Predicted],
    chosen: Predicted,
    verdict: Verdict,
    reason: str,
    rivals: Sequence[Predicted],
) -> Recommendation:
    baseline = next((row for row in rows if row.strategy == BASELINE), None)
    speedup = _predicted_speedup(baseline, chosen) if baseline else None
    if chosen is baseline:
        reason += " Nothing is predicted to beat the baseline."
    return Recommendation(
        strategy=chosen.strategy,
        verdict=verdict,
        speedup=speedup.value if speedup else None,
        interval=(speedup.low, speedup.high) if speedup else None,
        baseline=BASELINE if speedup else None,
        tied_with=tuple(row.strategy for row in rivals),
        reason=reason,
        next_step="A prediction is a bet: run `advisor profile` on the device to be sure.",
    )


def _predicted_speedup(baseline: Predicted, chosen: Predicted) -> stats.Ratio:
    if chosen is baseline:
        return stats.Ratio(1.0, 1.0, 1.0)
    return stats.Ratio(
        baseline.likely_seconds / chosen.likely_seconds,
        baseline.low_seconds / chosen.high_seconds,
        baseline.high_seconds / chosen.low_seconds,
    )


def _span(row: Predicted) -> str:
    low, high = units.seconds(row.low_seconds), units.seconds(row.high_seconds)
    return f"{units.seconds(row.likely_seconds)} ({low} to {high})"
