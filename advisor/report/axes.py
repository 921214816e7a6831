"""Axes of line charts: where a value lies between 0 and 1, and which values get a label."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from advisor import units
from advisor.profiles.sweeps import Value, is_number
from advisor.report.charts import decimal_step, percent

LOGARITHMIC_FROM = 8
"""A range that spans this factor gets a logarithmic axis."""
_MOST_LABELS = 8
_ON_A_PHONE = 4
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True)
class Scale:
    """From a value to its share of the axis; all values lie within."""

    low: float
    high: float
    logarithmic: bool

    def share(self, value: float) -> float:
        """0 at the low end, 1 at the high end."""
        bend: Callable[[float], float] = math.log if self.logarithmic else float
        width = bend(self.high) - bend(self.low)
        return (bend(value) - bend(self.low)) / width if width else 0.5


@dataclass(frozen=True)
class Label:
    """A labelled place on an axis; a phone has no room for one that is not `narrow`."""

    share: float
    text: str
    narrow: bool = True

    @property
    def percent(self) -> str:
        """The share as SVG writes it."""
        return percent(self.share)


def value_axis(values: Sequence[Value]) -> tuple[list[float], tuple[Label, ...], str]:
    """Shares of the parameter's values, the labels, and what kind of axis it is.

    Numbers that span a factor of eight lie on a logarithmic axis; other values than numbers side by side.
    """
    numbers = [float(value) for value in values if is_number(value)]
    if len(numbers) < len(values):
        shares = [i / max(1, len(values) - 1) for i in range(len(values))]
        kind = ""
    else:
        logarithmic = min(numbers) > 0 and max(numbers) >= LOGARITHMIC_FROM * min(numbers)
        scale = Scale(min(numbers), max(numbers), logarithmic)
        shares = [scale.share(number) for number in numbers]
        kind = "logarithmic" if logarithmic else "linear"
    return shares, _value_labels(values, shares), kind


def _value_labels(values: Sequence[Value], shares: Sequence[float]) -> tuple[Label, ...]:
    """Labels that keep their distance, from the last value down, which the reader looks for first."""
    kept: list[Label] = []
    apart, narrow_apart = 1 / (_MOST_LABELS + 1), 1 / (_ON_A_PHONE + 1)
    narrow_at = math.inf
    for value, share in sorted(zip(values, shares, strict=True), key=lambda pair: -pair[1]):
        if kept and kept[-1].share - share < apart:
            continue
        narrow = narrow_at - share >= narrow_apart
        narrow_at = share if narrow else narrow_at
        kept.append(Label(share, compact(value), narrow))
    return tuple(reversed(kept))


def compact(value: Value) -> str:
    """A few characters for a value: 512, 2²⁰, 1.5M."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return str(value) if len(str(value)) <= 12 else f"{str(value)[:11]}…"
    if isinstance(value, int) and value >= 1024 and value & (value - 1) == 0:
        return "2" + str(value.bit_length() - 1).translate(_SUPERSCRIPTS)
    scale, suffix = next(((s, t) for s, t in _SCALES if abs(value) >= max(s, 1e4)), (1.0, ""))
    return f"{value / scale:.3g}{suffix}" if suffix else f"{value:g}"


def time_axis(low: float, high: float) -> tuple[Scale, tuple[Label, ...]]:
    """A scale for seconds and its labels: from 0, or logarithmic where the times span a factor of eight."""
    if high >= LOGARITHMIC_FROM * low:
        scale = Scale(low / 1.15, high * 1.15, True)
        ticks = _decades(scale.low, scale.high)
    else:
        scale = Scale(0.0, high * 1.05, False)
        step = decimal_step(scale.high)
        ticks = [i * step for i in range(int(scale.high / step) + 1)]
    return scale, tuple(Label(scale.share(tick), _short(tick)) for tick in ticks)


def span_axis(low: float, high: float) -> tuple[Scale, tuple[Label, ...]]:
    """A scale for seconds from `low` to `high`, no more, and the round times on it."""
    if high >= LOGARITHMIC_FROM * low:
        scale, ticks = Scale(low, high, True), _decades(low, high)
    else:
        scale, step = Scale(low, high, False), decimal_step((high - low) or low)
        first = math.ceil(low / step)
        ticks = [i * step for i in range(first, int(high / step) + 1)]
    return scale, tuple(Label(scale.share(t), text) for t, text in zip(ticks, _distinct(ticks), strict=True))


def _distinct(ticks: Sequence[float]) -> list[str]:
    """As few digits as tell the ticks apart."""
    written = ([_short(tick, digits) for tick in ticks] for digits in (3, 4, 5, 6, 7, 8))
    return next((texts for texts in written if len(set(texts)) == len(texts)), [""] * len(ticks))


def _decades(low: float, high: float) -> list[float]:
    """Powers of ten; with 2 and 5 between them where there are few."""
    powers = [10.0**e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    within = [p for p in powers if low <= p <= high]
    if len(within) > 3:
        return within
    return [m * p for p in powers for m in (1, 2, 5) if low <= m * p <= high]


def _short(seconds: float, digits: int = 3) -> str:
    number, _, unit = units.seconds(seconds, digits).partition(" ")
    return f"{float(number):.{digits}g} {unit}" if seconds else "0"
