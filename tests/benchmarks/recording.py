"""What recording a script costs: seconds of the script plain and recorded, and the overhead told."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from advisor.profiles.reading import load
from tests.benchmarks.timing import ROOT, at_most, show

BLOCK, BLOCKS, TURNS, GOAL = 1000, 50, 3, 5
_SCRIPT = f"""
import time
import cupy, numpy as np
host = np.zeros(256, np.float32)
array = cupy.asarray(host)
seconds = []
for _ in range({BLOCKS}):
    begin = time.perf_counter()
    for _ in range({BLOCK} // 2):
        array.set(host)
        array.get()
    seconds.append(time.perf_counter() - begin)
print("SECONDS", min(seconds), sum(seconds) / {BLOCKS})
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
        turns = [[_seconds(each) for each in commands] for _ in range(TURNS)]
        script = load(out / "profile.json").script
    assert script
    loop = script.loops[-1]
    plain, recorded = (min(least for least, _ in command) for command in zip(*turns, strict=True))
    at_most("recording: added to a copy", (recorded - plain) / BLOCK * 1e6, GOAL, "{:.1f} µs")
    (_, plain_mean), (_, recorded_mean) = turns[-1]
    told, real = (loop.overhead_seconds or 0.0) / loop.seconds, 1 - plain_mean / recorded_mean
    show("recording: overhead told", f"{told:.0%}", f"at most {real:.0%}", met=0 < told <= real)
    print(f"    {BLOCK / plain:,.0f} events/s plain, {BLOCK / recorded:,.0f} recorded, in the fastest blocks")


def _seconds(arguments: list[str]) -> tuple[float, float]:
    """The script's fastest block, and their mean."""
    run = subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True, cwd=ROOT)
    least, mean = re.search(r"SECONDS (\S+) (\S+)", run.stdout + run.stderr).groups()  # type: ignore[union-attr]
    return float(least), float(mean)
