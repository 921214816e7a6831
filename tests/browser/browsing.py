"""A page opened from disk in headless Chromium, with the network off and everything it does written down."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PLAYWRIGHT = importlib.util.find_spec("playwright") is not None
NEEDS_A_BROWSER = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the path"),
    pytest.mark.skipif(not PLAYWRIGHT, reason="playwright is not installed: pip install -e '.[dev]'"),
]
MILLISECONDS = 300_000
"""Until a browser or a page is given up: a busy machine takes longer than Playwright's 30 s."""
HOSTILE = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">" * 40

# What is scrolled, folded or hidden has a place of its own.
WIDE = """() => {
  const root = document.documentElement;
  const apart = ".scroll, pre, details:not([open]), .visually-hidden, .skip, [hidden]";
  const shown = (e) => e.closest(apart) === null;
  const box = (e) => e.getBoundingClientRect();
  return {
    scroll: root.scrollWidth, client: root.clientWidth,
    wide: [...document.querySelectorAll("body *")].filter(
      (e) => shown(e) && (box(e).right > root.clientWidth + 1 || box(e).left < -1)
    ).slice(0, 5).map((e) => e.tagName + "." + (e.className.baseVal ?? e.className)),
  };
}"""

# Words of 2 to 24 characters that take two lines; a no-break space joins a number to its unit.
BROKEN = """() => {
  const broken = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const apart = ".scroll, pre, details:not([open]), .visually-hidden, .skip, [hidden], svg";
  const shown = (e) => e.closest(apart) === null;
  while (texts.nextNode()) {
    const node = texts.currentNode, range = document.createRange();
    if (!shown(node.parentElement)) continue;
    for (const word of node.data.matchAll(/[^ \\n\\-/]{2,24}/g)) {
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map((r) => Math.round(r.top))).size > 1) broken.push(word[0]);
    }
  }
  return broken;
}"""


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser; one serves many pages."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        args = ["--no-sandbox", "--disable-gpu"]
        browser = started.chromium.launch(executable_path=CHROMIUM, args=args, timeout=MILLISECONDS)
        yield browser
        browser.close()


class Visit:
    """A page with what it asked for and what went wrong in it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._heard: dict[Any, Callable[[Any], None]] = {
            "request": lambda request: self.requests.append(request.url),
            "console": lambda message: self.complaints.append(message.text),
            "pageerror": lambda error: self.complaints.append(str(error)),
            "dialog": lambda dialog: self.complaints.append(dialog.message),
        }
        for event, write in self._heard.items():
            page.on(event, write)

    def ask(self, script: str, given: object = None) -> Any:
        """What a script of ours, not the page's, finds in it."""
        return self.page.evaluate(script, given)

    def end(self) -> None:
        """The next visit finds an empty window that nobody listens to."""
        for event, write in self._heard.items():
            self.page.remove_listener(event, write)
        self.page.emulate_media(media="null")
        self.page.goto("about:blank")

    def resize(self, width: int, height: int = 900) -> None:
        self.page.set_viewport_size({"width": width, "height": height})


@cache
def window(browser: Browser, options: tuple[tuple[str, Any], ...]) -> Page:
    """Serves all visits with these options: a process for each page takes four times as long as the page."""
    context = browser.new_context(offline=True, **dict(options))
    context.set_default_timeout(MILLISECONDS)
    return context.new_page()


@contextmanager
def visit(
    browser: Browser, html: str, folder: Path, *, width: int = 1280, height: int = 900, **options: Any
) -> Iterator[Visit]:
    """The page from disk in a window of that size, offline; `options` are those of a browser context."""
    file = folder / "page.html"
    file.write_text(html, encoding="utf-8")
    seen = Visit(window(browser, tuple(options.items())))
    try:
        seen.resize(width, height)
        seen.page.goto(file.as_uri())
        seen.page.evaluate("document.querySelectorAll('.part').forEach((part) => { part.open = true; })")
        yield seen
        assert seen.requests == [file.as_uri()], "the page asked for something"
    finally:
        seen.end()
