"""What a reader sees first, as data: the verdict, a chart of the strategies, what to change, the best advice.

`answering` makes it of a profile, once for all forms; each form draws it as far as it has room.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from advisor.report import words
from advisor.report.blocks import SIGNS, Block, Fact, Finding, Item, Table, Verdict
from advisor.report.parts import Category, Part, legend

SNIPPET_LINES = 15
"""Lines of code on the first screen; all of it is folded below."""


@dataclass(frozen=True)
class Bar:
    """A strategy in the chart, or several that are equal and need the same memory; `name` is the one shown.

    `amount` is what the objective counts, with its interval from `low` to `high`: seconds, or joules. `ratio`
    is the baseline's over it. The other texts are ready: `between` is the interval, `note` why it took no
    part in the final, `parts` where its time goes. `brief`: a phone or a terminal with little room shows it.
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
    brief: bool = False

    @property
    def name(self) -> str:
        """The recommended one, or the fastest of them."""
        return self.names[0]

    @property
    def mark(self) -> str:
        """The sign before its name: recommended, or one of those that are still undecided."""
        return SIGNS["rival"] if self.tied else SIGNS["chosen"] if self.chosen else ""

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

    def heart(self, whole: str) -> str:
        """The imports and the excerpt; nothing if that was shortened. whole: the file with all the code."""
        if not self.code.endswith(self.excerpt):
            return ""
        before = self.code.removesuffix(self.excerpt).splitlines()
        imports = [line for line in before if line.startswith(("import ", "from "))]
        helpers = sum(map(bool, before)) - len(imports)
        remark = f"# {helpers} lines of helper functions, in {whole}"
        return "\n".join([*imports, *["", remark] * bool(helpers), *[""] * bool(before), self.excerpt])


@dataclass(frozen=True)
class Answer:
    """The answer for one device; `verdict.headline` is the sentence.

    `counts` heads the chart's figures: time per frame, energy. `against` is the baseline's name, `memory_of`
    what the bars' memory is of. `apart`, of a prediction, is the device path beside the host's stages, timed
    on this CPU. `buffers` says where a mix places each. `unchanged` says if no code is to change. `advice`
    are the three of the largest gain, `missing` the strategies without figures by status. `extent` is the end
    of the chart's axis.
    """

    verdict: Verdict
    bars: tuple[Bar, ...] = ()
    counts: str = "time per frame"
    against: str = ""
    memory_of: str = ""
    apart: Fact | None = None
    buffers: Table | None = None
    change: Change | None = None
    unchanged: str = ""
    advice: tuple[Finding, ...] = ()
    missing: tuple[Item, ...] = ()
    extent: float = 1.0

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

    def leading(self, most: int) -> list[Bar]:
        ranked = sorted(self.bars, key=lambda bar: not (bar.chosen or bar.baseline))[:most]
        return [bar for bar in self.bars if bar in ranked]

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
class Answers(Block):
    """The answers for one device or several. `over` are the sentences over all of several devices.

    `linked`: the page has a section with the advice.
    """

    items: tuple[Answer, ...]
    over: tuple[Verdict, ...] = ()
    linked: bool = True

    @property
    def sentences(self) -> tuple[Verdict, ...]:
        return self.over or tuple(answer.verdict for answer in self.items)

    @property
    def advice(self) -> list[tuple[Finding, str]]:
        """The advice for all devices, the largest saving first; with its devices where these are not all."""
        once = {(one.title, one.saves): one for answer in self.items for one in answer.advice}
        ordered = sorted(once.values(), key=lambda finding: -finding.seconds)
        return [(one, one.where * (len(one.devices) < len(self.items))) for one in ordered]

    @property
    def legend(self) -> dict[str, Category]:
        """The colours of the bars' parts."""
        return legend(bar.parts for answer in self.items for bar in answer.bars)

    @property
    def changes(self) -> list[tuple[Change, str, int]]:
        """Each code once, with its devices in words and their number."""
        alike = words.grouped((answer for answer in self.items if answer.change), lambda a: a.change)
        named = [(change, [a.verdict.device for a in where]) for change, where in alike.items() if change]
        return [(change, words.listing(devices), len(devices)) for change, devices in named]
