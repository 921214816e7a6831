"""`make pictures`: the sample reports as they look in Chromium, for the README and for reviewers.

python -m tests.browser.pictures reports/h200/vector_add
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.browser.browsing import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser

LOOKS = ((1280, "light"), (1280, "dark"), (820, "light"), (390, "light"), (390, "dark"))
"""Width in pixels and theme."""
MOST = {1280: 1500, 820: 1800, 390: 1700}
"""Height at which a picture ends, so that it stays below 300 KB."""


def main() -> None:
    """Writes report-WIDTH-THEME.png beside each report.html; those of vector_add where none is named."""
    folders = [Path(name) for name in sys.argv[1:]]
    folders = folders or sorted(Path("reports").glob("*/vector_add"))
    with chromium() as browser:
        for folder in folders:
            for width, theme in LOOKS:
                size = {"width": width, "height": MOST[width]}
                tab = browser.new_page(viewport=size, color_scheme=theme)
                tab.goto((folder.resolve() / "report.html").as_uri())
                tab.screenshot(path=folder / f"report-{width}-{theme}.png")
                tab.close()
            _evidence(browser, folder)


def _evidence(browser: Browser, folder: Path) -> None:
    """The charts alone, which lie further down."""
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    tab.goto((folder.resolve() / "report.html").as_uri())
    tab.evaluate("document.querySelectorAll('details.part').forEach(each => { each.open = true; })")
    charts = [chart for chart in tab.locator("figure.chart").all() if chart.is_visible()]
    shown = charts[:2] if tab.locator("body.is-measured").count() else charts[:1]  # hatching takes many bytes
    first, last = shown[0].bounding_box(), shown[-1].bounding_box()
    height = last["y"] + last["height"] - first["y"]
    clip = {"x": first["x"] - 16, "y": first["y"] - 6, "width": first["width"] + 32, "height": height + 16}
    tab.screenshot(path=folder / "evidence-1280-light.png", clip=clip, full_page=True)
    tab.close()


if __name__ == "__main__":
    main()
