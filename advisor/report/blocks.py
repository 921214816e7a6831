"""The blocks that a page is made of, as data. Text is plain; a name between backticks is set as code."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

from advisor import units
from advisor.report import words
from advisor.stats import Ratio

Form = Literal["html", "md", "txt"]
Forms = Literal["html md txt", "html", "md", "txt", "html md", "html txt", "md txt"]
"""The forms that show something."""

NOTHING = "–"
SIGNS = {"chosen": "→ ", "rival": "≈ "}
"""Marks of a cell as characters."""
_NUMBER = re.compile(r"[-+.e\d]+")


@dataclass(frozen=True, kw_only=True)
class Block:
    """A part of a section. `forms` says where it is shown, if that form can draw it."""

    forms: Forms = "html md txt"


@dataclass(frozen=True)
class Fact:
    """A name and a value, which `note` qualifies."""

    label: str
    value: str
    note: str = ""
    predicted: bool = False


Basis = Literal["measured", "predicted", "nothing"]
Tone = Literal["clear", "tie", "inconclusive", "none"]


def basis_of(devices: Collection[str]) -> Basis:
    """The basis of a page of several devices; a CPU is neither measured nor predicted."""
    return "measured" if "measured" in devices else "predicted" if "predicted" in devices else "nothing"


@dataclass(frozen=True)
class Verdict:
    """A verdict in words. `tone` is how sure it is; `remark` stands under the headline."""

    basis: Basis
    tone: Tone
    device: str
    headline: str
    reason: str = ""
    next_step: str = ""
    remark: str = ""

    @property
    def sentence(self) -> str:
        """The headline and how sure it is."""
        return ". ".join(filter(None, (self.headline, self.remark)))


@dataclass(frozen=True)
class Failure:
    """Strategies, or values of a sweep, that failed alike. `excerpt` is the end of the user's traceback.

    `detail` is all that the process said, where the page shows it nowhere else.
    """

    headline: str
    excerpt: str
    next_step: str
    detail: str = ""


@dataclass(frozen=True)
class Finding:
    """One rule on one or more devices, where it said the same of them; or what an examination found.

    `saves` is the gain in a few words, `seconds` the gain per frame, `over` the strategy that it is relative
    to. `again`: an earlier finding has the same change and gain. `variants` are the snippet for other
    libraries: name and code.
    """

    rule: str
    outcome: str
    title: str
    detail: str = ""
    devices: tuple[str, ...] = ()
    strategy: str = ""
    gain: str = ""
    saves: str = ""
    over: str = ""
    seconds: float = 0.0
    estimated: bool = False
    again: bool = False
    snippet: str = ""
    variants: tuple[tuple[str, str], ...] = ()
    evidence: tuple[Fact, ...] = ()
    sources: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    next_step: str = ""

    @property
    def places(self) -> str:
        """The lines of the user's code that it speaks of."""
        return words.places(self.lines)

    @property
    def where(self) -> str:
        return words.listing(self.devices)

    @property
    def fired(self) -> bool:
        return self.outcome in ("advice", "error")


@dataclass(frozen=True)
class Item:
    """Names that share a status and a reason, such as strategies without figures.

    `points` are several reasons, `detail` is what their process said last.
    """

    names: tuple[str, ...]
    status: str
    text: str
    detail: str = ""
    points: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableCell:
    """A figure; `note`, an interval or a condition, is below it.

    Columns are sorted by `sort`, with None last. `mark` is how it stands out: chosen, rival, changed,
    outside, quiet.
    """

    value: str
    note: str = ""
    sort: float | None = None
    mark: str = ""
    badge: str = ""


def ratio_cell(ratio: Ratio) -> TableCell:
    """A ratio with its interval below."""
    interval = words.ratio_between(ratio.low, ratio.high) * (ratio.low < ratio.high)
    return TableCell(units.ratio(ratio.value), interval)


@dataclass(frozen=True)
class Column:
    """A column's head; `brief` is that where there is little room.

    `notes` is the head of its cells' notes, where these have a column of their own.
    """

    head: str
    notes: str = ""
    brief: str = ""
    figures: bool = True
    basis: str = ""
    forms: Forms = "html md txt"


@dataclass(frozen=True)
class Row:
    """A row; `missing` says why it has no cells. Short forms keep the rows of the lowest `rank`."""

    name: str
    cells: tuple[TableCell, ...]
    tag: str = ""
    note: str = ""
    href: str = ""
    missing: str = ""
    rank: float = 0.0


def row(name: str, *cells: str | TableCell, rank: float = 0.0, note: str = "", href: str = "") -> Row:
    table_cells = (TableCell(cell) if isinstance(cell, str) else cell for cell in cells)
    return Row(name, tuple(table_cells), note=note, href=href, rank=rank)


def columns(*heads: str | Column, figures: bool = True) -> tuple[Column, ...]:
    return tuple(Column(head, figures=figures) if isinstance(head, str) else head for head in heads)


@dataclass(frozen=True)
class Table(Block):
    """Rows beside one another. `kind` says what it shows.

    `caption` is above it on a page, `title` in the short forms; `label` is its name for screen readers.
    `codes`: the rows' names are code. `brief_notes`: the short forms show the cells' notes. `left_out` is the
    noun for a column: a terminal counts those that it has no room for; without it they follow below.
    `whole`: a screen of a terminal has every row. `source_lines`: rows are named by code, which a terminal
    shortens.
    """

    kind: str
    names: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    caption: str = ""
    title: str = ""
    label: str = ""
    codes: bool = True
    sortable: bool = False
    predicted: bool = False
    brief_notes: bool = True
    left_out: str = ""
    whole: bool = False
    source_lines: bool = False

    @property
    def by_number(self) -> bool:
        """Whether the rows' names are numbers, which stand to the right."""
        return all(_NUMBER.fullmatch(row.name) for row in self.rows)


@dataclass(frozen=True)
class Prose(Block):
    """A paragraph; `label` goes before it."""

    text: str
    label: str = ""
    kind: str = "quiet"


@dataclass(frozen=True)
class Banners(Block):
    """Sentences that must not be missed: notes, warnings, that all is predicted."""

    label: str
    texts: tuple[str, ...]
    tone: Literal["predicted", "note", "caution", "doubt"] = "note"


@dataclass(frozen=True)
class Failures(Block):
    items: tuple[Failure, ...]


@dataclass(frozen=True)
class Verdicts(Block):
    """Verdicts beside one another; the short forms say the devices' names where asked to."""

    items: tuple[Verdict, ...]
    named: bool = False

    @property
    def sentences(self) -> tuple[Verdict, ...]:
        return self.items


@dataclass(frozen=True)
class Facts(Block):
    facts: tuple[Fact, ...]
    title: str = ""


@dataclass(frozen=True)
class Items(Block):
    """Names with a status and a reason, such as gaps; Markdown shows `most` of them.

    In short forms `label` goes before an item, `labels` before one with several names.
    """

    items: tuple[Item, ...]
    title: str = ""
    label: str = ""
    labels: str = ""
    most: int = 3

    def label_of(self, item: Item) -> str:
        return self.labels if self.labels and len(item.names) > 1 else self.label


@dataclass(frozen=True)
class Findings(Block):
    items: tuple[Finding, ...]


@dataclass(frozen=True)
class Bullets(Block):
    texts: tuple[str, ...]


@dataclass(frozen=True)
class SourceLine:
    """A line of a user's file, and what it did in the run."""

    number: int
    text: str
    time: str = ""
    size: str = ""
    count: str = ""
    marked: bool = False


@dataclass(frozen=True)
class Source(Block):
    """A user's file with figures beside its lines, as a line profiler shows it."""

    file: str
    rows: tuple[SourceLine, ...]
    timed: bool = True


@dataclass(frozen=True)
class Code(Block):
    """Code to read or copy behind a line to click; a page usually has it in its findings."""

    title: str
    text: str
    language: str
    forms: Forms = field(default="md", kw_only=True)


@dataclass(frozen=True)
class Group(Block):
    """Blocks that belong together, as a card with a title or without one."""

    kind: Literal["prediction", "sheet", "panels", "pane"]
    blocks: tuple[Block, ...]
    title: str = ""
    badge: str = ""
    href: str = ""


@dataclass(frozen=True)
class Fold(Block):
    """Blocks behind a line to click. On paper it opens, but where `kind` is folded."""

    title: str
    blocks: tuple[Block, ...]
    open: bool = False
    kind: Literal["", "folded", "folded own"] = ""
    forms: Forms = field(default="html", kw_only=True)
