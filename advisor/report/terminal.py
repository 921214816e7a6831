"""Plain text for a terminal: at most 80 columns, the verdict first."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from advisor.report import blocks, words
from advisor.report.page import Page, shown

WIDTH = 80
MARK = "→ "
BAR, SHADED_BAR = 8, 12
"""Cells of the longest bar. What is predicted is shaded; a shade has no eighths, and more cells instead."""
_EIGHTHS = " ▏▎▍▌▋▊▉"
_NAME, _HEAD, _CELL = 12, 24, 50
"""A table's names may give way to so few columns; its heads and cells are cut to so many."""
_REASON, _POINTS = 300, 6
_STATE = " " * 10


def render(page: Page, *, bars: bool = False) -> str:
    """What the page says in short. `bars` are for a terminal, where they take the place of some intervals."""
    paragraphs = [wrap(_title(page))]
    for section in page.sections:
        writer = _Writer("  " if section.lead else "", bars)
        for block in shown(section, "txt"):
            paragraphs += writer.write(block)
    return "\n\n".join("\n".join(lines) for lines in paragraphs if lines) + "\n"


def _title(page: Page) -> str:
    said = {"predicted": ": predicted. Nothing was measured on a GPU.", "nothing": ": without a GPU"}
    return f"{page.name} {page.where}".rstrip() + said.get(page.basis, "")


class _Writer:
    """Writes a block by the method of its name; what has none, such as a chart, is left out."""

    def __init__(self, indent: str, bars: bool) -> None:
        self.indent, self.bars = indent, bars

    def write(self, block: blocks.Block) -> Iterator[list[str]]:
        return getattr(self, type(block).__name__.lower(), lambda _: iter(()))(block)

    def table(self, block: blocks.Table) -> Iterator[list[str]]:
        return _table(block, self.bars)

    def prose(self, block: blocks.Prose) -> Iterator[list[str]]:
        label = f"{block.label}: " if block.label else ""
        yield wrap(f"{label}{block.whole}", self.indent)

    def banners(self, block: blocks.Banners) -> Iterator[list[str]]:
        hanging = "  " if self.indent else "    "
        texts = (f"{block.label.capitalize()}: {text}" for text in block.texts)
        yield [line for text in texts for line in wrap(text, self.indent, hanging)]

    def failures(self, block: blocks.Failures) -> Iterator[list[str]]:
        """What failed, the end of its traceback, and what to do."""
        for failure in block.items:
            yield [
                *wrap(failure.headline, "  ", "  "),
                *(f"      {line}" for line in failure.excerpt.splitlines()),
                *wrap(f"Next: {failure.next_step}", "    ", "  "),
            ]

    def verdicts(self, block: blocks.Verdicts) -> Iterator[list[str]]:
        for verdict in block.items:
            named = wrap(verdict.device, self.indent) if block.named else []
            inner = self.indent + "  " if block.named else self.indent
            yield [*named, *_verdict(verdict, inner, block.reasons)]

    def facts(self, block: blocks.Facts) -> Iterator[list[str]]:
        inner = self.indent + "  " if block.title else self.indent
        lines = wrap(block.title, self.indent)
        for fact in block.facts:
            note = f" ({fact.note})" if fact.note else ""
            lines += wrap(f"{fact.label}: {fact.value}{note}", inner, "    ")
        yield lines

    def items(self, block: blocks.Items) -> Iterator[list[str]]:
        yield [line for item in block.items for line in _item(item, block.label, self.indent)]

    def findings(self, block: blocks.Findings) -> Iterator[list[str]]:
        for found in block.items:
            lines = wrap(f"{f'[{found.outcome}]':<10}{found.rule}: {found.title}", self.indent, _STATE)
            lines += wrap(found.detail, self.indent + _STATE)
            yield [*lines, *wrap(f"next: {found.next_step}" if found.next_step else "", self.indent + _STATE)]

    def bullets(self, block: blocks.Bullets) -> Iterator[list[str]]:
        yield [line for text in block.texts for line in wrap(f"- {text}", self.indent, "  ")]


def _verdict(verdict: blocks.Verdict, indent: str, reasons: bool) -> Iterator[str]:
    certainty = f" ({verdict.certainty})" if verdict.certainty else ""
    yield from wrap(verdict.headline + certainty, indent)
    for fact in (f for f in verdict.facts if f.brief):
        yield from wrap(f"{fact.label}: {fact.value}, {fact.note}", indent, "  ")
    if reasons:
        yield from wrap(verdict.reason, indent)
    if verdict.next_step:
        yield from wrap(f"Next: {verdict.next_step}", indent)


def _item(item: blocks.Item, label: str, indent: str) -> Iterator[str]:
    who = " ".join(filter(None, (label, words.listing(item.names), item.status if item.text else "")))
    yield from wrap(f"{who}: {words.line(item.text, _REASON) or item.status}", indent, "    ")
    for point in item.points[:_POINTS]:
        yield from wrap(point, indent + "  ", "  ")
    if len(item.points) > _POINTS:
        yield f"{indent}  and {len(item.points) - _POINTS} more"


@dataclass(frozen=True)
class _Strip:
    """A column of text with its head, and whether it stands to the right."""

    lines: tuple[str, ...]
    right: bool = True

    @property
    def width(self) -> int:
        return max(map(len, self.lines))


def _table(table: blocks.Table, bars: bool) -> Iterator[list[str]]:
    """The table, what is to be known of it beneath; further tables where its columns do not fit."""
    rows = [row for row in table.rows if not row.missing]
    if not rows:
        return
    names = [table.names, *(row.name for row in rows)]
    columns, left = _fitting(table, _columns(table, rows, bars), min(max(map(len, names)), _NAME))
    tables = [list(_lines(table, rows, names, strips)) for strips in columns]
    beneath = [line for text in (*_notes(table, rows), *left) for line in wrap(text, "  ")]
    tables[0] = [*wrap(table.title), *tables[0]]
    tables[-1] += beneath
    yield from tables


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


def _columns(table: blocks.Table, rows: Sequence[blocks.Row], bars: bool) -> list[list[_Strip]]:
    """Each column as one or two of text: the value, and what qualifies it."""
    shown = [(i, c) for i, c in enumerate(table.columns) if "txt" in c.forms]
    drawn = bars and any(column.bars for _, column in shown)
    made = []
    for i, column in shown:
        cells = [row.cells[i] for row in rows]
        head = words.line(column.brief or column.head, _HEAD) + " (predicted)" * (column.basis == "predicted")
        values = (blocks.SIGNS.get(cell.mark, "") + words.line(cell.value, _CELL) for cell in cells)
        strips = [_Strip((head.replace("`", ""), *values), column.figures)]
        if table.brief_notes and any(c.note for c in cells) and (column.notes or not drawn):
            notes = (words.line(c.note.replace("× to ", "–").replace("×", ""), _HEAD) for c in cells)
            strips.append(_Strip((column.notes, *notes)))
        made.append(strips)
    return [*made, *([_Strip(("", *_bars(table, rows)), right=False)] for _ in (1,) if drawn)]


def _bars(table: blocks.Table, rows: Sequence[blocks.Row]) -> Iterator[str]:
    index = next(i for i, column in enumerate(table.columns) if column.bars)
    draw = bar if table.columns[index].bars == "measured" else shaded
    amounts = [row.cells[index].sort or 0.0 for row in rows]
    return (draw(amount / (max(amounts) or 1.0)) for amount in amounts)


def bar(share: float) -> str:
    """A measured share of the longest bar, to an eighth of a cell."""
    full, eighths = divmod(max(1, round(8 * BAR * share)), 8)
    return "█" * full + _EIGHTHS[eighths].strip()


def shaded(share: float) -> str:
    """A predicted share of the longest bar."""
    return "░" * max(1, round(SHADED_BAR * share))


def _fitting(
    table: blocks.Table, columns: list[list[_Strip]], names: int
) -> tuple[list[list[_Strip]], list[str]]:
    """Columns that fit beside one another, table after table; or the first of them, and how many more."""
    widths = [sum(strip.width + 2 for strip in strips) for strips in columns]
    whole = WIDTH - len(MARK) - names
    if table.left_out:
        matter = [any(line.startswith(MARK) for line in strips[0].lines) for strips in columns]
        kept: list[int] = []
        room = whole
        for i in sorted(range(len(columns)), key=lambda i: not matter[i]):
            if widths[i] <= room or not kept:
                kept.append(i)
                room -= widths[i]
        left = words.count(len(columns) - len(kept), f"more {table.left_out}")
        said = [f"{left} in the report."] if len(kept) < len(columns) else []
        return [[strip for i in sorted(kept) for strip in columns[i]]], said
    groups: list[list[_Strip]] = []
    room = -1
    for strips, width in zip(columns, widths, strict=True):
        if width > room:
            groups.append([])
            room = whole
        groups[-1] += strips
        room -= width
    return groups, []


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
