"""Lines of plain text: wrapped to 80 columns, bars, tables."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from advisor.report import blocks, words

WIDTH = 80
MARK = "→ "
BAR = 12
"""Cells of a whole bar."""
_EIGHTHS = " ▏▎▍▌▋▊▉"
_NAME, _HEAD, _CELL = 12, 24, 50
"""A table's names may give way to so few columns; its heads and cells are cut to so many."""
_CLAUSE = re.compile("[(;:.]")
"""A short reason ends here."""
_UNIT = re.compile(r"(?<=\d) (?=(?:%|[nµm]?s|[KMGT]iB|GB/s|bytes)(?!\w))")
"""The space between a number and its unit."""


def wrap(text: str, indent: str = "", hanging: str = "", most: int = 10**6) -> list[str]:
    """Lines of at most 80 columns, the last of `most` cut; `hanging` goes before all but the first.

    No unit leaves its number.
    """
    joined = _UNIT.sub("\N{NO-BREAK SPACE}", text)
    wrapper = textwrap.TextWrapper(
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + hanging,
        break_on_hyphens=False,
        max_lines=most,
        placeholder=" …",
    )
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in wrapper.wrap(joined)]


def joined(names: Sequence[str], room: int) -> str:
    """Equal strategies, as many as fit, and how many more."""
    told = ""
    for kept in range(len(names), 0, -1):
        rest = f" +{len(names) - kept}" * (kept < len(names))
        told = words.line(", ".join(names[:kept]), room - len(rest)) + rest
        if told == ", ".join(names[:kept]) + rest:
            break
    return told


def missing(items: Sequence[blocks.Item]) -> list[str]:
    """What has no figures, in a line: with short reasons where these fit."""
    alike = words.grouped(items, lambda item: item.status)
    lines: list[str] = []
    for reasons in (True, False):
        told = [
            f"{status}: {', '.join(', '.join(item.names) + _short(item.text) * reasons for item in same)}"
            for status, same in alike.items()
        ]
        lines = wrap("; ".join(told), "  ", "  ", most=2)
        if len(lines) <= 1:
            break
    return lines


def _short(reason: str) -> str:
    """Its first clause, in parentheses."""
    clause = _CLAUSE.split(reason)[0].strip()
    return f" ({clause})" if clause else ""


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


Shown = tuple[blocks.Table, Sequence[blocks.Row]]
"""A table, and those of its rows that there is room for."""


@dataclass(frozen=True)
class _Strip:
    """A column of text with its head, whether it stands to the right, and how wide it is at least."""

    lines: tuple[str, ...]
    right: bool = True
    least: int = 0

    @property
    def width(self) -> int:
        return max(self.least, *map(len, self.lines))

    @property
    def padded(self) -> list[str]:
        """The lines, all as wide."""
        return [line.rjust(self.width) if self.right else line.ljust(self.width) for line in self.lines]


def tables(
    table: blocks.Table, rows: Sequence[blocks.Row], alike: Iterable[Shown], *, whole: bool
) -> tuple[list[list[str]], int]:
    """The rows as a table with its notes below, and how many columns are left out.

    The columns that do not fit follow in further tables where it is to be `whole`. `alike` are the page's
    tables of this kind: columns of one head are as wide in all of them.
    """
    least: dict[str, int] = {}
    for strip in chain.from_iterable(chain.from_iterable(_columns(*one) for one in alike)):
        least[strip.lines[0]] = max(strip.width, least.get(strip.lines[0], 0))
    (names,), *columns = (
        [replace(s, least=least.get(s.lines[0], 0)) for s in strips] for strips in _columns(table, rows)
    )
    groups, left = _fitting(columns, min(names.width, _NAME), whole=whole)
    told = [list(_lines(names, strips)) for strips in groups]
    told[-1] += [
        line
        for c in table.columns
        if c.note and "txt" in c.forms
        for line in wrap(f"({c.brief or c.head}: {c.note})", "  ")
    ]
    return told, left


def _lines(names: _Strip, strips: Sequence[_Strip]) -> Iterator[str]:
    room = max(WIDTH - len(MARK) - sum(strip.width + 2 for strip in strips), _NAME)
    short = tuple(words.line(name, room) if name else "" for name in names.lines)
    first = _Strip(short, names.right, min(names.least, room))
    body = zip(*(strip.padded for strip in (first, *strips)), strict=True)
    yield from (f"  {'  '.join(line)}".rstrip() for line in body)


def _columns(table: blocks.Table, rows: Sequence[blocks.Row]) -> list[list[_Strip]]:
    """The names, then each column as one or two of text: the value, and what qualifies it."""
    made = [[_Strip((table.names, *(row.name for row in rows)), table.by_number)]]
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
    """Columns that fit beside one another, table after table; or one table, and how many do not fit.

    That one begins with the columns in which something is recommended.
    """
    order = list(range(len(columns)))
    if not whole:
        order.sort(key=lambda i: not any(line.startswith(MARK) for line in columns[i][0].lines))
    groups, room = [order[:0]], WIDTH - len(MARK) - names
    left = room
    for i in order:
        width = sum(strip.width + 2 for strip in columns[i])
        if width > left and groups[-1]:
            groups.append([])
            left = room
        groups[-1].append(i)
        left -= width
    kept = groups if whole else groups[:1]
    told = [[strip for i in sorted(group) for strip in columns[i]] for group in kept]
    return told, sum(map(len, groups[len(kept) :]))
