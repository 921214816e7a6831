"""Geometry of line charts: one line per strategy over the values of a parameter.

Lines and bands are drawn on a grid of 1000 that stretches with the picture, marks and whiskers in percent.
Each strategy has a shape and a colour, and its name at the line's end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from advisor import units
from advisor.profiles.sweeps import Value
from advisor.report import words
from advisor.report.axes import Scale, Tick, percent, time_axis, value_axis
from advisor.report.blocks import Block

GRID = 1000
HEIGHT, LOW = 208, 96
"""Height in pixels of a single chart, and of one among several: either fits the first screen."""
LABEL_GAP = 16
LABEL_LENGTH = 21
COLOURS = ("host", "transfer", "kernel", "wait", "host-2", "transfer-2", "kernel-2", "rest")
SHAPES = ("circle", "square", "triangle", "diamond", "cross", "plus", "wedge", "bar")
_HEADROOM = 1.2
"""Extra height, as a factor, above the lines for the labels of changes."""
_INSET = 0.05
"""Points keep off the edges, so that marks are whole."""


@dataclass(frozen=True)
class Style:
    """How a strategy looks, on every chart of the page."""

    colour: str
    shape: str


@dataclass(frozen=True)
class Sample:
    """One strategy at one value: seconds or a ratio, the ends of its interval or range, and its text."""

    middle: float
    low: float
    high: float
    chosen: bool = False
    text: str = ""

    def over(self, least: float) -> Sample:
        """The point relative to the fastest; its text stays as it is."""
        return replace(self, middle=self.middle / least, low=self.low / least, high=self.high / least)

    @property
    def words(self) -> str:
        between = words.seconds_between(self.low, self.high)
        return self.text or f"{units.seconds(self.middle)} ({between})"


@dataclass(frozen=True)
class Curve:
    """A strategy to draw; a value without figures is None and breaks the line."""

    strategy: str
    style: Style
    samples: tuple[Sample | None, ...]


@dataclass(frozen=True)
class Line:
    """A drawn strategy: points by their share of the width, paths of the line and of the band around it."""

    curve: Curve
    points: tuple[tuple[float, Sample], ...]
    paths: tuple[str, ...]
    bands: tuple[str, ...]
    end_at: float
    label_at: float

    @property
    def label(self) -> str:
        return words.name(self.curve.strategy, LABEL_LENGTH)

    @property
    def name(self) -> str:
        return words.name(self.curve.strategy)


@dataclass(frozen=True)
class Crossover:
    """The best strategy changes between two values, given as indices. A chart adds the place `x` and the
    width, in percent."""

    low: int
    high: int
    title: str
    x: str = ""
    width: str = ""


@dataclass(frozen=True)
class LineChart(Block):
    """Lines over a parameter, with both axes."""

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
    crossings: tuple[Crossover, ...] = ()
    scale: Scale = field(kw_only=True)

    def down_at(self, value: float) -> str:
        return percent(_inset(1 - self.scale.share(value)))


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
    changes: Sequence[Crossover] = (),
    ordered: bool = False,
    relative: bool = False,
) -> LineChart:
    """Lays the curves out; each has a sample or None for each value, and one of them has a sample.

    Values that are `ordered` stand in their order and are joined. A chart is higher than `height` where the
    names at the lines' ends need it. `relative`: these are ratios.
    """
    shares, labels, kind = value_axis(values, ordered=ordered)
    curves, across = [curve for curve in curves if any(curve.samples)], list(map(_inset, shares))
    drawn = [sample for curve in curves for sample in curve.samples if sample]
    top = max(s.high for s in drawn) * (_HEADROOM if changes else 1.0)
    scale, ticks = time_axis(min(s.low for s in drawn), top, relative=relative)
    height = max(height, LABEL_GAP * (len(curves) + 1))
    counts = f"{'time relative to the fastest' if relative else 'time per frame'} "
    counts += "(logarithmic)" if scale.logarithmic else "(linear)"
    lines = [_line(curve, across, scale, connected=bool(kind)) for curve in curves]
    return LineChart(
        identifier=identifier,
        title=title,
        description=" ".join(_describe(values, curve, "predicted " * predicted) for curve in curves),
        parameter=words.name(parameter, LABEL_LENGTH),
        axes=f"Horizontal: {parameter}{f' ({kind})' * bool(kind)}. Vertical: {counts}.",
        predicted=predicted,
        height=height,
        lines=_spread(lines, LABEL_GAP / height),
        across=tuple(replace(tick, share=_inset(tick.share)) for tick in labels),
        down=tuple(_apart([replace(tick, share=_inset(1 - tick.share)) for tick in ticks], height)),
        note=note,
        crossings=tuple(_placed(change, across) for change in changes),
        scale=scale,
    )


def _placed(change: Crossover, across: Sequence[float]) -> Crossover:
    x, end = sorted((across[change.low], across[change.high]))
    return replace(change, x=percent(x), width=percent(end - x))


def _apart(ticks: Sequence[Tick], height: int) -> Iterator[Tick]:
    last = 2.0
    for tick in ticks:
        if last - tick.share >= LABEL_GAP / height:
            last = tick.share
            yield tick


def _inset(share: float) -> float:
    return _INSET + share * (1 - 2 * _INSET)


def _line(curve: Curve, across: Sequence[float], scale: Scale, *, connected: bool) -> Line:
    placed = list(zip(across, curve.samples, strict=True))
    points = tuple((x, sample) for x, sample in placed if sample)
    runs = list(_runs(placed)) if connected else []
    paths = tuple(_path([(x, scale.share(s.middle)) for x, s in run]) for run in runs)
    end = _inset(1 - scale.share(points[-1][1].middle))
    return Line(curve, points, paths, tuple(_band(run, scale) for run in runs), end, end)


def _runs(placed: Sequence[tuple[float, Sample | None]]) -> Iterator[list[tuple[float, Sample]]]:
    """Runs of neighbouring points with figures; a single point has no line."""
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
    points = [(value, sample) for value, sample in zip(values, curve.samples, strict=True) if sample]
    times = ", ".join(f"{units.seconds(s.middle)} at {words.name(str(value), 40)}" for value, s in points)
    return f"{words.name(curve.strategy)}: {word}{times}."
