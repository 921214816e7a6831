"""Plain text of at most 80 columns: what fits a screen of 25 lines, everything, or the verdict alone."""

from __future__ import annotations

import math
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

from advisor.report import blocks, words
from advisor.report.answer import Answer, Answers, Bar
from advisor.report.page import Page, Section, shown

WIDTH = 80
LINES = 22
"""With a blank line, the files that were written and what opens a trace, that is 25."""
MARK = "→ "
BAR = 12
"""Cells of a whole bar."""
_EIGHTHS = " ▏▎▍▌▋▊▉"
_NAME, _HEAD, _CELL, _JOINED = 12, 24, 50, 34
"""A table's names may give way to so few columns; its heads and cells are cut to so many. Of joined names."""
_REASON = 300
_ALL = 10**6
_STATE = " " * 10
_FINE = ("ok", "info")
"""States of a finding that ask for nothing."""
_MORE = "--details"
_Shown = TypeVar("_Shown")


@dataclass(frozen=True)
class Room:
    """How much is shown of each kind: `rows` of a table, `most` of anything else, lines of a sentence."""

    rows: int = 8
    most: int = 3
    lines: int = 3
    brief: bool = True


EVERYTHING = Room(_ALL, _ALL, _ALL, brief=False)
ROOMS = (
    *(Room(rows) for rows in (8, 7, 6, 5)),
    *(Room(rows, 2, 2) for rows in (5, 4, 3)),
    *(Room(rows, 1, 2) for rows in (3, 2)),
    Room(1, 1, 1),
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
        lines = [*lines[: LINES - 1], f"… {len(lines) - LINES + 1} more lines: {_MORE}"]
    return "\n".join(lines) + "\n"


def verdict(page: Page) -> str:
    """Each device's verdict in a line of its own, for scripts and for who wants no more."""
    lines = []
    for block in chain.from_iterable(shown(section, "txt") for section in page.sections):
        told = block.items if isinstance(block, blocks.Verdicts) else ()
        if isinstance(block, Answers):
            told = block.over or tuple(answer.verdict for answer in block.items)
        lines += [f"{f'{v.device}: ' * (len(told) > 1)}{_decided(v)}" for v in told]
    return "\n".join(lines) + "\n"


def _decided(verdict: blocks.Verdict) -> str:
    return verdict.headline + (f" ({verdict.certainty})" if verdict.certainty else "")


def _written(page: Page, room: Room, bars: bool) -> list[str]:
    writer = _Writer(room, bars)
    paragraphs = [wrap(_title(page)), *chain.from_iterable(map(writer.section, page.sections))]
    if writer.left:
        told = ", ".join(words.count(number, f"more {noun}") for noun, number in writer.left.items())
        paragraphs.append(wrap(f"… {told}: {_MORE}"))
    return "\n\n".join("\n".join(lines) for lines in paragraphs if lines).split("\n")


def _title(page: Page) -> str:
    said = {"predicted": ": predicted. Nothing was measured on a GPU.", "nothing": ": without a GPU"}
    return f"{page.name} {page.where}".rstrip() + said.get(page.basis, "")


class _Writer:
    """Writes a block by the method of its name; what has none, such as a chart, is left out.

    `left` counts what there was no room for.
    """

    def __init__(self, room: Room, bars: bool) -> None:
        self.room, self.bars, self.indent = room, bars, ""
        self.left: Counter[str] = Counter()

    def section(self, section: Section) -> Iterator[list[str]]:
        """Its paragraphs; with little room those of sections that are `brief` alone."""
        if self.room.brief and not (section.lead or section.brief):
            return
        self.indent = "  " if section.lead else ""
        for block in shown(section, "txt"):
            yield from getattr(self, type(block).__name__.lower(), lambda _: iter(()))(block)

    def first(self, items: Sequence[_Shown], noun: str) -> Sequence[_Shown]:
        """As many as there is room for; the others are counted."""
        self._leave(len(items) - self.room.most, noun)
        return items[: self.room.most]

    def _leave(self, number: int, noun: str) -> None:
        if number > 0:
            self.left[noun] += number

    def wrap(self, text: str, indent: str = "", hanging: str = "") -> list[str]:
        """Lines, the last of them cut where there are too many."""
        lines = wrap(text, indent, hanging)
        if len(lines) <= self.room.lines:
            return lines
        last = lines[self.room.lines - 1]
        return [*lines[: self.room.lines - 1], f"{last[: WIDTH - 2].rstrip(' ,;:.')} …"]

    def answers(self, block: Answers) -> Iterator[list[str]]:
        """For each device the verdict and the chart, and what has no figures; then the advice for all."""
        yield from (self._verdict(told) for told in block.over)
        named = len(block.items) > 1
        for answer in self.first(block.items, "device"):
            told = self._verdict(answer.verdict, named=named, reasons=not named)
            chart = [*self._chart(answer), *self._missing(answer.missing)]
            yield from ([*told, *chart],) if named else (told, chart)
        yield self._advice(list(dict.fromkeys(found for answer in block.items for found in answer.advice)))

    def verdicts(self, block: blocks.Verdicts) -> Iterator[list[str]]:
        for told in self.first(block.items, "verdict"):
            yield self._verdict(told, named=block.named, reasons=block.reasons)

    def _verdict(self, told: blocks.Verdict, *, named: bool = False, reasons: bool = True) -> list[str]:
        """The sentence and what to do next; its reason where there is room for everything."""
        if named and self.room.brief:
            return self.wrap(f"{told.device}: {_decided(told)}", self.indent, "  ")
        inner = self.indent + "  " * named
        texts = [_decided(told), *(f"{f.label}: {f.value}, {f.note}" for f in told.facts if f.brief)]
        texts += [told.reason] * (reasons and not self.room.brief)
        texts += [f"Next: {told.next_step}"] * bool(told.next_step)
        lines = [line for text in texts for line in self.wrap(text, inner)]
        return [*(wrap(told.device, self.indent) if named else []), *lines]

    def _chart(self, answer: Answer) -> list[str]:
        """The recommended strategy, the baseline and the fastest of the others, equal ones in one line."""
        ranked = sorted(answer.bars, key=lambda bar: not (bar.chosen or bar.baseline))[: self.room.rows]
        kept = [bar for bar in answer.bars if bar in ranked]
        if not kept:
            return []
        self._leave(sum(len(bar.names) for bar in answer.bars if bar not in ranked), "strategy")
        drawn = [self._drawn(answer, bar) for bar in kept]
        head = ("strategy", answer.counts, "", f"vs {answer.against}", "memory")
        lines = words.table([head, *drawn], [False, True, not self.bars, True, True])
        marks = ("  ", *(MARK if bar.chosen else "  " for bar in kept))
        overlapping = (f"({_joined(bar.names)}: {bar.latency})" for bar in kept if bar.latency)
        beneath = [line for text in overlapping for line in self.wrap(text, "  ", "  ")]
        return [*(f"{mark}{line}" for mark, line in zip(marks, lines, strict=True)), *beneath]

    def _drawn(self, answer: Answer, bar: Bar) -> tuple[str, ...]:
        interval = bar.between
        if self.bars:
            ends = (answer.share(end) / 100 for end in (bar.low, bar.amount, bar.high))
            interval = shaded(*ends) if answer.predicted else measured(*ends)
        return _joined(bar.names), bar.value, interval, bar.ratio, bar.memory

    def _missing(self, missing: Sequence[tuple[str, tuple[str, ...]]]) -> list[str]:
        told = "; ".join(f"{status}: {', '.join(names)}" for status, names in missing)
        return self.wrap(told, "  ", "  ")

    def _advice(self, found: Sequence[blocks.Finding]) -> list[str]:
        """Titles, a line each, with what they save."""
        kept = self.first(found, "finding")
        if not kept:
            return []
        titles = [(words.name(f.title, WIDTH - 4 - len(f.saves)), f.saves) for f in kept]
        return ["Advice (times are per frame):", *(f"  {line}" for line in words.table(titles, (False, True)))]

    def table(self, table: blocks.Table) -> Iterator[list[str]]:
        """The table, what is to be known of it beneath; further tables where its columns do not fit."""
        told = [row for row in table.rows if not row.missing]
        rows = blocks.kept_rows(tuple(told), self.room.rows)
        if not rows:
            return
        self._leave(len(told) - len(rows), "row")
        names = [table.names, *(row.name for row in rows)]
        columns = _columns(table, rows)
        groups, left = _fitting(columns, min(max(map(len, names)), _NAME), whole=not (table.left_out or self.room.brief))
        self._leave(left, table.left_out or "column")
        tables = [list(_lines(table, rows, names, strips)) for strips in groups]
        tables[0] = [*self.wrap(table.title), *tables[0]]
        tables[-1] += [line for text in _notes(table, rows) for line in self.wrap(text, "  ")]
        yield from tables

    def prose(self, block: blocks.Prose) -> Iterator[list[str]]:
        label = f"{block.label}: " if block.label else ""
        yield self.wrap(f"{label}{block.whole}", self.indent)

    def banners(self, block: blocks.Banners) -> Iterator[list[str]]:
        hanging = "  " if self.indent else "    "
        texts = (f"{block.label.capitalize()}: {text}" for text in self.first(block.texts, block.label))
        yield [line for text in texts for line in self.wrap(text, self.indent, hanging)]

    def failures(self, block: blocks.Failures) -> Iterator[list[str]]:
        """What failed, the end of its traceback, and what to do."""
        for failure in self.first(block.items, "failure"):
            excerpt = failure.excerpt.splitlines()
            yield [
                *self.wrap(failure.headline, "  ", "  "),
                *(f"      {line}" for line in excerpt[-self.room.lines :]),
                *self.wrap(f"Next: {failure.next_step}", "    ", "  "),
            ]

    def facts(self, block: blocks.Facts) -> Iterator[list[str]]:
        inner = self.indent + "  " if block.title else self.indent
        lines = wrap(block.title, self.indent)
        for fact in block.facts:
            note = f" ({fact.note})" if fact.note else ""
            lines += self.wrap(f"{fact.label}: {fact.value}{note}", inner, "    ")
        yield lines

    def items(self, block: blocks.Items) -> Iterator[list[str]]:
        if self.room.brief and not any(item.points for item in block.items):
            told = "; ".join(f"{item.status}: {', '.join(item.names)}" for item in block.items)
            yield self.wrap(f"{block.label} {told}".strip(), self.indent, "  ")
            return
        yield [line for item in self.first(block.items, "reason") for line in self._item(item, block.label)]

    def _item(self, item: blocks.Item, label: str) -> Iterator[str]:
        who = " ".join(filter(None, (label, words.listing(item.names), item.status if item.text else "")))
        yield from self.wrap(f"{who}: {words.line(item.text, _REASON) or item.status}", self.indent, "    ")
        for point in self.first(item.points, "reason"):
            yield from self.wrap(point, self.indent + "  ", "  ")

    def findings(self, block: blocks.Findings) -> Iterator[list[str]]:
        """With little room what was found, and the next step where something is missing."""
        brief, made = self.room.brief, []
        for found in block.items:
            lines = self.wrap(f"{f'[{found.outcome}]':<10}{found.rule}: {found.title}", self.indent, _STATE)
            step = f"next: {found.next_step}" if found.next_step else ""
            if not brief:
                lines += wrap(found.detail, self.indent + _STATE)
            if not brief or found.outcome not in _FINE:
                lines += self.wrap(step, self.indent + _STATE)
            made.append(lines)
        yield from [list(chain.from_iterable(made))] if brief else made

    def bullets(self, block: blocks.Bullets) -> Iterator[list[str]]:
        yield [line for text in block.texts for line in self.wrap(f"- {text}", self.indent, "  ")]


def _joined(names: Sequence[str]) -> str:
    """Equal strategies, as many as fit, and how many more."""
    for kept in range(len(names), 0, -1):
        rest = f" +{len(names) - kept}" * (kept < len(names))
        told = ", ".join(names[:kept]) + rest
        if len(told) <= _JOINED:
            return told
    return words.name(names[0], _JOINED - len(rest)) + rest


def measured(low: float, value: float, high: float) -> str:
    """A bar up to a measured value, shaded between the ends of its interval, where these lie apart."""
    return _bar(low, value, high, "█", "▒")


def shaded(low: float, value: float, high: float) -> str:
    """A bar of what is predicted."""
    return _bar(low, value, high, "▒", "░")


def _bar(low: float, value: float, high: float, solid: str, shade: str) -> str:
    first, last = int(BAR * low), math.ceil(BAR * high)
    if last - first > 1:
        return solid * first + shade * (last - first)
    full, eighths = divmod(max(1, round(8 * BAR * value)), 8)
    return solid * full + (_EIGHTHS[eighths].strip() if solid == "█" else shade)


@dataclass(frozen=True)
class _Strip:
    """A column of text with its head, and whether it stands to the right."""

    lines: tuple[str, ...]
    right: bool = True

    @property
    def width(self) -> int:
        return max(map(len, self.lines))


def _lines(
    table: blocks.Table, rows: Sequence[blocks.Row], names: Sequence[str], strips: Sequence[_Strip]
) -> Iterator[str]:
    room = WIDTH - len(MARK) - sum(strip.width + 2 for strip in strips)
    first = [words.name(name, max(room, _NAME)) if name else "" for name in names]
    body = list(zip(first, *(strip.lines for strip in strips), strict=True))
    lines = words.table(body, [table.by_number, *(strip.right for strip in strips)])
    for mark, line in zip((False, *(row.chosen for row in rows)), lines, strict=True):
        if line:
            yield f"{MARK if mark else '  '}{line}"


def _columns(table: blocks.Table, rows: Sequence[blocks.Row]) -> list[list[_Strip]]:
    """Each column as one or two of text: the value, and what qualifies it."""
    made = []
    for i, column in enumerate(table.columns):
        if "txt" not in column.forms:
            continue
        cells = [row.cells[i] for row in rows]
        head = words.line(column.brief or column.head, _HEAD) + " (predicted)" * (column.basis == "predicted")
        values = (blocks.SIGNS.get(cell.mark, "") + words.line(cell.value, _CELL) for cell in cells)
        strips = [_Strip((head.replace("`", ""), *values), column.figures)]
        if table.brief_notes and any(c.note for c in cells):
            notes = (words.line(c.note.replace("× to ", "–").replace("×", ""), _HEAD) for c in cells)
            strips.append(_Strip((column.notes, *notes)))
        made.append(strips)
    return made


def _fitting(columns: list[list[_Strip]], names: int, *, whole: bool) -> tuple[list[list[_Strip]], int]:
    """Columns that fit beside one another, table after table; or the first of them, and how many more.

    First are those with what is recommended.
    """
    widths = [sum(strip.width + 2 for strip in strips) for strips in columns]
    beside = room = WIDTH - len(MARK) - names
    if not whole:
        matter = [any(line.startswith(MARK) for line in strips[0].lines) for strips in columns]
        kept: list[int] = []
        for i in sorted(range(len(columns)), key=lambda i: not matter[i]):
            if widths[i] <= room or not kept:
                kept.append(i)
                room -= widths[i]
        return [[strip for i in sorted(kept) for strip in columns[i]]], len(columns) - len(kept)
    groups: list[list[_Strip]] = [[]]
    for strips, width in zip(columns, widths, strict=True):
        if width > room and groups[-1]:
            groups.append([])
            room = beside
        groups[-1] += strips
        room -= width
    return groups, 0


def _notes(table: blocks.Table, rows: Sequence[blocks.Row]) -> Iterator[str]:
    for column in table.columns:
        if column.note and "txt" in column.forms:
            yield f"({column.brief or column.head}: {column.note})"
    for row in rows:
        yield from (f"({row.name}: {cell.more})" for cell in row.cells if cell.more)
    if table.note:
        yield f"({table.note})"


def wrap(text: str, indent: str = "", hanging: str = "") -> list[str]:
    """Lines of at most 80 columns; `hanging` goes before all but the first. No unit leaves its number."""
    joined = _UNIT.sub("\N{NO-BREAK SPACE}", text)
    lines = textwrap.wrap(
        joined, WIDTH, initial_indent=indent, subsequent_indent=indent + hanging, break_on_hyphens=False
    )
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


_UNIT = re.compile(r"(?<=\d) (?=(?:%|[nµm]?s|[KMGT]iB|GB/s|bytes)(?!\w))")
"""The space between a number and its unit."""
