"""What the program itself costs: commands with their start-up, pages, predictions, intervals and tensors."""

from __future__ import annotations

import importlib.util
import random
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from published_cases import matrix_product
from rendering import shown

from advisor import stats
from advisor.devices import catalogue
from advisor.measure.backends import CpuBackend
from advisor.model.predict import predict
from advisor.profiles.reading import load
from advisor.profiles.schema import Measured, Profile
from advisor.workloads.binding import BoundStage, bind
from advisor.workloads.bridges import StageBridges
from advisor.workloads.definition import Buffer, In, Out, Workload, device
from tests.benchmarks.frame_loop import WORKLOAD
from tests.benchmarks.timing import alternate, at_most, command, paired_ratio, show
from tests.browser.browsing import CHROMIUM, PLAYWRIGHT, chromium

SAMPLE = Path(__file__).parents[1] / "data" / "h200-vector_add.json"
# Milliseconds since navigation, as the browser says; it may tell a little after the load.
PAINT = """() => new Promise((tell) => new PerformanceObserver((seen) => {
  const paint = seen.getEntriesByName("first-contentful-paint")[0];
  if (paint) tell(paint.startTime);
}).observe({type: "paint", buffered: true}))"""
REPEATS = 5


def run() -> None:
    with tempfile.TemporaryDirectory() as name:
        commands(Path(name))
        pages(Path(name))
    intervals()
    predictions()
    if importlib.util.find_spec("torch"):
        tensors()


def commands(out: Path) -> None:
    """Start-up as a ratio, the whole profile and the report in seconds, the page in KB."""
    for what, arguments in (
        ("import advisor", ["-c", "import advisor"]),
        ("advisor --help", ["-m", "advisor", "--help"]),
    ):
        yardstick = partial(command, ["-c", "import typer, rich"])
        ratio, low, high = paired_ratio(alternate(partial(command, arguments), yardstick, repeats=15))
        figure = f"{ratio:.2f} ({low:.2f} to {high:.2f})"
        show(f"{what}: ratio to `import typer, rich`", figure, "<= 1.5", met=low <= 1.5)
    profile = ["-m", "advisor", "profile", str(WORKLOAD), "--no-gpu", "--quiet", "--out", str(out)]
    at_most("advisor profile workloads/vector_add.py, no GPU", command(profile), 60)
    at_most("advisor report, start-up included", report(out / "profile.json", out), 1.5, "{:.2f} s")
    at_most("report.html", (out / "report.html").stat().st_size / 1e3, 300, "{:.0f} KB")


def report(file: Path, out: Path, repeats: int = REPEATS) -> float:
    """Seconds that the command takes."""
    arguments = ["-m", "advisor", "report", str(file), "--quiet", "--out", str(out)]
    return median(command(arguments) for _ in range(repeats))


def pages(out: Path) -> None:
    """A measured profile with all strategies; the same with 3,000 frames of each; and as large as is read: a
    profile holds at most 4,000,000 values."""
    sample, huge = load(SAMPLE), out / "huge.json"
    at_most("advisor report, 13 strategies of an H200", report(SAMPLE, out), 1.5, "{:.2f} s")
    full = shown(with_frames(sample, 3_000), "html")
    at_most("report.html, 3,000 frames of each strategy", len(full.encode()) / 1e3, 400, "{:.0f} KB")
    first_paint(full, out)
    with_frames(sample, 300_000).save(huge)
    what = f"advisor report, a profile of {huge.stat().st_size / 1e6:.0f} MB"
    at_most(what, report(huge, out, repeats=1), 10)


def with_frames(profile: Profile, frames: int) -> Profile:
    """So many frames for every measured strategy, spread by a few percent, in nanoseconds."""
    chance = random.Random(0)

    def many(row: Measured) -> Measured:
        times = (round(row.median_seconds * chance.lognormvariate(0, 0.05), 9) for _ in range(frames))
        return row.model_copy(update={"frame_seconds": tuple(times), "frames_per_round": (frames,)})

    rows = tuple(many(row) if isinstance(row, Measured) else row for row in profile.results)
    return profile.model_copy(update={"results": rows})


def first_paint(html: str, out: Path) -> None:
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


def intervals() -> None:
    """Those of a report: 14 strategies, 3 rounds of 333 frames; as a ratio to sorting the same frames."""
    generator = np.random.default_rng(7)
    runs = [generator.lognormal(0, 0.02, (3, 333)).tolist() for _ in range(14)]

    def concluded() -> None:
        for data in runs:
            stats.median_interval(data)
            stats.ratio_interval(data, runs[0])

    ratio, *_ = paired_ratio(alternate(concluded, lambda: [np.sort(data[0]) for data in runs], 5))
    at_most("intervals of a report: ratio to sorting", ratio, 2000, "{:.0f}")


def predictions() -> None:
    """All devices, all strategies, the entries read from disk: beyond the CPU run."""
    profile, names, seconds = matrix_product(1024), catalogue.names(), []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        for name in names:
            predict(profile, catalogue.load(name))
        seconds.append(time.perf_counter() - begin)
    at_most(f"predicting one workload for {len(names)} devices", median(seconds), 0.5, "{:.2f} s")


def tensors() -> None:
    """What one buffer costs a stage that asks for tensors."""

    def nothing(a: In, b: Out) -> None: ...

    def stage(**options: Any) -> BoundStage:
        buffers = {name: Buffer(64, np.float32) for name in "ab"}
        return bind(Workload(buffers, [device(nothing, **options)])).frame[0]

    array, bridges = np.zeros(64, np.float32), StageBridges(stage(arrays="torch"), CpuBackend())
    wrapping, viewing = alternate(lambda: bridges.shared("a", array), array.view, 1000)
    added = median(wrapping) - median(viewing)
    at_most("a tensor of a buffer: added to a view", added * 1e6, 50, "{:.1f} µs")
