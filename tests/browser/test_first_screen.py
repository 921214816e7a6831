"""What is told without scrolling: which strategy, how much, how sure, how much memory, what to change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser.browsing import HOSTILE, NEEDS_A_BROWSER, WIDE, visit
from builders import (
    cpu_profile,
    failed,
    predicted,
    prediction,
    profile,
    recommendation,
    skipped,
    sweep_of,
    vector_add_workload,
)
from rendering import blocks, shown
from test_report_sweep import cpu_sweep, gpu_sweep, hostile_sweep

from advisor.profiles.reading import load
from advisor.profiles.schema import Profile
from advisor.profiles.sweeps import ProfileSet
from advisor.report.answer import Answers
from advisor.report.pages import page_of, render

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = NEEDS_A_BROWSER
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


def measured_run() -> Profile:
    return load(REPORTS / "h200" / "vector_add" / "profile.json")


def open_run() -> Profile:
    return load(REPORTS / "h200" / "matrix_multiply-1024" / "profile.json")


def predicted_run() -> Profile:
    return load(REPORTS / "no-gpu" / "vector_add" / "profile.json")


RUNS = {"measured": measured_run, "open": open_run, "three devices": predicted_run}


def opened(run: Profile, width: int, browser: Browser, folder: Path) -> Any:
    return visit(browser, shown(run, "html"), folder, width=width, height=800)


@pytest.mark.parametrize("name", RUNS)
def test_the_first_screen_answers_five_questions(name: str, browser: Browser, tmp_path: Path) -> None:
    page = page_of(RUNS[name]())
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
        if name == "open":
            assert not visited.page.locator("pre.heart").first.is_visible(), "nothing to change yet"
            return
        code = visited.page.locator("pre.heart").first
        top, bottom, height = code.evaluate(BOX)
        assert 0 < top < bottom <= 800
        assert height > 50
        assert len(code.inner_text().splitlines()) <= 15
        assert visited.complaints == []


def test_the_chart_is_on_the_first_screen(browser: Browser, tmp_path: Path) -> None:
    run = measured_run()
    with opened(run, 390, browser, tmp_path) as visited:
        for width, bars in ((390, 5), (1280, 12)):
            visited.resize(width, 800)
            assert visited.page.locator(".race tbody tr:visible").count() == bars
            last = visited.page.locator(".race tbody tr:visible").last.evaluate(BOX)
            assert last[1] <= 800
            assert visited.page.locator(".race tr.chosen:visible").count() == 1


def test_three_devices_charts_are_panels_on_the_first_screen(browser: Browser, tmp_path: Path) -> None:
    with opened(predicted_run(), 390, browser, tmp_path) as visited:
        for width in (390, 1280):
            visited.resize(width, 800)
            charts = visited.page.locator(".panels .race").all()
            assert len(charts) == 3
            for chart in charts:
                top, bottom, _ = chart.evaluate(BOX)
                assert 0 < top < bottom <= 800


@pytest.mark.parametrize("width", [390, 1280])
def test_where_everything_failed_the_first_screen_says_why_and_what_to_do(
    width: int, browser: Browser, tmp_path: Path
) -> None:
    rows = (failed(detail=TRACEBACK), failed("pinned", detail=TRACEBACK), skipped())
    with opened(profile(results=rows), width, browser, tmp_path) as visited:
        seen = visited.ask(SEEN)
        assert "Nothing could be measured" in seen
        assert "ValueError: no" in seen
        assert "Next" in seen
        assert visited.page.locator(".race").count() == 0


def test_a_link_to_a_section_leads_there(browser: Browser, tmp_path: Path) -> None:
    with opened(measured_run(), 1280, browser, tmp_path) as visited:
        visited.page.get_by_label("Link to Advice").click()
        assert visited.ask("location.hash") == "#advice"


if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Browser

SWEEPS = {"cpu": cpu_sweep(), "hostile": hostile_sweep(HOSTILE + "endless" * 500)}


@pytest.mark.parametrize("name", SWEEPS)
def test_page_fits_its_window(name: str, browser: Browser, tmp_path: Path) -> None:
    line = "document.querySelector('path.line')"
    with visit(browser, render(page_of(SWEEPS[name]), "html"), tmp_path) as seen:
        for width in (390, 1280):
            seen.resize(width)
            assert seen.ask(WIDE) == {"scroll": width, "client": width, "wide": []}
            if name != "hostile":
                assert seen.ask(f"{line}.getBoundingClientRect().width") > 90
                assert seen.ask(f"getComputedStyle({line}).stroke") not in ("none", "rgb(0, 0, 0)")
        assert seen.complaints == []


def three_devices() -> ProfileSet:
    """Three devices, predicted for five strategies over six values."""
    named = ("NVIDIA Jetson Orin Nano 8GB", "NVIDIA GeForce RTX 4090", "NVIDIA H200")
    strategies = ("pageable", "pinned", "zero-copy", "managed", "registered")
    profiles = []
    for n in (4**i for i in range(4, 10)):
        rows = [predicted(name, 1e-5 * (i + 1) + n * 1e-9 * (9 - i)) for i, name in enumerate(strategies)]
        best = min(rows, key=lambda row: row.likely_seconds).strategy
        likely = recommendation(best, verdict="open", speedup=None, interval=None, baseline=None)
        made = [prediction(name, results=tuple(rows), recommendation=likely) for name in named]
        profiles.append(cpu_profile(workload=vector_add_workload(n), predictions=tuple(made)))
    return sweep_of(*profiles)


@pytest.mark.parametrize(("made", "charts"), [(cpu_sweep, 1), (gpu_sweep, 1), (three_devices, 3)])
def test_verdicts_and_charts_are_on_the_first_screen(
    made: Callable[[], ProfileSet], charts: int, browser: Browser, tmp_path: Path
) -> None:
    with visit(browser, render(page_of(made()), "html"), tmp_path) as seen:
        for width in (390, 1280):
            seen.resize(width, 800)
            for part in (".pane .headline", ".pane svg.area"):
                boxes = [each.bounding_box() for each in seen.page.locator(part).all()]
                assert len(boxes) == charts
                assert all(box and box["y"] + box["height"] <= 800 and box["height"] > 20 for box in boxes)
            assert seen.ask(WIDE) == {"scroll": width, "client": width, "wide": []}
