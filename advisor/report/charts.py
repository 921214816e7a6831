"""Charts: axes, and lines over the values of a parameter, one for each strategy.

Lines and bands are drawn on a grid of 1000 that stretches with the picture, marks and whiskers in percent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Literal

from advisor import units
from advisor.profiles.sweeps import Values
from advisor.report import words
from advisor.report.blocks import Block
from advisor.strategies.registry import BASELINE
from advisor.verdicts.tracks import Stop, fastest

LOGARITHMIC_FROM = 8
"""Times that span this factor get a logarithmic axis."""
_LABELS, _CENTRED = ((8, 0.0225), (4, 0.0675)), 4
"""The most labels of an axis, and what a character takes of its width: on a screen, and on a phone; how many
characters the last one may have to be centred on its mark, not end there."""
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def percent(share: float) -> str:
    return f"{100 * share:.2f}%"


@dataclass(frozen=True)
class Scale:
    """Maps a value to its share of the axis; all values lie within."""

    low: float
    high: float
    logarithmic: bool

    def share(self, value: float) -> float:
        bend: Callable[[float], float] = math.log if self.logarithmic else float
        return (bend(value) - bend(self.low)) / (bend(self.high) - bend(self.low))


@dataclass(frozen=True)
class Tick:
    """A labelled place on an axis; a phone has no room for one that is not `narrow`."""

    share: float
    label: str
    narrow: bool = True

    @property
    def at(self) -> str:
        return percent(self.share)

    @property
    def anchor(self) -> Literal["start", "middle", "end"]:
        """Where the label stands, so that it keeps within the picture."""
        return "start" if self.share < 0.05 else "end" if self.share > 0.93 else "middle"


def value_axis(values: Sequence[Values]) -> tuple[list[float], tuple[Tick, ...]]:
    """Evenly spaced shares of the parameter's values, and labels that keep their distance.

    Labels are counted from the last value down, which the reader looks for first.
    """
    last = len(values) - 1
    shares = [i / last if last else 0.5 for i in range(len(values))]
    length = max(1 + n * (1.5 if n > _CENTRED else 1) for n in map(len, map(compact, values)))
    on_a_screen, on_a_phone = (max(1, math.ceil(max(1 / most, length * w) * last)) for most, w in _LABELS)
    on_a_phone = on_a_screen * math.ceil(on_a_phone / on_a_screen)
    labelled = range(last % on_a_screen, last + 1, on_a_screen)
    return shares, tuple(Tick(shares[i], compact(values[i]), not (last - i) % on_a_phone) for i in labelled)


def compact(value: Values) -> str:
    """A few characters for a value: 512, 2²⁰, 1.5M."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return str(value) if len(str(value)) <= 12 else f"{str(value)[:11]}…"
    if isinstance(value, int) and value >= 1024 and value & (value - 1) == 0:
        return "2" + str(value.bit_length() - 1).translate(_SUPERSCRIPTS)
    scale, suffix = next(((s, t) for s, t in _SCALES if abs(value) >= max(s, 1e4)), (1.0, ""))
    return f"{value / scale:.3g}{suffix}" if suffix else f"{value:g}"


def time_axis(low: float, high: float, *, relative: bool = False) -> tuple[Scale, tuple[Tick, ...]]:
    """A scale for seconds and its labels: from 0, or logarithmic where the times span a factor of eight.

    `relative` to another time, they are ratios.
    """
    if high >= LOGARITHMIC_FROM * low:
        scale = Scale(low / 1.15, high * 1.15, True)
        exponents = range(math.floor(math.log10(scale.low)), math.ceil(math.log10(scale.high)) + 1)
        decades = [m * 10.0**e for e in exponents for m in (1, 2, 5)]
        powers, ticks = ([t for t in ts if scale.low <= t <= scale.high] for ts in (decades[::3], decades))
        ticks = powers if len(powers) > 3 else ticks
    else:
        scale = Scale(0.95 * low if relative else 0.0, high * 1.05, False)
        fifth = (scale.high - scale.low) / 5  # at most five steps, of 1, 2 or 5 times a power of ten
        power = 10.0 ** math.floor(math.log10(fifth))
        step = next(m * power for m in (1, 2, 5, 10) if m * power >= fifth)
        ticks = [i * step for i in range(math.ceil(scale.low / step), int(scale.high / step) + 1)]
    write: Callable[[float], str] = "{:g}×".format if relative else _short
    return scale, tuple(Tick(scale.share(tick), write(tick)) for tick in ticks)


def _short(seconds: float) -> str:
    number, _, unit = units.seconds(seconds).partition(" ")
    return f"{float(number):.3g} {unit}" if seconds else "0"


GRID = 1000
HEIGHT, LOW = 208, 96
"""Height in pixels of a single chart, and of one among several: either fits the first screen."""
LABEL_GAP = 16
LABEL_LENGTH = 20
COLOURS = ("host", "transfer", "kernel", "wait", "host-2", "transfer-2", "kernel-2", "rest")
SHAPES = ("circle", "square", "triangle", "diamond", "cross", "plus", "wedge", "bar")
_FEW = 2
"""Fewer other strategies are drawn without a band."""
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
    """One strategy at one value: seconds or a ratio, the ends of its interval or range, and its time."""

    middle: float
    low: float
    high: float
    chosen: bool
    text: str


@dataclass(frozen=True)
class Line:
    """A drawn strategy: points by their share of the width, paths of the line and of the band around it."""

    strategy: str
    style: Style
    points: tuple[tuple[float, Sample], ...]
    paths: tuple[str, ...]
    bands: tuple[str, ...]
    end_at: float
    label_at: float

    @property
    def label(self) -> str:
        return words.name(self.strategy, LABEL_LENGTH)

    @property
    def name(self) -> str:
        return words.name(self.strategy)


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
    title: str,
    parameter: str,
    stops: Sequence[Stop],
    looks: Mapping[str, Style],
    *,
    height: int = HEIGHT,
    predicted: bool = False,
    changes: Sequence[Crossover] = (),
    joined: bool = True,
    relative: bool = False,
    note: str = "",
    ends: str = "",
) -> LineChart:
    """The leading strategies over the values of the stops, of which at least one has figures.

    A chart is higher than `height` where the names at the lines' ends need it. `joined`: lines go from value
    to value, which have an order. `relative`: times are ratios to the fastest. `ends`: of lines at points.
    """
    strategies = dict.fromkeys(name for stop in stops for name in stop.results if stop.seconds(name))
    drawn, values = _leading(stops, strategies), [stop.value for stop in stops]
    curves = {s: [_sample(stop, s, relative) for stop in stops] for s in strategies if s in drawn}
    shares, labels = value_axis(values)
    across, samples = list(map(_inset, shares)), [s for curve in curves.values() for s in curve if s]
    top = max(s.high for s in samples) * (_HEADROOM if changes else 1.0)
    scale, ticks = time_axis(min(s.low for s in samples), top, relative=relative)
    height = max(height, LABEL_GAP * (len(curves) + 1))
    counts = f"{'time relative to the fastest' if relative else 'time per frame'} "
    counts += "(logarithmic)" if scale.logarithmic else "(linear)"
    lines = [_line(s, looks[s], curve, across, scale, connected=joined) for s, curve in curves.items()]
    return LineChart(
        title=title,
        description=_description(values, curves, "predicted " * predicted),
        parameter=words.name(parameter, LABEL_LENGTH),
        axes=f"Horizontal: {parameter} (evenly spaced). Vertical: {counts}.",
        predicted=predicted,
        height=height,
        lines=_spread(lines, LABEL_GAP / height),
        across=tuple(replace(tick, share=_inset(tick.share)) for tick in labels),
        down=tuple(_apart([replace(tick, share=_inset(1 - tick.share)) for tick in ticks], height)),
        note=_note(lines, note, len(strategies) - len(drawn), ends, predicted=predicted),
        crossings=tuple(_placed(change, across) for change in changes),
        scale=scale,
    )


def _note(lines: Sequence[Line], note: str, left_out: int, ends: str, *, predicted: bool) -> str:
    banded = predicted and any(line.bands for line in lines)
    ends = ends or ("ranges" if predicted else "intervals")
    marks = f"{'Bands' if banded else 'Vertical lines'} show the {ends}"
    omitted = f"The table also has {words.count(left_out, 'other strategy')}." * (left_out > 0)
    return " ".join(filter(None, (f"{marks}; a ring marks the recommended strategy.", note, omitted)))


def _leading(stops: Sequence[Stop], strategies: Collection[str]) -> set[str]:
    """Strategies recommended or among the two fastest at a value, and the baseline; all if few are left."""
    names = {BASELINE} & set(strategies)
    for stop in stops:
        timed = {name: figures[0] for name in strategies if (figures := stop.seconds(name))}
        names.update(filter(None, (stop.optima.chosen,)), sorted(timed, key=timed.__getitem__)[:2])
    names &= set(strategies)
    return names if len(strategies) - len(names) > _FEW else set(strategies)


def _sample(stop: Stop, strategy: str, relative: bool) -> Sample | None:
    """A strategy's point; None without figures. An interval that tells nothing is not drawn."""
    figures, least = stop.seconds(strategy), fastest(stop)
    if not figures or not least:
        return None
    middle, low, high = (each / (least if relative else 1.0) for each in figures)
    ends = (low, high) if words.known(low, high) else (middle, middle)
    text = f"{units.seconds(figures[0])} ({words.seconds_between(*figures[1:])})"
    return Sample(middle, *ends, stop.optima.chosen == strategy, text)


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


def _line(
    strategy: str,
    style: Style,
    samples: Sequence[Sample | None],
    across: Sequence[float],
    scale: Scale,
    *,
    connected: bool,
) -> Line:
    placed = list(zip(across, samples, strict=True))
    points = tuple((x, sample) for x, sample in placed if sample)
    neighbours = groupby(placed, key=lambda pair: pair[1] is not None)
    runs = [[(x, s) for x, s in near if s] for _, near in neighbours if connected]
    runs = [run for run in runs if len(run) > 1]  # a single point has no line
    paths = tuple(_path([(x, scale.share(s.middle)) for x, s in run]) for run in runs)
    bands = []
    for run in runs:
        above = [(x, scale.share(s.high)) for x, s in run]
        below = [(x, scale.share(s.low)) for x, s in reversed(run)]
        bands.append(f"{_path([*above, *below])}Z")
    end = _inset(1 - scale.share(points[-1][1].middle))
    return Line(strategy, style, points, paths, tuple(bands), end, end)


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x * GRID:.1f} {_inset(1 - share) * GRID:.1f}" for x, share in points)


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


def _description(values: Sequence[Values], curves: Mapping[str, Sequence[Sample | None]], word: str) -> str:
    sentences = []
    for strategy, samples in curves.items():
        points = [(value, sample) for value, sample in zip(values, samples, strict=True) if sample]
        times = ", ".join(f"{s.text} at {words.name(str(value), 40)}" for value, s in points)
        sentences.append(f"{words.name(strategy)}: {word}{times}.")
    return " ".join(sentences)
