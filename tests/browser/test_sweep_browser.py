"""The page over a sweep in a real browser: it fits a phone, and its lines are drawn in colour."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest
from browser.test_report_browser import CHROMIUM, HOSTILE, WRAPPER, dump
from test_report_sweep import cpu_series, hostile_series

from advisor.report import render_sweep_html
from advisor.series import Series

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the path"),
]
LOOKS = WRAPPER.replace(
    'page.querySelector("rect.segment") || root).fill', 'page.querySelector("path.line") || root).stroke'
).replace("rect.segment", "path.line")
SERIES = {"cpu": cpu_series(), "hostile": hostile_series(HOSTILE + "endless" * 500)}


def in_a_frame(made: Series, tmp_path: Path, width: int) -> dict[str, Any]:
    """What the page around it saw of the page at that width."""
    page, wrapper = tmp_path / "sweep.html", tmp_path / "wrapper.html"
    page.write_text(render_sweep_html(made), encoding="utf-8")
    wrapper.write_text(LOOKS.format(source=page.name, width=width), encoding="utf-8")
    title = re.search(r"<title>(.*?)</title>", dump(wrapper, tmp_path), re.DOTALL)
    assert title is not None
    seen: dict[str, Any] = json.loads(html.unescape(title[1]))
    return seen


@pytest.mark.parametrize(("name", "width"), [("cpu", 390), ("hostile", 390)])
def test_page_fits_its_window(name: str, width: int, tmp_path: Path) -> None:
    seen = in_a_frame(SERIES[name], tmp_path, width)
    assert width - 20 <= seen["client"] <= width, "the frame has another width"
    assert (seen["scroll"], seen["wide"]) == (seen["client"], [])
    if name != "hostile":
        assert seen["widest"] > 90
        assert seen["fill"] not in ("none", "rgb(0, 0, 0)"), "the stylesheet was refused"
