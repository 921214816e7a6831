"""How fast one thread of this CPU reads and writes memory: its part of a host stage's time."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np

from advisor.profiles.traces import HostRates

SIZE = 64 << 20
"""Bytes past the caches of one core, and a tenth of a second in all on a server."""
_TIMES = 3


def host_rates(clock: Callable[[], float] = perf_counter, size: int = SIZE) -> HostRates | None:
    """Bytes per second, the best of three, as calibration measures them; None without the memory for it."""
    try:
        words = np.ones(size // 8, np.uint64)
    except MemoryError:
        return None

    def rate(run: Callable[[], object]) -> float:
        seconds = []
        for _ in range(_TIMES):
            before = clock()
            run()
            seconds.append(clock() - before)
        return size / max(min(seconds), 1e-9)

    return HostRates(
        read_bytes_per_second=rate(words.max),
        write_bytes_per_second=rate(lambda: words.fill(1)),
    )
