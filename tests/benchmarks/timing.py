"""Interleaved timing of two ways to do the same, and one line per figure."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median


def alternate(ours: Callable[[], object], theirs: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Median seconds of each, called in turn, so that drift hits both alike."""
    times: tuple[list[float], list[float]] = ([], [])
    gc.disable()
    for _ in range(repeats):
        for call, kept in zip((ours, theirs), times, strict=True):
            start = time.perf_counter()
            call()
            kept.append(time.perf_counter() - start)
    gc.enable()
    return median(times[0]), median(times[1])


def command(arguments: Sequence[str]) -> float:
    """Seconds that one run of Python with these arguments takes."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    return time.perf_counter() - start


def show(what: str, figure: str, goal: str, *, met: bool) -> None:
    """One line."""
    print(f"{what:<58} {figure:>12}  {goal:<18} {'ok' if met else 'MISSED'}", flush=True)
