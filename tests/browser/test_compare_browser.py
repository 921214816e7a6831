"""The pages of a comparison and of several devices in a real browser: they fit, and nothing comes alive."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from browser.browsing import HOSTILE, NEEDS_A_BROWSER, WIDE, visit
from builders import profile
from test_device_comparison import hostile as hostile_devices
from test_device_comparison import mixed
from test_report_compare import cpu, gpu
from test_report_compare import hostile as hostile_pair

from advisor.report import html
from advisor.report.comparison_page import comparison_page
from advisor.report.pages import page_of, render

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

pytestmark = NEEDS_A_BROWSER
LONG = HOSTILE + "endless" * 500
PAGES = {
    "gpu": lambda: render(comparison_page(*gpu(), ("base.json", "head.json")), "html"),
    "cpu": lambda: render(comparison_page(*cpu()), "html"),
    "hostile": lambda: render(comparison_page(*hostile_pair(LONG), (LONG, LONG)), "html"),
    "devices": lambda: render(page_of(mixed()), "html"),
    "hostile devices": lambda: render(page_of(hostile_devices(LONG)), "html"),
}


@pytest.mark.parametrize("name", PAGES)
def test_page_fits_its_window(name: str, browser: Browser, tmp_path: Path) -> None:
    with visit(browser, PAGES[name](), tmp_path) as seen:
        for width in (390, 1280):
            seen.resize(width)
            assert seen.ask(WIDE) == {"scroll": width, "client": width, "wide": []}
        assert seen.complaints == []
        assert seen.ask("document.title") != "taken"


@pytest.mark.parametrize("width", [390, 1280])
def test_the_sentence_and_the_rows_are_on_the_first_screen(
    width: int, browser: Browser, tmp_path: Path
) -> None:
    with visit(browser, PAGES["gpu"](), tmp_path, width=width, height=800) as seen:
        for part in ("text=recommendation-changes failed", ".headline"):
            box = seen.page.locator(part).first.bounding_box()
            assert box is not None, part
            assert box["y"] + box["height"] <= 800, part


def test_a_notebooks_frame_shows_the_report_and_reaches_nothing(browser: Browser, tmp_path: Path) -> None:

    cell = html.notebook_cell(page_of(profile()))
    with visit(browser, f"<!doctype html><title>notebook</title>{cell}", tmp_path) as seen:
        frame = seen.page.frames[1]
        assert "vector_add" in (frame.text_content("h1") or "")
        assert frame.evaluate("origin") == "null"
