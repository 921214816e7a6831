"""Pages as data: any page is drawn in each form, by what its blocks are and where they are to be shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from every import every
from test_nsys_exports import pinned

from advisor.nsys.exports import read
from advisor.profiles.conclusions import Checkup
from advisor.profiles.conclusions import Finding as Found
from advisor.report import html
from advisor.report.blocks import Banners, Block, Column, Fold, Form, Prose, Row, Table, TableCell
from advisor.report.page import Page, Section, filled
from advisor.report.pages import doctor_page, render
from advisor.report.traces import trace_page

FORMS = get_args(Form)


def page(*blocks: Block, folded: bool = False) -> Page:
    section = Section("verdict", "What came of it", blocks, nav="Verdict", lead=True, folded=folded)
    return Page("report", "a brand", "name", (section,), where="on X")


def kinds(base: type[Block] = Block) -> list[type[Block]]:
    return [kind for each in base.__subclasses__() for kind in (each, *kinds(each))]


@every("kind", kinds())
def test_a_page_can_draw_every_kind_of_block(kind: type[Block]) -> None:
    drawn = [html.environment().get_template(name).module for name in html.MACROS]
    assert any(hasattr(module, kind.__name__.lower()) for module in drawn)


@every("forms", ["html", "md txt", "html md txt"])
def test_a_block_is_shown_where_it_says(forms: str) -> None:
    made = page(Prose("seen by some", forms=forms), Fold("more", (Prose("inside"),)))  # type: ignore[arg-type]
    shown = [form for form in FORMS if "seen by some" in render(made, form)]
    assert shown == forms.split()
    assert [form for form in FORMS if "inside" in render(made, form)] == ["html"]


def test_what_holds_nothing_or_does_not_fit_is_left_out() -> None:
    kept = Prose("Time"), Prose("Memory")
    assert filled(Prose(""), None, Banners("note", ()), Fold("more", ()), *kept) == kept
    cells = (TableCell("1 s"),) * 12
    columns = tuple(Column(f"c{i}") for i in range(12))
    rows = tuple(Row(f"r{i}", cells, rank=-i) for i in range(13))
    text = render(page(Table("strategies", "strategy", columns, rows, caption="All")), "md")
    assert "| `r12` |" in text
    assert "| `r4` |" not in text
    assert "| `r5` |" in text
    assert "\n5 more in the HTML page.\n" in text
    assert "\n5 more columns in report.html.\n" in text


def test_columns_that_do_not_fit_a_terminal_follow_or_are_counted() -> None:
    columns = tuple(Column(f"a long head number {i}") for i in range(6))
    rows = (Row("r", tuple(TableCell(f"v{i}") for i in range(6))),)
    made = page(Table("x", "s", columns, rows, left_out="strategy"))
    for form, tables in (("details", 2), ("txt", 1)):
        text = render(made, form)
        assert text.count("\n  r ") == tables
        assert ("v5" in text) != ("… 3 more strategies: --details" in text)


DOCTOR = Checkup(
    ready=True, verdict="Ready.", findings=(Found(subject="nsys", state="missing", found="no", means="m"),)
)
PAGES: dict[str, Callable[[Path], Page]] = {
    "doctor": lambda _: doctor_page(DOCTOR),
    "trace": lambda folder: trace_page(read(pinned(folder / "a.sqlite"))),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", PAGES)
def test_pages_of_a_terminal_can_be_drawn_elsewhere(name: str, form: str, tmp_path: Path) -> None:
    text = render(PAGES[name](tmp_path), form)
    assert {"doctor": "nsys", "trace": "copies host-to-device"}[name] in text


def test_links_within_a_page_lead_somewhere() -> None:
    golden = Path(__file__).parent / "golden"
    pages = sorted([*golden.glob("*.html"), *golden.glob("scripts/*.html")])
    assert len(pages) > 10
    for page in pages:
        text = page.read_text("utf-8")
        named, linked = set(re.findall(r' id="([^"]+)"', text)), set(re.findall(r'href="#([^"]+)"', text))
        assert linked - named == set(), page.name
