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
class SpreadRow:
    """One strategy on the axis that all share: an outline to fill, and where the medians lie.

    Across, the unit is one of `BINS`, and the picture stretches with the page; down, it is a pixel.
    """

    strategy: str
    outline: str
    median_at: str
    rounds_at: tuple[str, ...]
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
    """Frames beyond `high`, the strategy's own bound, are counted, not drawn."""
    times, slowest = np.asarray(row.frame_seconds), max(row.frame_seconds)
    bins = (_shares(times[times <= high], scale) * BINS).astype(int)
    counts = np.bincount(np.minimum(bins, BINS - 1), minlength=BINS)
    medians = [float(np.median(one)) for one in (row.frame_seconds, *row.rounds) if one]
    median_at, *rounds_at = (f"{BINS * min(max(scale.share(one), 0.0), 1.0):.2f}" for one in medians)
    note = [words.count(len(times), row.samples.removesuffix("s"))]
    note.append(words.seconds_between(min(row.frame_seconds), slowest))
    if beyond := int(np.sum(times > high)):
        note.append(f"{words.count(beyond, 'slower frame')} not drawn, up to {units.seconds(slowest)}")
    return SpreadRow(
        words.name(row.strategy, LABEL_LENGTH),
        _outline([HEIGHT * int(count) / int(counts.max()) for count in counts]),
        median_at,
        tuple(rounds_at),
        units.seconds(medians[0]),
        ", ".join(note),
    )


def _bounds(row: Measured) -> tuple[float, float]:
    """The fastest frame, and the slowest that is drawn."""
    low, slowest = min(row.frame_seconds), max(row.frame_seconds)
    if len(row.frame_seconds) < 4:
        return low, slowest
    lower, upper = np.quantile(row.frame_seconds, (0.25, 0.75))
    return low, min(slowest, float(upper + FAR_OUT * (upper - lower)))


def _shares(times: NDArray[np.float64], scale: Scale) -> NDArray[np.float64]:
    """`Scale.share` of many."""
    if scale.high == scale.low:
        return np.full(len(times), 0.5)
    bend = np.log if scale.logarithmic else np.asarray
    low, high = bend(np.asarray((scale.low, scale.high)))
    return np.asarray(np.clip((bend(times) - low) / (high - low), 0, 1))


def _outline(heights: Sequence[float]) -> str:
    """The tops of the bins from left to right, from the base line and back to it, as one short path."""
    steps, here = [f"M0 {HEIGHT}"], 0.0
    for tall, run in groupby(round(tall, 1) for tall in heights):
        steps.append(f"v{round(here - tall, 1):g}h{len(list(run))}")
        here = tall
    return "".join([*steps, f"v{here:g}z"])
