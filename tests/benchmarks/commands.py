"""What the commands take, start-up included."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from statistics import median

from tests.benchmarks.frame_loop import WORKLOAD
from tests.benchmarks.timing import alternate, at_most, command, paired_ratio, show

YARDSTICK = ["-c", "import typer, rich"]


def run() -> None:
    """Start-up as a ratio, the whole profile and the report in seconds, the page in KB."""
    for what, arguments in (
        ("import advisor", ["-c", "import advisor"]),
        ("advisor --help", ["-m", "advisor", "--help"]),
    ):
        times = alternate(partial(command, arguments), partial(command, YARDSTICK), repeats=15)
        ratio, low, high = paired_ratio(times)
        figure = f"{ratio:.2f} ({low:.2f} to {high:.2f})"
        show(f"{what}: ratio to `import typer, rich`", figure, "<= 1.5", met=low <= 1.5)
    with tempfile.TemporaryDirectory() as name:
        out = Path(name)
        profile = ["-m", "advisor", "profile", str(WORKLOAD), "--no-gpu", "--quiet", "--out", str(out)]
        at_most("advisor profile workloads/vector_add.py, no GPU", command(profile), 60)
        report = ["-m", "advisor", "report", str(out / "profile.json"), "--quiet"]
        seconds = median(command(report) for _ in range(5))
        at_most("advisor report, start-up included", seconds, 1.5, "{:.2f} s")
        at_most("report.html", (out / "report.html").stat().st_size / 1e3, 300, "{:.0f} KB")
