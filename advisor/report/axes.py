"""Axes of charts: where a value lies between 0 and 1, and which places get a label."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from advisor import stats, units
from advisor.profiles.sweeps import Value, is_number

LOGARITHMIC_FROM = 8
"""A range that spans this factor gets a logarithmic axis."""
WIDTH = 160.0
"""The width of a strip of ratios."""
_LEAST, _MOST = 1.2, 8.0
"""A strip spans the least factor either way, so that noise does not look like a change; the rest is cut."""
_LABELS = ((8, 0.0225), (4, 0.045))
"""The most labels of an axis, and what a character takes of its width: on a screen, and on a phone."""
END_FROM = 0.93
"""Labels of places beyond this share of the axis end there, so that they keep within the picture."""
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
        width = bend(self.high) - bend(self.low)
        return (bend(value) - bend(self.low)) / width if width else 0.5


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
        return "start" if self.share < 0.05 else "end" if self.share > END_FROM else "middle"


@dataclass(frozen=True)
class RatioScale:
    """A logarithmic axis from 1/`factor` to `factor`, so that twice and half look alike.

    In units of `WIDTH`: `one` is its middle, `same` are the ends of what counts as the same.
    """

    factor: float
    one = WIDTH / 2

    @property
    def ends(self) -> tuple[str, str]:
        return units.ratio(1 / self.factor), units.ratio(self.factor)

    @property
    def same(self) -> tuple[float, float]:
        return self.place(1 / (1 + stats.EQUIVALENCE)), self.place(1 + stats.EQUIVALENCE)

    def place(self, ratio: float) -> float:
        share = math.log(ratio) / math.log(self.factor)
        return round(self.one * (1 + min(max(share, -1.0), 1.0)), 1)

    def strip(self, value: float, low: float, high: float) -> Strip:
        return Strip(self, self.place(low), self.place(value), self.place(high))


@dataclass(frozen=True)
class Strip:
    """One interval: its ends and its middle, in the units of its scale."""

    scale: RatioScale
    low: float
    middle: float
    high: float

    @property
    def width(self) -> float:
        """At least 1, so that a narrow interval is visible."""
        return round(max(self.high - self.low, 1.0), 1)


def ratio_axis(ends: Sequence[tuple[float, float]]) -> RatioScale:
    """An axis that holds all intervals, with 1 in its middle."""
    furthest = max((abs(math.log(end)) for pair in ends for end in pair), default=0.0)
    return RatioScale(min(max(math.exp(furthest), _LEAST), _MOST))


def value_axis(
    values: Sequence[Value], *, ordered: bool = False
) -> tuple[list[float], tuple[Tick, ...], str]:
    """Shares of the parameter's values, the labels, and what kind of axis it is.

    Numbers that span a factor of eight lie on a logarithmic axis; other values than numbers, and
    those that are `ordered` otherwise than by size, side by side.
    """
    numbers = [float(value) for value in values if is_number(value)]
    if ordered or len(numbers) < len(values):
        shares = [i / max(1, len(values) - 1) for i in range(len(values))]
        return shares, _value_labels(values, shares), "evenly spaced" * ordered
    logarithmic = min(numbers) > 0 and max(numbers) >= LOGARITHMIC_FROM * min(numbers)
    scale = Scale(min(numbers), max(numbers), logarithmic)
    shares = [scale.share(number) for number in numbers]
    return shares, _value_labels(values, shares), "logarithmic" if logarithmic else "linear"


def _value_labels(values: Sequence[Value], shares: Sequence[float]) -> tuple[Tick, ...]:
    """Labels that keep their distance, from the last value down, which the reader looks for first."""
    labels: list[Tick] = []
    narrow_at = math.inf
    length = 1 + max(len(compact(value)) for value in values)
    apart, on_a_phone = (max(1 / (most + 1), length * width) for most, width in _LABELS)
    for value, share in sorted(zip(values, shares, strict=True), key=lambda pair: -pair[1]):
        if labels and labels[-1].share - share < apart:
            continue
        ends = narrow_at > END_FROM and length > 5  # a long one there ends at its place, others have it amid
        narrow = narrow_at - share >= on_a_phone * (1.5 if ends else 1.0)
        narrow_at = share if narrow else narrow_at
        labels.append(Tick(share, compact(value), narrow))
    return tuple(reversed(labels))


def compact(value: Value) -> str:
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
        return _labelled(Scale(low / 1.15, high * 1.15, True), relative)
    return _labelled(Scale(0.95 * low if relative else 0.0, high * 1.05, False), relative)


def _labelled(scale: Scale, relative: bool) -> tuple[Scale, tuple[Tick, ...]]:
    low, high = scale.low, scale.high
    if scale.logarithmic:
        ticks = _decades(low, high)
    else:
        step = decimal_step((high - low) or low)
        ticks = [i * step for i in range(math.ceil(low / step), int(high / step) + 1)]
    if relative:
        return scale, tuple(Tick(scale.share(tick), f"{tick:g}×") for tick in ticks)
    # As few digits as tell the ticks apart.
    written = ([_short(tick, digits) for tick in ticks] for digits in (3, 4, 5, 6, 7, 8))
    texts = next((texts for texts in written if len(set(texts)) == len(texts)), [""] * len(ticks))
    return scale, tuple(Tick(scale.share(tick), text) for tick, text in zip(ticks, texts, strict=True))


def decimal_step(extent: float) -> float:
    """The least of 1, 2, 5 times a power of ten that cuts the extent into at most five."""
    power = 10.0 ** math.floor(math.log10(extent / 5))
    return next(m * power for m in (1, 2, 5, 10) if m * power * 5 >= extent)


def _decades(low: float, high: float) -> list[float]:
    powers = [10.0**e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    within = [p for p in powers if low <= p <= high]
    if len(within) > 3:
        return within
    return [m * p for p in powers for m in (1, 2, 5) if low <= m * p <= high]


def _short(seconds: float, digits: int = 3) -> str:
    number, _, unit = units.seconds(seconds, digits).partition(" ")
    return f"{float(number):.{digits}g} {unit}" if seconds else "0"
