"""Where the time of a frame goes: its parts, measured or predicted, in the chart's bars and in a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Literal

from advisor import units
from advisor.profiles.conclusions import counts_latency
from advisor.profiles.schema import Measured, Predicted, Prediction, Profile, Side
from advisor.report import words
from advisor.report.blocks import NOTHING, SIGNS, Table, TableCell, columns
from advisor.report.blocks import row as table_row
from advisor.verdicts.scores import seconds_of

Category = Literal[
    "host", "host-2", "host-copy", "transfer", "transfer-2", "kernel", "kernel-2", "wait", "rest",
]  # fmt: skip
_ORDER = [category.partition("-")[0] for category in Category.__args__]  # type: ignore[attr-defined]

MOST = 12
"""Parts that have a name of their own; the smallest others are joined."""
_OVERLAPPING = (
    "With overlapping frames ({}), stages run at the same time: each part shows its own duration, so the "
    "parts may add up to more than the time per frame."
)
_LATENCY = (
    "With overlapping frames ({}), the time per frame is the latency, which includes waiting for the frames "
    "before and after it."
)
_ROUNDING = 1e-9
Timed = Measured | Predicted
_TERMS: dict[str, tuple[str, Category]] = {
    "host-copy": ("host copy", "host-copy"),
    "to-device": ("copy to device", "transfer"),
    "to-host": ("copy to host", "transfer-2"),
    "synchronize": ("synchronize", "wait"),
}


@dataclass(frozen=True)
class Part:
    """A stage, the copies or the waiting of a frame, in seconds; its category is its colour."""

    key: str
    category: Category
    amount: float

    @property
    def value(self) -> str:
        return units.seconds(self.amount)


def marks(of: Profile | Prediction) -> dict[str, str]:
    """Signs of the recommended strategy, or all leaders of an undecided measurement; none without trust."""
    chosen = of.recommendation
    if chosen is None or chosen.strategy is None or chosen.verdict == "untrusted":
        return {}
    if chosen.verdict == "open" and isinstance(of, Profile):
        return dict.fromkeys((chosen.strategy, *chosen.tied_with), SIGNS["rival"])
    return {chosen.strategy: SIGNS["chosen"]}


def parts_of(of: Profile | Prediction) -> dict[str, tuple[Part, ...]]:
    """The parts of each strategy's frame in the order of their kinds, host stages first."""
    if isinstance(of, Prediction):
        single = {row.strategy: tuple(_predicted(row)) for row in of.results if isinstance(row, Predicted)}
    else:
        sides: dict[str, Side] = {s.name: s.side for s in of.workload.stages}
        single = {name: tuple(_measured(row, sides)) for name, row in of.measured().items()}
    return _joined(single)


def where_time_goes(parts: Sequence[Part], strategy: str, base: Sequence[Part], baseline: str) -> str:
    """The largest parts of a frame, and what the baseline spends most of its additional time on."""
    largest = sorted(parts, key=lambda part: -part.amount)[:3]
    listed = words.listing(f"{part.key} {part.value}" for part in largest if part.amount > 0)
    if not listed:
        return ""
    mine = {part.key: part.amount for part in parts}
    more = [(part.amount - mine.get(part.key, 0.0), part.key) for part in base if part.category != "rest"]
    seconds, key = max(more, default=(0.0, ""))
    differs = f"; {words.code(baseline)} spends {units.seconds(seconds)} more on {key}" * (seconds > 0)
    return f"A frame of {words.code(strategy)}: {listed}{differs}."


def parts_table(of: Profile | Prediction, order: Iterable[Timed], caption: str, identifier: str) -> Table:
    """The parts of each row's frame, beside the whole."""
    parts, rows = parts_of(of), []
    keys = legend(parts.values())
    for row in order:
        amounts = {part.key: part for part in parts[row.strategy]}
        middle, low, high = seconds_of(row)
        frame = TableCell(units.seconds(middle), words.seconds_between(low, high), sort=middle)
        cells = (
            TableCell(amounts[key].value, sort=amounts[key].amount) if key in amounts else NOTHING
            for key in keys
        )
        rows.append(table_row(words.name(row.strategy), frame, *cells))
    return Table(
        "parts",
        "strategy",
        columns("frame", *keys),
        tuple(rows),
        caption=caption,
        identifier=identifier,
        predicted=isinstance(of, Prediction),
        sortable=True,
        forms="html",
    )


def legend(frames: Iterable[Sequence[Part]]) -> dict[str, Category]:
    """The colour of each part, in the order in which bars show them."""
    colours = {part.key: part.category for parts in frames for part in parts}
    return dict(sorted(colours.items(), key=lambda pair: _ORDER.index(pair[1].partition("-")[0])))


def overlap_note(profile: Profile, prediction: Prediction | None = None) -> str:
    """Why parts may exceed the frame, measured or predicted; nothing where no frames overlap."""
    rows = prediction.results if prediction else profile.results
    timed = (row for row in rows if isinstance(row, (Measured, Predicted)))
    names = [words.code(row.strategy) for row in timed if row.latency_seconds is not None]
    text = _LATENCY if counts_latency(profile.preferences.objective) else _OVERLAPPING
    return text.format(words.listing(names)) if names else ""


def _measured(row: Measured, sides: Mapping[str, Side]) -> Iterator[Part]:
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


def _predicted(row: Predicted) -> Iterator[Part]:
    shades = _shades()
    for term, seconds in row.terms.items():
        side, _, stage = term.partition(":")
        if stage and side in shades:
            yield Part(words.name(stage, 40), next(shades[side]), seconds)
        else:
            yield Part(*_TERMS.get(term, (words.name(term, 40), "rest")), seconds)


def _joined(frames: Mapping[str, tuple[Part, ...]]) -> dict[str, tuple[Part, ...]]:
    """The parts of each frame in the legend's order, the smallest joined where there are too many."""
    largest: dict[str, float] = {}
    for part in (part for parts in frames.values() for part in parts):
        largest[part.key] = max(part.amount, largest.get(part.key, 0.0))
    many = len(largest) > MOST
    named = sorted(largest, key=lambda key: -largest[key])[: MOST - many]
    joined = {}
    for name, parts in frames.items():
        whole = [part for part in parts if part.key in named and not (many and part.key == "other")]
        rest = sum(part.amount for part in parts if part not in whole)
        joined[name] = [part for part in (*whole, Part("other", "rest", rest)) if part.amount > 0]
    order = list(legend(joined.values()))
    return {
        name: tuple(sorted(parts, key=lambda part: order.index(part.key))) for name, parts in joined.items()
    }
