"""Intervals of ratios as strips on one logarithmic axis, so that twice and half look alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from advisor import stats, units

WIDTH = 160.0
_LEAST = 1.2
"""The axis spans a factor of 1.2 either way at least: noise must not look like a change."""
_MOST = 8.0
"""And of 8 at most; what lies beyond is cut at the edge."""


@dataclass(frozen=True)
class Scale:
    """From 1/`factor` to `factor`, in `WIDTH` units. `same` are the ends of what counts as the same."""

    factor: float
    one: float
    same: tuple[float, float]
    low: str
    high: str

    def place(self, ratio: float) -> float:
        """Where a ratio lies; at the edge if it is beyond."""
        share = math.log(ratio) / math.log(self.factor)
        return round(WIDTH / 2 * (1 + min(max(share, -1.0), 1.0)), 1)


@dataclass(frozen=True)
class Strip:
    """One interval: its ends and its middle, in the units of its scale."""

    scale: Scale
    low: float
    middle: float
    high: float

    @property
    def width(self) -> float:
        """At least as wide as a hair, so that a sure figure is seen."""
        return round(max(self.high - self.low, 1.0), 1)


def scale(ends: Sequence[tuple[float, float]]) -> Scale:
    """An axis that holds all intervals, with 1 in its middle."""
    furthest = max((abs(math.log(end)) for pair in ends for end in pair), default=0.0)
    factor = min(max(math.exp(furthest), _LEAST), _MOST)
    made = Scale(factor, WIDTH / 2, (0.0, 0.0), units.ratio(1 / factor), units.ratio(factor))
    margin = 1 + stats.EQUIVALENCE
    return Scale(factor, made.one, (made.place(1 / margin), made.place(margin)), made.low, made.high)


def strip(axis: Scale, value: float, low: float, high: float) -> Strip:
    """Where an interval lies on the axis."""
    return Strip(axis, axis.place(low), axis.place(value), axis.place(high))
