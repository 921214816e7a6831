"""Where two strategies take equally long, as a range: where their times cross in each simulated device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from advisor.profiles.schema import Predicted
from advisor.verdicts.crossings import Change
from advisor.verdicts.predicted import PERCENTILES
from advisor.verdicts.tracks import Stop, Track

Values = npt.NDArray[np.float64]


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


def _ratios(stop: Stop, before: str, after: str) -> Values | None:
    """Logarithms of one strategy's time over the other's in each simulated device."""
    one, other = stop.results.get(before), stop.results.get(after)
    if not isinstance(one, Predicted) or not isinstance(other, Predicted):
        return None
    if not one.draws or len(one.drawn) != len(other.drawn):
        return None
    return np.asarray(np.log(one.likely_seconds / other.likely_seconds * np.divide(one.drawn, other.drawn)))


def _crossings(ratios: Values) -> Values:
    """In each device, where among the values the first strategy becomes the slower one for good: 0 at the
    first, infinite before it and beyond the last. `ratios` has a row for each value, a column a device."""
    faster, (count, devices) = ratios <= 0, ratios.shape
    last = np.where(faster.any(axis=0), count - 1 - np.argmax(faster[::-1], axis=0), -1)
    at = np.clip(last, 0, count - 2)
    low, high = (ratios[i, np.arange(devices)] for i in (at, at + 1))
    inside = (last >= 0) & (last < count - 1)
    share = np.divide(-low, high - low, out=np.zeros(devices), where=inside)
    return np.asarray(np.where(inside, at + share, np.where(last < 0, -np.inf, np.inf)))
