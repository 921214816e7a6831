"""How the frames of each strategy are spread: binned, so that the page stays small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from advisor import units
from advisor.profiles.schema import Measured
from advisor.report import words
from advisor.report.axes import Scale, Tick, span_axis
from advisor.report.blocks import Block
from advisor.report.charts import LABEL_LENGTH

BINS, HEIGHT = 120, 26
FAR_OUT = 3.0
"""Frames beyond the third quartile by more than this many interquartile ranges are counted, not drawn: one
interrupted frame would squeeze all others into a single column. Tukey's "far out" is 3."""


@dataclass(frozen=True)
class Histogram:
    """The frames of one strategy on an axis: an outline to fill, and where the medians lie.

    Across, the unit is a bin, and the picture stretches with the page; down, it is a pixel.
    """

    bins: int
    outline: str
    median: str
    round_medians: tuple[str, ...]


@dataclass(frozen=True)
class SpreadRow:
    """One strategy on the axis that all share."""

    strategy: str
    histogram: Histogram
    median: str
    note: str


@dataclass(frozen=True)
class Spread(Block):
    """All strategies under one another on one axis."""

    description: str
    rows: tuple[SpreadRow, ...]
    ticks: tuple[Tick, ...]
    axis: str


def spread(measured: Sequence[Measured]) -> Spread:
    """The frames of all strategies on one axis, logarithmic where they span a factor of eight."""
    bounds = [_bounds(row) for row in measured]
    scale, ticks = span_axis(min(low for low, _ in bounds), max(high for _, high in bounds))
    rows = tuple(_spread_row(row, high, scale) for row, (_, high) in zip(measured, bounds, strict=True))
    return Spread(
        description=" ".join(f"{row.strategy}: median {row.median}, {row.note}." for row in rows),
        rows=rows,
        ticks=ticks,
        axis="logarithmic" if scale.logarithmic else "linear",
    )


def _spread_row(row: Measured, high: float, scale: Scale) -> SpreadRow:
    between = words.seconds_between(min(row.frame_seconds), max(row.frame_seconds))
    return SpreadRow(
        strategy=words.name(row.strategy, LABEL_LENGTH),
        histogram=_histogram(row, scale, BINS, HEIGHT),
        median=units.seconds(float(np.median(row.frame_seconds))),
        note=", ".join(filter(None, (_frames(row), between, _beyond(row, high)))),
    )


def _frames(row: Measured) -> str:
    return words.count(len(row.frame_seconds), row.samples.removesuffix("s"))


def _beyond(row: Measured, high: float) -> str:
    """What is not drawn."""
    beyond = sum(seconds > high for seconds in row.frame_seconds)
    far = f"{words.count(beyond, 'slower frame')} not drawn, up to {units.seconds(max(row.frame_seconds))}"
    return far if beyond else ""


def _bounds(row: Measured) -> tuple[float, float]:
    """The fastest frame, and the slowest that is drawn."""
    low, slowest = min(row.frame_seconds), max(row.frame_seconds)
    if len(row.frame_seconds) < 4:
        return low, slowest
    lower, upper = np.quantile(row.frame_seconds, (0.25, 0.75))
    return low, min(slowest, float(upper + FAR_OUT * (upper - lower)))


def _histogram(row: Measured, scale: Scale, bins: int, height: int) -> Histogram:
    """Frames beyond the strategy's own bound are left out; `height` is that of its fullest bin."""
    times = np.asarray(row.frame_seconds)
    drawn = _shares(times[times <= _bounds(row)[1]], scale)
    counts = np.bincount(np.minimum((drawn * bins).astype(int), bins - 1), minlength=bins)
    medians = [float(np.median(one)) for one in (row.frame_seconds, *row.rounds) if one]
    median, *of_rounds = (f"{bins * min(max(scale.share(one), 0.0), 1.0):.2f}" for one in medians)
    outline = _outline([height * int(count) / int(counts.max()) for count in counts], height)
    return Histogram(bins, outline, median, tuple(of_rounds))


def _shares(times: NDArray[np.float64], scale: Scale) -> NDArray[np.float64]:
    """`Scale.share` of many."""
    if scale.high == scale.low:
        return np.full(len(times), 0.5)
    bend = np.log if scale.logarithmic else np.asarray
    low, high = bend(np.asarray((scale.low, scale.high)))
    return np.asarray(np.clip((bend(times) - low) / (high - low), 0, 1))


def _outline(heights: Sequence[float], height: int) -> str:
    """The tops of the bins from left to right, from the base line and back to it, as one short path."""
    steps, here = [f"M0 {height}"], 0.0
    for tall, run in groupby(round(tall, 1) for tall in heights):
        steps.append(f"v{round(here - tall, 1):g}h{len(list(run))}")
        here = tall
    return "".join([*steps, f"v{here:g}z"])
