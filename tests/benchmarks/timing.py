"""Interleaved timing of two ways to do the same, and one line per figure."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from statistics import median

from advisor import stats

ROOT = Path(__file__).parents[2]
Times = tuple[list[float], list[float]]


def alternate(ours: Callable[[], object], theirs: Callable[[], object], repeats: int) -> Times:
    """Seconds of each, called in turn and each first as often as the other, so that drift hits both alike."""
    times: Times = ([], [])
    both = list(zip((ours, theirs), times, strict=True))
    gc.disable()
    for _ in range(repeats):
        for call, kept in both:
            start = time.perf_counter()
            call()
            kept.append(time.perf_counter() - start)
        both.reverse()
    gc.enable()
    return times


def paired_ratio(times: Times) -> tuple[float, float, float]:
    """The median ratio of neighbours in time, and the 95 % interval of it."""
    ratios = [ours / theirs for ours, theirs in zip(*times, strict=True)]
    return median(ratios), *stats.median_interval([ratios])


def command(arguments: Sequence[str]) -> float:
    """Seconds that one run of Python with these arguments takes, from the project's root."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True, cwd=ROOT)
    return time.perf_counter() - start


def peak_megabytes() -> float:
    """The most memory that this process held; getrusage tells its parent's, from before exec."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    (most,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
    return most * 1024 / 1e6


@contextmanager
def kept_in(path: Path) -> Iterator[None]:
    """Lines shown within it are added to the file too, with the date."""
    _KEPT.append(path)
    try:
        yield
    finally:
        _KEPT.pop()


_KEPT: list[Path] = []


def at_most(what: str, value: float, limit: float, form: str = "{:.1f} s", note: str = "") -> None:
    """A line for a figure with a limit, in the limit's unit."""
    unit = form.partition("}")[2]
    show(what, form.format(value) + note, f"<= {limit:g}{unit}", met=value <= limit)


def show(what: str, figure: str, goal: str, *, met: bool) -> None:
    line = f"{what:<58} {figure:>12}  {goal:<18} {'ok' if met else 'MISSED'}"
    print(line, flush=True)
    for path in _KEPT:
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{datetime.now(timezone.utc):%Y-%m-%d}  {line}\n")
