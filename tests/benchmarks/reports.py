"""What a report costs: time to make it, its size, time until a browser shows it, and what 50 MB take."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from statistics import median

from rendering import shown

from advisor.profiles.reading import load
from advisor.profiles.schema import Measured, Profile
from tests.benchmarks.timing import at_most, command
from tests.browser.browsing import CHROMIUM, PLAYWRIGHT, chromium

SAMPLE = Path(__file__).parents[1] / "data" / "h200-vector_add.json"
# Milliseconds since navigation, as the browser says; it may tell a little after the load.
PAINT = """() => new Promise((tell) => new PerformanceObserver((seen) => {
  const paint = seen.getEntriesByName("first-contentful-paint")[0];
  if (paint) tell(paint.startTime);
}).observe({type: "paint", buffered: true}))"""
REPEATS = 5


def run() -> None:
    """A measured profile with all strategies; the same with 3,000 frames of each; and as large as is read."""
    sample = load(SAMPLE)
    with tempfile.TemporaryDirectory() as name:
        out = Path(name)
        arguments = ["-m", "advisor", "report", str(SAMPLE), "--quiet", "--out", str(out)]
        seconds = median(command(arguments) for _ in range(REPEATS))
        at_most("advisor report, 13 strategies of an H200", seconds, 1.5, "{:.2f} s")
        full = shown(with_frames(sample, 3_000), "html")
        at_most("report.html, 3,000 frames of each strategy", len(full.encode()) / 1e3, 400, "{:.0f} KB")
        _first_paint(full, out)
        _huge(sample, out)


def with_frames(profile: Profile, frames: int) -> Profile:
    """So many frames for every measured strategy, spread by a few percent, in nanoseconds."""
    chance = random.Random(0)

    def many(row: Measured) -> Measured:
        times = (round(row.median_seconds * chance.lognormvariate(0, 0.05), 9) for _ in range(frames))
        return row.model_copy(update={"frame_seconds": tuple(times), "frames_per_round": (frames,)})

    rows = tuple(many(row) if isinstance(row, Measured) else row for row in profile.results)
    return profile.model_copy(update={"results": rows})


def _first_paint(html: str, out: Path) -> None:
    """Until a fresh tab of a warm browser shows the first text of a page from disk."""
    what = "first contentful paint in headless Chromium"
    if CHROMIUM is None or not PLAYWRIGHT:
        print(f"{what:<58} skipped: no chromium or no playwright")
        return
    page = out / "page.html"
    page.write_text(html, encoding="utf-8")
    times = []
    with chromium() as browser:
        for _ in range(REPEATS):
            tab = browser.new_page()
            tab.goto(page.as_uri())
            times.append(float(tab.evaluate(PAINT)))
            tab.close()
    at_most(what, median(times), 300, "{:.0f} ms")


def _huge(sample: Profile, out: Path) -> None:
    """As many frames as are read: a profile holds at most 4,000,000 values."""
    file = out / "huge.json"
    with_frames(sample, 300_000).save(file)
    seconds = command(["-m", "advisor", "report", str(file), "--quiet", "--out", str(out)])
    at_most(f"advisor report, a profile of {file.stat().st_size / 1e6:.0f} MB", seconds, 10)
