"""Plain text of at most 80 columns: what fits a screen of 25 lines, everything, or the verdict alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TypeVar

from advisor.report import blocks, words
from advisor.report.answer import Answer, Answers, Bar
from advisor.report.page import Page, Section, kept_rows, shown
from advisor.report.text import MARK, WIDTH, Shown, bar, joined, missing, tables, wrap

LINES = 22
"""With a blank line, the files that were written and what opens a trace, that is 25."""
_ALL = 10**6
_REASON = 300
_VERDICT = 4
"""Lines of a verdict, however little room there is: the rest serves it."""
_STATE = " " * 10
_FINE = ("ok", "info")
"""States of a finding that ask for nothing."""
_Shown = TypeVar("_Shown")


@dataclass(frozen=True)
class Room:
    """Most `rows` of a table, devices, lines of a sentence; `most` of anything else."""

    rows: int = 8
    most: int = 3
    lines: int = 3
    devices: int = 4
    brief: bool = True

    @property
    def tight(self) -> bool:
        """Whether a row of a table is worth more than a next step or a reason."""
        return self.lines == 1


EVERYTHING = Room(_ALL, _ALL, _ALL, _ALL, brief=False)
ROOMS = (
    *(Room(rows) for rows in (8, 7, 6, 5)),
    *(Room(rows, 3, 2) for rows in (6, 5, 4, 3, 2)),
    *(Room(rows, 2, 2) for rows in (5, 4, 3, 2)),
    *(Room(rows, 1, 2) for rows in (5, 3, 2)),
    *(Room(rows, 1, 1, 12) for rows in (4, 3, 2, 1, 0)),
)


def render(page: Page, *, bars: bool = False, details: bool = False) -> str:
    """What fits a screen, in the largest room that leaves it so short; or everything.

    `bars` are for a terminal, where they take the place of the intervals.
    """
    if details:
        return "\n".join(_written(page, EVERYTHING, bars)) + "\n"
    tried = (_written(page, room, bars) for room in ROOMS)
    lines = next((lines for lines in tried if len(lines) <= LINES), _written(page, ROOMS[-1], bars))
    if len(lines) > LINES:
        lines = [*lines[: LINES - 1], f"… {len(lines) - LINES + 1} more lines: --details"]
    return "\n".join(lines) + "\n"


def verdict(page: Page) -> str:
    """Each verdict in its own line, for scripts and --quiet."""
    told: list[blocks.Verdict] = []
    for block in chain.from_iterable(shown(section, "txt") for section in page.sections if section.lead):
        if isinstance(block, Answers):
            told += block.over or [answer.verdict for answer in block.items]
        told += block.items if isinstance(block, blocks.Verdicts) else ()
    return "\n".join(f"{f'{v.device}: ' * (len(told) > 1)}{_decided(v)}" for v in told) or _title(page)


def _decided(told: blocks.Verdict) -> str:
    return told.headline + (f" ({told.certainty})" if told.certainty else "")


def _written(page: Page, room: Room, bars: bool) -> list[str]:
    writer = _Writer(page, room, bars)
    paragraphs = [wrap(_title(page)), *chain.from_iterable(map(writer.section, page.sections))]
    left = ", ".join(words.count(number, f"more {noun}") for noun, number in writer.left.items())
    paragraphs.append(wrap(f"… {left}: --details" if left else ""))
    return "\n\n".join("\n".join(lines) for lines in paragraphs if lines).split("\n")


def _title(page: Page) -> str:
    said = {"predicted": ": predicted. Nothing was measured on a GPU.", "nothing": ": without a GPU"}
    return f"{page.name} {page.where}".rstrip() + said.get(page.basis, "")


class _Writer:
    """Writes a block by the method of its name; what has none, such as a chart, is left out.

    `left` counts what there was no room for.
    """

    def __init__(self, page: Page, room: Room, bars: bool) -> None:
        self.room, self.bars, self.indent = room, bars, ""
        told = (block for section in page.sections for block in shown(section, "txt"))
        found = (block for block in told if isinstance(block, blocks.Table))
        self.kinds = words.grouped(found, lambda table: table.kind)
        self.beside_table = False
        self.left: Counter[str] = Counter()

    def section(self, section: Section) -> Iterator[list[str]]:
        """Its paragraphs; on a screen those of the sections that are `brief` alone."""
        if self.room.brief and not (section.lead or section.brief):
            return
        self.indent, told = "  " if section.lead else "", shown(section, "txt")
        self.beside_table = not section.lead and any(isinstance(b, blocks.Table) for b in told)
        for block in told:
            yield from getattr(self, type(block).__name__.lower(), lambda _: iter(()))(block)

    def first(self, items: Sequence[_Shown], noun: str, most: int = 0) -> Sequence[_Shown]:
        """The first items that there is room for; the others are counted."""
        kept = items[: most or self.room.most]
        self.leave(len(items) - len(kept), noun)
        return kept

    def leave(self, number: int, noun: str) -> None:
        """Counts what is left out."""
        if number > 0:
            self.left[noun] += number

    def wrap(self, text: str, indent: str = "", hanging: str = "") -> list[str]:
        """Lines, as many as there is room for."""
        return wrap(text, indent, hanging, most=self.room.lines)

    def answers(self, block: Answers) -> Iterator[list[str]]:
        """Verdict and chart of each device, then the advice for all. With --details the tables tell more."""
        mixes = self.wrap(f"Mixes: {block.mixes}" if block.mixes else "", self.indent)
        kept, alone = self.first(block.items, "device", self.room.devices), len(block.items) == 1
        told = list(zip(kept, self._charts(kept), strict=True))
        if alone:
            yield [*self._device(kept[0].verdict, named=False, reasons=not self.room.brief), *mixes]
        over = [self._verdict(told, self.indent) for told in block.over]
        beneath = [] if alone else mixes
        yield from [[*chain.from_iterable(over), *beneath]] if self.room.tight else [*over, beneath]
        if alone or not self.room.brief:
            for answer, chart in told:
                yield [] if alone else self._device(answer.verdict, named=True, reasons=True)
                gone, path = missing(answer.missing) if self.room.brief else [], answer.apart
                apart = f"{path.label} {path.value}; {path.note}" if path else ""
                yield [*chart, *gone, *self.wrap(apart, self.indent)]
        else:
            devices = [
                [*self._one_of_several(answer), *chart[min(i, 1) :]] for i, (answer, chart) in enumerate(told)
            ]
            yield from devices if self.room.rows > 2 else [list(chain.from_iterable(devices))]
        if self.room.brief:
            every = [found for answer in block.items for found in answer.advice]
            yield self._advice(list({(found.title, found.saves): found for found in every}.values()))

    def _one_of_several(self, answer: Answer) -> list[str]:
        """Its sentence; in a line where the rows beneath say the rest."""
        said = answer.verdict.headline.removeprefix("Predicted: ")
        most = 1 if self.room.tight and self.room.rows else _VERDICT
        return wrap(f"{answer.verdict.device}: {said}", self.indent, most=most)

    def verdicts(self, block: blocks.Verdicts) -> Iterator[list[str]]:
        reasons = self.room.lines >= ROOMS[0].lines
        kept = self.first(block.items, "verdict", self.room.devices)
        if self.room.tight and len(kept) > 1:
            said = (f"{f'{told.device}: ' * block.named}{_decided(told)}" for told in kept)
            yield [line for text in said for line in wrap(text, self.indent, most=_VERDICT)]
        else:
            yield from (self._device(told, named=block.named, reasons=reasons) for told in kept)

    def _device(self, told: blocks.Verdict, *, named: bool, reasons: bool) -> list[str]:
        inner = self.indent + "  " * named
        return [*(wrap(told.device, self.indent) if named else []), *self._verdict(told, inner, reasons)]

    def _verdict(self, told: blocks.Verdict, indent: str, reasons: bool = False) -> list[str]:
        texts = [_decided(told), told.remark, *[told.reason] * reasons]
        texts += [f"Next: {told.next_step}"] * bool(told.next_step)
        first, *others = filter(None, texts)
        decided = wrap(first, indent, most=max(self.room.lines, _VERDICT))
        return [*decided, *(line for text in others for line in self.wrap(text, indent))]

    def _charts(self, answers: Sequence[Answer]) -> list[list[str]]:
        """For each device the recommended strategy, the baseline and the fastest of the others.

        Equal ones are one line; the columns are those of all devices.
        """
        kept = [answer.leading(self.room.rows) for answer in answers]
        with_heads = [[None, *some] if some else [] for some in kept]
        bars = [(answer, bar) for answer, some in zip(answers, with_heads, strict=True) for bar in some]
        figures = [self._figures(answer, bar) for answer, bar in bars]
        room = WIDTH - len(MARK) - sum(2 + max(map(len, column)) for column in zip(*figures, strict=True))
        names = [joined(bar.names, room) if bar else words.line(answer.counts, room) for answer, bar in bars]
        right = [False, True, not (self.bars and self.room.brief), *[True] * (2 if self.room.brief else 3)]
        rows = [(name, *each) for name, each in zip(names, figures, strict=True)]
        marks = (MARK if bar and bar.chosen else "  " for _, bar in bars)
        lines = (f"{mark}{line}" for mark, line in zip(marks, words.table(rows, right), strict=True))
        return [
            [*islice(lines, len(some)), *self._beneath(answer, [bar for bar in some if bar])]
            for answer, some in zip(answers, with_heads, strict=True)
        ]

    def _beneath(self, answer: Answer, kept: Sequence[Bar]) -> Iterator[str]:
        if not kept:
            return
        self.leave(sum(len(bar.names) for bar in answer.bars if bar not in kept), "strategy")
        for note in self._notes(answer, kept):
            yield from self.wrap(note, "  ")

    def _notes(self, answer: Answer, kept: Sequence[Bar]) -> Iterator[str]:
        """What must be known of a time; with all room, who is equal and who took no part in the final."""
        yield from (f"({bar.name}: {bar.latency})" for bar in kept if bar.latency)
        if not self.room.brief:
            yield from (f"(memory: {of})" for of in (answer.memory_of,) if of)
            yield from (f"({', '.join(bar.names)}: equal)" for bar in kept if len(bar.names) > 1)
            outside = words.grouped((bar for bar in kept if bar.note), lambda bar: bar.note)
            yield from (f"({', '.join(bar.name for bar in same)}: {why})" for why, same in outside.items())

    def _figures(self, answer: Answer, shown: Bar | None) -> tuple[str, ...]:
        """The cells of a bar after its name; without one the head's."""
        if shown is None:
            return "", "", "gain" if answer.against else "", *[""] * (not self.room.brief), "memory"
        between = shown.between
        if not self.room.brief:
            gain = shown.ratio_between.replace("× to ", "–").replace("×", "")
            return shown.value, between, shown.ratio, gain, shown.memory
        if self.bars:
            ends = [answer.share(end) / 100 for end in (shown.low, shown.amount, shown.high)]
            between = bar(*ends, predicted=answer.predicted)
        return shown.value, between, shown.ratio, shown.memory

    def _advice(self, found: Sequence[blocks.Finding]) -> list[str]:
        """Titles, a line each, with what they save."""
        lines = []
        for told in self.first(found, "finding"):
            room = WIDTH - 4 - len(told.saves)
            lines.append(f"  {words.line(told.title, room):<{room}}  {told.saves}".rstrip())
        return ["Advice (times are per frame):", *lines] if lines else []

    def table(self, table: blocks.Table) -> Iterator[list[str]]:
        """In a tight room all of a kind stand together, and a head that they share is said once."""
        alike, heads = self.kinds[table.kind], set[str]()
        if not self.room.tight:
            yield from self._table(table, heads)
        elif table is alike[0]:
            each = (self._table(one, heads) for one in alike)
            yield list(chain.from_iterable(chain.from_iterable(each)))

    def _table(self, table: blocks.Table, heads: set[str]) -> list[list[str]]:
        """Without its head where that is among `heads`, the ones before it."""
        _, kept = self._shown(table)
        if not kept:
            return []
        self.leave(sum(not row.missing for row in table.rows) - len(kept), "row")
        alike = map(self._shown, self.kinds[table.kind])
        told, left = tables(table, kept, alike, whole=not self.room.brief)
        self.leave(left, table.left_out or "column")
        head, *rows = told[0]
        told[0] = [*self.wrap(table.title), *[head] * (head not in heads), *rows]
        heads.add(head)
        return told

    def _shown(self, table: blocks.Table) -> Shown:
        rows = tuple(row for row in table.rows if not row.missing)
        return table, kept_rows(rows, self.room.rows)

    def prose(self, block: blocks.Prose) -> Iterator[list[str]]:
        if self.indent or not self.room.brief:
            yield self.wrap(": ".join(filter(None, (block.label, block.whole))), self.indent)

    def banners(self, block: blocks.Banners) -> Iterator[list[str]]:
        hanging = "  " if self.indent else "    "
        texts = (f"{block.label.capitalize()}: {text}" for text in self.first(block.texts, block.label))
        yield [line for text in texts for line in self.wrap(text, self.indent, hanging)]

    def failures(self, block: blocks.Failures) -> Iterator[list[str]]:
        """What failed, the end of its traceback, and what to do."""
        for failure in self.first(block.items, "failure"):
            yield [
                *self.wrap(failure.headline, "  ", "  "),
                *(f"      {line}" for line in failure.excerpt.splitlines()[-self.room.lines :]),
                *self.wrap(f"Next: {failure.next_step}", "    ", "  "),
            ]

    def facts(self, block: blocks.Facts) -> Iterator[list[str]]:
        if self.room.tight and self.beside_table:
            self.leave(len(block.facts), "fact")
            return
        inner = self.indent + "  " if block.title else self.indent
        lines = wrap(block.title, self.indent)
        for fact in block.facts:
            note = f" ({fact.note})" if fact.note else ""
            lines += self.wrap(f"{fact.label}: {fact.value}{note}", inner, "    ")
        yield lines

    def items(self, block: blocks.Items) -> Iterator[list[str]]:
        if self.room.brief and not block.label:
            self.leave(len(block.items) * self.room.tight, "reason")
            yield [] if self.room.tight else missing(block.items)
        else:
            yield [line for item in block.items for line in self._item(item, block.label)]

    def _item(self, item: blocks.Item, label: str) -> Iterator[str]:
        """On a screen the first of several reasons, in the same line."""
        who = " ".join(filter(None, (label, words.listing(item.names), item.status if item.text else "")))
        said = words.line(item.text, _REASON) or item.status
        beside, beneath = (item.points[:1], ()) if self.room.brief else ((), item.points)
        self.leave(len(item.points) - len(beside or beneath), "reason")
        yield from self.wrap(f"{who}: {': '.join((said, *beside))}", self.indent, "    ")
        for point in beneath:
            yield from wrap(point, self.indent + "  ", "  ")

    def findings(self, block: blocks.Findings) -> Iterator[list[str]]:
        """On a screen what was found, and the next step of what is not fine."""
        found = [self._finding(finding) for finding in block.items]
        yield from [list(chain.from_iterable(found))] if self.room.brief else found

    def _finding(self, found: blocks.Finding) -> list[str]:
        lines = self.wrap(f"{f'[{found.outcome}]':<10}{found.rule}: {found.title}", self.indent, _STATE)
        if not self.room.brief:
            lines += wrap(found.detail, self.indent + _STATE)
        if found.next_step and not (self.room.brief and found.outcome in _FINE):
            lines += self.wrap(f"next: {found.next_step}", self.indent + _STATE)
        return lines

    def bullets(self, block: blocks.Bullets) -> Iterator[list[str]]:
        yield [line for text in block.texts for line in self.wrap(f"- {text}", self.indent, "  ")]
