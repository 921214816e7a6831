"""One strategy for several devices, or for all values of a sweep: what it loses where it is worst."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from advisor import stats
from advisor.profiles.schema import Measured, Predicted
from advisor.verdicts.predicted import PERCENTILES
from advisor.verdicts.tracks import AnyResult, Track

_Costs = Mapping[str, stats.Ratio]


@dataclass(frozen=True)
class OneForAll:
    """A strategy, the most it takes of the best one's time, and the index of the device or value."""

    strategy: str
    cost: stats.Ratio
    device: int


def one_for_all(devices: Sequence[Mapping[str, Measured]], confidence: float) -> OneForAll | None:
    """`least_cost`, with the intervals of what was measured on each device."""
    return least_cost([_costs(rows, confidence) for rows in devices])


def one_for_range(track: Track, confidence: float) -> OneForAll | None:
    """`least_cost` over the values with a verdict; the strategy that all recommend, if there is one."""
    judged = [i for i, stop in enumerate(track.stops) if stop.optima.best or stop.optima.rivals]
    chosen = [track.stops[i].optima.chosen for i in judged]
    costs = [_costs(track.stops[i].results, confidence) for i in judged]
    same = chosen[0] if len(set(chosen)) == 1 and all(chosen[0] in each for each in costs) else None
    if same:
        costs = [{same: each[same]} for each in costs]
    one = least_cost(costs, chosen)
    return OneForAll(one.strategy, one.cost, judged[one.device]) if one else None


def least_cost(devices: Sequence[_Costs], recommended: Sequence[str | None] = ()) -> OneForAll | None:
    """The strategy whose largest cost over all devices is the least, by its time over that of the fastest.

    Of those that cost as good as the same, the one that is most often among `recommended`. None where fewer
    than two devices, or no strategy on all of them, have figures.
    """
    shared = [s for s in devices[0] if all(s in costs for costs in devices)] if len(devices) > 1 else []
    on_each = [[OneForAll(s, costs[s], index) for index, costs in enumerate(devices)] for s in shared]
    worst = [max(every, key=lambda one: one.cost.value) for every in on_each]
    most = min((one.cost.value for one in worst), default=0.0) * (1 + stats.EQUIVALENCE * bool(recommended))
    near = (one for one in worst if one.cost.value <= most)
    times = list(recommended).count
    return min(near, key=lambda one: (-times(one.strategy), one.cost.value), default=None)


def _costs(rows: Mapping[str, AnyResult], confidence: float) -> dict[str, stats.Ratio]:
    """The time of each strategy over that of the fastest."""
    measured = [row for row in rows.values() if isinstance(row, Measured)]
    if measured:
        best = min(measured, key=lambda row: row.median_seconds)
        return {row.strategy: _measured(row, best, confidence) for row in measured}
    predicted = [row for row in rows.values() if isinstance(row, Predicted)]
    likely = min(predicted, key=lambda row: row.likely_seconds, default=None)
    return {row.strategy: _predicted(row, likely) for row in predicted if likely}


def _measured(row: Measured, best: Measured, confidence: float) -> stats.Ratio:
    if best is row:
        return stats.Ratio(1.0, 1.0, 1.0)
    ratio = stats.ratio_interval(row.rounds, best.rounds, confidence=confidence)
    return ratio.around(row.median_seconds / best.median_seconds)


def _predicted(row: Predicted, best: Predicted) -> stats.Ratio:
    """Over the simulated devices, where both rows hold them."""
    ratio = row.likely_seconds / best.likely_seconds
    if not row.draws or len(row.drawn) != len(best.drawn):
        return stats.Ratio(ratio, ratio, ratio)
    low, high = np.percentile(ratio * np.divide(row.drawn, best.drawn), PERCENTILES)
    return stats.Ratio(ratio, min(float(low), ratio), max(float(high), ratio))
