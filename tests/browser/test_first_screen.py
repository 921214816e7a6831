"""What is told without scrolling: which strategy, how much, how sure, how much memory, what to change."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from browser.browsing import NEEDS_A_BROWSER, visit
from builders import failed, profile, skipped
from rendering import blocks, shown

from advisor.model.sensitivity import sensitivity
from advisor.profiles.conclusions import Objective
from advisor.profiles.reading import load
from advisor.profiles.schema import Predicted, Profile
from advisor.report.answer import Answers
from advisor.report.evidence import Choice
from advisor.report.mixes import description, mixes_of
from advisor.report.pages import page_of, render
from advisor.report.recommendations import sentence
from advisor.verdicts.measured import recommend
from advisor.verdicts.predicted import recommend_predicted
from advisor.verdicts.scores import counted

if TYPE_CHECKING:
    from browser.browsing import Visit
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
    return sensitivity(load(REPORTS / "h200" / "vector_add" / "profile.json"))


def open_run() -> Profile:
    return load(REPORTS / "h200" / "matrix_multiply-1024" / "profile.json")


def predicted_run() -> Profile:
    return sensitivity(load(REPORTS / "no-gpu" / "vector_add" / "profile.json"))


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
                assert answer.change is not None
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


def test_predicted_bars_are_hatched_and_say_so_once(browser: Browser, tmp_path: Path) -> None:
    with opened(predicted_run(), 1280, browser, tmp_path) as visited:
        fills = "[...document.querySelectorAll('.race .fill')].map((e) => getComputedStyle(e).fill)"
        assert all("hatch-" in fill for fill in visited.ask(fills))
        assert visited.page.inner_text("body").count("Hatched: predicted, not measured.") == 1


# What is told when each of these budgets has been entered, None for none.
CHOOSE = """(budgets) => budgets.map((budget) => {
  const input = document.querySelector(".chooser input"), told = document.querySelector("output");
  input.value = budget === null ? "" : budget / 2 ** 20;
  input.dispatchEvent(new Event("input", { bubbles: true }));
  return told.innerText;
})"""


def chosen(visited: Visit, objective: str, budgets: list[int | None]) -> list[str]:
    """What the page's script decides for each budget."""
    visited.page.locator(".chooser select").select_option(objective)
    told: list[str] = visited.ask(CHOOSE, budgets)
    return told


def test_a_budget_is_typed(browser: Browser, tmp_path: Path) -> None:
    """The tests below enter it by script."""
    with opened(measured_run(), 1280, browser, tmp_path) as visited:
        (free, none_fits) = chosen(visited, "time", [None, 1])
        assert visited.page.inner_text("output") == none_fits != free
        visited.page.locator(".chooser input").fill("")
        assert visited.page.inner_text("output") == free
        visited.page.locator(".chooser input").fill(str(1 / 2**20))
        assert visited.page.inner_text("output") == none_fits


@pytest.mark.parametrize(
    "name", ["vector_add", "streaming", "matrix_multiply-1024", "embedding_lookup", "debayer_resize"]
)
def test_the_script_chooses_as_python_does(name: str, browser: Browser, tmp_path: Path) -> None:
    """For each objective and each budget at which another strategy drops out."""
    run = sensitivity(load(REPORTS / "h200" / name / "profile.json"))
    (choice,) = blocks(page_of(run), Choice)
    sizes = {row.footprint.physical_bytes for row in run.measured().values()}
    objectives: list[Objective] = list(json.loads(choice.data)["objectives"])
    with opened(run, 1280, browser, tmp_path) as visited:
        budgets = [None, *sizes, min(sizes) - 1]
        for objective in objectives:
            for budget, told in zip(budgets, chosen(visited, objective, budgets), strict=True):
                wanted = run.preferences.model_copy(
                    update={"objective": objective, "memory_budget_bytes": budget}
                )
                expected = recommend(run.model_copy(update={"preferences": wanted}))
                assert expected is not None
                said = re.sub(
                    r"`(hybrid-\d+)`", lambda found: description(mixes_of(run)[found[1]]), sentence(expected)
                ).replace("`", "")
                assert told.replace("\N{NO-BREAK SPACE}", " ") == said


@pytest.mark.parametrize("objective", ["time", "throughput", "footprint"])
def test_the_script_chooses_among_predictions_as_python_does(
    objective: Objective, browser: Browser, tmp_path: Path
) -> None:
    """One draw, the likely one: who is chosen does not depend on the others."""
    run = predicted_run()
    every = [r for p in run.predictions for r in p.results if isinstance(r, Predicted)]
    sizes = sorted({row.physical_bytes for row in every})
    with opened(run, 1280, browser, tmp_path) as visited:
        budgets = [None, *sizes, sizes[0] - 1]
        for budget, said in zip(budgets, chosen(visited, objective, budgets), strict=True):
            wanted = run.preferences.model_copy(
                update={"objective": objective, "memory_budget_bytes": budget}
            )
            expected = []
            for made in counted(run, objective).predictions:
                rows = [row for row in made.results if isinstance(row, Predicted)]
                draws = {row.strategy: np.array([row.likely_seconds]) for row in rows}
                told = recommend_predicted(rows, draws, preferences=wanted)
                expected.append(
                    told.strategy if told and told.strategy else "no strategy fits the memory budget"
                )
            parts = said.removeprefix("Predicted, by the likely times alone: ").split("; ")
            assert [part.split(" on ")[0] for part in parts] == expected
        assert "no strategy fits the memory budget on" in visited.page.inner_text("output")


def test_strategies_are_filtered_by_name(browser: Browser, tmp_path: Path) -> None:
    with opened(measured_run(), 1280, browser, tmp_path) as visited:
        visited.page.locator(".filter input").fill("zero")
        shown_bars = visited.page.locator(".race tbody tr:visible th")
        assert all("zero" in text for text in shown_bars.all_inner_texts())
        assert shown_bars.count() == 3
        visited.page.locator(".filter input").fill("")
        assert shown_bars.count() == 12


def test_a_link_to_a_section_leads_there(browser: Browser, tmp_path: Path) -> None:
    with opened(measured_run(), 1280, browser, tmp_path) as visited:
        visited.page.get_by_label("Link to Memory by kind").click()
        assert visited.ask("location.hash") == "#memory"
