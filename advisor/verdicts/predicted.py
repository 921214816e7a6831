"""The verdict over predicted rows, and on how many simulated devices it holds.

The rows of one device share its uncertain figures. They are compared draw by draw, so that what two
strategies have in common cancels out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from advisor import stats, units
from advisor.profiles.conclusions import Objective, Preferences, Recommendation, Verdict
from advisor.profiles.schema import Predicted, PredictedResult
from advisor.strategies.registry import BASELINE
from advisor.verdicts import reasons
from advisor.verdicts.choice import Candidate, break_tie, by_memory, code_change, within
from advisor.verdicts.reasons import counted, listing

Draws = Mapping[str, npt.NDArray[np.float64]]
"""Seconds per frame of each strategy in every draw; the same position is the same draw for all."""

CLEAR = 0.95
"""Share of simulated devices from which on a prediction is clear: the level of the measured intervals."""
EQUAL = 0.5
"""Share of simulated devices on which an equal of the choice is within the indifference of it."""
PERCENTILES = (5, 95)


@dataclass(frozen=True)
class _Candidate:
    """All predicted rows, those to choose from, the draws of all, and the strategy chosen."""

    every: Sequence[Predicted]
    rows: Sequence[Predicted]
    all_draws: Draws
    chosen: Predicted
    margin: float
    """The indifference: how much slower than the fastest is near enough, as a share."""

    @property
    def draws(self) -> Draws:
        return {row.strategy: self.all_draws[row.strategy] for row in self.rows}

    @property
    def confidence(self) -> float:
        return confidence(self.chosen.strategy, self.draws, self.margin)


def recommend_predicted(
    results: Sequence[PredictedResult], draws: Draws, *, preferences: Preferences | None = None
) -> Recommendation | None:
    """The choice among predicted rows; None when there are none. Memory rules out before time is looked at.

    The choice is the strategy that loses least: over the simulated devices, its mean time relative to the
    fastest of each. A likely time says little where a range is skewed, as of managed memory that may thrash.
    Strategies within the indifference of it, on average and on half of the devices, are a tie, broken as a
    measured one. The choice is "near" where it is within the margin of the fastest in 95 % of the simulated
    devices ("keep" where that is the baseline), and "open" below.
    """
    every, wanted = [row for row in results if isinstance(row, Predicted)], preferences or Preferences()
    if not every:
        return None
    over = [row for row in every if row not in within(every, wanted.memory_budget_bytes)]
    rows = by_memory(every, wanted)
    if not rows:
        return reasons.nothing_fits(every, wanted)
    chosen, after = _chosen(every, rows, draws, wanted.indifference)
    unpredicted = by_time(wanted.objective)
    objective = "time" if unpredicted else wanted.objective
    excluded = {row.strategy: reasons.needs(row) for row in over}
    result = chosen.model_copy(update={"objective": objective, "excluded": excluded})
    figures = {row.strategy: row.likely_seconds for row in rows}
    before = unpredicted or reasons.least_memory(result, rows)
    return reasons.with_reason(result, figures, wanted, before=before, after=after, predicted=True)


def draw_ratios(row: Predicted, base: Predicted) -> stats.Floats | None:
    """The row's time over the base's in each simulated device; None if they hold different devices."""
    if not row.draws or len(row.drawn) != len(base.drawn):
        return None
    return np.asarray(row.likely_seconds / base.likely_seconds * np.divide(row.drawn, base.drawn))


def by_time(objective: Objective) -> str:
    """A note where the model chooses by time in place of the objective; else empty."""
    noun = counted(objective).noun
    return f"{noun.capitalize()} is not predicted; the choice is by time." if noun != "time" else ""


def _chosen(
    every: Sequence[Predicted], rows: Sequence[Predicted], all_draws: Draws, margin: float
) -> tuple[Recommendation, list[str]]:
    """The choice among `rows`, and how sure it is; the baseline of its gain may be another of `every`.

    The baseline is an equal by its likely time alone, which the gain that is told goes by: less than the
    indifference is no reason to change code, as in a measured verdict.
    """
    draws, most = {row.strategy: all_draws[row.strategy] for row in rows}, 1 + margin
    fastest = _fastest(draws)
    losses = {name: float(np.mean(seconds / fastest)) for name, seconds in draws.items()}
    best = min(rows, key=lambda row: (losses[row.strategy], row.likely_seconds))

    def is_equal(row: Predicted) -> bool:
        if row.strategy == BASELINE or row.likely_seconds > best.likely_seconds * most:
            return row.likely_seconds <= best.likely_seconds * most
        often = np.mean(draws[row.strategy] <= draws[best.strategy] * most) >= EQUAL
        return bool(often and losses[row.strategy] <= losses[best.strategy] * most)

    equals = [row for row in rows if is_equal(row)]
    candidates = [Candidate(row.strategy, row.physical_bytes, code_change(row)) for row in equals]
    winner = break_tie(candidates, {row.strategy: row.likely_seconds for row in equals})
    chosen = next(row for row in equals if row.strategy == winner.name)
    candidate = _Candidate(every, rows, all_draws, chosen, margin)
    rivals, after = [row for row in equals if row is not chosen], []
    if len(rows) > 1:
        share = simulations(candidate.confidence)
        after.append(f"{chosen.strategy} is within {margin * 100:g} % of the fastest in {share}.")
    if candidate.confidence < CLEAR and not rivals:
        rivals = _rivals(candidate)
        others = listing([row.strategy for row in rivals])
        after.append(f"In the other simulations the fastest is {others}.")
    return _recommendation(candidate, equals, rivals), after


def confidence(strategy: str, draws: Draws, margin: float) -> float:
    """Share of simulated devices on which the strategy is within `margin` (0.05: 5 %) of the fastest."""
    return float(np.mean(draws[strategy] <= _fastest(draws) * (1 + margin)))


def _fastest(draws: Draws) -> npt.NDArray[np.float64]:
    return np.asarray(np.min(list(draws.values()), axis=0))


def simulations(share: float) -> str:
    """How many simulations, in words: they say what the model leaves open, not that it is right."""
    return "all simulations" if share == 1 else f"{units.percent(min(share, 0.99))} of simulations"


def _rivals(candidate: _Candidate) -> list[Predicted]:
    """The strategies that are the best where the chosen one is not near it, the most frequent first."""
    names = list(candidate.draws)
    seconds = np.stack([candidate.draws[name] for name in names])
    lost = candidate.draws[candidate.chosen.strategy] > seconds.min(axis=0) * (1 + candidate.margin)
    wins = np.bincount(seconds.argmin(axis=0)[lost], minlength=len(names))
    by_name = {row.strategy: row for row in candidate.rows}
    return [by_name[names[i]] for i in np.argsort(-wins, kind="stable") if wins[i]]


def _recommendation(
    candidate: _Candidate, equals: Sequence[Predicted], rivals: Sequence[Predicted]
) -> Recommendation:
    chosen, speedup = candidate.chosen, _speedup(candidate)
    over = candidate.draws[chosen.strategy] / _fastest(candidate.draws)
    bound = float(np.percentile(over, CLEAR * 100, method="lower")) - 1
    clear: Verdict = "keep" if chosen.strategy == BASELINE else "near"
    verdict = clear if candidate.confidence >= CLEAR else "open"
    equals = sorted(equals, key=lambda row: row.likely_seconds)
    others = sorted((r for r in candidate.rows if r not in equals), key=lambda row: row.likely_seconds)
    return Recommendation(
        strategy=chosen.strategy,
        verdict=verdict,
        bound=None if verdict == "open" else min(bound, candidate.margin),
        speedup=speedup.value if speedup else None,
        interval=(speedup.low, speedup.high) if speedup else None,
        baseline=BASELINE if speedup else None,
        tied_with=tuple(row.strategy for row in rivals),
        groups=(tuple(row.strategy for row in equals), *((row.strategy,) for row in others)),
        fastest=equals[0].strategy,
        saved_bytes=None if chosen is equals[0] else equals[0].physical_bytes - chosen.physical_bytes,
        reason="",
    )


def _speedup(candidate: _Candidate) -> stats.Ratio | None:
    """The baseline's likely time over the chosen one's, and the 5th and 95th percentile of the ratio."""
    baseline = next((row for row in candidate.every if row.strategy == BASELINE), None)
    if baseline is None:
        return None
    if baseline is candidate.chosen:
        return stats.Ratio(1.0, 1.0, 1.0)
    likely = baseline.likely_seconds / candidate.chosen.likely_seconds
    ratios = candidate.all_draws[BASELINE] / candidate.all_draws[candidate.chosen.strategy]
    low, median, high = (float(x) for x in np.percentile(ratios, (PERCENTILES[0], 50, PERCENTILES[1])))
    return stats.Ratio(likely if low <= likely <= high else median, low, high)
