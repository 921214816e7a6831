"""A sweep seen from each device: what every value says of it, and at which value the best strategy changes.

Neighbouring values with the same recommended strategy are a run. Where two runs meet, the best strategy
changes only if each has a value at which the other's strategy is not the best: a value supports the
recommended strategy, the one that looks fastest and those tied, so a tie is no change. A measured value at
which the best strategies cannot be distinguished supports none. A predicted value whose range overlaps that
of a strategy outside the tie is only likely, and so is a change that depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Literal

import numpy as np

from advisor import stats
from advisor.profiles.conclusions import UNDECIDED, Recommendation
from advisor.profiles.schema import Device, Failed, Measured, Predicted, Prediction, Profile, Skipped
from advisor.profiles.sweeps import Point, Values, by_device, was_interrupted
from advisor.verdicts.comparing.rows import ratio_of
from advisor.verdicts.predicted import PERCENTILES, draw_ratios
from advisor.verdicts.reasons import Doubt, asked_for_one, doubt
from advisor.verdicts.scores import counted, seconds_of


@dataclass(frozen=True)
class Optima:
    """The strategies that may be the best at one value; `best` is empty where that is not known."""

    best: frozenset[str] = frozenset()
    chosen: str | None = None
    likely: bool = False
    rivals: tuple[str, ...] = ()
    """Strategies that time does not tell apart: tied ones, or those of a measurement that cannot tell."""
    overlaps: bool = False
    """The predicted range of the chosen one meets that of another, tied or not."""


@dataclass(frozen=True)
class Run:
    """Neighbouring values, by their indices, that recommend the same strategy."""

    strategy: str
    values: tuple[int, ...]
    likely: bool


@dataclass(frozen=True)
class Change:
    """The best strategy changes between the values `low` and `high`, given as indices."""

    before: Run
    after: Run
    low: int
    high: int

    @property
    def likely(self) -> bool:
        """Whether one of the two is no more than likely the best."""
        return self.before.likely or self.after.likely


def runs(optima: Sequence[Optima]) -> tuple[Run, ...]:
    """All values that recommend a strategy, in their order, as runs of the same one."""
    choices = [(index, now.chosen) for index, now in enumerate(optima) if now.chosen]
    same = groupby(choices, key=lambda pair: pair[1])
    values = [(strategy or "", tuple(i for i, _ in members)) for strategy, members in same]
    return tuple(Run(strategy, at, any(optima[i].likely for i in at)) for strategy, at in values)


def changes(optima: Sequence[Optima], runs: Sequence[Run]) -> tuple[Change, ...]:
    """Where neighbouring runs have values that speak against one another: the nearest such two."""
    crossovers = []
    for before, after in pairwise(runs):
        low = [i for i in before.values if after.strategy not in optima[i].best]
        high = [i for i in after.values if before.strategy not in optima[i].best]
        if low and high:
            crossovers.append(Change(before, after, low[-1], high[0]))
    return tuple(crossovers)


Basis = Literal["measured", "predicted", "cpu"]
_UNKNOWN = Optima()
AnyResult = Measured | Predicted | Failed | Skipped


@dataclass(frozen=True)
class Stop:
    """One device at one value. `results` is empty without a profile."""

    value: Values
    results: dict[str, AnyResult]
    optima: Optima = _UNKNOWN
    doubt: Doubt = ""

    @property
    def known(self) -> bool:
        """Whether something is known of its best strategies."""
        return bool(self.optima.best or self.optima.rivals)

    def seconds(self, strategy: str) -> tuple[float, float, float] | None:
        """Likely or median time of a frame, and the ends of its range or interval; None without figures."""
        row = self.results.get(strategy)
        return seconds_of(row) if isinstance(row, (Measured, Predicted)) else None


def fastest(stop: Stop) -> float | None:
    times = (figures[0] for name in stop.results if (figures := stop.seconds(name)))
    return min(times, default=None)


@dataclass(frozen=True)
class Track:
    """One device over all values, in their order. `cpu` is a run that stands in for no GPU."""

    device: Device
    basis: Basis
    points: tuple[Point, ...]
    stops: tuple[Stop, ...]

    @property
    def strategies(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for stop in self.stops for name in stop.results))

    @property
    def with_figures(self) -> tuple[str, ...]:
        return tuple(s for s in self.strategies if any(stop.seconds(s) for stop in self.stops))


def tracks(points: Sequence[Point]) -> tuple[Track, ...]:
    """The measured GPUs, then the predicted devices, then the CPUs where there was no GPU.

    Of several machines that predict for a device, the one that does at the most values counts.
    """
    measured: dict[Basis, list[Track]] = {"measured": [], "cpu": []}
    most: dict[str, tuple[list[Device], tuple[Point, ...]]] = {}
    for device, own in by_device(points):
        basis: Basis = "cpu" if device.kind == "cpu" else "measured"
        stops = tuple(measured_stop(point.value, point.profile) for point in own)
        measured[basis].append(Track(device, basis, own, stops))
        targets = [p.device for point in own if point.profile for p in point.profile.predictions]
        for name in dict.fromkeys(each.name for each in targets):
            same = [each for each in targets if each.name == name]
            if name not in most or len(same) > len(most[name][0]):
                most[name] = same, own
    predicted = []
    for name, (same, own) in most.items():
        stops = tuple(predicted_stop(point.value, point.profile, name) for point in own)
        predicted.append(Track(same[0], "predicted", own, stops))
    return (*measured["measured"], *predicted, *measured["cpu"])


def measured_stop(value: Values, profile: Profile | None) -> Stop:
    return _stop(value, profile, counted(profile)) if profile else Stop(value, {})


def predicted_stop(value: Values, profile: Profile | None, name: str) -> Stop:
    for prediction in counted(profile).predictions if profile else ():
        if profile and prediction.device.name == name:
            return _stop(value, profile, prediction)
    return Stop(value, {})


def _stop(value: Values, profile: Profile, side: Profile | Prediction) -> Stop:
    prediction = side if isinstance(side, Prediction) else None
    against = doubt(profile, prediction)
    if against == "alone" and not asked_for_one(profile, prediction):
        against = ""  # one strategy that is left of several is the best by default
    known = not against and not (prediction is None and was_interrupted(profile))
    optima = _optima(side.recommendation, prediction) if known and side.recommendation else Optima()
    return Stop(value, {row.strategy: row for row in side.results}, optima, against)


def _optima(chosen: Recommendation, prediction: Prediction | None) -> Optima:
    """What the recommendation at one value says of its strategies."""
    undecided = chosen.verdict in UNDECIDED
    if chosen.strategy is None or (undecided and prediction is None):
        return Optima(rivals=tuple(dict.fromkeys((*filter(None, (chosen.strategy,)), *chosen.tied_with))))
    if undecided:
        return Optima(frozenset({chosen.strategy}), chosen.strategy, likely=True, overlaps=True)
    best = frozenset({chosen.strategy, chosen.fastest or chosen.strategy, *chosen.tied_with})
    if not chosen.tied_with:
        return Optima(best, chosen.strategy)
    tied, others = (chosen.strategy, *chosen.tied_with), _overlapping(prediction) if prediction else []
    return Optima(best, chosen.strategy, not {*others} <= {*tied}, tied, bool(others))


def _overlapping(prediction: Prediction) -> list[str]:
    """The strategies that may be as fast as the likely fastest, but for the recommended one."""
    rows = [row for row in prediction.results if isinstance(row, Predicted)]
    best = min(rows, key=lambda row: row.likely_seconds, default=None)
    chosen = prediction.recommendation.strategy if prediction.recommendation else None

    def may_be_as_fast(row: Predicted, best: Predicted) -> bool:
        """In one of twenty simulated devices, so that what two strategies share cancels; else by ranges."""
        ratios = draw_ratios(row, best)
        if ratios is None:
            return row.low_seconds <= best.high_seconds
        return float(np.percentile(ratios, PERCENTILES[0])) <= 1

    return [r.strategy for r in rows if best and r.strategy != chosen and may_be_as_fast(r, best)]


# One strategy for several devices, or for all values of a sweep: what it loses where it is worst

_Costs = Mapping[str, stats.Ratio]


@dataclass(frozen=True)
class OneForAll:
    """A strategy, the most it takes of the best one's time, and the index of the device or value."""

    strategy: str
    cost: stats.Ratio
    device: int


def one_for_all(stops: Sequence[Stop], confidence: float) -> OneForAll | None:
    """`least_cost` over devices or values with a verdict; what all of them recommend, where that is one."""
    judged = [i for i, stop in enumerate(stops) if stop.known]
    chosen = [stops[i].optima.chosen for i in judged]
    costs = [_costs(stops[i].results, confidence) for i in judged]
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
    return min(near, key=lambda one: (-recommended.count(one.strategy), one.cost.value), default=None)


def _costs(rows: Mapping[str, AnyResult], confidence: float) -> dict[str, stats.Ratio]:
    measured = [row for row in rows.values() if isinstance(row, Measured)]
    if measured:
        best = min(measured, key=lambda row: row.median_seconds)
        same = stats.Ratio(1.0, 1.0, 1.0)
        return {r.strategy: same if r is best else ratio_of(best, r, confidence) for r in measured}
    predicted = [row for row in rows.values() if isinstance(row, Predicted)]
    likely = min(predicted, key=lambda row: row.likely_seconds, default=None)
    return {row.strategy: _predicted(row, likely) for row in predicted if likely}


def _predicted(row: Predicted, best: Predicted) -> stats.Ratio:
    """Over the simulated devices, where both rows hold them."""
    ratio, ratios = row.likely_seconds / best.likely_seconds, draw_ratios(row, best)
    if ratios is None:
        return stats.Ratio(ratio, ratio, ratio)
    low, high = map(float, np.percentile(ratios, PERCENTILES))
    return stats.Ratio(ratio, min(low, ratio), max(high, ratio))
