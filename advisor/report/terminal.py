"""Plain text as wide as the terminal: what fits a screen of 25 lines, everything, or the verdict alone."""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from advisor.report import blocks, words
from advisor.report.answer import Answer, Answers, Bar
from advisor.report.page import Page, Section, kept_rows, shown

WIDTH: ContextVar[int] = ContextVar("columns", default=80)
LINES = 22
"""With a blank line, the files that were written and what opens a trace, that is 25."""
MARK = "→ "
BAR = 12
"""Cells of a whole bar."""
_EIGHTHS = " ▏▎▍▌▋▊▉"
_NAME, _HEAD, _CELL, _REASON = 12, 30, 50, 300
"""Least columns for a table's names; most characters of its heads, its cells, and of a reason."""
_ALL = 10**6
_WHOLE = 12
"""Rows of a table that a screen shows whole."""
_FINE = ("ok", "info")
"""States of a finding that ask for nothing."""
_CLAUSE = re.compile("[(;:.]")
"""A short reason ends here."""
_UNIT = re.compile(r"(?<=\d) (?=(?:%|[nµm]?s|[KMGT]iB|[GM]B/s|bytes)(?!\w))")
"""The space between a number and its unit."""
_Shown = TypeVar("_Shown")
_Column = tuple[str, bool, Sequence[str]]
"""Head, whether it stands to the right, cells."""


@dataclass(frozen=True)
class Room:
    """Most `rows` of a table, `most` of anything else, `lines` of a sentence."""

    rows: int
    most: int
    lines: int
    devices: int = 4


EVERYTHING = Room(_ALL, _ALL, _ALL, _ALL)
SCREENS = (Room(8, 3, 3), Room(6, 3, 2), Room(4, 3, 2), Room(3, 2, 2), Room(2, 1, 1), Room(1, 1, 1))


def render(page: Page, *, bars: bool = False, details: bool = False, width: int = 80) -> str:
    """What fits a screen, in the largest room that leaves it so short; or everything.

    `bars` are for a terminal, where they take the place of the intervals.
    """
    WIDTH.set(width)
    most = max(LINES, LINES * 80 // width)
    tried = (_Writer(room, bars).page(page) for room in ([EVERYTHING] if details else SCREENS))
    lines: list[str] = []
    for lines in tried:
        if details or len(lines) <= most:
            break
    else:
        end = next(i for i in range(most - 1, 0, -1) if not isinstance(lines[i], _Rest))
        lines = [*lines[:end], f"… {len(lines) - end} more lines: --details"]
    return "\n".join(lines) + "\n"


class _Rest(str):
    """A line that goes on with the text of the line before it: no screen ends between the two."""


def verdict(page: Page) -> str:
    """Each verdict in its own line, for scripts and --quiet."""
    told: list[blocks.Verdict] = []
    for block in chain.from_iterable(shown(section, "txt") for section in page.sections if section.lead):
        if isinstance(block, Answers):
            told += block.sentences
        told += block.items if isinstance(block, blocks.Verdicts) else ()
    return "\n".join(f"{f'{v.device}: ' * (len(told) > 1)}{_decided(v)}" for v in told) or _title(page)


def wrap(text: str, indent: str = "", hanging: str = "", most: int = _ALL) -> list[str]:
    """As many whole sentences as `most` lines hold, the first at least; `hanging` goes before all lines but
    the first. No unit leaves its number."""
    sentences, lines = words.sentences(_UNIT.sub("\N{NO-BREAK SPACE}", text)), list[str]()
    for count in range(len(sentences), 0, -1):
        lines = textwrap.wrap(
            " ".join(sentences[:count]),
            WIDTH.get(),
            initial_indent=indent,
            subsequent_indent=indent + hanging,
            break_on_hyphens=False,
        )
        if len(lines) <= most:
            break
    first, *rest = (line.replace("\N{NO-BREAK SPACE}", " ") for line in lines or [""])
    return [first, *map(_Rest, rest)] if lines else []


def bar(low: float, value: float, high: float, *, predicted: bool) -> str:
    """A share of a whole bar, lighter between the ends of its interval where these lie apart."""
    solid, light = ("▒", "░") if predicted else ("█", "▒")
    first, last = int(BAR * low), math.ceil(BAR * high)
    if last - first > 1:
        return solid * first + light * (last - first)
    if predicted:
        return solid * max(1, round(BAR * value))
    full, eighths = divmod(max(1, round(8 * BAR * value)), 8)
    return solid * full + _EIGHTHS[eighths].strip()


def grid(
    columns: Sequence[_Column], marks: Sequence[str], least: int = 0, *, wraps: bool = True
) -> list[str]:
    """Aligned columns below their heads, each row after its mark; the names, which come first, wrap or are
    shortened."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="", show_header=False)
    names, *others = ([head, *cells] for head, _, cells in columns)
    left = max(WIDTH.get() - len(MARK) - sum(2 + max(map(cell_len, cells)) for cells in others), _NAME)
    wide = min(max(least, *map(cell_len, names)), left)
    for i, (_, right, _) in enumerate(columns):
        table.add_column(justify="right" if right else "left", no_wrap=bool(i), min_width=0 if i else wide)
    before = []
    for mark, name, *cells in zip(("", *marks), names, *others, strict=True):
        short = name if cell_len(name) <= wide else f"{set_cell_size(name, wide - 1).rstrip()}…"
        lines = (textwrap.wrap(name, wide) or [""]) if wraps else [short]
        table.add_row(*map(Text, ("\n".join(lines), *cells)))
        before += [mark, *[""] * (len(lines) - 1)]
    console = Console(file=io.StringIO(), width=4 * WIDTH.get(), color_system=None, force_jupyter=False)
    with console.capture() as drawn:
        console.print(table)
    return [
        f"{m:<2}{line}".rstrip()[: WIDTH.get()]
        for m, line in zip(before, drawn.get().splitlines(), strict=True)
    ]


def _decided(told: blocks.Verdict) -> str:
    return ". ".join(filter(None, (told.headline, told.remark)))


def _title(page: Page) -> str:
    said = {"predicted": ": predicted. Nothing was measured on a GPU.", "nothing": ": without a GPU"}
    return f"{page.name} {page.where}".rstrip() + said.get(page.basis, "")


def missing(items: Sequence[blocks.Item]) -> list[str]:
    """What has no figures, in a line: with the first clause of each reason where these fit."""
    alike, lines = words.grouped(items, lambda item: item.status), [""] * 2
    for reasons in (True, False):
        told = [
            f"{status}: {', '.join(', '.join(item.names) + _short(item.text) * reasons for item in same)}"
            for status, same in alike.items()
        ]
        lines = lines if len(lines) < 2 else wrap("; ".join(told), "  ", "  ")
    return lines


def _short(reason: str) -> str:
    clause = _CLAUSE.split(reason)[0].strip()
    return f" ({clause})" if clause else ""


class _Writer:
    """Writes a block by the method of its name; what has none, such as a chart, is left out.

    `left` counts what there was no room for.
    """

    def __init__(self, room: Room, bars: bool) -> None:
        self.room, self.bars, self.indent, self.brief = room, bars, "", room is not EVERYTHING
        self.left: Counter[str] = Counter()

    def page(self, page: Page) -> list[str]:
        paragraphs = [wrap(_title(page)), *chain.from_iterable(map(self.section, page.sections))]
        left = ", ".join(words.count(n, f"more {noun}") for noun, n in self.left.items() if n > 0)
        paragraphs.append(wrap(f"… {left}: --details" if left else ""))
        return [line for lines in paragraphs if lines for line in ("", *lines)][1:]

    def section(self, section: Section) -> Iterator[list[str]]:
        """Its paragraphs; on a screen those of the sections that are `brief` alone."""
        if self.brief and not (section.lead or section.brief):
            return
        told, tight = shown(section, "txt"), self.room.lines == 1 and not section.lead
        if tight and any(isinstance(block, blocks.Table) for block in told):
            self.left["fact"] += sum(len(block.facts) for block in told if isinstance(block, blocks.Facts))
            told = tuple(block for block in told if not isinstance(block, blocks.Facts))
        self.indent = "  " if section.lead else ""
        writers = (getattr(self, type(block).__name__.lower(), lambda _: iter(())) for block in told)
        paragraphs = chain.from_iterable(write(block) for write, block in zip(writers, told, strict=True))
        yield from [list(chain.from_iterable(paragraphs))] if tight else paragraphs

    def first(self, items: Sequence[_Shown], noun: str, most: int = 0) -> Sequence[_Shown]:
        """The first items that there is room for; the others are counted."""
        kept = items[: most or self.room.most]
        self.left[noun] += len(items) - len(kept)
        return kept

    def wrap(self, text: str, indent: str = "", hanging: str = "") -> list[str]:
        return wrap(text, indent, hanging, most=self.room.lines)

    def answers(self, block: Answers) -> Iterator[list[str]]:
        """Verdicts, the chart of each device, the advice for all, which with --details is in the findings."""
        alone = len(block.items) == 1
        several: list[str] = []
        told = (self._verdict(verdict, self.indent, not self.brief and alone) for verdict in block.sentences)
        yield list(chain.from_iterable(told)) if alone or block.over else []
        kept = self.first(block.items, "device", self.room.devices)
        names = (_joined(bar.names) for answer in kept for bar in answer.leading(self.room.rows))
        least = max(map(cell_len, names), default=0)
        for answer in kept:
            path = answer.apart
            apart = self.wrap(f"{path.label} {path.value}; {path.note}", self.indent) if path else []
            chart = self._chart(answer, least, head=not (self.brief and several))
            if alone:
                yield [*chart, *(missing(answer.missing) if self.brief else ()), *apart]
            elif self.brief:
                said = answer.verdict.headline.removeprefix("Predicted: ")
                several += [*self.wrap(f"{answer.verdict.device}: {said}", self.indent), *chart]
            else:
                yield self._device(answer.verdict, named=True, reasons=True)
                yield [*chart, *apart]
        yield several
        if self.brief:
            every = [found for answer in block.items for found in answer.advice]
            once = {(found.title, found.saves): found for found in every}
            yield self._advice(list(once.values()), len(block.items))

    def verdicts(self, block: blocks.Verdicts) -> Iterator[list[str]]:
        kept, reasons = self.first(block.items, "verdict", self.room.devices), self.room.lines > 2
        told = [self._device(told, named=block.named, reasons=reasons) for told in kept]
        if self.room.lines == 1 and len(kept) > 1:
            lines = (wrap(f"{v.device}: {v.headline}", self.indent) for v in kept)
            told = [list(chain.from_iterable(lines))]
        yield from told

    def _device(self, told: blocks.Verdict, *, named: bool, reasons: bool) -> list[str]:
        device = wrap(told.device, self.indent) if named else []
        return [*device, *self._verdict(told, self.indent + "  " * named, reasons)]

    def _verdict(self, told: blocks.Verdict, indent: str, reasons: bool = False) -> list[str]:
        texts = (told.remark, told.reason * reasons, f"Next: {told.next_step}" * bool(told.next_step))
        return [line for text in (told.headline, *filter(None, texts)) for line in self.wrap(text, indent)]

    def _chart(self, answer: Answer, least: int, *, head: bool) -> list[str]:
        """The recommended strategy, the baseline and the fastest of the others; equal ones are one line."""
        kept = answer.leading(self.room.rows)
        if not kept:
            return []
        self.left["strategy"] += sum(len(bar.names) for bar in answer.bars if bar not in kept)
        figures = [self._figures(answer, bar) for bar in kept]
        gain = "gain" * bool(answer.against)
        heads = ["", "", gain, "memory"] if self.brief else ["", "", gain, "", "memory"]
        right = [True, not (self.bars and self.brief), True, *[True] * (1 if self.brief else 2)]
        columns: list[_Column] = [(answer.counts, False, [_joined(bar.names) for bar in kept])]
        columns += zip(heads, right, zip(*figures, strict=True), strict=True)
        lines = grid(columns, [bar.mark for bar in kept], least)
        notes = (line for note in self._notes(answer, kept) for line in self.wrap(note, "  "))
        return [*lines[not head :], *notes]

    def _figures(self, answer: Answer, bar_: Bar) -> tuple[str, ...]:
        between = bar_.between
        if not self.brief:
            gain = bar_.ratio_between.replace("× to ", "–").replace("×", "")
            return bar_.value, between, bar_.ratio, gain, bar_.memory
        if self.bars:
            ends = [answer.share(end) / 100 for end in (bar_.low, bar_.amount, bar_.high)]
            between = bar(*ends, predicted=answer.predicted)
        return bar_.value, between, bar_.ratio, bar_.memory

    def _notes(self, answer: Answer, kept: Sequence[Bar]) -> Iterator[str]:
        """What must be known of a time; with all room, who is equal and who took no part in the final."""
        yield from (f"({bar.name}: {bar.latency})" for bar in kept if bar.latency)
        if not self.brief:
            yield from (f"(memory: {of})" for of in (answer.memory_of,) if of)
            yield from (f"({', '.join(bar.names)}: equal)" for bar in kept if len(bar.names) > 1)
            outside = words.grouped((bar for bar in kept if bar.note), lambda bar: bar.note)
            yield from (f"({', '.join(bar.name for bar in same)}: {why})" for why, same in outside.items())

    def _advice(self, found: Sequence[blocks.Finding], devices: int) -> list[str]:
        lines = []
        for told in self.first(found, "finding"):
            room = WIDTH.get() - 4 - len(told.saves)
            title = f"{told.title} ({told.places})" if told.lines else told.title
            title += f" on {told.where}" if len(told.devices) < devices else ""
            if room < _NAME:
                lines += wrap(f"{title}: {told.saves}", "  ", "  ")
                continue
            first, *rest = textwrap.wrap(title, room)
            lines += [f"  {first:<{room}}  {told.saves}".rstrip(), *(f"    {line}" for line in rest)]
        return ["Advice (times are per frame):", *lines] if lines else []

    def table(self, table: blocks.Table) -> Iterator[list[str]]:
        """On a screen the columns that fit, recommended ones first; otherwise the rest follows below."""
        known = tuple(_with_cells(row, table) for row in table.rows if table.whole or not row.missing)
        rows = kept_rows(known, max(self.room.rows, _WHOLE) if table.whole else self.room.rows)
        self.left["row"] += len(known) - len(rows)
        if not rows:
            return
        columns = [_columns(table, rows, i) for i, c in enumerate(table.columns) if "txt" in c.forms]
        groups = _fitting(columns, whole=not self.brief)
        if sum(map(len, groups)) < len(columns):  # notes go before columns do
            columns = [column[:1] for column in columns]
            groups = _fitting(columns, whole=False)
        self.left[table.left_out or "column"] += len(columns) - sum(map(len, groups))
        names = table.names, table.by_number, [row.name for row in rows]
        marks, wraps = [""] * len(rows), not table.source_lines
        lines = [grid([names, *chain.from_iterable(group)], marks, wraps=wraps) for group in groups]
        heads = (c for c in table.columns if c.note and "txt" in c.forms)
        notes = (line for c in heads for line in wrap(f"({c.brief or c.head}: {c.note})", "  "))
        yield [*self.wrap(table.title), *lines[0], *(notes if len(lines) == 1 else ())]
        yield from lines[1:-1]
        yield [*lines[-1], *notes] if len(lines) > 1 else []

    def prose(self, block: blocks.Prose) -> Iterator[list[str]]:
        if self.indent or not self.brief:
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
        inner = self.indent + "  " * bool(block.title)
        texts = (f"{f.label}: {f.value}{f' ({f.note})' if f.note else ''}" for f in block.facts)
        lines = (line for text in texts for line in self.wrap(text, inner, "    "))
        yield [*wrap(block.title, self.indent), *lines]

    def items(self, block: blocks.Items) -> Iterator[list[str]]:
        """On a screen the first of several reasons, in the same line."""
        if self.brief and not block.label:
            yield missing(block.items)
            return
        lines = []
        for item in block.items:
            who = (block.label, words.listing(item.names), item.status if item.text else "")
            beside, beneath = (item.points[:1], ()) if self.brief else ((), item.points)
            self.left["reason"] += len(item.points) - len(beside or beneath)
            said = ": ".join((words.line(item.text, _REASON) or item.status, *beside))
            lines += self.wrap(f"{' '.join(filter(None, who))}: {said}", self.indent, "    ")
            lines += [line for point in beneath for line in wrap(point, self.indent + "  ", "  ")]
        yield lines

    def findings(self, block: blocks.Findings) -> Iterator[list[str]]:
        """On a screen what was found, and the next step of what is not fine."""
        found, inner = [], self.indent + " " * 10
        for finding in block.items:
            state = f"{f'[{finding.outcome}]':<10}{finding.rule}: {finding.title}"
            state += f" ({finding.places})" if finding.lines else ""
            lines = self.wrap(state, self.indent, " " * 10)
            lines += [] if self.brief else wrap(finding.detail, inner)
            if finding.next_step and not (self.brief and finding.outcome in _FINE):
                lines += self.wrap(f"next: {finding.next_step}", inner)
            found.append(lines)
        yield from [list(chain.from_iterable(found))] if self.brief else found

    def source(self, block: blocks.Source) -> Iterator[list[str]]:
        """The lines that moved something, with all room."""
        marked = [row for row in block.rows if row.marked]
        columns: list[_Column] = [
            (block.file, False, [f"{row.number:>5}  {row.text.strip()}" for row in marked]),
            *([("time", True, [row.time for row in marked])] if block.timed else []),
            ("bytes", True, [row.size for row in marked]),
            ("calls", True, [row.count for row in marked]),
        ]
        yield grid(columns, [""] * len(marked)) if marked else []

    def bullets(self, block: blocks.Bullets) -> Iterator[list[str]]:
        yield [line for text in block.texts for line in self.wrap(f"- {text}", self.indent, "  ")]


def _joined(names: Sequence[str]) -> str:
    most = 1 if any(", " in name for name in names) else 2  # a mix is named by its buffers
    return f"{', '.join(names[:most])}{f' +{len(names) - most}' * (len(names) > most)}"


def _with_cells(row: blocks.Row, table: blocks.Table) -> blocks.Row:
    """A row without cells has its status, the first words of the reason, in the first of them."""
    told = row.missing.partition(":")[0]
    blank = (blocks.TableCell(told), *[blocks.TableCell("")] * (len(table.columns) - 1))
    return replace(row, cells=blank) if row.missing else row


def _columns(table: blocks.Table, rows: Sequence[blocks.Row], i: int) -> list[_Column]:
    """A column as one or two of text: the values, and what qualifies them."""
    column, cells = table.columns[i], [row.cells[i] for row in rows]
    head = words.line(column.brief or column.head, _HEAD) + " (predicted)" * (column.basis == "predicted")
    values = [blocks.SIGNS.get(cell.mark, "") + words.line(cell.value, _CELL) for cell in cells]
    notes = [words.line(cell.note.replace("× to ", "–").replace("×", ""), _HEAD) for cell in cells]
    beside = [(column.notes, True, notes)] if table.brief_notes and any(notes) else []
    return [(head.replace("`", ""), column.figures, values), *beside]


def _fitting(columns: list[list[_Column]], *, whole: bool) -> list[list[list[_Column]]]:
    """Columns that fit beside one another, table after table; or one table of them, in their order."""
    order = list(range(len(columns)))
    if not whole:
        order.sort(key=lambda i: not any(line.startswith(MARK) for line in columns[i][0][2]))
    groups: list[list[int]] = [[]]
    room = left = WIDTH.get() - len(MARK) - _NAME
    for i in order:
        width = sum(2 + max(map(cell_len, (head, *cells))) for head, _, cells in columns[i])
        if width > left and groups[-1]:
            groups.append([])
            left = room
        groups[-1].append(i)
        left -= width
    return [[columns[i] for i in sorted(group)] for group in (groups if whole else groups[:1])]
