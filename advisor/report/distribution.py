"""How the frames of each strategy are spread: binned, so that the page stays small."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from advisor import units
from advisor.profiles import Measured
from advisor.report import words
from advisor.report.charts import percent

BINS = 48
HEIGHT = 44
# Frames beyond the third quartile by more than this many interquartile ranges are counted, not drawn:
# one interrupted frame would squeeze all others into a single column. Tukey's "far out" is 3.
FAR_OUT = 3.0


@dataclass(frozen=True)
class Column:
    """One bin: percent across, pixels down."""

    x: str
    y: float
    height: float


@dataclass(frozen=True)
class Distribution:
    """The frames of one strategy on their own axis, from the fastest to the last that is drawn."""

    identifier: str
    strategy: str
    description: str
    columns: tuple[Column, ...]
    column_width: str
    median: str
    round_medians: tuple[str, ...]
    low: str
    high: str
    summary: str
    beyond: str


def distribution(row: Measured, index: int) -> Distribution:
    """Bins the raw frame times of one strategy; equal times fill one column."""
    low, high = _bounds(row.frame_seconds)
    drawn = [s for s in row.frame_seconds if s <= high]
    beyond = len(row.frame_seconds) - len(drawn)
    far = f"{words.count(beyond, 'slower frame')} not drawn, up to {units.seconds(max(row.frame_seconds))}"
    summary = (
        f"{words.count(len(row.frame_seconds), 'frame')}, median {units.seconds(median(row.frame_seconds))}"
    )
    return Distribution(
        identifier=f"frames-{index}",
        strategy=words.name(row.strategy),
        description=f"{summary}, from {units.seconds(low)} to {units.seconds(max(row.frame_seconds))}",
        columns=_columns(drawn, low, high),
        column_width=percent(1 / BINS),
        median=_across(median(row.frame_seconds), low, high),
        round_medians=tuple(_across(median(one), low, high) for one in row.rounds if one),
        low=units.seconds(low),
        high=units.seconds(high),
        summary=summary,
        beyond=far if beyond else "",
    )


def _bounds(times: Sequence[float]) -> tuple[float, float]:
    if len(times) < 4:
        return min(times), max(times)
    lower, _, upper = quantiles(times, n=4)
    return min(times), min(max(times), upper + FAR_OUT * (upper - lower))


def _columns(times: Sequence[float], low: float, high: float) -> tuple[Column, ...]:
    width = (high - low) or 1.0
    counts = Counter(min(int((t - low) / width * BINS), BINS - 1) for t in times)
    if high == low:
        counts = Counter({BINS // 2: len(times)})
    tallest = max(counts.values(), default=1)
    heights = {i: round(HEIGHT * n / tallest, 1) for i, n in sorted(counts.items())}
    return tuple(Column(percent(i / BINS), round(HEIGHT - h, 1), h) for i, h in heights.items())


def _across(value: float, low: float, high: float) -> str:
    return percent(min((value - low) / (high - low), 1.0)) if high > low else percent(0.5)
