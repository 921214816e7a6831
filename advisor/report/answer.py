"""What a reader sees first, as data: the verdict, a chart of the strategies, what to change, the best advice.

The bars show where the time of a frame goes: its parts, measured or predicted, which a table has too.
`answering` makes an answer of a profile, once for all forms; each form draws it as far as it has room.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import cycle
from typing import Literal

from advisor import units
from advisor.profiles.schema import Measured, Predicted, Prediction, Profile, Side
from advisor.report import blocks, words
from advisor.report.blocks import row as table_row
from advisor.verdicts.scores import seconds_of

Category = Literal[
    "host", "host-2", "host-copy", "transfer", "transfer-2", "kernel", "kernel-2", "wait", "rest",
]  # fmt: skip
_ORDER = [category.partition("-")[0] for category in Category.__args__]  # type: ignore[attr-defined]

MOST = 12
"""Parts that have a name of their own; the smallest others are joined."""
_OVERLAPPING = (
    "Frames of {} overlap: stages run at the same time, so parts may add up to more than a frame, and a "
    "latency includes waiting for the frames before and after."
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
        return dict.fromkeys((chosen.strategy, *chosen.tied_with), blocks.SIGNS["rival"])
    return {chosen.strategy: blocks.SIGNS["chosen"]}


def parts_of(of: Profile | Prediction) -> dict[str, tuple[Part, ...]]:
    """The parts of each strategy's frame in the order of their kinds, host stages first; `MOST` by name."""
    if isinstance(of, Prediction):
        frames = {row.strategy: tuple(_predicted(row)) for row in of.results if isinstance(row, Predicted)}
    else:
        sides: dict[str, Side] = {s.name: s.side for s in of.workload.stages}
        frames = {name: tuple(_measured(row, sides)) for name, row in of.measured().items()}
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
    order = list(legend(joined.values())).index
    return {name: tuple(sorted(parts, key=lambda p: order(p.key))) for name, parts in joined.items()}


def where_time_goes(frames: Mapping[str, Sequence[Part]], strategy: str, baseline: str) -> str:
    """The largest parts of a frame, and what the baseline spends most of its additional time on."""
    parts, base = frames.get(strategy, ()), frames.get(baseline, ())
    largest = sorted(parts, key=lambda part: -part.amount)[:3]
    listed = words.listing(f"{part.key} {part.value}" for part in largest if part.amount > 0)
    if not listed:
        return ""
    mine = {part.key: part.amount for part in parts}
    more = [(part.amount - mine.get(part.key, 0.0), part.key) for part in base if part.category != "rest"]
    seconds, key = max(more, default=(0.0, ""))
    differs = f"; {words.code(baseline)} spends {units.seconds(seconds)} more on {key}" * (seconds > 0)
    return f"A frame of {words.code(strategy)}: {listed}{differs}."


def parts_table(of: Profile | Prediction, order: Iterable[Timed], caption: str) -> blocks.Table:
    parts = parts_of(of)
    rows = []
    predicted = isinstance(of, Prediction)
    keys = legend(parts.values())
    for row in order:
        amounts = {part.key: part for part in parts[row.strategy]}
        middle, low, high = seconds_of(row)
        frame = blocks.TableCell(units.seconds(middle), words.seconds_between(low, high), sort=middle)
        shown = (amounts.get(key) for key in keys)
        cells = (blocks.TableCell(p.value, sort=p.amount) if p else blocks.NOTHING for p in shown)
        rows.append(table_row(words.name(row.strategy), frame, *cells))
    table = blocks.Table("parts", "strategy", blocks.columns("frame", *keys), tuple(rows), caption)
    return replace(table, predicted=predicted, sortable=True, forms="html")


def legend(frames: Iterable[Sequence[Part]]) -> dict[str, Category]:
    """The colour of each part, in the order in which bars show them."""
    colours = {part.key: part.category for parts in frames for part in parts}
    return dict(sorted(colours.items(), key=lambda pair: _ORDER.index(pair[1].partition("-")[0])))


def overlap_note(of: Profile | Prediction) -> str:
    """Why parts may exceed the frame, measured or predicted; nothing where no frames overlap."""
    timed = (row for row in of.results if isinstance(row, (Measured, Predicted)))
    names = [words.code(row.strategy) for row in timed if row.latency_seconds is not None]
    return _OVERLAPPING.format(words.listing(names)) if names else ""


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


BRIEF = 5
"""Bars on a phone."""
REACH = 4.0
SNIPPET_LINES = 15
"""Lines of code on the first screen; all of it is folded below."""


@dataclass(frozen=True)
class Bar:
    """A strategy in the chart, or several that are equal and need the same memory; `name` is the one shown.

    `amount` is what the objective counts, with its interval from `low` to `high`: seconds, or joules. `ratio`
    is the baseline's over it. The other texts are ready: `between` is the interval, `note` why it took no
    part in the final, `parts` where its time goes.
    """

    names: tuple[str, ...]
    amount: float
    low: float
    high: float
    value: str
    between: str
    memory: str
    memory_bytes: int
    ratio: str = ""
    ratio_between: str = ""
    speed: float | None = None
    latency: str = ""
    note: str = ""
    parts: tuple[Part, ...] = ()
    chosen: bool = False
    tied: bool = False
    baseline: bool = False

    @property
    def name(self) -> str:
        """The recommended one, or the fastest of them."""
        return self.names[0]

    @property
    def mark(self) -> str:
        """The sign before its name: recommended, or one of those that are still undecided."""
        return blocks.SIGNS["rival"] if self.tied else blocks.SIGNS["chosen"] if self.chosen else ""

    @property
    def tip(self) -> str:
        ratio = f"gain {self.ratio} ({self.ratio_between})" if self.ratio_between else self.ratio
        parts = (f"{self.value} ({self.between})", ratio, self.memory, self.latency, self.note)
        return f"{', '.join(self.names)}: {', '.join(filter(None, parts))}"


@dataclass(frozen=True)
class Change:
    """Code for the recommended strategy. `excerpt` is its main part, up to 15 lines; `code` is all."""

    strategy: str
    excerpt: str
    code: str
    variants: tuple[tuple[str, str], ...] = ()

    @property
    def lines(self) -> int:
        return self.code.count("\n") + 1


@dataclass(frozen=True)
class Answer:
    """The answer for one device; `verdict.headline` is the sentence. Bars of the final come first, by time.

    `counts` heads the chart's figures: time per frame, energy. `against` is the baseline's name, `memory_of`
    what the bars' memory is of. `apart`, of a prediction, is the device path beside the host's stages, timed
    on this CPU. `buffers` says where a mix places each. `unchanged` says if no code is to change. `advice`
    are the three of the largest gain, `missing` the strategies without figures by status.
    """

    verdict: blocks.Verdict
    bars: tuple[Bar, ...] = ()
    counts: str = "time per frame"
    against: str = ""
    memory_of: str = ""
    apart: blocks.Fact | None = None
    buffers: blocks.Table | None = None
    change: Change | None = None
    unchanged: str = ""
    advice: tuple[blocks.Finding, ...] = ()
    missing: tuple[blocks.Item, ...] = ()

    @property
    def chosen(self) -> str:
        return next((bar.name for bar in self.bars if bar.chosen), "")

    @property
    def predicted(self) -> bool:
        return self.verdict.basis == "predicted"

    @property
    def likely(self) -> bool:
        """Whether its strategy is no more than likely the best, as its own headline says."""
        return self.verdict.tone == "inconclusive"

    def leading(self, most: int = BRIEF) -> list[Bar]:
        """The chosen and the baseline's, then the best; where none is chosen, the best comes first."""
        first = [bar for bar in self.bars if bar.chosen] or self.bars[:1]
        ranked = sorted(self.bars, key=lambda bar: not (bar in first or bar.baseline))[:most]
        return [bar for bar in self.bars if bar in ranked]

    @cached_property
    def extent(self) -> float:
        """The end of the chart's axis: at `REACH` times the best, or at the baseline if that is slower."""
        best = self.bars[0].amount
        return 1.12 * max(b.amount for b in self.bars if b.baseline or b.amount <= REACH * best)

    def share(self, amount: float) -> float:
        """Percent of the chart's width; what is beyond its end is cut there."""
        return round(100 * min(amount / self.extent, 1.0), 2)

    def segments(self, bar: Bar) -> Iterator[tuple[Part, float, float]]:
        """The parts of a bar with left edge and width in percent; shares of it where they overlap in time."""
        whole, begin = sum(part.amount for part in bar.parts), 0.0
        for part in bar.parts:
            end = begin + bar.amount * part.amount / whole
            left = self.share(begin)
            yield part, left, round(self.share(end) - left, 2)
            begin = end


@dataclass(frozen=True)
class Answers(blocks.Block):
    """The answers for one device or several. `over` are the sentences over all of several devices.

    `linked`: the page has a section with the advice.
    """

    items: tuple[Answer, ...]
    over: tuple[blocks.Verdict, ...] = ()
    linked: bool = True

    @property
    def sentences(self) -> tuple[blocks.Verdict, ...]:
        return self.over or tuple(answer.verdict for answer in self.items)

    @property
    def advice(self) -> list[tuple[blocks.Finding, str]]:
        """The advice for all devices, the largest saving first; with its devices where these are not all."""
        found = (one for answer in self.items for one in answer.advice)
        once = [
            replace(same[-1], devices=tuple(dict.fromkeys(device for one in same for device in one.devices)))
            for same in words.grouped(found, lambda one: (one.title, one.saves)).values()
        ]
        ordered = sorted(once, key=lambda finding: -finding.seconds)
        return [(one, one.where * (len(one.devices) < len(self.items))) for one in ordered]

    @property
    def legend(self) -> dict[str, Category]:
        return legend(bar.parts for answer in self.items for bar in answer.bars)

    @property
    def changes(self) -> list[tuple[Change, str, int]]:
        """Each code once, with its devices in words and their number."""
        alike = words.grouped((answer for answer in self.items if answer.change), lambda a: a.change)
        named = [(change, [a.verdict.device for a in where]) for change, where in alike.items() if change]
        return [(change, words.listing(devices), len(devices)) for change, devices in named]
