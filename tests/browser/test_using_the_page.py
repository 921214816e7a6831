"""What a reader does with the page: without script, by keyboard, with a screen reader, on paper."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser.browsing import NEEDS_A_BROWSER, visit
from browser.test_report_browser import H200, PAGES, TRACEBACK, three_devices
from builders import advice, failed, profile, recommendation, skipped
from rendering import shown
from test_report_sweep import cpu_sweep

from advisor.profiles.reading import load
from advisor.report.pages import page_of, render

if TYPE_CHECKING:
    from browser.browsing import Visit
    from playwright.sync_api import Browser

pytestmark = NEEDS_A_BROWSER
SNIPPET = "a = 1  # ≤ 2 \N{GREEK SMALL LETTER MU}s\n\n\nif a < 2 & 3:\n    b = '<b>'"
AXE = importlib.util.find_spec("axe_playwright_python")


def column(seen: Visit, number: int) -> list[str]:
    """The cells of the chart's table; of the first, the strategy that stands for the row."""
    rows = seen.page.locator(".race").first.locator("tbody tr")
    if number == 1:
        found: list[str] = rows.evaluate_all("(all) => all.map((row) => row.dataset.names.split(' ')[0])")
        return found
    return [row.locator("> *").nth(number - 1).inner_text() for row in rows.all()]


OPEN = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"


def test_all_is_there_without_a_script(browser: Browser, tmp_path: Path) -> None:
    run = profile(recommendation=recommendation(), advice=(advice(snippet=SNIPPET),))
    with visit(browser, shown(run, "html"), tmp_path, java_script_enabled=False) as seen:
        text = seen.page.inner_text("body")
        for said in ("Use pinned", "2.00×", "if a < 2 & 3:", "fresh process"):
            assert said in text
        assert seen.page.locator("button").count() == 0, "a button that does nothing"


def test_arrow_keys_read_the_exact_values_of_a_chart(browser: Browser, tmp_path: Path) -> None:
    with visit(browser, render(page_of(cpu_sweep()), "html"), tmp_path) as seen:
        seen.page.locator("svg.area").first.focus()
        seen.page.keyboard.press("ArrowRight")
        said = [seen.page.locator("figure output").first.inner_text()]
        for _ in range(6):
            seen.page.keyboard.press("ArrowRight")
            said.append(seen.page.locator("figure output").first.inner_text())
        assert "zero-copy: predicted 10.0 µs (7.00 to 13.0 µs)" in [
            text.replace("\xa0", " ") for text in said
        ]
        assert any(text.startswith("likely zero-copy to pageable, between n = ") for text in said)


def test_table_is_sorted_by_mouse_and_by_keyboard(browser: Browser, tmp_path: Path) -> None:
    with visit(browser, shown(load(H200), "html"), tmp_path) as seen:
        fastest_first = column(seen, 1)
        assert fastest_first[0] == "zero-copy"
        seen.page.get_by_role("button", name="time per frame").click()
        assert column(seen, 1) == fastest_first[::-1]
        seen.page.get_by_role("button", name="memory").focus()
        seen.page.keyboard.press("Enter")
        sizes = [float(text.split()[0]) for text in column(seen, 4)]
        assert sizes == sorted(sizes)
        assert sizes[0] < sizes[-1]
        heads = seen.page.locator(".race thead th")
        assert heads.evaluate_all("(all) => all.map((h) => h.getAttribute('aria-sort'))") == [
            None, None, None, "ascending"
        ]  # fmt: skip
        seen.page.get_by_role("button", name="strategy").first.click()
        assert column(seen, 1) == sorted(fastest_first)


def test_snippet_is_copied_as_it_is(browser: Browser, tmp_path: Path) -> None:
    run = profile(advice=(advice(snippet=SNIPPET),))
    with visit(
        browser, shown(run, "html"), tmp_path, permissions=("clipboard-read", "clipboard-write")
    ) as seen:
        seen.ask(OPEN)
        seen.ask("window.setTimeout = (later) => { window.later = later; }")
        seen.page.get_by_role("button", name="Copy code").click()
        seen.page.get_by_role("button", name="Copied").wait_for()
        assert seen.ask("navigator.clipboard.readText()") == SNIPPET
        assert seen.page.get_by_role("status").inner_text() == "Copied"
        seen.ask("later()")
        assert seen.page.get_by_role("button", name="Copy code").count() == 1


def test_theme_follows_the_system_until_it_is_switched(browser: Browser, tmp_path: Path) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    seen_in: dict[str, Any] = {}
    for theme, other in (("light", "Dark theme"), ("dark", "Light theme")):
        with visit(browser, shown(profile(), "html"), tmp_path, color_scheme=theme) as seen:
            before = seen.ask(paper)
            seen.page.get_by_role("button", name=other).click()
            seen_in[theme] = (before, seen.ask(paper))
    assert seen_in["light"] == seen_in["dark"][::-1]
    assert seen_in["light"][0] != seen_in["light"][1]


def test_first_stop_of_the_keyboard_leads_to_the_verdict(browser: Browser, tmp_path: Path) -> None:
    with visit(browser, shown(profile(), "html"), tmp_path) as seen:
        seen.page.keyboard.press("Tab")
        assert seen.ask("document.activeElement.innerText") == "Skip to the verdict"
        assert seen.ask("document.activeElement.getBoundingClientRect().left") >= 0
        seen.page.keyboard.press("Enter")
        assert seen.ask("location.hash") == "#verdict"


def test_on_paper_the_answer_comes_first_and_what_is_folded_stays_folded(
    browser: Browser, tmp_path: Path
) -> None:
    with visit(browser, shown(load(H200), "html"), tmp_path, color_scheme="dark") as seen:
        seen.page.emulate_media(media="print", color_scheme="dark")
        assert seen.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        visible = "(e) => e.getClientRects().length > 0"
        for hidden in ("nav", "button.comfort"):
            assert not seen.page.locator(hidden).first.evaluate(visible)
        assert not seen.page.get_by_text("SHA-256").first.is_visible()
        assert seen.page.locator(".race").first.evaluate(visible)
        assert len(seen.page.pdf()) > 20_000


AUDITED = {
    **{name: page for name, page in PAGES.items() if "hostile" not in name},
    "sweep of three devices": lambda: page_of(three_devices()),
    "broken": lambda: page_of(profile(results=(failed(detail=TRACEBACK), skipped()), notes=("cut short",))),
}


@pytest.mark.skipif(AXE is None, reason="axe-playwright-python is not installed: pip install -e '.[dev]'")
@pytest.mark.parametrize("name", AUDITED)
def test_axe_finds_nothing(name: str, browser: Browser, tmp_path: Path) -> None:
    from axe_playwright_python.sync_playwright import Axe

    with visit(browser, render(AUDITED[name](), "html"), tmp_path, width=820, bypass_csp=True) as seen:
        seen.ask(OPEN)
        for theme in ("light", "dark"):
            seen.page.emulate_media(color_scheme=theme)
            found = Axe().run(seen.page)
            assert not found.response["violations"], f"{theme}: {found.generate_report()}"
