"""The page over a sweep in a real browser: it fits a phone, and its lines are drawn in colour."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser.browsing import HOSTILE, NEEDS_A_BROWSER, WIDE, visit
from builders import all_strategies
from test_report_sweep import at_n, cpu_sweep, hostile_sweep

from advisor.profiles.sweeps import Point, sweep_results
from advisor.report.pages import page_of, render

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = NEEDS_A_BROWSER
SWEEPS = {"cpu": cpu_sweep(), "hostile": hostile_sweep(HOSTILE + "endless" * 500)}


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", SWEEPS)
def test_page_fits_its_window(name: str, width: int, browser: Browser, tmp_path: Path) -> None:
    with visit(browser, render(page_of(SWEEPS[name]), "html"), tmp_path, width=width) as seen:
        assert seen.ask(WIDE) == {"scroll": width, "client": width, "wide": []}
        assert seen.complaints == []
        if name != "hostile":
            line = "document.querySelector('path.line')"
            assert seen.ask(f"{line}.getBoundingClientRect().width") > 90
            assert seen.ask(f"getComputedStyle({line}).stroke") not in ("none", "rgb(0, 0, 0)")


def test_table_of_thirteen_strategies_is_not_cut_off_on_a_desk(browser: Browser, tmp_path: Path) -> None:
    rows = all_strategies().results
    made = sweep_results("w", "n", [Point(n, at_n(n, None, results=rows)) for n in (2**16, 2**20, 2**24)])
    with visit(browser, render(page_of(made), "html"), tmp_path) as seen:
        cut = "[...document.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth).length"
        assert seen.page.locator("table.sweep thead th").count() == 14
        assert seen.ask(cut) == 0
        assert seen.ask(WIDE) == {"scroll": 1280, "client": 1280, "wide": []}
