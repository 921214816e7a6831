"""The page in a real browser, opened from disk: it is drawn, it runs nothing, it fits a phone."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from builders import (
    advice,
    catalogue_device,
    cpu_profile,
    failed,
    measured,
    predicted,
    prediction,
    profile,
    recommendation,
)

from advisor.profiles import Profile
from advisor.report import render_html

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the path"),
]
HOSTILE = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">" * 40

# Chromium draws no window narrower than about 500 px, so the phone is a frame within a page. The frame's
# policy forbids scripts; the page around it may look at its layout when both come from disk.
WRAPPER = """<!doctype html><title>wait</title>
<iframe id="phone" src="{source}" style="width:{width}px;height:2000px;border:0"></iframe>
<script>
document.getElementById("phone").onload = function () {{
  const page = this.contentDocument, root = page.documentElement;
  const shown = (e) => e.closest(".scroll, pre, details:not([open]), .visually-hidden, .skip") === null;
  const wide = [...page.querySelectorAll("body *")].filter(
    (e) => shown(e) && e.getBoundingClientRect().right > root.clientWidth + 1);
  document.title = JSON.stringify({{
    scroll: root.scrollWidth, client: root.clientWidth,
    widest: Math.max(...[...page.querySelectorAll("svg[role] rect.segment")].map(
      (e) => e.getBoundingClientRect().width)),
    fill: getComputedStyle(page.querySelector("rect.segment") || root).fill,
    wide: wide.slice(0, 5).map((e) => e.tagName + "." + (e.className.baseVal ?? e.className)),
  }});
}};
</script>"""


def dump(page: Path, tmp_path: Path, *options: str) -> str:
    """The document as the browser holds it after loading."""
    assert CHROMIUM is not None
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        f"--user-data-dir={tmp_path / 'browser'}", "--allow-file-access-from-files", "--dump-dom",
        "--virtual-time-budget=5000", *options, page.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


def in_a_frame(run: Profile, tmp_path: Path, width: int, around: str = WRAPPER) -> dict[str, Any]:
    """What the wrapper saw of the page at that width."""
    report, wrapper = tmp_path / "report.html", tmp_path / "wrapper.html"
    report.write_text(render_html(run), encoding="utf-8")
    wrapper.write_text(around.format(source=report.name, width=width), encoding="utf-8")
    title = re.search(r"<title>(.*?)</title>", dump(wrapper, tmp_path), re.DOTALL)
    assert title is not None
    seen: dict[str, Any] = json.loads(html.unescape(title[1]))
    return seen


BROKEN = WRAPPER.replace(
    "document.title = JSON",
    """const broken = [], texts = page.createTreeWalker(page.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {{
    const node = texts.currentNode, range = page.createRange();
    if (!shown(node.parentElement) || node.parentElement.closest("svg")) continue;
    for (const word of node.data.matchAll(/[^ \\n\\-/]{{2,24}}/g)) {{
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map((r) => Math.round(r.top))).size > 1) broken.push(word[0]);
    }}
  }}
  document.title = JSON""",
).replace("scroll: root", "broken: broken, scroll: root")


@pytest.mark.parametrize("width", [390, 340])
def test_no_word_is_broken_and_no_unit_stands_alone(width: int, tmp_path: Path) -> None:
    """A no-break space joins a number to its unit, so that the two are one word here."""
    terms = {"device:update": 0.019, "synchronize": 0.001}
    rows = (predicted("pageable", 0.02, terms=terms), predicted("pinned", 0.03, terms=terms))
    device = catalogue_device("NVIDIA Jetson Orin Nano 8GB", "tegra-io-coherent")
    run = cpu_profile(
        predictions=(prediction(device=device, results=rows, recommendation=recommendation("pageable")),)
    )
    assert in_a_frame(run, tmp_path, width, BROKEN)["broken"] == []


def hostile_profile() -> Profile:
    """Markup and endless names wherever they hurt most."""
    endless = "endless" * 2_000
    return profile(
        device=profile().device.model_copy(update={"name": HOSTILE}),
        results=(measured(HOSTILE, 0.04), measured(endless, 0.02), failed(endless, HOSTILE, HOSTILE)),
        recommendation=recommendation(endless, tied_with=(endless,), reason=HOSTILE, next_step=endless),
        advice=(advice(HOSTILE, endless, title=endless, detail=HOSTILE, snippet=endless),),
        notes=(endless,),
    )


PROFILES = {"gpu": profile, "cpu": cpu_profile, "hostile": hostile_profile}


@pytest.mark.parametrize("width", [390, 768, 1280])
@pytest.mark.parametrize("name", PROFILES)
def test_page_fits_its_window(name: str, width: int, tmp_path: Path) -> None:
    seen = in_a_frame(PROFILES[name](), tmp_path, width)
    assert width - 20 <= seen["client"] <= width, "the frame has another width"
    assert (seen["scroll"], seen["wide"]) == (seen["client"], [])


@pytest.mark.parametrize("name", PROFILES)
def test_charts_are_drawn_in_colour(name: str, tmp_path: Path) -> None:
    seen = in_a_frame(PROFILES[name](), tmp_path, 390)
    assert seen["widest"] > 40
    assert seen["fill"] != "rgb(0, 0, 0)", "the stylesheet was refused"


def test_hostile_names_run_nothing(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(render_html(hostile_profile()), encoding="utf-8")
    seen = dump(page, tmp_path)
    title = re.search(r"<title>(.*?)</title>", seen, re.DOTALL)
    assert title is not None
    assert title[1].startswith("vector_add on &lt;script&gt;")
    assert "<script" not in seen
    assert "<img" not in seen


def test_policy_stops_a_script_that_got_in_all_the_same(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    forged = render_html(profile()).replace("</main>", "<script>document.title = 'taken'</script></main>")
    page.write_text(forged, encoding="utf-8")
    assert "<title>taken</title>" not in dump(page, tmp_path)
