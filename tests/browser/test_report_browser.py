"""The page in a real browser: it is drawn, fits its window, asks for nothing; the answer is seen at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser.browsing import BROKEN, HOSTILE, NEEDS_A_BROWSER, WIDE, visit
from builders import (
    advice,
    all_strategies,
    altered,
    catalogue_device,
    cpu_profile,
    devices_of,
    failed,
    measured,
    predicted,
    prediction,
    profile,
    recommendation,
    skipped,
    sweep_of,
    vector_add_workload,
)
from rendering import blocks, shown
from test_device_comparison import mixed
from test_report_compare import cpu, gpu
from test_report_compare import hostile as hostile_pair
from test_report_escaping import everywhere
from test_report_sweep import cpu_sweep, gpu_sweep, hostile_sweep

from advisor.profiles.reading import load
from advisor.profiles.schema import Profile
from advisor.profiles.sweeps import ProfileSet
from advisor.report import html
from advisor.report.answer import Answers
from advisor.report.comparison_page import comparison_page
from advisor.report.pages import page_of, render

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = NEEDS_A_BROWSER
H200 = Path(__file__).parents[1] / "data" / "h200-vector_add.json"


MARKS = "\u202e\u200f\u061c\u2067\ufeff"
TEXTS = (
    "{{ 7 * 7 }}{% raw %}{# ",
    "<svg onload=\"document.title='taken'\"><use href=x></svg>",
    "\"'`=onmouseover=alert(1)//",
    "</script><script>document.title='taken'</script></style></title>",
    f"{MARKS}a\u05d0b",
)


def hostile_profile() -> Profile:
    """Markup and endless names wherever they hurt most."""
    endless = "endless" * 2_000
    rows = measured(HOSTILE, 0.04), measured(endless, 0.02), failed(endless, HOSTILE, HOSTILE)
    first = advice(HOSTILE, endless, title=endless, detail=HOSTILE, snippet=endless)
    return profile(
        workload=altered(vector_add_workload(), "", name=TEXTS[0]),
        device=profile().device.model_copy(update={"name": HOSTILE}),
        results=(*rows, *(failed(text, text, text) for text in TEXTS)),
        recommendation=recommendation(endless, tied_with=(endless,), reason=HOSTILE, next_step=endless),
        advice=(first, *(advice(text, title=text, detail=text, snippet=text) for text in TEXTS)),
        notes=(endless, *TEXTS),
    )


LONG = HOSTILE + "endless" * 500
PAGES = {
    "gpu": lambda: page_of(profile()),
    "cpu": lambda: page_of(cpu_profile()),
    "hostile": lambda: page_of(hostile_profile()),
    "all": lambda: page_of(all_strategies()),
    "h200": lambda: page_of(load(H200)),
    "compared gpu": lambda: comparison_page(*gpu(), ("base.json", "head.json")),
    "compared cpu": lambda: comparison_page(*cpu()),
    "compared hostile": lambda: comparison_page(*hostile_pair(LONG), (LONG, LONG)),
    "devices": lambda: page_of(mixed()),
    "hostile devices": lambda: page_of(
        devices_of(everywhere(LONG), altered(everywhere(LONG), "device", name=f"2{LONG}"))
    ),
    "sweep": lambda: page_of(cpu_sweep()),
    "hostile sweep": lambda: page_of(hostile_sweep(LONG)),
}
CHARTS = (".race rect.segment", "path.line")
DRAWN = """(kind) => {
  const found = [...document.querySelectorAll(kind)], style = found.length ? getComputedStyle(found[0]) : {};
  const colour = kind === "path.line" ? style.stroke : style.fill;
  const wide = Math.max(...found.map((e) => e.getBoundingClientRect().width));
  return !found.length || (wide > 10 && !["none", "rgb(0, 0, 0)"].includes(colour));
}"""


@pytest.mark.parametrize("name", PAGES)
def test_page_fits_its_window_is_drawn_and_nothing_comes_alive(
    name: str, browser: Browser, tmp_path: Path
) -> None:
    with visit(browser, render(PAGES[name](), "html"), tmp_path) as seen:
        for unfold in (False, True):
            if unfold:
                seen.ask("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            for width in (320, 390, 820, 1280):
                seen.resize(width)
                assert seen.ask(WIDE) == {"scroll": width, "client": width, "wide": []}, f"{unfold=}"
                assert "hostile" in name or all(seen.ask(DRAWN, kind) for kind in CHARTS)
        assert seen.complaints == []
        assert seen.ask("document.title") != "taken"
        assert seen.ask("document.querySelectorAll('script, img, iframe, object, embed, form').length") == 1
        assert not set(seen.ask("document.body.innerText")) & set(MARKS)
        assert "49" not in seen.ask("document.querySelector('h1').innerText")


def test_a_notebooks_frame_shows_the_report_and_reaches_nothing(browser: Browser, tmp_path: Path) -> None:
    cell = html.notebook_cell(page_of(profile()))
    with visit(browser, f"<!doctype html><title>notebook</title>{cell}", tmp_path) as seen:
        frame = seen.page.frames[1]
        assert "vector_add" in (frame.text_content("h1") or "")
        assert frame.evaluate("origin") == "null"


def test_no_word_is_broken_and_no_unit_stands_alone(browser: Browser, tmp_path: Path) -> None:
    terms = {"device:update": 0.019, "synchronize": 0.001}
    rows = (predicted("pageable", 0.02, terms=terms), predicted("pinned", 0.03, terms=terms))
    device = catalogue_device("NVIDIA Jetson Orin Nano 8GB", "tegra-io-coherent")
    run = cpu_profile(
        predictions=(prediction(device=device, results=rows, recommendation=recommendation("pageable")),)
    )
    for made in (run, load(H200)):
        with visit(browser, shown(made, "html"), tmp_path) as seen:
            for width in (390, 340):
                seen.resize(width)
                assert seen.ask(BROKEN) == [], f"{width=}"


@pytest.mark.parametrize(
    ("devices", "width", "columns"), [(3, 1280, 3), (4, 1280, 2), (5, 1280, 2), (4, 390, 1)]
)
def test_four_panels_stand_two_by_two(
    devices: int, width: int, columns: int, browser: Browser, tmp_path: Path
) -> None:
    run = cpu_profile(predictions=tuple(prediction(f"card {i}") for i in range(devices)))
    with visit(browser, shown(run, "html"), tmp_path, width=width) as seen:
        cards = "[...document.querySelectorAll('.panels > *')]"
        assert seen.ask(f"new Set({cards}.map((e) => e.getBoundingClientRect().x)).size") == columns


def test_predicted_bars_have_stripes_and_measured_ones_have_none(browser: Browser, tmp_path: Path) -> None:
    for run, hatched in ((profile(), False), (cpu_profile(predictions=cpu_profile().predictions[:1]), True)):
        with visit(browser, shown(run, "html"), tmp_path) as seen:
            fill = "[...document.querySelectorAll(kind)].map((e) => getComputedStyle(e).fill)"
            fills, stripes = (seen.ask(f"(kind) => {fill}", k) for k in (".race .segment", "pattern .stripe"))
            assert any("hatch-" in fill for fill in fills) == hatched
            assert bool(stripes) == hatched, "a page has the patterns that it uses"
            assert "none" not in stripes


def test_policy_stops_a_script_that_got_in_all_the_same(browser: Browser, tmp_path: Path) -> None:
    forged = shown(profile(), "html").replace("</main>", "<script>document.title = 'taken'</script></main>")
    with visit(browser, forged, tmp_path) as seen:
        assert seen.ask("document.title") != "taken"
        assert "Content Security Policy" in " ".join(seen.complaints)


# What is told without scrolling: which strategy, how much, how sure, how much memory, what to change

REPORTS = Path(__file__).parents[2] / "reports"
TRACEBACK = 'Traceback (most recent call last):\n  File "w.py", line 3, in add\nValueError: no'

# Text of elements that lie wholly in the window and that nothing folds or hides.
SEEN = """() => {
  const inside = (r) => r.top >= 0 && r.left >= 0 && r.bottom <= innerHeight
    && r.right <= innerWidth;
  const told = { contentVisibilityAuto: true, visibilityProperty: true };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), seen = [];
  while (texts.nextNode()) {
    const range = document.createRange(), node = texts.currentNode;
    range.selectNodeContents(node);
    const rects = [...range.getClientRects()].filter((r) => r.width > 0);
    if (rects.length && rects.every(inside) && node.parentElement.checkVisibility(told)) seen.push(node.data);
  }
  return seen.join("").replace(/\\u00a0/g, " ");
}"""
BOX = "(e) => { const r = e.getBoundingClientRect(); return [r.top, r.bottom, r.height]; }"


RUNS = {
    "measured": "h200/vector_add",
    "open": "h200/matrix_multiply-1024",
    "three devices": "no-gpu/vector_add",
}


@pytest.mark.parametrize("name", RUNS)
def test_the_first_screen_answers_five_questions_and_has_the_charts(
    name: str, browser: Browser, tmp_path: Path
) -> None:
    page = page_of(load(REPORTS / RUNS[name] / "profile.json"))
    told = blocks(page, Answers)[0]
    with visit(browser, render(page, "html"), tmp_path) as visited:
        for width in (390, 1280):
            visited.resize(width, 800)
            seen = visited.ask(SEEN)
            for answer in told.items:
                bar = next(bar for bar in answer.bars if bar.chosen)
                assert bar.name in seen, "which strategy"
                assert bar.ratio in seen, "how much"
                assert answer.verdict.remark.partition(", ")[0][:18] in seen, "how sure"
                assert bar.memory in seen, "how much memory"
                assert f"{answer.change.lines} lines for {answer.change.strategy}" in seen, "what to change"
            charts = visited.page.locator(".race").all()
            assert len(charts) == len(told.items)
            for rows in (chart.locator("tbody tr:visible") for chart in charts if name != "open"):
                assert rows.last.evaluate(BOX)[1] <= 800
                assert name != "measured" or rows.count() == {390: 5, 1280: 12}[width]
                assert rows.and_(visited.page.locator(".chosen")).count() == 1
        if name == "open":
            assert not visited.page.locator("pre.heart").first.is_visible(), "nothing to change yet"
            return
        code = visited.page.locator("pre.heart").first
        top, bottom, height = code.evaluate(BOX)
        assert 0 < top < bottom <= 800
        assert height > 50
        assert len(code.inner_text().splitlines()) <= 15
        assert visited.complaints == []


@pytest.mark.parametrize("width", [390, 1280])
def test_where_everything_failed_the_first_screen_says_why_and_what_to_do(
    width: int, browser: Browser, tmp_path: Path
) -> None:
    rows = (failed(detail=TRACEBACK), failed("pinned", detail=TRACEBACK), skipped())
    page = shown(profile(results=rows), "html")
    with visit(browser, page, tmp_path, width=width, height=800) as visited:
        seen = visited.ask(SEEN)
        assert "Nothing could be measured" in seen
        assert "ValueError: no" in seen
        assert "Next" in seen
        assert visited.page.locator(".race").count() == 0


def three_devices() -> ProfileSet:
    """Three devices, predicted over six values."""
    return sweep_of(*(cpu_profile(workload=vector_add_workload(4**i)) for i in range(4, 10)))


PANES = (".pane .headline", ".pane svg.area")
COMPARED = ("text=recommendation-changes failed >> nth=0", ".headline >> nth=0")
FIRST = {
    "sweep": (PAGES["sweep"], PANES, 1),
    "sweep on a GPU": (lambda: page_of(gpu_sweep()), PANES, 1),
    "sweep of three devices": (lambda: page_of(three_devices()), PANES, 3),
    "comparison": (PAGES["compared gpu"], COMPARED, 1),
}


@pytest.mark.parametrize("name", FIRST)
def test_verdicts_and_charts_are_on_the_first_screen(name: str, browser: Browser, tmp_path: Path) -> None:
    page, parts, charts = FIRST[name]
    with visit(browser, render(page(), "html"), tmp_path) as seen:
        for width in (390, 1280):
            seen.resize(width, 800)
            for part in parts:
                boxes = [each.bounding_box() for each in seen.page.locator(part).all()]
                assert len(boxes) == charts
                assert all(box and box["y"] + box["height"] <= 800 and box["height"] > 20 for box in boxes)
            assert seen.ask(WIDE) == {"scroll": width, "client": width, "wide": []}
