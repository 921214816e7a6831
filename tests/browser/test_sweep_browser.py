"""The page over a sweep in a real browser: it fits a phone, and its lines are drawn in colour."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser.browsing import HOSTILE, NEEDS_A_BROWSER, WIDE, visit
from builders import cpu_profile, predicted, prediction, recommendation, vector_add_workload
from test_report_sweep import cpu_sweep, gpu_sweep, hostile_sweep

from advisor.profiles.sweeps import Point, SweepResults, sweep_results
from advisor.report.pages import page_of, render

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Browser

pytestmark = NEEDS_A_BROWSER
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


def three_devices() -> SweepResults:
    """Three devices, predicted for five strategies over six values."""
    named = ("NVIDIA Jetson Orin Nano 8GB", "NVIDIA GeForce RTX 4090", "NVIDIA H200")
    strategies = ("pageable", "pinned", "zero-copy", "managed", "registered")
    points = []
    for n in (4**i for i in range(4, 10)):
        rows = [predicted(name, 1e-5 * (i + 1) + n * 1e-9 * (9 - i)) for i, name in enumerate(strategies)]
        best = min(rows, key=lambda row: row.likely_seconds).strategy
        likely = recommendation(best, verdict="open", speedup=None, interval=None, baseline=None)
        made = [prediction(name, results=tuple(rows), recommendation=likely) for name in named]
        points.append(Point(n, cpu_profile(workload=vector_add_workload(n), predictions=tuple(made))))
    return sweep_results("vector_add", "n", points)


@pytest.mark.parametrize(("made", "charts"), [(cpu_sweep, 1), (gpu_sweep, 1), (three_devices, 3)])
def test_verdicts_and_charts_are_on_the_first_screen(
    made: Callable[[], SweepResults], charts: int, browser: Browser, tmp_path: Path
) -> None:
    with visit(browser, render(page_of(made()), "html"), tmp_path) as seen:
        for width in (390, 1280):
            seen.resize(width, 800)
            for part in (".pane .headline", ".pane svg.area"):
                boxes = [each.bounding_box() for each in seen.page.locator(part).all()]
                assert len(boxes) == charts
                assert all(box and box["y"] + box["height"] <= 800 and box["height"] > 20 for box in boxes)
            assert seen.ask(WIDE) == {"scroll": width, "client": width, "wide": []}
