"""Stacked bars: the parts of a frame, measured or predicted.

templates/charts.svg.j2 draws them. Each bar is a picture of its own between its name and its figure, or
beneath them on a phone. Across, positions are percentages, so that text is never scaled. Parts are numbered
as in the legend and named in the description, so that nothing is said by colour alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, cycle
from typing import Literal

from advisor import units
from advisor.profiles.conclusions import counts_latency
from advisor.profiles.schema import Measured, Predicted, Prediction, Profile, Side
from advisor.report import words
from advisor.report.axes import Tick, decimal_step, percent
from advisor.report.blocks import SIGNS, Block
from advisor.verdicts.scores import seconds_of

Category = Literal[
    "host", "host-2", "host-copy", "transfer", "transfer-2", "kernel", "kernel-2", "wait", "rest",
]  # fmt: skip

LABEL_LENGTH = 26
LEGEND_LIMIT = 12
NUMBER_SHARE = 4.6
"""A number needs about 14 px; the narrowest bar is about 310 px wide."""
_OVERLAPPING = (
    "With overlapping frames ({}), stages run at the same time: each part shows its own duration, so the "
    "parts may add up to more than the time per frame, which the bracket shows."
)
_LATENCY = (
    "With overlapping frames ({}), the bracket shows the latency of a frame, which includes waiting for the "
    "frames before and after it."
)
_ROUNDING = 1e-9
_TERMS: dict[str, tuple[str, Category]] = {
    "host-copy": ("host copy", "host-copy"),
    "to-device": ("to-device", "transfer"),
    "to-host": ("to-host", "transfer-2"),
    "synchronize": ("synchronize", "wait"),
}


@dataclass(frozen=True)
class Part:
    key: str
    category: Category
    amount: float


@dataclass(frozen=True)
class Key:
    number: int
    label: str
    category: Category


@dataclass(frozen=True)
class Segment(Key):
    """A drawn part: left edge and width in percent."""

    value: str
    x: str
    width: str
    centre: str
    numbered: bool


@dataclass(frozen=True)
class Stack:
    """One bar: its parts, the value beside its label, the interval around `middle`; `chart` places these.

    `mark` is the sign before its label, `whisker` where the interval's ends and the middle lie on the axis.
    """

    label: str
    value: str
    note: str
    parts: tuple[Part, ...]
    middle: float = 0.0
    interval: tuple[float, float] | None = None
    mark: str = ""
    segments: tuple[Segment, ...] = ()
    whisker: tuple[float, ...] = ()


@dataclass(frozen=True)
class Chart(Block):
    """Stacked bars over one axis. `notes` are what must be known to read it."""

    identifier: str
    title: str
    predicted: bool
    bars: tuple[Stack, ...]
    ticks: tuple[Tick, ...]
    legend: tuple[Key, ...]
    notes: tuple[str, ...] = ()


def marks(of: Profile | Prediction) -> dict[str, str]:
    """Signs of the recommended strategy, or all leaders of an undecided measurement; none without trust."""
    chosen = of.recommendation
    if chosen is None or chosen.strategy is None or chosen.verdict == "untrusted":
        return {}
    if chosen.verdict == "open" and isinstance(of, Profile):
        return dict.fromkeys((chosen.strategy, *chosen.tied_with), SIGNS["rival"])
    return {chosen.strategy: SIGNS["chosen"]}


def frame_chart(profile: Profile) -> Chart:
    signs = marks(profile)
    sides: dict[str, Side] = {s.name: s.side for s in profile.workload.stages}
    here = "on this CPU, not on a GPU" if profile.device.kind == "cpu" else "measured"
    stacks = [_timed(row, _measured_parts(row, sides), signs) for row in profile.measured().values()]
    return chart("frame", f"Time of one frame by stage, {here}", stacks)


def largest_parts(row: Measured, most: int = 3) -> str:
    """Where most of a frame's time goes: produce 22.0 ms, add 4.10 ms and consume 3.00 ms."""
    parts = sorted(_measured_parts(row, {}), key=lambda part: -part.amount)[:most]
    return words.listing(f"{part.key} {units.seconds(part.amount)}" for part in parts if part.amount > 0)


def prediction_chart(prediction: Prediction, index: int) -> Chart:
    signs = marks(prediction)
    rows = sorted((r for r in prediction.results if isinstance(r, Predicted)), key=lambda r: r.likely_seconds)
    stacks = [_timed(row, _predicted_parts(row), signs) for row in rows]
    title = f"Predicted time of one frame by part on {words.name(prediction.device.name)}"
    return chart(f"predicted-{index}", title, stacks, predicted=True)


def overlap_note(profile: Profile, prediction: Prediction | None = None) -> str:
    """Why parts may exceed the frame, measured or predicted; nothing where no frames overlap."""
    rows = prediction.results if prediction else profile.results
    timed = (row for row in rows if isinstance(row, (Measured, Predicted)))
    names = [words.code(row.strategy) for row in timed if row.latency_seconds is not None]
    text = _LATENCY if counts_latency(profile.preferences.objective) else _OVERLAPPING
    return text.format(words.listing(names)) if names else ""


def _timed(row: Measured | Predicted, parts: Iterable[Part], signs: Mapping[str, str]) -> Stack:
    middle, low, high = seconds_of(row)
    value, between = units.seconds(middle), words.seconds_between(low, high)
    return Stack(row.strategy, value, between, tuple(parts), middle, (low, high), signs.get(row.strategy, ""))


def _measured_parts(row: Measured, sides: Mapping[str, Side]) -> Iterator[Part]:
    shades = _shades()
    parts = [
        Part(words.name(stage, 40), next(shades[sides[stage]]) if stage in sides else "rest", seconds)
        for stage, seconds in row.stage_seconds.items()
    ]
    if row.host_copy_seconds is not None:
        parts.append(Part(*_TERMS["host-copy"], row.host_copy_seconds))
    parts.append(Part("copies", "transfer", row.transfer_seconds))
    parts.append(Part("synchronize", "wait", row.synchronize_seconds))
    yield from parts
    # Parts are medians of their own: they seldom add up to the median of the frame exactly. Where frames
    # overlap, the difference means nothing.
    rest = row.median_seconds - sum(part.amount for part in parts)
    if row.latency_seconds is None and rest > _ROUNDING * row.median_seconds:
        yield Part("other", "rest", rest)


def _shades() -> dict[str, Iterator[Category]]:
    """Two shades for each side, in turn, so that neighbours differ."""
    return {"host": cycle(("host", "host-2")), "device": cycle(("kernel", "kernel-2"))}


def _predicted_parts(row: Predicted) -> Iterator[Part]:
    shades = _shades()
    for term, seconds in row.terms.items():
        side, _, stage = term.partition(":")
        if stage and side in shades:
            yield Part(words.name(stage, 40), next(shades[side]), seconds)
        else:
            yield Part(*_TERMS.get(term, (words.name(term, 40), "rest")), seconds)


def chart(identifier: str, title: str, stacks: Sequence[Stack], *, predicted: bool = False) -> Chart:
    """Lays the stacks out under one another, over an axis from 0 to a little past the longest."""
    stacks = _folded(stacks)
    ends = (max(sum(p.amount for p in s.parts), s.interval[1] if s.interval else 0.0) for s in stacks)
    extent = max(ends, default=0.0) * 1.02 or 1.0
    legend = _legend(stacks)
    bars = tuple(_bar(s, extent, legend) for s in stacks)
    return Chart(identifier, title, predicted, bars, _ticks(extent, decimal_step(extent)), legend)


def _folded(stacks: Sequence[Stack]) -> list[Stack]:
    """Joins the smallest parts of the stacks to "other", so that the legend stays readable."""
    largest: dict[str, float] = {}
    for part in (p for s in stacks for p in s.parts):
        largest[part.key] = max(part.amount, largest.get(part.key, 0))
    if len(largest) <= LEGEND_LIMIT:
        return list(stacks)
    largest_keys, folded = set(sorted(largest, key=lambda key: -largest[key])[: LEGEND_LIMIT - 1]), []
    for stack in stacks:
        parts = [p for p in stack.parts if p.key in largest_keys and p.category != "rest"]
        rest = sum(p.amount for p in stack.parts if p not in parts)
        folded.append(replace(stack, parts=(*parts, Part("other", "rest", rest))))
    return folded


def _legend(stacks: Sequence[Stack]) -> tuple[Key, ...]:
    categories = {p.key: p.category for s in stacks for p in s.parts if p.amount > 0}
    order = [category.partition("-")[0] for category in Category.__args__]  # type: ignore[attr-defined]
    keys = sorted(categories, key=lambda key: order.index(categories[key].partition("-")[0]))
    return tuple(Key(i, key, categories[key]) for i, key in enumerate(keys, 1))


def _bar(stack: Stack, extent: float, legend: tuple[Key, ...]) -> Stack:
    amounts = {p.key: p.amount for p in stack.parts}
    keys = [key for key in legend if amounts.get(key.label, 0) > 0]
    shares = [amounts[key.label] / extent for key in keys]
    segments = tuple(
        Segment(
            **vars(key),
            value=units.seconds(amounts[key.label]),
            x=percent(start),
            width=percent(share),
            centre=percent(start + share / 2),
            numbered=100 * share >= NUMBER_SHARE,
        )
        for key, share, start in zip(keys, shares, accumulate(shares, initial=0.0), strict=False)
    )
    whisker = tuple(at / extent for at in (*stack.interval, stack.middle)) if stack.interval else ()
    name = words.name(stack.label, LABEL_LENGTH)
    return replace(stack, label=name, segments=segments, whisker=whisker)


def _ticks(extent: float, step: float) -> tuple[Tick, ...]:
    ticks = [Tick(0.0, "0")]
    for i in range(1, int(extent / step) + 1):
        number, _, unit = units.seconds(i * step).partition(" ")
        short = number.rstrip("0").rstrip(".") if "." in number else number
        ticks.append(Tick(i * step / extent, f"{short} {unit}"))
    return tuple(ticks)
