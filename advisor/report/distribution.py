"""How the frames of each strategy are spread: binned, so that the page stays small."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median, quantiles

from advisor import units
from advisor.profiles import Measured
from advisor.report import words
from advisor.report.axes import Label, Scale, span_axis
from advisor.report.charts import LABEL_LENGTH

BINS = 48
HEIGHT = 44
SHARED_BINS = 120
SHARED_HEIGHT = 26
# Frames beyond the third quartile by more than this many interquartile ranges are counted, not drawn:
# one interrupted frame would squeeze all others into a single column. Tukey's "far out" is 3.
FAR_OUT = 3.0


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
class Distribution:
    """The frames of one strategy on their own axis, from the fastest to the last that is drawn."""

    identifier: str
    strategy: str
    description: str
    histogram: Histogram
    low: str
    high: str
    summary: str
    beyond: str


@dataclass(frozen=True)
class SpreadRow:
    """One strategy on the axis that all share."""

    strategy: str
    histogram: Histogram
    summary: str
    note: str


@dataclass(frozen=True)
class Spread:
    """All strategies under one another on one axis."""

    description: str
    rows: tuple[SpreadRow, ...]
    ticks: tuple[Label, ...]
    axis: str


def distribution(row: Measured, index: int) -> Distribution:
    """Bins the raw frame times of one strategy; equal times fill one column."""
    low, high = _bounds(row.frame_seconds)
    summary = f"{_frames(row)}, median {units.seconds(median(row.frame_seconds))}"
    return Distribution(
        identifier=f"frames-{index}",
        strategy=words.name(row.strategy),
        description=f"{summary}, from {units.seconds(low)} to {units.seconds(max(row.frame_seconds))}",
        histogram=_histogram(row, Scale(low, high, False), BINS, HEIGHT),
        low=units.seconds(low),
        high=units.seconds(high),
        summary=summary,
        beyond=_beyond(row, high),
    )


def spread(measured: Sequence[Measured]) -> Spread:
    """The frames of all strategies on one axis, logarithmic where they span a factor of eight."""
    bounds = [_bounds(row.frame_seconds) for row in measured]
    scale, ticks = span_axis(min(low for low, _ in bounds), max(high for _, high in bounds))
    rows = tuple(_spread_row(row, high, scale) for row, (_, high) in zip(measured, bounds, strict=True))
    return Spread(
        description=" ".join(f"{row.strategy}: {row.summary}, {row.note}." for row in rows),
        rows=rows,
        ticks=ticks,
        axis="logarithmic" if scale.logarithmic else "linear",
    )


def _spread_row(row: Measured, high: float, scale: Scale) -> SpreadRow:
    between = words.seconds_between(min(row.frame_seconds), max(row.frame_seconds))
    return SpreadRow(
        strategy=words.name(row.strategy, LABEL_LENGTH),
        histogram=_histogram(row, scale, SHARED_BINS, SHARED_HEIGHT),
        summary=f"{_frames(row)}, {between}",
        note=_beyond(row, high) or f"median {units.seconds(median(row.frame_seconds))}",
    )


def _frames(row: Measured) -> str:
    return words.count(len(row.frame_seconds), "frame")


def _beyond(row: Measured, high: float) -> str:
    """What is not drawn."""
    beyond = sum(s > high for s in row.frame_seconds)
    far = f"{words.count(beyond, 'slower frame')} not drawn, up to {units.seconds(max(row.frame_seconds))}"
    return far if beyond else ""


def _bounds(times: Sequence[float]) -> tuple[float, float]:
    if len(times) < 4:
        return min(times), max(times)
    lower, _, upper = quantiles(times, n=4)
    return min(times), min(max(times), upper + FAR_OUT * (upper - lower))


def _histogram(row: Measured, scale: Scale, bins: int, height: int) -> Histogram:
    """Frames beyond the strategy's own bound are left out; `height` is that of its fullest bin."""
    _, high = _bounds(row.frame_seconds)
    drawn = [s for s in row.frame_seconds if s <= high]
    counts = Counter(min(int(scale.share(s) * bins), bins - 1) for s in drawn)
    tallest = max(counts.values(), default=1)
    return Histogram(
        bins=bins,
        outline=_outline([height * counts[i] / tallest for i in range(bins)], height),
        median=_across(median(row.frame_seconds), scale, bins),
        round_medians=tuple(_across(median(one), scale, bins) for one in row.rounds if one),
    )


def _outline(heights: Sequence[float], height: int) -> str:
    """The tops of the bins from left to right, from the base line and back to it, as one short path."""
    steps, here = [f"M0 {height}"], 0.0
    for tall, run in groupby(round(tall, 1) for tall in heights):
        steps.append(f"v{round(here - tall, 1):g}h{len(list(run))}")
        here = tall
    return "".join([*steps, f"v{here:g}z"])


def _across(value: float, scale: Scale, bins: int) -> str:
    return f"{bins * min(max(scale.share(value), 0.0), 1.0):.2f}"
