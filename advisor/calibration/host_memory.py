"""Rates at which one CPU thread reads, writes and copies into memory of each kind.

NumPy calls that run at memory speed: a fill, the largest of 64 bit words, a copy. The fill is not with 0: for
that arm64 clears whole cache lines without writing data. Nor is it of bytes: memset
writes past the caches, half as fast again as a program's stores (13.4 against 8.8 GB/s on an H200's host).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from advisor import units
from advisor.calibration.bench import Bench, positive, spread
from advisor.strategies.backend import host_array
from advisor.strategies.placements.arena import Arena

PLAIN = "host"
PINNED = "host_pinned"
WRITE_COMBINED = "host_write_combined"
MANAGED = "host_managed"
ALONE = "host_uncached_access_seconds"
"""One read of memory that the CPU does not cache, however wide it is."""
_ACCESSES = 1 << 14


def keys(kind: str) -> tuple[str, ...]:
    return tuple(f"{kind}_{what}_bytes_per_second" for what in ("read", "write", "copy"))


def measure_plain(bench: Bench) -> None:
    """Pageable memory, and the size of the cache beyond which it was measured."""
    _measure_kind(bench, PLAIN, lambda arena, size: arena.pageable(size))
    if bench.sizes.host_cache is None:
        bench.leave_out(["host_cache_bytes"], "Linux does not report the CPU cache sizes")


def measure_page_locked(bench: Bench) -> None:
    """Page-locked and write-combined memory. On Jetsons before Xavier the first is uncached on the CPU."""
    uncached = bench.backend.device().memory_class == "tegra"
    _measure_kind(bench, PINNED, lambda arena, size: arena.pinned(size), alone=uncached)
    for what in ("read", "write") if uncached else ():
        reading = bench.readings.get(f"{PINNED}_{what}_bytes_per_second")
        if reading:
            bench.readings[f"host_uncached_{what}_bytes_per_second"] = reading
    _measure_kind(bench, WRITE_COMBINED, lambda arena, size: arena.pinned(size, "write-combined"))


def measure_managed(bench: Bench) -> None:
    """Managed memory whose pages are at the host."""
    _measure_kind(bench, MANAGED, lambda arena, size: arena.managed(size), bench.sizes.managed)


def _measure_kind(
    bench: Bench,
    kind: str,
    take: Callable[[Arena, int], int],
    most: int | None = None,
    *,
    alone: bool = False,
) -> None:
    size = min(bench.sizes.host, most or bench.sizes.host)
    read, write, copy = keys(kind)
    with bench.attempt((*keys(kind), *[ALONE] * alone)), Arena(bench.backend) as arena:
        memory = host_array(take(arena, size), size, (size,), np.dtype(np.uint8))
        memory.fill(1)
        words = memory.view(np.uint64)
        # A sixteenth where reading all would take longer than a measurement may: so slow is only memory that
        # no cache holds, for which the size does not matter.
        part = words[: len(words) // 16]
        before = bench.clock()
        part.max()
        slow = (bench.clock() - before) * 16 * bench.limits.least > 4 * bench.limits.seconds
        readable = part if slow else words
        bench.keep_rate(read, readable.nbytes, bench.host_times(readable.max))
        bench.keep_rate(write, size, bench.host_times(lambda: words.fill(1)))
        plain, what = np.ones_like(memory), f"{units.size(size)} from plain memory"
        bench.keep_rate(copy, size, bench.host_times(lambda: np.copyto(memory, plain)), what)
        if alone:
            # One byte of every 128: no two of one line, so that no wider read brings both.
            apart = memory[: 128 * _ACCESSES : 128]
            each = spread([s / len(apart) for s in bench.host_times(apart.max)])
            bench.keep(ALONE, positive(each), f"{len(apart)} bytes, each on a line of its own")
