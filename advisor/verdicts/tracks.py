"""A sweep seen from each device: what every value says of it, measured there or predicted for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from advisor import stats
from advisor.profiles.schema import Device, Failed, Measured, Predicted, Prediction, Profile, Skipped
from advisor.profiles.sweeps import SweepResults, Value, was_interrupted
from advisor.verdicts.caveats import Doubt, asked_for_one, doubt
from advisor.verdicts.crossings import Change, Optima, optima_of
from advisor.verdicts.predicted import PERCENTILES
from advisor.verdicts.scores import counted

Basis = Literal["measured", "predicted", "cpu"]
_UNKNOWN = Optima()
AnyResult = Measured | Predicted | Failed | Skipped


def times(row: Measured | Predicted) -> tuple[float, float, float]:
    """Median or likely time of a frame in seconds, and the ends of its interval or range."""
    if isinstance(row, Measured):
        return row.median_seconds, *row.interval_seconds
    return row.likely_seconds, row.low_seconds, row.high_seconds


@dataclass(frozen=True)
class Stop:
    """One device at one value. `results` is empty without a profile."""

    value: Value
    results: dict[str, AnyResult]
    optima: Optima = _UNKNOWN
    doubt: Doubt = ""

    def seconds(self, strategy: str) -> tuple[float, float, float] | None:
        """Likely or median time of a frame, and the ends of its range or interval; None without figures."""
        row = self.results.get(strategy)
        return times(row) if isinstance(row, (Measured, Predicted)) else None


@dataclass(frozen=True)
class Track:
    """One device over all values, in their order. `cpu` is a run that stands in for no GPU."""

    device: Device
    basis: Basis
    stops: tuple[Stop, ...]

    @property
    def strategies(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for stop in self.stops for name in stop.results))

    @property
    def with_figures(self) -> tuple[str, ...]:
        return tuple(s for s in self.strategies if any(stop.seconds(s) for stop in self.stops))


def tracks(sweep: SweepResults) -> tuple[Track, ...]:
    """The measured GPU, then the predicted devices, then the CPU where there was no GPU."""
    predicted = tuple(_predicted(sweep))
    if not sweep.profiles:
        return predicted
    device = sweep.profiles[0].device
    stops = tuple(measured_stop(point.value, point.profile) for point in sweep.points)
    if device.kind == "cpu":
        return (*predicted, Track(device, "cpu", stops))
    return (Track(device, "measured", stops), *predicted)


def _predicted(sweep: SweepResults) -> Iterator[Track]:
    devices = {p.device.name: p.device for profile in sweep.profiles for p in profile.predictions}
    for name, device in devices.items():
        stops = (predicted_stop(point.value, point.profile, name) for point in sweep.points)
        yield Track(device, "predicted", tuple(stops))


def measured_stop(value: Value, profile: Profile | None) -> Stop:
    if profile is None:
        return Stop(value, {})
    against, profile = _doubt(profile), counted(profile)
    whole = not was_interrupted(profile) and not against
    held = optima_of(profile.recommendation, predicted=False, complete=whole)
    return Stop(value, {row.strategy: row for row in profile.results}, held, against)


def predicted_stop(value: Value, profile: Profile | None, name: str) -> Stop:
    for made in counted(profile).predictions if profile else ():
        if profile and made.device.name == name:
            against, meeting = _doubt(profile, made), _overlapping(made)
            held = optima_of(made.recommendation, predicted=True, complete=not against, overlapping=meeting)
            return Stop(value, {row.strategy: row for row in made.results}, held, against)
    return Stop(value, {})


def _doubt(profile: Profile, made: Prediction | None = None) -> Doubt:
    """The caveat of the value's own report; one strategy that is left of several is the best by default."""
    found = doubt(profile, made)
    return "" if found == "alone" and not asked_for_one(profile, made) else found


def _overlapping(made: Prediction) -> list[str]:
    """The strategies that may be as fast as the likely fastest, but for the recommended one."""
    rows = [row for row in made.results if isinstance(row, Predicted)]
    best = min(rows, key=lambda row: row.likely_seconds, default=None)
    chosen = made.recommendation.strategy if made.recommendation else None
    return [r.strategy for r in rows if best and r.strategy != chosen and _may_be_as_fast(r, best)]


def _may_be_as_fast(row: Predicted, best: Predicted) -> bool:
    """In one of twenty simulated devices, where both rows hold them: what two strategies share cancels. Else
    by their ranges."""
    if not row.draws or len(row.drawn) != len(best.drawn):
        return row.low_seconds <= best.high_seconds
    ratios = row.likely_seconds / best.likely_seconds * np.divide(row.drawn, best.drawn)
    return float(np.percentile(ratios, PERCENTILES[0])) <= 1


# Where two strategies take equally long: where their times cross in each simulated device


@dataclass(frozen=True)
class Place:
    """The ends of the range of 90 % of the simulated devices, as values of the parameter in the order tested;
    None where it begins before the first of them, or ends beyond the last."""

    first: float | None
    last: float | None


def place(track: Track, change: Change) -> Place | None:
    """Where the change may lie; None without draws of the same devices at two values of its runs at least.

    Between two values times are taken to change evenly, on a logarithmic scale where all are above 0.
    """
    stops = [track.stops[i] for i in (*change.before.values, *change.after.values)]
    pairs = [(float(s.value), _ratios(s, change.before.strategy, change.after.strategy)) for s in stops]
    known = [(value, ratios) for value, ratios in pairs if ratios is not None]
    if len(known) < 2 or len({len(ratios) for _, ratios in known}) > 1:
        return None
    values = np.array([value for value, _ in known])
    logarithmic = bool(np.all(values > 0))
    scaled = np.log(values) if logarithmic else values
    # Those beyond the ends are infinite: one of the devices, not between two of them.
    ends = np.percentile(_crossings(np.array([r for _, r in known])), PERCENTILES, method="inverted_cdf")
    at = np.interp(ends, np.arange(len(values)), scaled)
    first, last = np.where(np.isinf(ends), np.nan, np.exp(at) if logarithmic else at)
    return Place(*(None if np.isnan(x) else float(x) for x in (first, last)))


def _ratios(stop: Stop, before: str, after: str) -> stats.Floats | None:
    """Logarithms of one strategy's time over the other's in each simulated device."""
    one, other = stop.results.get(before), stop.results.get(after)
    if not isinstance(one, Predicted) or not isinstance(other, Predicted):
        return None
    if not one.draws or len(one.drawn) != len(other.drawn):
        return None
    return np.asarray(np.log(one.likely_seconds / other.likely_seconds * np.divide(one.drawn, other.drawn)))


def _crossings(ratios: stats.Floats) -> stats.Floats:
    """In each device, where among the values the first strategy becomes the slower one for good: 0 at the
    first, infinite before it and beyond the last. `ratios` has a row for each value, a column a device."""
    faster, (count, devices) = ratios <= 0, ratios.shape
    last = np.where(faster.any(axis=0), count - 1 - np.argmax(faster[::-1], axis=0), -1)
    at = np.clip(last, 0, count - 2)
    low, high = (ratios[i, np.arange(devices)] for i in (at, at + 1))
    inside = (last >= 0) & (last < count - 1)
    share = np.divide(-low, high - low, out=np.zeros(devices), where=inside)
    return np.asarray(np.where(inside, at + share, np.where(last < 0, -np.inf, np.inf)))
