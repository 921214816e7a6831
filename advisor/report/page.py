"""A page as data: a headline, and sections made of a few kinds of blocks, every word and number ready.

The `*_page` modules make pages; `html`, `markdown` and `terminal` draw them and know their own limits. Text
is plain; a name between backticks is set as code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from advisor.profiles.schema import Profile
from advisor.report import blocks, words
from advisor.report.answer import Answers
from advisor.report.blocks import Block, Fact, Facts, Fold, Form, Forms, Group, Prose, Row, Table, Verdict
from advisor.report.machine import environment
from advisor.report.records import Record
from advisor.version import __version__

_CONTENTS = ("items", "texts", "facts", "rows", "blocks", "text")


@dataclass(frozen=True)
class Section:
    """A part of the page that can be linked to; `nav` is its name among the links, nothing for no link.

    The first is the `lead`, without a visible title; Markdown folds what is `folded`, HTML what is `closed`.
    A screen of a terminal has the lead and what is `brief`.
    """

    anchor: str
    title: str
    blocks: tuple[Block, ...]
    nav: str = ""
    badge: str = ""
    lead: bool = False
    brief: bool = False
    folded: bool = False
    closed: bool = False
    forms: Forms = "html md txt"


@dataclass(frozen=True)
class Page:
    """A whole page. `kind` names its files; `basis` says where its figures are from.

    `heading` stands over the HTML page in place of the name, where that is the verdict.
    `profile` is what it was made from, for JSON; `records` are its figures, for CSV, and for the JSON of a
    page of several profiles.
    """

    kind: str
    brand: str
    name: str
    sections: tuple[Section, ...]
    heading: str = ""
    where: str = ""
    basis: blocks.Basis = "measured"
    tool: str = f"advisor {__version__}"
    created: str = ""
    summary: str = ""
    meta: tuple[str, ...] = ()
    profile: Profile | None = None
    records: tuple[Record, ...] = ()

    def __post_init__(self) -> None:
        """Drops sections without blocks."""
        object.__setattr__(self, "sections", tuple(s for s in self.sections if s.blocks or s.lead))

    @property
    def title(self) -> str:
        return f"{self.name} {self.where}".rstrip() + ", predicted" * (self.basis == "predicted")


def filled(*blocks: Block | None) -> tuple[Block, ...]:
    pairs = (
        (block, [getattr(block, n) for n in _CONTENTS if hasattr(block, n)]) for block in blocks if block
    )
    return tuple(block for block, contents in pairs if not contents or any(contents))


def shown(section: Section, form: Form) -> tuple[Block, ...]:
    """The blocks of a section in a short form, with the inside of groups in their place."""
    return tuple(_flat(section.blocks, form)) if form in section.forms else ()


def _flat(blocks: tuple[Block, ...], form: Form) -> Iterator[Block]:
    for block in (b for b in blocks if form in b.forms):
        if isinstance(block, (Group, Fold)):
            yield from _flat(block.blocks, form)
        else:
            yield block


def verdicts(page: Page) -> list[Verdict]:
    lead = (block for section in page.sections if section.lead for block in shown(section, "txt"))
    return [v for block in lead if isinstance(block, (Answers, blocks.Verdicts)) for v in block.sentences]


def kept_rows(rows: tuple[Row, ...], most: int) -> tuple[Row, ...]:
    """The rows of lowest rank that there is room for, in their order."""
    first = sorted(range(len(rows)), key=lambda i: rows[i].rank)[:most]
    return tuple(rows[i] for i in sorted(first))


MARKED = "→ marks the recommended strategy, ≈ those that cannot be distinguished from the best."


def lead(*blocks: Block | None, title: str = "Verdict and next step") -> Section:
    return Section("verdict", title, filled(*blocks), nav="Verdict", lead=True)


def around(failed: blocks.Failures, *answer: Block | None, drawn: bool) -> tuple[Block | None, ...]:
    """Failures come first; on a page whose verdict has a chart, after the verdict."""
    return (*answer, failed) if drawn else (failed, *answer)


def panels(
    verdicts: Sequence[Verdict], figures: Sequence[tuple[Block, ...]], *, named: bool = False
) -> tuple[Block, ...]:
    """Verdicts, named where there are several; on a page each beside its chart or table and the reason."""
    panes = []
    alone = len(verdicts) == 1
    for verdict, drawn in zip(verdicts, figures, strict=True):
        after = Prose("" if alone else verdict.next_step, "Next", kind="next")  # of several, in the fold
        fold = Fold("Why", filled(Prose(verdict.reason), after), open=verdict.tone == "none")
        head = blocks.Verdicts((verdict if alone else replace(verdict, next_step=""),))
        panes.append(Group("pane", filled(head, *drawn, fold)))
    short = blocks.Verdicts(tuple(verdicts), named=named or not alone, forms="md txt")
    return short, Group("panels", tuple(panes), forms="html")


_BRIEF = ("File", "Parameters", "Other parameters")


def circumstances(
    profile: Profile | None,
    *others: Block | None,
    command: str,
    method: Sequence[Fact] = (),
    ran: Sequence[Fact] = (),
    notes: tuple[str, ...] = (),
) -> Section:
    """The section on method and machine; a comment has the first of its facts, and the notes."""
    machine, created = (environment(profile), words.created(profile.created)) if profile else ((), "")
    version = words.name(profile.tool.version) if profile else __version__
    folds = (
        Fold(
            "How it was measured",
            filled(Facts((Fact("Command", words.line(command, 500)), *method))),
            open=True,
        ),
        Fold("Workload", filled(Facts(tuple(ran)))),
        Fold("Machine and software", filled(Facts(tuple(machine)))),
    )
    run = Fact("Command", words.code(command, 500) if command else "")
    brief = (
        run,
        *(f for f in ran if f.label in _BRIEF),
        *machine[:10],
        Fact("advisor", f"{version}, {created}".rstrip(", ")),
    )
    short = Facts(tuple(f for f in brief if f.value), forms="md")
    sheet, banners = Group("sheet", filled(*folds), forms="html"), blocks.Banners("note", notes, forms="md")
    inside = filled(*others, sheet, short, banners)
    return Section("method", "Method and environment", inside, nav="Method", folded=True, closed=True)


def legend(table: Table) -> str:
    """Meanings of the signs in a table's cells, for the forms that show no more than them."""
    marks = {cell.mark for row in table.rows for cell in row.cells}
    meanings = {"chosen": "→ recommended", "rival": "≈ cannot be distinguished from the best"}
    text = ", ".join(text for mark, text in meanings.items() if mark in marks)
    return " ".join(filter(None, (f"{text}." if text else "", "Intervals and ranges are in the HTML page.")))
