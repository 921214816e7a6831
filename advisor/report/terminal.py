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
from advisor.report.page import Page, Section, kept_rows, shown, verdicts

WIDTH: ContextVar[int] = ContextVar("columns", default=80)
LINES = 22
"""Most lines of a page on a screen of 25; the rest is a blank line, the files and what opens a trace."""
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
"""States of a finding that need no action."""
_CLAUSE = re.compile("[(;:.]")
"""A short reason ends here."""
_NUMBERED = re.compile(r"(?:\S+  )?")
"""The place of a source line, before its text."""
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
    """The page as text: in the largest room that fits a screen, or everything.

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
    """A line that continues the text of the line before it: no screen ends between the two."""


def verdict(page: Page) -> str:
    """Each verdict in its own line, for scripts and --quiet."""
    lead = verdicts(page)
    named = len(lead) > 1
    return "\n".join(f"{f'{each.device}: ' * named}{each.sentence}" for each in lead) or _title(page)


def wrap(text: str, indent: str = "", hanging: str = "", most: int = _ALL) -> list[str]:
    """Wraps as many whole sentences as `most` lines hold, the first at least.

    `hanging` goes before all lines but the first. No unit leaves its number."""
    sentences, lines = words.sentences(_UNIT.sub("\N{NO-BREAK SPACE}", text)), list[str]()
    for count in range(len(sentences), 0, -1):
        wrapper = textwrap.TextWrapper(WIDTH.get(), indent, indent + hanging, break_on_hyphens=False)
        lines = wrapper.wrap(" ".join(sentences[:count]))
        if len(lines) <= most:
            break
    first, *rest = (line.replace("\N{NO-BREAK SPACE}", " ") for line in lines or [""])
    return [first, *map(_Rest, rest)] if lines else []


def bar(answer: Answer, of: Bar) -> str:
    """A share of a whole bar, lighter between the ends of its interval where these lie apart."""
    low, value, high = (answer.share(end) / 100 for end in (of.low, of.amount, of.high))
    solid, light = ("▒", "░") if answer.predicted else ("█", "▒")
    first, last = int(BAR * low), math.ceil(BAR * high)
    if last - first > 1:
        return solid * first + light * (last - first)
    if answer.predicted:
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
    room = max(WIDTH.get() - len(MARK) - sum(2 + max(map(cell_len, cells)) for cells in others), _NAME)
    wide = min(max(least, *map(cell_len, names)), room)
    for i, (_, right, _) in enumerate(columns):
        table.add_column(justify="right" if right else "left", no_wrap=bool(i), min_width=0 if i else wide)
    before = []
    for mark, name, *cells in zip(("", *marks), names, *others, strict=True):
        short = name if cell_len(name) <= wide else f"{set_cell_size(name, wide - 1).rstrip()}…"
        beside = " " * min(len(_NUMBERED.match(name)[0]), wide // 2)  # type: ignore[index]
        lines = (textwrap.wrap(name, wide, subsequent_indent=beside) or [""]) if wraps else [short]
        table.add_row(*map(Text, ("\n".join(lines), *cells)))
        before += [mark, *[""] * (len(lines) - 1)]
    console = Console(file=io.StringIO(), width=4 * WIDTH.get(), color_system=None, force_jupyter=False)
    with console.capture() as drawn:
        console.print(table)
    pairs = zip(before, drawn.get().splitlines(), strict=True)
    return [f"{mark:<2}{line}".rstrip()[: WIDTH.get()] for mark, line in pairs]


def _title(page: Page) -> str:
    suffixes = {"predicted": ": predicted. Nothing was measured on a GPU.", "nothing": ": without a GPU"}
    return f"{page.name} {page.where}".rstrip() + suffixes.get(page.basis, "")


def missing(items: Sequence[blocks.Item]) -> list[str]:
    """Strategies without figures in one line, with the first clause of each reason if these fit."""
    alike, lines = words.grouped(items, lambda item: item.status), [""] * 2
    for reasons in (True, False):
        texts = [
            f"{status}: {', '.join(', '.join(item.names) + _short(item.text) * reasons for item in same)}"
            for status, same in alike.items()
        ]
        lines = lines if len(lines) < 2 else wrap("; ".join(texts), "  ", "  ")
    return lines


def _short(reason: str) -> str:
    clause = _CLAUSE.split(reason)[0].strip()
    return f" ({clause})" if clause else ""


class _Writer:
    """Writes a block by the method of its name; what has none, such as a chart, is left out.

    `omitted` counts what there was no room for.
    """

    def __init__(self, room: Room, bars: bool) -> None:
        self.room, self.bars, self.indent, self.brief = room, bars, "", room is not EVERYTHING
        self.omitted: Counter[str] = Counter()

    def page(self, page: Page) -> list[str]:
        paragraphs = [wrap(_title(page)), *chain.from_iterable(map(self.section, page.sections))]
        omitted = ", ".join(words.count(n, f"more {noun}") for noun, n in self.omitted.items() if n > 0)
        paragraphs.append(wrap(f"… {omitted}: --details" if omitted else ""))
        return [line for lines in paragraphs if lines for line in ("", *lines)][1:]

    def section(self, section: Section) -> Iterator[list[str]]:
        """The paragraphs of a section; a screen shows only the lead and the sections that are `brief`."""
        if self.brief and not (section.lead or section.brief):
            return
        visible, tight = shown(section, "txt"), self.room.lines == 1 and not section.lead
        if tight and any(isinstance(block, blocks.Table) for block in visible):
            facts = [block for block in visible if isinstance(block, blocks.Facts)]
            self.omitted["fact"] += sum(len(block.facts) for block in facts)
            visible = tuple(block for block in visible if block not in facts)
        self.indent = "  " if section.lead else ""
        writers = (getattr(self, type(block).__name__.lower(), lambda _: iter(())) for block in visible)
        paragraphs = chain.from_iterable(write(block) for write, block in zip(writers, visible, strict=True))
        yield from [list(chain.from_iterable(paragraphs))] if tight else paragraphs

    def first(self, items: Sequence[_Shown], noun: str, most: int = 0) -> Sequence[_Shown]:
        """The first items that there is room for; the others are counted."""
        fitting = items[: most or self.room.most]
        self.omitted[noun] += len(items) - len(fitting)
        return fitting

    def wrap(self, text: str, indent: str = "", hanging: str = "") -> list[str]:
        return wrap(text, indent, hanging, most=self.room.lines)

    def answers(self, block: Answers) -> Iterator[list[str]]:
        """Verdicts, the chart of each device, the advice for all, which with --details is in the findings."""
        alone = len(block.items) == 1
        several: list[str] = []
        reasons = not self.brief and alone
        verdicts = (self._verdict(verdict, named=False, reasons=reasons) for verdict in block.sentences)
        yield list(chain.from_iterable(verdicts)) if alone or block.over else []
        items = self.first(block.items, "device", self.room.devices)
        names = (_joined(bar.names) for answer in items for bar in answer.leading(self.room.rows))
        least = max(map(cell_len, names), default=0)
        for answer in items:
            path = answer.apart
            apart = self.wrap(f"{path.label} {path.value}; {path.note}", self.indent) if path else []
            chart = self._chart(answer, least, head=not (self.brief and several))
            if alone:
                yield [*chart, *(missing(answer.missing) if self.brief else ()), *apart]
            elif self.brief:
                headline = answer.verdict.headline
                if all(each.predicted for each in block.items):  # the page's title says so
                    headline = headline.removeprefix("Predicted: ")
                several += [*self.wrap(f"{answer.verdict.device}: {headline}", self.indent), *chart]
            else:
                yield self._verdict(answer.verdict, named=True, reasons=True)
                yield [*chart, *apart]
        yield several
        if self.brief:
            yield self._advice(block.advice)

    def verdicts(self, block: blocks.Verdicts) -> Iterator[list[str]]:
        items, reasons = self.first(block.items, "verdict", self.room.devices), self.room.lines > 2
        paragraphs = [self._verdict(item, named=block.named, reasons=reasons) for item in items]
        if self.room.lines == 1 and len(items) > 1:
            texts = (": ".join(filter(None, (v.device, v.headline))) for v in items)
            lines = (wrap(text, self.indent) for text in texts)
            paragraphs = [list(chain.from_iterable(lines))]
        yield from paragraphs

    def _verdict(self, verdict: blocks.Verdict, *, named: bool, reasons: bool) -> list[str]:
        device, indent = wrap(verdict.device, self.indent) if named else [], self.indent + "  " * named
        step = f"Next: {verdict.next_step}" * bool(verdict.next_step)
        texts = filter(None, (verdict.remark, verdict.reason * reasons, step))
        return [*device, *(line for text in (verdict.headline, *texts) for line in self.wrap(text, indent))]

    def _chart(self, answer: Answer, least: int, *, head: bool) -> list[str]:
        """The recommended strategy, the baseline and the fastest of the others; equal ones are one line.

        Notes are latencies; with all room also what memory counts, equal strategies, those outside the final.
        """
        bars = answer.leading(self.room.rows)
        if not bars:
            return []
        self.omitted["strategy"] += sum(len(bar.names) for bar in answer.bars if bar not in bars)
        drawn = self.bars and self.brief
        columns: list[_Column] = [
            (answer.counts, False, [_joined(each.names) for each in bars]),
            ("", True, [each.value for each in bars]),
            ("", not drawn, [bar(answer, each) if drawn else each.between for each in bars]),
            ("gain" * bool(answer.against), True, [each.ratio for each in bars]),
            *([] if self.brief else [("", True, [_shortened(each.ratio_between) for each in bars])]),
            ("memory", True, [each.memory for each in bars]),
        ]
        lines = grid(columns, [each.mark for each in bars], least)
        notes = [f"({each.name}: {each.latency})" for each in bars if each.latency]
        if not self.brief:
            notes += [f"(memory: {answer.memory_of})"] * bool(answer.memory_of)
            notes += [f"({', '.join(each.names)}: equal)" for each in bars if len(each.names) > 1]
            outside = words.grouped((each for each in bars if each.note), lambda each: each.note)
            notes += [f"({', '.join(each.name for each in same)}: {why})" for why, same in outside.items()]
        return [*lines[not head :], *(line for note in notes for line in self.wrap(note, "  "))]

    def _advice(self, advice: Sequence[tuple[blocks.Finding, str]]) -> list[str]:
        lines = []
        for finding, where in self.first(advice, "finding"):
            room = WIDTH.get() - 4 - len(finding.saves)
            title = f"{finding.title} ({finding.places})" if finding.lines else finding.title
            title += f" on {where}" if where else ""
            if room < _NAME:
                lines += wrap(f"{title}: {finding.saves}", "  ", "  ")
                continue
            first, *rest = textwrap.wrap(title, room)
            lines += [f"  {first:<{room}}  {finding.saves}".rstrip(), *(f"    {line}" for line in rest)]
        return ["Advice (times are per frame):", *lines] if lines else []

    def table(self, table: blocks.Table) -> Iterator[list[str]]:
        """On a screen the columns that fit, recommended ones first; otherwise the rest follows below."""
        available = [row for row in table.rows if not row.missing]
        if table.whole:  # a row without cells has its status in the first one
            beside = [blocks.TableCell("")] * (len(table.columns) - 1)
            cells = ((blocks.TableCell(row.missing.partition(":")[0]), *beside) for row in table.rows)
            pairs = zip(table.rows, cells, strict=True)
            available = [replace(row, cells=blank) if row.missing else row for row, blank in pairs]
        rows = kept_rows(tuple(available), max(self.room.rows, _WHOLE) if table.whole else self.room.rows)
        self.omitted["row"] += len(available) - len(rows)
        if not rows:
            return
        columns = [_columns(table, rows, i) for i, c in enumerate(table.columns) if "txt" in c.forms]
        groups = _fitting(columns, whole=not self.brief)
        if sum(map(len, groups)) < len(columns):  # notes go before columns do
            columns = [column[:1] for column in columns]
            groups = _fitting(columns, whole=False)
        self.omitted[table.left_out or "column"] += len(columns) - sum(map(len, groups))
        names = table.names, table.by_number, [row.name for row in rows]
        marks, wraps = [""] * len(rows), not table.source_lines
        lines = [grid([names, *chain.from_iterable(group)], marks, wraps=wraps) for group in groups]
        yield [*self.wrap(table.title), *lines[0]]
        yield from lines[1:]

    def prose(self, block: blocks.Prose) -> Iterator[list[str]]:
        if self.indent or not self.brief:
            yield self.wrap(": ".join(filter(None, (block.label, block.text))), self.indent)

    def banners(self, block: blocks.Banners) -> Iterator[list[str]]:
        hanging = "  " if self.indent else "    "
        texts = (f"{block.label.capitalize()}: {text}" for text in self.first(block.texts, block.label))
        yield [line for text in texts for line in self.wrap(text, self.indent, hanging)]

    def failures(self, block: blocks.Failures) -> Iterator[list[str]]:
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
            who = (block.label_of(item), words.listing(item.names), item.status if item.text else "")
            beside, beneath = (item.points[:1], ()) if self.brief else ((), item.points)
            self.omitted["reason"] += len(item.points) - len(beside or beneath)
            text = ": ".join((words.line(item.text, _REASON) or item.status, *beside))
            lines += self.wrap(f"{' '.join(filter(None, who))}: {text}", self.indent, "    ")
            lines += [line for point in beneath for line in wrap(point, self.indent + "  ", "  ")]
        yield lines

    def findings(self, block: blocks.Findings) -> Iterator[list[str]]:
        """Findings; on a screen without details, and with the next step only where something is wrong."""
        paragraphs, inner = [], self.indent + " " * 10
        for finding in block.items:
            state = f"{f'[{finding.outcome}]':<10}{finding.rule}: {finding.title}"
            state += f" ({finding.places})" if finding.lines else ""
            lines = self.wrap(state, self.indent, " " * 10)
            lines += [] if self.brief else wrap(finding.detail, inner)
            if finding.next_step and not (self.brief and finding.outcome in _FINE):
                lines += self.wrap(f"next: {finding.next_step}", inner)
            paragraphs.append(lines)
        yield from [list(chain.from_iterable(paragraphs))] if self.brief else paragraphs

    def source(self, block: blocks.Source) -> Iterator[list[str]]:
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


def _shortened(interval: str) -> str:
    return interval.replace("× to ", "–").replace("×", "")


def _joined(names: Sequence[str]) -> str:
    most = 1 if any(", " in name for name in names) else 2  # a mix is named by its buffers
    return f"{', '.join(names[:most])}{f' +{len(names) - most}' * (len(names) > most)}"


def _columns(table: blocks.Table, rows: Sequence[blocks.Row], i: int) -> list[_Column]:
    """A column as one or two columns of text: the values and their notes."""
    column, cells = table.columns[i], [row.cells[i] for row in rows]
    predicted = column.basis == "predicted" and not table.predicted
    head = words.line(column.brief or column.head, _HEAD) + " (predicted)" * predicted
    values = [blocks.SIGNS.get(cell.mark, "") + words.line(cell.value, _CELL) for cell in cells]
    notes = [words.line(_shortened(cell.note), _HEAD) for cell in cells]
    beside = [(column.notes, True, notes)] if table.brief_notes and any(notes) else []
    return [(head.replace("`", ""), column.figures, values), *beside]


def _fitting(columns: list[list[_Column]], *, whole: bool) -> list[list[list[_Column]]]:
    """Columns in groups that fit side by side, one group for each table; only the first unless `whole`."""
    order = list(range(len(columns)))
    if not whole:
        order.sort(key=lambda i: not any(line.startswith(MARK) for line in columns[i][0][2]))
    groups: list[list[int]] = [[]]
    room = remaining = WIDTH.get() - len(MARK) - _NAME
    for i in order:
        width = sum(2 + max(map(cell_len, (head, *cells))) for head, _, cells in columns[i])
        if width > remaining and groups[-1]:
            groups.append([])
            remaining = room
        groups[-1].append(i)
        remaining -= width
    return [[columns[i] for i in sorted(group)] for group in (groups if whole else groups[:1])]
