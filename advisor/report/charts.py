"""Geometry of the charts: where each bar, whisker and tick lies. templates/charts.svg.j2 draws it.

Each bar is a picture of its own between its name and its figure, or beneath them on a phone. Across,
positions are percentages, so that text is never scaled. Parts are numbered as in the legend and named in the
description, so that nothing is said by colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from advisor import units
from advisor.report import words
from advisor.report.blocks import Block

Category = Literal[
    "host", "host-2", "host-copy", "transfer", "transfer-2", "kernel", "kernel-2", "wait", "rest",
    "pageable", "pinned", "managed", "device",
]  # fmt: skip

LABEL_LENGTH = 26
LEGEND_LIMIT = 12
# A number needs about 14 px; the narrowest bar is about 310 px wide.
NUMBER_SHARE = 4.6


@dataclass(frozen=True)
class Part:
    """An amount to stack."""

    key: str
    category: Category
    amount: float


@dataclass(frozen=True)
class Stack:
    """One bar to draw: its parts, the value beside its label, and the interval around `middle`."""

    label: str
    value: str
    note: str
    parts: tuple[Part, ...]
    middle: float | None = None
    interval: tuple[float, float] | None = None
    emphasised: bool = False


@dataclass(frozen=True)
class Segment:
    """A drawn part: left edge and width in percent."""

    number: int
    label: str
    value: str
    category: Category
    x: str
    width: str
    centre: str
    numbered: bool


@dataclass(frozen=True)
class Whisker:
    """The interval of a bar, ends and middle in percent."""

    low: str
    high: str
    middle: str


@dataclass(frozen=True)
class Bar:
    """A drawn stack."""

    label: str
    value: str
    note: str
    segments: tuple[Segment, ...]
    whisker: Whisker | None
    emphasised: bool


@dataclass(frozen=True)
class Tick:
    """A line of an axis with its label, percent across or pixels down. A phone shows the `narrow` ones."""

    at: str
    label: str
    anchor: Literal["start", "middle", "end"] = "middle"
    narrow: bool = True


@dataclass(frozen=True)
class Key:
    """An entry of the legend."""

    number: int
    label: str
    category: Category


@dataclass(frozen=True)
class Chart(Block):
    """Stacked bars over one axis."""

    identifier: str
    title: str
    description: str
    predicted: bool
    bars: tuple[Bar, ...]
    ticks: tuple[Tick, ...]
    legend: tuple[Key, ...]
    notes: tuple[str, ...] = ()
    """What must be known to read it."""


def chart(
    identifier: str,
    title: str,
    stacks: Sequence[Stack],
    *,
    write: Callable[[float], str] = units.seconds,
    step: Callable[[float], float] | None = None,
    predicted: bool = False,
) -> Chart:
    """Lays the stacks out under one another, over an axis from 0 to a little past the longest."""
    stacks = _folded(stacks)
    extent = max((_extent(s) for s in stacks), default=0.0) * 1.02 or 1.0
    legend = _legend(stacks)
    bars = tuple(_bar(s, extent, legend, write) for s in stacks)
    return Chart(
        identifier=identifier,
        title=title,
        description=_describe(bars, predicted),
        predicted=predicted,
        bars=bars,
        ticks=_ticks(extent, (step or decimal_step)(extent), write),
        legend=legend,
    )


def percent(share: float) -> str:
    """A share of the width, as SVG writes it."""
    return f"{100 * share:.2f}%"


def decimal_step(extent: float) -> float:
    """The least of 1, 2, 5 times a power of ten that cuts the extent into at most five."""
    power = 10.0 ** math.floor(math.log10(extent / 5))
    return next(m * power for m in (1, 2, 5, 10) if m * power * 5 >= extent)


def binary_step(extent: float) -> float:
    """The same with powers of two, for bytes."""
    return 2.0 ** math.ceil(math.log2(extent / 4))


def _folded(stacks: Sequence[Stack]) -> list[Stack]:
    """Stacks whose rarest parts are joined to "other", so that the legend stays readable."""
    largest: dict[str, float] = {}
    for part in (p for s in stacks for p in s.parts):
        largest[part.key] = max(part.amount, largest.get(part.key, 0))
    if len(largest) <= LEGEND_LIMIT:
        return list(stacks)
    kept = sorted(largest, key=lambda key: -largest[key])[: LEGEND_LIMIT - 1]
    return [_fold(s, set(kept)) for s in stacks]


def _fold(stack: Stack, kept: set[str]) -> Stack:
    rest = sum(p.amount for p in stack.parts if p.key not in kept or p.category == "rest")
    parts = tuple(p for p in stack.parts if p.key in kept and p.category != "rest")
    return Stack(**{**vars(stack), "parts": (*parts, Part("other", "rest", rest))})


def _extent(stack: Stack) -> float:
    return max(sum(p.amount for p in stack.parts), stack.interval[1] if stack.interval else 0.0)


def _legend(stacks: Sequence[Stack]) -> tuple[Key, ...]:
    categories = {p.key: p.category for s in stacks for p in s.parts if p.amount > 0}
    order = list(dict.fromkeys(map(_family, Category.__args__)))  # type: ignore[attr-defined]
    keys = sorted(categories, key=lambda key: order.index(_family(categories[key])))
    return tuple(Key(i, key, categories[key]) for i, key in enumerate(keys, 1))


def _family(category: str) -> str:
    """Shades of one colour stand together."""
    return category.partition("-")[0]


def _bar(stack: Stack, extent: float, legend: tuple[Key, ...], write: Callable[[float], str]) -> Bar:
    return Bar(
        label=words.name(stack.label, LABEL_LENGTH),
        value=stack.value,
        note=stack.note,
        segments=_segments(stack, extent, legend, write),
        whisker=_whisker(stack, extent),
        emphasised=stack.emphasised,
    )


def _segments(
    stack: Stack, extent: float, legend: tuple[Key, ...], write: Callable[[float], str]
) -> tuple[Segment, ...]:
    amounts = {p.key: p.amount for p in stack.parts}
    left, drawn = 0.0, []
    for key in (k for k in legend if amounts.get(k.label, 0) > 0):
        share = amounts[key.label] / extent
        drawn.append(
            Segment(
                number=key.number,
                label=key.label,
                value=write(amounts[key.label]),
                category=key.category,
                x=percent(left),
                width=percent(share),
                centre=percent(left + share / 2),
                numbered=100 * share >= NUMBER_SHARE,
            )
        )
        left += share
    return tuple(drawn)


def _whisker(stack: Stack, extent: float) -> Whisker | None:
    if stack.interval is None or stack.middle is None:
        return None
    low, high = stack.interval
    return Whisker(percent(low / extent), percent(high / extent), percent(stack.middle / extent))


def _ticks(extent: float, step: float, write: Callable[[float], str]) -> tuple[Tick, ...]:
    values = [i * step for i in range(int(extent / step) + 1)]
    return tuple(_tick(value, extent, write) for value in values)


def _tick(value: float, extent: float, write: Callable[[float], str]) -> Tick:
    anchor: Literal["start", "middle", "end"] = (
        "start" if value == 0 else "end" if value > 0.93 * extent else "middle"
    )
    number, _, unit = write(value).partition(" ")
    short = number.rstrip("0").rstrip(".") if "." in number else number
    return Tick(percent(value / extent), f"{short} {unit}" if value else "0", anchor)


def _describe(bars: Sequence[Bar], predicted: bool) -> str:
    word = "predicted " if predicted else ""
    return " ".join(
        f"{bar.label}: {word}{bar.value} ({bar.note}): "
        + ", ".join(f"{segment.label} {segment.value}" for segment in bar.segments)
        + "."
        for bar in bars
    )
