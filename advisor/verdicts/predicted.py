"""The verdict over predicted rows, and on how many simulated devices it holds.

The rows of one device share its uncertain figures. They are compared draw by draw, so that what two
strategies have in common cancels out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from advisor import stats, units
from advisor.profiles.conclusions import Objective, Preferences, Recommendation
from advisor.profiles.schema import Predicted, PredictedResult
from advisor.strategies.registry import BASELINE
from advisor.verdicts import reasons
from advisor.verdicts.choice import Contestant, break_tie, by_memory, code_change, within
from advisor.verdicts.reasons import counted, listing

Draws = Mapping[str, npt.NDArray[np.float64]]
"""Seconds per frame of each strategy in every draw; the same position is the same draw for all."""

CLEAR = 0.95
"""Share of simulated devices from which on a prediction is clear: the level of the measured intervals."""
EQUAL = 0.5
"""Share of simulated devices on which an equal of the choice is within the indifference of it."""
PERCENTILES = (5, 95)


def recommend_predicted(
    results: Sequence[PredictedResult], draws: Draws, preferences: Preferences | None = None
) -> tuple[Recommendation | None, float | None]:
    """The choice among predicted rows, and the share of simulated devices on which it is within the
    indifference of the fastest; None without rows. Memory rules out before time is looked at.

    The choice is the strategy that loses least: over the simulated devices, its mean time relative to the
    fastest of each. A likely time says little where a range is skewed, as of managed memory that may thrash.
    Strategies within the indifference of it, on average and on half of the devices, are a tie, broken as a
    measured one. The choice is "near" where it is within the margin of the fastest in 95 % of the simulated
    devices ("keep" where that is the baseline), and "open" below.
    """
    every, wanted = [row for row in results if isinstance(row, Predicted)], preferences or Preferences()
    rows, margin = by_memory(every, wanted), wanted.indifference
    if not rows:
        return reasons.nothing_fits(every, wanted) if every else None, None
    names, seconds = [row.strategy for row in rows], np.stack([draws[row.strategy] for row in rows])
    fastest = seconds.min(axis=0)
    equals = _equals(rows, dict(zip(names, seconds, strict=True)), fastest, margin)
    times = {row.strategy: row.likely_seconds for row in equals}
    contestants = [Contestant(row.strategy, row.physical_bytes, code_change(row)) for row in equals]
    chosen = break_tie(contestants, times).name
    near = draws[chosen] <= fastest * (1 + margin)
    sure, after = float(np.mean(near)), []
    rivals = [name for name in times if name != chosen]
    if len(rows) > 1:
        after.append(f"{chosen} is within {margin * 100:g} % of the fastest in {simulations(sure)}.")
    if sure < CLEAR and not rivals:  # the most frequent of them first
        wins = np.bincount(seconds.argmin(axis=0)[~near], minlength=len(names))
        rivals = [names[i] for i in np.argsort(-wins, kind="stable") if wins[i]]
        after.append(f"In the other simulations the fastest is {listing(rivals)}.")
    unpredicted, fitting = by_time(wanted.objective), within(every, wanted.memory_budget_bytes)
    bound = float(np.percentile(draws[chosen] / fastest, CLEAR * 100, method="lower")) - 1
    result = _recommendation(chosen, equals, rows).model_copy(
        update={
            **({"verdict": "open"} if sure < CLEAR else {"bound": min(bound, margin)}),
            **_speedup(chosen, every, draws),
            "tied_with": tuple(rivals),
            "objective": "time" if unpredicted else wanted.objective,
            "excluded": {row.strategy: reasons.needs(row) for row in every if row not in fitting},
        }
    )
    figures = {row.strategy: row.likely_seconds for row in rows}
    before = unpredicted or reasons.least_memory(result, rows)
    return reasons.with_reason(result, figures, wanted, before=before, after=after, predicted=True), sure


def draw_ratios(row: Predicted, base: Predicted) -> stats.Floats | None:
    """The row's time over the base's in each simulated device; None if they hold different devices."""
    if not row.draws or len(row.drawn) != len(base.drawn):
        return None
    return np.asarray(row.likely_seconds / base.likely_seconds * np.divide(row.drawn, base.drawn))


def by_time(objective: Objective) -> str:
    """A note where the model chooses by time in place of the objective; else empty."""
    noun = counted(objective).noun
    return f"{noun.capitalize()} is not predicted; the choice is by time." if noun != "time" else ""


def simulations(share: float) -> str:
    """How many simulations, in words: they say what the model leaves open, not that it is right."""
    return "all simulations" if share == 1 else f"{units.percent(min(share, 0.99))} of simulations"


def _equals(rows: Sequence[Predicted], draws: Draws, fastest: stats.Floats, margin: float) -> list[Predicted]:
    """The strategy that loses least and those within the margin of it, the fastest first.

    The baseline is an equal by its likely time alone, which the gain that is told goes by: less than the
    indifference is no reason to change code, as in a measured verdict.
    """
    losses, most = {name: float(np.mean(seconds / fastest)) for name, seconds in draws.items()}, 1 + margin
    best = min(rows, key=lambda row: (losses[row.strategy], row.likely_seconds))

    def is_equal(row: Predicted) -> bool:
        if row.strategy == BASELINE or row.likely_seconds > best.likely_seconds * most:
            return row.likely_seconds <= best.likely_seconds * most
        often = np.mean(draws[row.strategy] <= draws[best.strategy] * most) >= EQUAL
        return bool(often and losses[row.strategy] <= losses[best.strategy] * most)

    return sorted(filter(is_equal, rows), key=lambda row: row.likely_seconds)


def _recommendation(chosen: str, equals: Sequence[Predicted], rows: Sequence[Predicted]) -> Recommendation:
    others = sorted((row for row in rows if row not in equals), key=lambda row: row.likely_seconds)
    first, row = equals[0], next(row for row in equals if row.strategy == chosen)
    return Recommendation(
        strategy=chosen,
        verdict="keep" if chosen == BASELINE else "near",
        groups=(tuple(each.strategy for each in equals), *((each.strategy,) for each in others)),
        fastest=first.strategy,
        saved_bytes=None if row is first else first.physical_bytes - row.physical_bytes,
        reason="",
    )


def _speedup(chosen: str, every: Sequence[Predicted], draws: Draws) -> dict[str, object]:
    """The baseline's likely time over the chosen one's, and the 5th and 95th percentile of the ratio; nothing
    where the baseline was not predicted."""
    seconds = {row.strategy: row.likely_seconds for row in every}
    if BASELINE not in seconds:
        return {}
    likely, ratios = seconds[BASELINE] / seconds[chosen], draws[BASELINE] / draws[chosen]
    low, median, high = (float(x) for x in np.percentile(ratios, (PERCENTILES[0], 50, PERCENTILES[1])))
    speedup = likely if low <= likely <= high else median
    return {"speedup": speedup, "interval": (low, high), "baseline": BASELINE}
