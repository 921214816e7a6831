"""What the commands take, start-up included."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from statistics import median

from tests.benchmarks.frame_loop import WORKLOAD
from tests.benchmarks.timing import alternate, command, paired_ratio, show

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
        seconds = command(
            ["-m", "advisor", "profile", str(WORKLOAD), "--no-gpu", "--quiet", "--out", str(out)]
        )
        show(
            "advisor profile workloads/vector_add.py, no GPU",
            f"{seconds:.1f} s",
            "<= 60 s",
            met=seconds <= 60,
        )
        times = [command(["-m", "advisor", "report", str(out / "profile.json"), "--quiet"]) for _ in range(5)]
        seconds = median(times)
        show("advisor report, start-up included", f"{seconds:.2f} s", "<= 1.5 s", met=seconds <= 1.5)
        size = (out / "report.html").stat().st_size / 1e3
        show("report.html", f"{size:.0f} KB", "<= 300 KB", met=size <= 300)
