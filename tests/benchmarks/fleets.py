"""What a fleet costs beyond its profiles, and what a thousand of them make."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from advisor.fleets.storage import concluded, slug
from advisor.profiles.fleets import FleetRecord, Row
from advisor.profiles.reading import load
from advisor.report import pages
from advisor.report.several_pages import fleet_page
from tests.benchmarks.costs import SAMPLE
from tests.benchmarks.timing import ROOT, at_most, command, peak_megabytes

WORKLOAD = ("workloads/vector_add.py", "--no-gpu", "--set", "n=4096", "--rounds", "1", "--target", "h200")
TASKS = 4
PROFILES = 1000


def run() -> None:
    """The overhead of a profile, and a page of 1,000."""
    _overhead()
    subprocess.run([sys.executable, "-m", "tests.benchmarks.fleets"], cwd=ROOT, check=True)


def _overhead() -> None:
    """Of each profile of a sweep on one worker, beside `advisor profile` with the same options."""
    with tempfile.TemporaryDirectory() as name:
        out = Path(name)
        plain = command(["-m", "advisor", "profile", *WORKLOAD, "--quiet", "--out", str(out / "one")])
        values = ",".join(str(4096 + i) for i in range(TASKS))
        fleet = [word for word in WORKLOAD if word not in ("--set", "n=4096")]
        arguments = ["-m", "advisor", "fleet", *fleet, "--local", "1", "--quiet", "--sweep", f"n={values}"]
        command([*arguments, "--out", str(out / "fleet")])
        rows = [Row.model_validate_json(file.read_text()) for file in (out / "fleet").glob("*/*/row.json")]
    beyond = sum(row.seconds for row in rows) / len(rows) - plain
    at_most("advisor fleet, a profile beyond advisor profile", beyond, 1, "{:.2f} s")


def _thousand() -> None:
    """As many profiles of a measured H200 as files, each under its own name, become rows and one page."""
    text = SAMPLE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as name:
        files = [Path(name) / f"{number}.json" for number in range(PROFILES)]
        for file in files:
            file.write_text(text, encoding="utf-8")
        start = time.perf_counter()
        rows = tuple(_row(number, file) for number, file in enumerate(files))
        record = FleetRecord(request="", workload="vector_add", created="", rows=rows)
        html = pages.render(fleet_page(record), "html")
        seconds = time.perf_counter() - start
    megabytes = peak_megabytes()
    at_most(f"fleet.html of {PROFILES} profiles", seconds, 10)
    at_most("  its memory", megabytes, 500, "{:.0f} MB")
    at_most("  its size", len(html.encode()) / 1e6, 3, "{:.2f} MB")


def _row(number: int, file: Path) -> Row:
    device = f"NVIDIA H200 #{number}"
    row = Row(task=str(number), device=device, status="profiled", folder=slug(device))
    return concluded(row, load(file))


if __name__ == "__main__":
    _thousand()
