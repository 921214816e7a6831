"""Geometry of line charts: one line per strategy over the values of a parameter.

Across, lines and bands are drawn on a grid of 1000 that stretches with the page, marks and whiskers in
percent; down, all is in pixels. Each strategy has a shape and a colour, and its name at the line's end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from advisor import units
from advisor.profiles.sweeps import Value
from advisor.report import words
from advisor.report.axes import Scale, time_axis, value_axis
from advisor.report.blocks import Block
from advisor.report.charts import Tick, percent

GRID = 1000
HEIGHT = 280
MARGIN = 12
LABEL_GAP = 16
LABEL_LENGTH = 14
COLOURS = ("host", "transfer", "kernel", "wait", "host-2", "transfer-2", "kernel-2", "rest")
SHAPES = ("circle", "square", "triangle", "diamond", "cross", "plus", "wedge", "bar")
# Points keep off the edges, so that marks are whole.
_INSET = 0.05


@dataclass(frozen=True)
class Style:
    """How a strategy looks, on every chart of the page."""

    colour: str
    shape: str


@dataclass(frozen=True)
class Sample:
    """One strategy at one value: seconds, and the ends of its interval or range."""

    middle: float
    low: float
    high: float
    chosen: bool = False


@dataclass(frozen=True)
class Curve:
    """A strategy to draw; a value without figures is None and breaks the line."""

    strategy: str
    style: Style
    samples: tuple[Sample | None, ...]


@dataclass(frozen=True)
class Mark:
    """A drawn point, percent across and pixels down, with its whisker's ends."""

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
    label_y: str
    end_y: str


@dataclass(frozen=True)
class LineChart(Block):
    """Lines over a parameter, with both axes."""

    identifier: str
    title: str
    description: str
    axes: str
    predicted: bool
    height: int
    lines: tuple[Line, ...]
    across: tuple[Tick, ...]
    down: tuple[Tick, ...]
    note: str = ""


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
    predicted: bool = False,
    note: str = "",
) -> LineChart:
    """Lays the curves out; each has a sample or None for each value, and one of them has a sample."""
    shares, labels, kind = value_axis(values)
    drawn = [sample for curve in curves for sample in curve.samples if sample]
    scale, ticks = time_axis(min(s.low for s in drawn), max(s.high for s in drawn))
    across = list(map(_inset, shares))
    lines = [_line(curve, across, scale, connected=bool(kind)) for curve in curves if any(curve.samples)]
    return LineChart(
        identifier=identifier,
        title=title,
        description=_describe(values, curves, predicted),
        axes=_axes(parameter, kind, scale),
        predicted=predicted,
        height=HEIGHT,
        lines=_spread(lines),
        across=tuple(
            Tick(percent(_INSET + t.share * (1 - 2 * _INSET)), t.text, narrow=t.narrow) for t in labels
        ),
        down=tuple(Tick(_pixels(t.share), t.text) for t in ticks),
        note=note,
    )


def _inset(share: float) -> float:
    return _INSET + share * (1 - 2 * _INSET)


def _line(curve: Curve, across: Sequence[float], scale: Scale, *, connected: bool) -> Line:
    placed = [(x, s) for x, s in zip(across, curve.samples, strict=True)]
    runs = list(_runs(placed)) if connected else []
    last = next(sample for _, sample in reversed(placed) if sample)
    end = _pixels(scale.share(last.middle))
    return Line(
        label=words.name(curve.strategy, LABEL_LENGTH),
        name=words.name(curve.strategy),
        style=curve.style,
        paths=tuple(_path([(x, scale.share(s.middle)) for x, s in run]) for run in runs),
        bands=tuple(_band(run, scale) for run in runs),
        marks=tuple(_mark(x, s, scale) for x, s in placed if s),
        label_y=end,
        end_y=end,
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
    return "M" + "L".join(f"{x * GRID:.1f} {_pixels(share)}" for x, share in points)


def _band(run: Sequence[tuple[float, Sample]], scale: Scale) -> str:
    above = [(x, scale.share(s.high)) for x, s in run]
    below = [(x, scale.share(s.low)) for x, s in reversed(run)]
    return _path([*above, *below]) + "Z"


def _mark(x: float, sample: Sample, scale: Scale) -> Mark:
    return Mark(
        x=percent(x),
        y=_pixels(scale.share(sample.middle)),
        low=_pixels(scale.share(sample.low)),
        high=_pixels(scale.share(sample.high)),
        chosen=sample.chosen,
        title=f"{units.seconds(sample.middle)} ({words.seconds_between(sample.low, sample.high)})",
    )


def _pixels(share: float) -> str:
    return f"{MARGIN + (1 - share) * (HEIGHT - 2 * MARGIN):.1f}"


def _spread(lines: Sequence[Line]) -> tuple[Line, ...]:
    """The lines with labels that do not cover one another, in the order of the lines' ends."""
    ordered = sorted(lines, key=lambda line: float(line.end_y))
    places = [float(line.end_y) for line in ordered]
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + LABEL_GAP)
    lowest = HEIGHT - MARGIN / 2
    for i in range(len(places) - 1, -1, -1):
        places[i] = min(places[i], lowest)
        lowest = places[i] - LABEL_GAP
    moved = {id(line): f"{place:.1f}" for line, place in zip(ordered, places, strict=True)}
    return tuple(Line(**{**vars(line), "label_y": moved[id(line)]}) for line in lines)


def _axes(parameter: str, kind: str, scale: Scale) -> str:
    across = f"{parameter} ({kind})" if kind else parameter
    return f"Across: {across}. Up: time of one frame ({'logarithmic' if scale.logarithmic else 'linear'})."


def _describe(values: Sequence[Value], curves: Sequence[Curve], predicted: bool) -> str:
    word = "predicted " * predicted
    return " ".join(
        f"{words.name(curve.strategy)}: {word}"
        + ", ".join(
            f"{units.seconds(sample.middle)} at {words.name(str(value), 40)}"
            for value, sample in zip(values, curve.samples, strict=True)
            if sample
        )
        + "."
        for curve in curves
        if any(curve.samples)
    )
