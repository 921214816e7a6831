"""Sampling: warm up, time frames, then break a few frames down. Windows for energy.

Counters tick: NVML renews its figures of power every 20 to 100 ms, by the GPU (Yang, Adamek and Armour,
"Part-time power measurements: nvidia-smi's lack of attention", 2023). A window goes from tick to tick, so
that none is cut.
"""

from __future__ import annotations

import gc
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from advisor.devices.energy import Meter

Clock = Callable[[], float]
MIN_FRAMES = 5
"""The fewest frames whose median has an interval of 95 % (David and Nagaraja, "Order Statistics", 7.1)."""
MAX_FRAMES = 1000
"""A process screens: what a strategy comes to is decided by the final's blocks."""
STEADY = 0.02
"""Frames that are quicker than those before by no more are warm."""
LEAST_WARM = 0.01
"""Seconds that warming up takes at least: on an H200 the first 10 ms after a wait are not representative."""
CLOCK_READINGS = 8
"""Most readings of the clock between frames that are timed together."""
_CLOCK_DIGITS = 9
"""The clock counts nanoseconds; further digits of a difference of floats are noise, and half of the file."""


class Frames(Protocol):
    """Frames that run in order, each once: what runs some of them advances `index`, that of the next one.
    `period`: frames after which the pattern of stages repeats that run in some frames only."""

    index: int

    @property
    def period(self) -> int: ...
    def frame(self, index: int) -> None: ...
    def timed_frame(self, index: int) -> dict[str, float]: ...


@dataclass(frozen=True)
class Samples:
    frame_seconds: tuple[float, ...]
    spent: dict[str, Any]
    """Fields of `FrameFigures`, of a frame on average."""


Counters = Mapping[str, Callable[[], float]]


COUNTERS: Counters = {"cpu_seconds": time.process_time}
"""Readers of `FrameFigures` in this process, each a growing total."""


class Spending:
    def __init__(self, counters: Counters = COUNTERS) -> None:
        self._counters = counters
        self._before = {name: read() for name, read in counters.items()}

    def per_frame(self, frames: int) -> dict[str, Any]:
        return {name: (read() - self._before[name]) / frames for name, read in self._counters.items()}


def warm_up(loop: Frames, clock: Clock, limit: float, slow: float = math.inf) -> None:
    """Runs frames until they get no quicker, three at least.

    Twice as many each time, until they are not quicker on average than those before, by more than `STEADY`,
    or `limit` seconds are over. One is enough where it takes `slow` seconds: what it could warm up is little
    beside that.
    """
    begin, before, count = clock(), math.inf, 1
    while True:
        start = clock()
        for index in range(loop.index, loop.index + count):
            loop.frame(index)
        loop.index += count
        end = clock()
        mean = (end - start) / count
        steady = mean >= before * (1 - STEADY) and end - begin >= LEAST_WARM
        enough = mean >= slow if count == 1 else (steady or end - begin >= limit)
        if enough:
            return
        before, count = mean, 2 * count


def settled(curves: Iterable[Sequence[float]]) -> int:
    """The fewest frames after which the next tenth of all, and those up to the middle, are on average no
    slower than the later ones.

    curves: for each contestant the seconds of frames that follow one another; those that the time cut short
    tell nothing. Single frames are noise: the median of a tenth of all counts. 0 where they were so from the
    first.
    """
    every = list(curves)
    longest = max(map(len, every), default=0)
    times = np.array([frames for frames in every if len(frames) == longest > 1])
    if not times.size:
        return 0
    half, width = times.shape[1] // 2, max(1, times.shape[1] // 10)
    usual = np.median(times[:, half:], axis=1, keepdims=True)
    windows = np.lib.stride_tricks.sliding_window_view((times / usual).mean(axis=0), width)
    around = np.median(windows, axis=1)
    limit = (1 + STEADY) * float(np.median(around[half:]))

    def is_steady(at: int) -> bool:
        return all(around[at:end].mean() <= limit for end in (at + width, half))

    first = next(filter(is_steady, range(half)), half)
    return first + width // 2 if first else 0


def sample(
    loop: Frames, clock: Clock, seconds: float, least: int = MIN_FRAMES, counters: Counters = COUNTERS
) -> Samples:
    """Times frames for so many seconds, with the garbage collector at rest. Frames that differ are timed in
    whole periods, `least` of them, and a sample is the mean of a period."""
    period = loop.period
    with quiet():
        spending = Spending(counters)
        times = timed_block(loop, clock, MAX_FRAMES * period, most=seconds, least=least * period)
        spent = spending.per_frame(len(times))
    means = (sum(times[at : at + period]) / period for at in range(0, len(times), period))
    return Samples(tuple(means), spent)


def timed_block(loop: Frames, clock: Clock, count: int, *, most: float, least: int = 1) -> list[float]:
    """Seconds of each of `count` frames by contiguous timestamps: together they are the block's time. most:
    after so many seconds, and `least` frames, it ends with the period that runs."""
    frame, period, marks = loop.frame, loop.period, [clock()]
    for ran, index in enumerate(range(loop.index, loop.index + count), start=1):
        frame(index)
        marks.append(clock())
        if marks[-1] - marks[0] >= most and ran >= least and ran % period == 0:
            break
    loop.index += len(marks) - 1
    return [round(after - before, _CLOCK_DIGITS) for before, after in pairwise(marks)]


def timed_together(loop: Frames, clock: Clock, count: int, *, most: float) -> tuple[float, int]:
    """Seconds of `count` frames, and how many ran: after `most` seconds it ends with a period. The clock is
    read a few times only: between frames that would be a share of short ones."""
    frame, first, last = loop.frame, loop.index, loop.index + count
    step, begin = loop.period * math.ceil(count / loop.period / CLOCK_READINGS), clock()
    while loop.index < last and (loop.index == first or clock() - begin < most):
        ahead = min(loop.index + step, last)
        for index in range(loop.index, ahead):
            frame(index)
        loop.index = ahead
    return clock() - begin, loop.index - first


def breakdown(loop: Frames, clock: Clock, seconds: float, slow: float = math.inf) -> list[dict[str, float]]:
    """Up to ten separately timed frames, three at least, but one that takes `slow`: seconds by label. Of
    frames that differ, so many periods: each as the mean of its frames, where one without a label takes no
    time for it. One more goes before them, which does not count: it warms up, and tells how long launching
    takes."""
    frames: list[dict[str, float]] = []
    begin = clock()
    while len(frames) < 4 or (len(frames) < 11 and clock() < begin + seconds):
        period = range(loop.index, loop.index + loop.period)
        timed = [loop.timed_frame(index) for index in period]
        labels = dict.fromkeys(label for frame in timed for label in frame)
        frames.append({n: sum(frame.get(n, 0.0) for frame in timed) / len(timed) for n in labels})
        loop.index = period.stop
        if len(frames) == 1 and clock() - begin >= slow:
            return frames
    return frames[1:]


WINDOW_SECONDS = 2.0
IDLE_SECONDS = 1.0
LONGEST_TICK = 0.5
"""Seconds after which a counter that does not change is used as it is."""
_LOOK_SECONDS = 0.005
"""Between two looks at the counter, since asking takes time from the frames."""


@dataclass(frozen=True)
class Window:
    runs: int
    seconds: float
    joules: tuple[float, ...]


def window(
    run: Callable[[], object], meters: Sequence[Meter], clock: Clock, seconds: float = WINDOW_SECONDS
) -> Window:
    """Calls `run` from one tick of the counters to the first one after `seconds`. meters: one for each GPU.
    Raises `Unmetered` where a counter is lost."""
    _, began, before = _tick(run, meters, clock)
    ran = 0
    while clock() < began + seconds:
        run()
        ran += 1
    more, ended, after = _tick(run, meters, clock)
    joules = tuple(now - then for then, now in zip(before, after, strict=True))
    return Window(ran + more, ended - began, joules)


def idle_watts(meters: Sequence[Meter], clock: Clock, sleep: Callable[[float], None]) -> tuple[float, ...]:
    idle = window(lambda: sleep(_LOOK_SECONDS), meters, clock, IDLE_SECONDS)
    return tuple(max(joules, 0.0) / idle.seconds for joules in idle.joules)


def _tick(
    run: Callable[[], object], meters: Sequence[Meter], clock: Clock
) -> tuple[int, float, tuple[float, ...]]:
    """How often it ran, the moment, and the joules of each meter."""
    ran, before, begin = 0, tuple(meter.joules() for meter in meters), clock()
    while True:
        start = clock()
        while clock() < start + _LOOK_SECONDS:
            run()
            ran += 1
        joules, now = tuple(meter.joules() for meter in meters), clock()
        if joules != before or now >= begin + LONGEST_TICK:
            return ran, now, joules


@contextmanager
def quiet() -> Iterator[None]:
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def unpreempted_clock(file: str = "/proc/thread-self/schedstat") -> Clock:
    """A clock for versions on the CPU device, where other work on the machine would hide their difference.

    It stops while the thread that made it is ready to run and waits for a CPU that others have; it is
    `perf_counter` where the kernel does not count that (Documentation/scheduler/sched-stats.rst,
    /proc/PID/schedstat, second field). On two cores that fourteen processes shared, a loop of 1.71 s took
    11.54 s, of which 9.84 s were such waiting.
    """

    def waiting_nanoseconds() -> int:
        return int(os.pread(descriptor, 80, 0).split()[1])

    def clock() -> float:
        before = waiting_nanoseconds()
        while True:
            now, after = time.perf_counter(), waiting_nanoseconds()
            if after == before:
                return now - after * 1e-9
            before = after

    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        clock()
    except (OSError, ValueError, IndexError):
        return time.perf_counter
    return clock
