"""Geometry of line charts: one line per strategy over the values of a parameter.

Lines and bands are drawn on a grid of 1000 that stretches with the picture, marks and whiskers in percent.
Each strategy has a shape and a colour, and its name at the line's end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from advisor import units
from advisor.profiles.sweeps import Value
from advisor.report import words
from advisor.report.axes import Scale, Tick, percent, time_axis, value_axis
from advisor.report.blocks import Block

GRID = 1000
HEIGHT, LOW = 208, 96
"""Pixels down, of one chart and of one among several: both stand on the first screen."""
LABEL_GAP = 16
LABEL_LENGTH = 14
COLOURS = ("host", "transfer", "kernel", "wait", "host-2", "transfer-2", "kernel-2", "rest")
SHAPES = ("circle", "square", "triangle", "diamond", "cross", "plus", "wedge", "bar")
_HEADROOM = 1.2
"""Above the lines the changes have their labels."""
_INSET = 0.05
"""Points keep off the edges, so that marks are whole."""


@dataclass(frozen=True)
class Style:
    """How a strategy looks, on every chart of the page."""

    colour: str
    shape: str


@dataclass(frozen=True)
class Sample:
    """One strategy at one value: seconds, or a ratio, with the ends of its interval or range; in words."""

    middle: float
    low: float
    high: float
    chosen: bool = False
    told: str = ""

    @property
    def words(self) -> str:
        """The time and its interval, where no other words were given."""
        between = words.seconds_between(self.low, self.high)
        return self.told or f"{units.seconds(self.middle)} ({between})"


@dataclass(frozen=True)
class Curve:
    """A strategy to draw; a value without figures is None and breaks the line."""

    strategy: str
    style: Style
    samples: tuple[Sample | None, ...]


@dataclass(frozen=True)
class Mark:
    """A drawn point in percent, with its whisker's ends."""

    x: str
    y: str
    low: str
    high: str
    chosen: bool
    title: str


@dataclass(frozen=True)
class Line:
    """A drawn strategy: paths of the line and of the band around it, and the label at its end."""

    label: str
    name: str
    style: Style
    paths: tuple[str, ...]
    bands: tuple[str, ...]
    marks: tuple[Mark, ...]
    label_at: float
    end_at: float


@dataclass(frozen=True)
class Crossover:
    """The best strategy changes between two values, given as indices; `ends`: where on 90 % of the simulated
    devices, None before the first or beyond the last value."""

    low: int
    high: int
    told: str
    ends: tuple[float | None, float | None] | None = None


@dataclass(frozen=True)
class Crossing:
    """Where the best strategy changes: somewhere from `x` on, `width` wide, both in percent; and the strip
    of simulated devices, where there are any."""

    x: str
    width: str
    title: str
    strip: tuple[str, str] | None = None


@dataclass(frozen=True)
class LineChart(Block):
    """Lines over a parameter, with both axes; `others` are bands around the strategies without a line."""

    identifier: str
    title: str
    description: str
    axes: str
    parameter: str
    predicted: bool
    height: int
    lines: tuple[Line, ...]
    across: tuple[Tick, ...]
    down: tuple[Tick, ...]
    note: str = ""
    others: tuple[str, ...] = ()
    crossings: tuple[Crossing, ...] = ()


def styles(strategies: Sequence[str]) -> dict[str, Style]:
    """A pair of colour and shape for each strategy; the first eight differ in both."""
    return {
        name: Style(COLOURS[(i + i // len(SHAPES)) % len(COLOURS)], SHAPES[i % len(SHAPES)])
        for i, name in enumerate(strategies)
    }


def line_chart(
    identifier: str,
    title: str,
    parameter: str,
    values: Sequence[Value],
    curves: Sequence[Curve],
    *,
    height: int = HEIGHT,
    predicted: bool = False,
    note: str = "",
    others: Sequence[Curve] = (),
    changes: Sequence[Crossover] = (),
    ordered: bool = False,
    relative: bool = False,
) -> LineChart:
    """Lays the curves out; each has a sample or None for each value, and one of them has a sample.

    `others` are drawn as one band; `changes` are where the best one changes, and how.
    Values that are `ordered` stand in their order, whatever they are, and are joined.
    A chart is higher than `height` where the names at the lines' ends need it. `relative`: these are ratios.
    """
    shares, labels, kind = value_axis(values, ordered=ordered)
    curves = [curve for curve in curves if any(curve.samples)]
    drawn = [sample for curve in (*curves, *others) for sample in curve.samples if sample]
    top = max(s.high for s in drawn) * (_HEADROOM if changes else 1.0)
    scale, ticks = time_axis(min(s.low for s in drawn), top, relative=relative)
    across = list(map(_inset, shares))
    height = max(height, LABEL_GAP * (len(curves) + 1))
    left_to_right = f"{parameter} ({kind})" if kind else parameter
    up = "logarithmic" if scale.logarithmic else "linear"
    counts = f"time relative to the fastest ({up})" if relative else f"time per frame ({up})"
    return LineChart(
        identifier=identifier,
        title=title,
        description=" ".join(_describe(values, curve, "predicted " * predicted) for curve in curves),
        parameter=words.name(parameter, LABEL_LENGTH),
        axes=f"Horizontal: {left_to_right}. Vertical: {counts}.",
        predicted=predicted,
        height=height,
        lines=_spread(
            [_line(curve, across, scale, connected=bool(kind)) for curve in curves], LABEL_GAP / height
        ),
        across=tuple(replace(tick, share=_inset(tick.share)) for tick in labels),
        down=tuple(_apart([replace(tick, share=_inset(1 - tick.share)) for tick in ticks], height)),
        note=note,
        others=tuple(_band(run, scale) for run in _runs(_envelope(across, others))) if kind else (),
        crossings=tuple(_crossing(crossover, values, across, kind) for crossover in changes),
    )


def _crossing(crossover: Crossover, values: Sequence[Value], across: Sequence[float], kind: str) -> Crossing:
    x, end = sorted((across[crossover.low], across[crossover.high]))
    strip = None
    if crossover.ends:
        bend = np.log if kind == "logarithmic" else np.asarray
        order = np.argsort(across)
        known, shares = bend(np.array(values, dtype=float))[order], np.array(across)[order]
        edges = (0.0, 1.0) if across[0] <= across[-1] else (1.0, 0.0)
        first, last = sorted(
            edge if value is None else float(np.interp(bend(value), known, shares))
            for value, edge in zip(crossover.ends, edges, strict=True)
        )
        strip = percent(first), percent(last - first)
    return Crossing(percent(x), percent(end - x), crossover.told, strip)


def _apart(ticks: Sequence[Tick], height: int) -> Iterator[Tick]:
    """Ticks whose labels do not overlap."""
    last = 2.0
    for tick in ticks:
        if last - tick.share >= LABEL_GAP / height:
            last = tick.share
            yield tick


def _envelope(across: Sequence[float], curves: Sequence[Curve]) -> list[tuple[float, Sample | None]]:
    """From the fastest to the slowest of several strategies at each value."""
    at_each = [[c.samples[i] for c in curves] for i in range(len(across))]
    found = [[sample.middle for sample in samples if sample] for samples in at_each]
    ends = (Sample(min(times), min(times), max(times)) if times else None for times in found)
    return list(zip(across, ends, strict=True))


def _inset(share: float) -> float:
    return _INSET + share * (1 - 2 * _INSET)


def _line(curve: Curve, across: Sequence[float], scale: Scale, *, connected: bool) -> Line:
    placed = list(zip(across, curve.samples, strict=True))
    runs = list(_runs(placed)) if connected else []
    last = next(sample for _, sample in reversed(placed) if sample)
    end = _inset(1 - scale.share(last.middle))
    return Line(
        label=words.name(curve.strategy, LABEL_LENGTH),
        name=words.name(curve.strategy),
        style=curve.style,
        paths=tuple(_path([(x, scale.share(s.middle)) for x, s in run]) for run in runs),
        bands=tuple(_band(run, scale) for run in runs),
        marks=tuple(_mark(x, s, scale) for x, s in placed if s),
        label_at=end,
        end_at=end,
    )


def _runs(placed: Sequence[tuple[float, Sample | None]]) -> Iterator[list[tuple[float, Sample]]]:
    """Neighbours that both have figures; a lone point needs no line."""
    run: list[tuple[float, Sample]] = []
    for x, sample in (*placed, (0.0, None)):
        if sample:
            run.append((x, sample))
            continue
        if len(run) > 1:
            yield run
        run = []


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x * GRID:.1f} {_inset(1 - share) * GRID:.1f}" for x, share in points)


def _band(run: Sequence[tuple[float, Sample]], scale: Scale) -> str:
    above = [(x, scale.share(s.high)) for x, s in run]
    below = [(x, scale.share(s.low)) for x, s in reversed(run)]
    return _path([*above, *below]) + "Z"


def _mark(x: float, sample: Sample, scale: Scale) -> Mark:
    y, low, high = (percent(_inset(1 - scale.share(s))) for s in (sample.middle, sample.low, sample.high))
    return Mark(percent(x), y, low, high, sample.chosen, sample.words)


def _spread(lines: Sequence[Line], gap: float) -> tuple[Line, ...]:
    """The lines with labels that do not cover one another, in the order of the lines' ends."""
    ordered = sorted(lines, key=lambda line: line.end_at)
    places = [line.end_at for line in ordered]
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + gap)
    lowest = 1 - gap / 2
    for i in range(len(places) - 1, -1, -1):
        places[i] = min(places[i], lowest)
        lowest = places[i] - gap
    moved = {id(line): place for line, place in zip(ordered, places, strict=True)}
    return tuple(replace(line, label_at=moved[id(line)]) for line in lines)


def _describe(values: Sequence[Value], curve: Curve, word: str) -> str:
    told = [(value, sample) for value, sample in zip(values, curve.samples, strict=True) if sample]
    said = ", ".join(f"{units.seconds(s.middle)} at {words.name(str(value), 40)}" for value, s in told)
    return f"{words.name(curve.strategy)}: {word}{said}."
