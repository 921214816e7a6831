"""The page in a real browser, opened from disk: it is drawn, fits its window, and asks for nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser.browsing import BROKEN, HOSTILE, NEEDS_A_BROWSER, WIDE, visit
from builders import (
    advice,
    all_strategies,
    catalogue_device,
    cpu_profile,
    failed,
    measured,
    predicted,
    prediction,
    profile,
    recommendation,
)
from rendering import shown
from test_device_comparison import hostile as hostile_devices
from test_device_comparison import mixed
from test_report_compare import cpu, gpu
from test_report_compare import hostile as hostile_pair
from test_report_escaping import everywhere

from advisor.profiles.reading import load
from advisor.profiles.schema import Profile
from advisor.report import html
from advisor.report.comparison_page import comparison_page
from advisor.report.pages import page_of, render

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = NEEDS_A_BROWSER
H200 = Path(__file__).parents[1] / "data" / "h200-vector_add.json"


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


PROFILES = {
    "gpu": profile,
    "cpu": cpu_profile,
    "hostile": hostile_profile,
    "all": all_strategies,
    "h200": lambda: load(H200),
}


LONG = HOSTILE + "endless" * 500
PAGES = {
    **{name: lambda make=make: page_of(make()) for name, make in PROFILES.items()},
    "compared gpu": lambda: comparison_page(*gpu(), ("base.json", "head.json")),
    "compared cpu": lambda: comparison_page(*cpu()),
    "compared hostile": lambda: comparison_page(*hostile_pair(LONG), (LONG, LONG)),
    "devices": lambda: page_of(mixed()),
    "hostile devices": lambda: page_of(hostile_devices(LONG)),
}


@pytest.mark.parametrize("name", PAGES)
def test_page_fits_its_window_and_nothing_comes_alive(name: str, browser: Browser, tmp_path: Path) -> None:
    with visit(browser, render(PAGES[name](), "html"), tmp_path) as seen:
        for unfold in (False, True):
            if unfold:
                seen.ask("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            for width in (320, 390, 820, 1280):
                seen.resize(width)
                assert seen.ask(WIDE) == {"scroll": width, "client": width, "wide": []}, f"{unfold=}"
        assert seen.complaints == []
        assert seen.ask("document.title") != "taken"


@pytest.mark.parametrize("width", [390, 1280])
def test_the_sentence_of_a_comparison_is_on_the_first_screen(
    width: int, browser: Browser, tmp_path: Path
) -> None:
    page = render(PAGES["compared gpu"](), "html")
    with visit(browser, page, tmp_path, width=width, height=800) as seen:
        for part in ("text=recommendation-changes failed", ".headline"):
            box = seen.page.locator(part).first.bounding_box()
            assert box["y"] + box["height"] <= 800, part


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


@pytest.mark.parametrize("name", PROFILES)
def test_charts_are_drawn_in_colour(name: str, browser: Browser, tmp_path: Path) -> None:
    with visit(browser, shown(PROFILES[name](), "html"), tmp_path, width=390) as seen:
        bars = "[...document.querySelectorAll('.race rect.segment')]"
        assert seen.ask(f"Math.max(...{bars}.map((e) => e.getBoundingClientRect().width))") > 10
        assert seen.ask(f"getComputedStyle({bars}[0]).fill") not in ("none", "rgb(0, 0, 0)")
        assert seen.complaints == []


def test_predicted_bars_have_stripes_and_measured_ones_have_none(browser: Browser, tmp_path: Path) -> None:
    for run, hatched in ((profile(), False), (cpu_profile(predictions=cpu_profile().predictions[:1]), True)):
        with visit(browser, shown(run, "html"), tmp_path) as seen:
            fills = seen.ask(
                "[...document.querySelectorAll('.race rect.segment')].map((e) => getComputedStyle(e).fill)"
            )
            assert any("hatch-" in fill for fill in fills) == hatched
            stripes = seen.ask(
                "[...document.querySelectorAll('pattern .stripe')].map((e) => getComputedStyle(e).fill)"
            )
            assert bool(stripes) == hatched, "a page has the patterns that it uses"
            assert "none" not in stripes


PARTS = """() => Object.fromEntries(
  ["script", "img", "iframe", "object", "embed", "form", "input", "link", "svg", "section", "article"].map(
    (tag) => [tag, document.querySelectorAll(tag).length]))"""
MARKS = "\u202e\u200f\u061c\u2067\ufeff"


@pytest.fixture(scope="module")
def plain_parts(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Any:
    with visit(browser, shown(everywhere("plain"), "html"), tmp_path_factory.mktemp("plain")) as seen:
        return seen.ask(PARTS)


@pytest.mark.parametrize(
    "text",
    [
        HOSTILE,
        "<svg onload=\"document.title='taken'\"><use href=x></svg>",
        "{{ 7 * 7 }}{% raw %}{# ",
        "\"'`=onmouseover=alert(1)//",
        "</script><script>document.title='taken'</script></style></title>",
        "<b>" * 40_000,
        f"{MARKS}a\u05d0b",
    ],
    ids=["script", "svg", "template", "attribute", "end tags", "long", "marks"],
)
def test_whatever_a_profile_says_is_text(
    text: str, plain_parts: Any, browser: Browser, tmp_path: Path
) -> None:
    with visit(browser, shown(everywhere(text), "html"), tmp_path) as seen:
        assert seen.ask(PARTS) == plain_parts
        assert seen.ask("document.title") != "taken"
        assert seen.complaints == []
        assert not set(seen.ask("document.body.innerText")) & set(MARKS)
        assert "49" not in seen.ask("document.querySelector('h1').innerText")


def test_policy_stops_a_script_that_got_in_all_the_same(browser: Browser, tmp_path: Path) -> None:
    forged = shown(profile(), "html").replace("</main>", "<script>document.title = 'taken'</script></main>")
    with visit(browser, forged, tmp_path) as seen:
        assert seen.ask("document.title") != "taken"
        assert "Content Security Policy" in " ".join(seen.complaints)
