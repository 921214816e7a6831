"""What recording a script costs: events a second of the script plain and recorded, and the overhead told."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from advisor.profiles.reading import load
from tests.benchmarks.timing import ROOT, show

EVENTS, TURNS, GOAL, NEAR = 20_000, 5, 5e-6, 0.25
_SCRIPT = f"""
import time
import cupy, numpy as np
host = np.zeros(256, np.float32)
array = cupy.asarray(host)
begin = time.perf_counter()
for _ in range({EVENTS} // 2):
    array.set(host)
    array.get()
print("EVENTS", {EVENTS} / (time.perf_counter() - begin))
"""
_MOCK = """
import sys, runpy
from advisor.measure.recording.played_cupy import modules
sys.modules.update(modules())
import cupy
cupy._watch.heard = lambda: None
runpy.run_path(sys.argv[1])
"""


def run(*, gpu: bool = False) -> None:
    """Tiny copies one after the other: the most that recording can cost."""
    with tempfile.TemporaryDirectory() as name:
        script, out = Path(name) / "copies.py", Path(name) / "out"
        script.write_text(_SCRIPT, encoding="utf-8")
        options = ["--out", str(out), *([] if gpu else ["--no-gpu"])]
        commands = (
            [str(script)] if gpu else ["-c", _MOCK, str(script)],
            ["-m", "advisor", "profile", str(script), *options],
        )
        turns = [[_rate(each) for each in commands] for _ in range(TURNS)]
        plain, recorded = map(median, zip(*turns, strict=True))
        script = load(out / "profile.json").script
    assert script
    (loop,) = script.loops
    added, told = 1 / recorded - 1 / plain, (loop.overhead_seconds or 0.0) / loop.seconds
    figure, real = f"{added * 1e6:.1f} µs", 1 - recorded / plain
    show("recording: added to a copy", figure, f"<= {GOAL * 1e6:.0f} µs", met=added <= GOAL)
    is_near = abs(told - real) <= NEAR * real
    show("recording: overhead told", f"{told:.0%}", f"{real:.0%} within a quarter", met=is_near)
    print(f"    {plain:,.0f} events/s plain, {recorded:,.0f} recorded")


def _rate(arguments: list[str]) -> float:
    """What the script printed."""
    run = subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True, cwd=ROOT)
    return float(re.search(r"EVENTS ([\d.]+)", run.stdout + run.stderr)[1])  # type: ignore[index]
