"""Pages in each form: what a terminal's screen and a comment have room for, and which blocks are shown."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import get_args

import pytest
from builders import altered, cpu_profile, devices_of, failed, predicted, prediction, profile
from every import every
from hypothesis import example, given, settings
from rendering import Accepted, markup
from running import REPOSITORY
from test_device_comparison import DEVICES
from test_report import GOLDEN, PROFILES
from test_report_compare import FILES, PAIRS
from test_report_compare import hostile as hostile_pair
from test_report_escaping import everywhere, joined, markdown_structure, pieces, structure, times
from test_report_lines import SCRIPTS
from test_report_sweep import SWEEPS, hostile_sweep

from advisor.profiles.conclusions import Checkup
from advisor.profiles.conclusions import Finding as Found
from advisor.profiles.reading import load
from advisor.report import html
from advisor.report.answer import Answers
from advisor.report.blocks import Banners, Block, Column, Fold, Form, Prose, Row, Table, TableCell, Verdict
from advisor.report.markdown import LIMIT
from advisor.report.page import Page, Section, filled
from advisor.report.page import shown as section_blocks
from advisor.report.pages import comparison_page, doctor_page, page_of, render
from advisor.report.terminal import LINES
from advisor.verdicts.comparing.comparisons import compare

SAVED = sorted((REPOSITORY / "reports").rglob("profile.json"))
REASONS = "abcdefghij"
FINDINGS = tuple(
    Found(subject=r, state="missing", found="no " * 60, means="m", next_step="do") for r in REASONS
)


def broken() -> Page:
    """Ten strategies that failed, each for a reason of its own."""
    return page_of(profile(results=tuple(failed(f"s-{r}", f"{r} broke: {r * 200}") for r in REASONS)))


ACCEPTED: dict[str, Callable[[], Page]] = {
    **{
        name: lambda make=make: page_of(make())  # type: ignore[misc]
        for name, make in {**PROFILES, **SWEEPS, **DEVICES, **SCRIPTS}.items()
    },
    **{name: lambda make=make: comparison_page(*make(), FILES) for name, make in PAIRS.items()},  # type: ignore[misc]
}
"""Pages by the names of the files that have them."""
PAGES: dict[str, Callable[[], Page]] = {
    **ACCEPTED,
    **{
        str(path.parent.relative_to(REPOSITORY)): lambda path=path: page_of(load(path))  # type: ignore[misc]
        for path in SAVED
    },
    "12 devices": lambda: page_of(cpu_profile(predictions=tuple(prediction(f"D{i}") for i in range(12)))),
    "10 failures": broken,
    "doctor": lambda: doctor_page(Checkup(ready=True, verdict="Ready.", findings=FINDINGS)),
}


@cache
def made(name: str) -> Page:
    """Once for the tests of a process."""
    return PAGES[name]()


@pytest.mark.parametrize("name", ACCEPTED)
def test_pages_look_as_accepted(name: str, accepted: Accepted) -> None:
    """What a terminal has in full is that of profiles, and of one script."""
    for form in ("html", "md", "txt", *["details"] * (name in {*PROFILES, "scripts/measured-cost"})):
        accepted(markup(render(made(name), form)), f"{name}.{form}")


@every("name", PAGES)
def test_every_page_fits_a_screen_and_a_comment(name: str) -> None:
    page = made(name)
    for bars in (False, True):
        lines = render(page, "txt", bars=bars).splitlines()
        assert len(lines) <= LINES == 22
        assert max(map(len, lines)) <= 80
    details = render(page, "details").splitlines()
    assert max(map(len, details)) <= 80
    assert not any("--details" in line for line in details)
    comment = render(page, "md")
    assert len(comment) < LIMIT == 6_000
    rows = re.findall(r"^\| .* \|$", comment.partition("<details><summary>")[0], re.MULTILINE)
    cells = [cell for row in rows for cell in row.split(" | ") if "<code>" not in cell]
    in_parentheses = [cell for cell in cells if re.search(r"\d[^|]*\((?!predicted|[\d.]+×\))", cell)]
    assert in_parentheses == []


@every("name", [name for name in PAGES if name != "doctor"])
def test_quiet_is_the_verdict_alone_and_the_screen_begins_with_it(name: str) -> None:
    page = made(name)
    verdict = render(page, "verdict").splitlines()
    assert 1 <= len(verdict) <= 12
    if len(verdict) == 1:
        assert verdict[0].split(" (")[0].split(". ")[0][:60] in " ".join(render(page, "txt").split())


def test_every_device_has_rows_on_a_tight_screen() -> None:
    rows = [predicted(f"s-{r}", 0.04) for r in "abcdefghijkl"]
    smaller = [row.model_copy(update={"physical_bytes": 1024}) for row in rows]
    before, now = (
        cpu_profile(predictions=tuple(prediction(f"Card {i}", results=tuple(each)) for i in "123"))
        for each in (rows, smaller)
    )
    screen = render(comparison_page(compare(before, now), (), FILES), "txt").splitlines()
    assert [line.split()[0] for line in screen if "40.0 ms" in line] == ["s-a"] * 3
    assert sum(line.startswith("Predicted time per frame on Card") for line in screen) == 3
    assert "more facts" in screen[-1]


@every("mixed", [False, True])
def test_devices_with_long_verdicts_keep_their_charts_on_a_tight_screen(mixed: bool) -> None:
    devices = [f"An accelerator with a long name, number {i}" for i in range(4)]
    mix = predicted("hybrid-1", 0.019, placements={"a": "zero-copy", "b": "pinned"})
    rows = (predicted("pageable", 0.040), predicted("pinned", 0.020), *[mix] * mixed)
    told = tuple(prediction(name, results=rows) for name in devices)
    made = cpu_profile(predictions=told, notes=("One.", "Two.", "Three."))
    screen = render(page_of(made), "txt").splitlines()
    for name in devices:
        at = next(i for i, line in enumerate(screen) if line.startswith(f"  {name}:"))
        assert any(line.startswith("→ pinned") for line in screen[at : at + 4])
    assert "hybrid-" not in "".join(screen)


HOSTILE: dict[str, Callable[[str], Page]] = {
    "profile": lambda text: page_of(everywhere(text)),
    "sweep": lambda text: page_of(hostile_sweep(text)),
    "devices": lambda text: page_of(
        devices_of(*(altered(everywhere(text), "device", name=name) for name in (text, f"2{text}")))
    ),
    "comparison": lambda text: comparison_page(*hostile_pair(text), (text, text)),
}


@cache
def plain(kind: str) -> tuple[list[tuple[str, ...]], list[list[str]]]:
    """The page of plain text, and its Markdown of short and of long text, which leaves parts out."""
    short, long = (HOSTILE[kind](text) for text in ("plain", "plain" * 3_000))
    return structure(render(short, "html")), [markdown_structure(render(p, "md")) for p in (short, long)]


@pytest.mark.parametrize("kind", HOSTILE)
@settings(max_examples=30, deadline=None)
@given(pieces, times)
@example(["<script>document.title='taken'</script>"], 3_000)
@example(["\n```\n"], 1)
@example(["@user"], 1)
@example(["\x1b[2J", "\u202e"], 3_000)
def test_hostile_text_changes_the_structure_of_no_form(kind: str, pieces: list[str], times: int) -> None:
    page, (tags, markdown) = HOSTILE[kind](joined(pieces, times)), plain(kind)
    assert structure(render(page, "html")) == tags
    comment = render(page, "md")
    if kind == "profile":  # which parts it leaves out depends on their lengths
        assert not Counter(markdown_structure(comment)) - (Counter(markdown[0]) | Counter(markdown[1]))
    else:
        assert markdown_structure(comment) in markdown
    assert len(comment) < LIMIT
    assert not re.search(r"@\w", re.sub(r"^(`{3,})python\n.*?^\1$", "", comment, flags=re.S | re.M))
    for line in render(page, "txt").split("\n"):
        assert len(line) <= 80
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e]", line)


def test_failures_are_short() -> None:
    screen = render(broken(), "txt")
    assert "`s-a` failed: a broke" in screen
    assert re.search(r"… \d more failures: --details|… \d+ more lines: --details", screen)
    assert "`s-j` failed: j broke" in render(broken(), "details")


@every("width", [40, 60, 80, 140])
def test_no_verdict_and_no_advice_is_cut_at_any_width(width: int) -> None:
    for name in PAGES:
        page = made(name)
        screen = render(page, "txt", width=width)
        assert max(map(len, (screen + render(page, "details", width=width)).splitlines())) <= max(width, 60)
        text = " ".join(screen.replace("\N{NO-BREAK SPACE}", " ").split())
        for block in (b for section in page.sections if section.lead for b in section_blocks(section, "txt")):
            told = block.sentences if isinstance(block, Answers) else getattr(block, "items", ())
            for verdict in (each for each in told if isinstance(each, Verdict)):
                assert " ".join(verdict.headline.split()) in text, (name, width)


# Pages as data: each form draws them by what their blocks are and where they are to be shown

FORMS = get_args(Form)


def page_with(*blocks: Block) -> Page:
    section = Section("verdict", "What came of it", blocks, nav="Verdict", lead=True)
    return Page("report", "a brand", "name", (section,), where="on X")


def kinds(base: type[Block] = Block) -> list[type[Block]]:
    return [kind for each in base.__subclasses__() for kind in (each, *kinds(each))]


@every("kind", kinds())
def test_a_page_can_draw_every_kind_of_block(kind: type[Block]) -> None:
    drawn = [html.environment().get_template(name).module for name in html.MACROS]
    assert any(hasattr(module, kind.__name__.lower()) for module in drawn)


@every("forms", ["html", "md txt", "html md txt"])
def test_a_block_is_shown_where_it_says(forms: str) -> None:
    made = page_with(Prose("seen by some", forms=forms), Fold("more", (Prose("inside"),)))  # type: ignore[arg-type]
    shown = [form for form in FORMS if "seen by some" in render(made, form)]
    assert shown == forms.split()
    assert [form for form in FORMS if "inside" in render(made, form)] == ["html"]


def test_what_holds_nothing_or_does_not_fit_is_left_out() -> None:
    kept = Prose("Time"), Prose("Memory")
    assert filled(Prose(""), None, Banners("note", ()), Fold("more", ()), *kept) == kept
    cells = (TableCell("1 s"),) * 12
    columns = tuple(Column(f"c{i}") for i in range(12))
    rows = tuple(Row(f"r{i}", cells, rank=-i) for i in range(13))
    text = render(page_with(Table("strategies", "strategy", columns, rows, caption="All")), "md")
    assert "| `r12` |" in text
    assert "| `r4` |" not in text
    assert "| `r5` |" in text
    assert "\n5 more in the HTML page.\n" in text
    assert "\n5 more columns in report.html.\n" in text


def test_columns_that_do_not_fit_a_terminal_follow_or_are_counted() -> None:
    columns = tuple(Column(f"a long head number {i}") for i in range(6))
    rows = (Row("r", tuple(TableCell(f"v{i}") for i in range(6))),)
    made = page_with(Table("x", "s", columns, rows, left_out="strategy"))
    for form, tables in (("details", 2), ("txt", 1)):
        text = render(made, form)
        assert text.count("\n  r ") == tables
        assert ("v5" in text) != ("… 3 more strategies: --details" in text)


def test_links_within_a_page_lead_somewhere() -> None:
    pages = sorted([*GOLDEN.glob("*.html"), *GOLDEN.glob("scripts/*.html")])
    assert len(pages) > 10
    for page in pages:
        text = page.read_text("utf-8")
        named, linked = set(re.findall(r' id="([^"]+)"', text)), set(re.findall(r'href="#([^"]+)"', text))
        assert linked - named == set(), page.name
