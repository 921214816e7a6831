"""A clock for versions on the CPU device, where other work on the machine would hide their difference.

It stops while the thread that made it is ready to run and waits for a CPU that others have. Linux
counts that for every thread (Documentation/scheduler/sched-stats.rst, /proc/PID/schedstat, second field). On
two cores that fourteen processes shared, a loop of 1.71 s took 11.54 s, of which 9.84 s were such waiting.
"""

from __future__ import annotations

import os
from time import perf_counter

from advisor.measure.sampling import Clock

_FILE = "/proc/thread-self/schedstat"


def undelayed(file: str = _FILE) -> Clock:
    """That clock for the thread that calls this; `perf_counter` where the kernel does not count."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        _waited(descriptor)
    except (OSError, ValueError, IndexError):
        return perf_counter

    def clock() -> float:
        before = _waited(descriptor)
        while True:
            now, after = perf_counter(), _waited(descriptor)
            if after == before:
                return now - after * 1e-9
            before = after

    return clock


def _waited(descriptor: int) -> int:
    """Nanoseconds so far."""
    return int(os.pread(descriptor, 80, 0).split()[1])
