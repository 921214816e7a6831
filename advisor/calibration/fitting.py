"""From times to rates and latencies with their ranges. Pure functions.

The line time = latency + size / rate is fitted to the medians of the repeats: its slope is the median of the
slopes of all pairs of sizes (Theil, 1950; Sen, JASA 63, 1968), which up to 29 % of wrong times do not move.
Its intercept is the median of what the slope leaves, each size weighted by 1/time: the noise of a time
grows with it, so that only short ones can tell a latency.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

METHOD = "Theil-Sen fit of time = latency + size / rate to medians"
_ENDS = (10.0, 90.0)
"""Percentiles of the repeats that make a range: a single disturbed repeat of many does not widen it."""


@dataclass(frozen=True)
class Spread:
    """A value with its range over so many repeats: low <= value <= high."""

    value: float
    low: float
    high: float
    repeats: int


@dataclass(frozen=True)
class Line:
    """time = latency + size / rate, over the sizes it was fitted to."""

    latency: float
    slope: float


def spread(values: Sequence[float]) -> Spread:
    """Median, 10th and 90th percentile. Raises `ValueError` without values."""
    if not len(values):
        raise ValueError("nothing was measured")
    low, high = (float(end) for end in np.percentile(values, _ENDS))
    return _ordered(float(np.median(values)), low, high, len(values))


def fit(sizes: Sequence[float], times: Sequence[float]) -> Line:
    """The robust line through (size, seconds). Raises `ValueError` for fewer than two different sizes."""
    pairs = combinations(zip(sizes, times, strict=True), 2)
    slopes = [(tb - ta) / (b - a) for (a, ta), (b, tb) in pairs if a != b]
    if not slopes:
        raise ValueError("a fit needs at least two sizes")
    slope = float(np.median(slopes))
    left = np.asarray(times) - slope * np.asarray(sizes)
    order = np.argsort(left)
    upto = np.cumsum(1 / np.maximum(times, 1e-12)[order])
    return Line(float(left[order][np.searchsorted(upto, upto[-1] / 2)]), slope)


def fit_repeats(sizes: Sequence[float], repeats: Sequence[Sequence[float]]) -> tuple[Spread, Spread]:
    """Latency and slope (seconds per unit of size) with their ranges; `repeats` has the times of each size.

    The values are those of the line through the medians, the ranges span the lines of the single repeats.
    """
    count = min(len(times) for times in repeats)
    middle = fit(sizes, [float(np.median(times)) for times in repeats])
    lines = [fit(sizes, [times[i] for times in repeats]) for i in range(count)]
    latencies, slopes = (spread([getattr(line, name) for line in lines]) for name in ("latency", "slope"))
    return (
        _ordered(middle.latency, latencies.low, latencies.high, count),
        _ordered(middle.slope, slopes.low, slopes.high, count),
    )


def rates(amount: float, seconds: Sequence[float]) -> Spread:
    """`amount` per second for each of the times. Raises `ValueError` for times that no clock could tell."""
    if any(s <= 0 for s in seconds):
        raise ValueError("the times are below the clock's resolution")
    return spread([amount / s for s in seconds])


def inverse(slope: Spread) -> Spread:
    """The rate of a slope. Raises `ValueError` where time does not grow with size."""
    if slope.value <= 0:
        raise ValueError("the time does not increase with the size")
    low = 1 / slope.high
    high = 1 / slope.low if slope.low > 0 else 1 / slope.value
    return _ordered(1 / slope.value, low, high, slope.repeats)


def positive(latency: Spread) -> Spread:
    """A latency that differs from zero, its low end positive too. Raises `ValueError` where it cannot."""
    if latency.value <= 0:
        raise ValueError("not distinguishable from zero")
    low = latency.low if latency.low > 0 else latency.value / 2
    return _ordered(latency.value, low, latency.high, latency.repeats)


def _ordered(value: float, low: float, high: float, repeats: int) -> Spread:
    return Spread(value, min(value, low), max(value, high), repeats)
