"""Rates at which one CPU thread reads, writes and copies into memory of each kind; copies between host and
device by size, and the rate and the cost of a call that follow from them.

NumPy calls that run at memory speed: a fill, the largest of 64 bit words, a copy. The fill is not with 0: for
that arm64 clears whole cache lines without writing data. Nor is it of bytes: memset
writes past the caches, half as fast again as a program's stores (13.4 against 8.8 GB/s on an H200's host).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from advisor import units
from advisor.calibration.bench import Bench, Spread, fit_repeats, inverse, positive, spread
from advisor.strategies.backend import host_array
from advisor.strategies.placements.arena import Arena

PLAIN = "host"
PINNED = "host_pinned"
WRITE_COMBINED = "host_write_combined"
MANAGED = "host_managed"
ALONE = "host_uncached_access_seconds"
"""One read of memory that the CPU does not cache, however wide it is."""
_ACCESSES = 1 << 14


def keys(*kinds: str) -> tuple[str, ...]:
    return tuple(f"{kind}_{what}_bytes_per_second" for kind in kinds for what in ("read", "write", "copy"))


PAGE_LOCKED_KEYS = keys(PINNED, WRITE_COMBINED)


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


Kind = Literal["pinned", "pageable"]
Direction = Literal["to_device", "to_host"]
DIRECTIONS: tuple[Direction, ...] = ("to_device", "to_host")
Copy = Callable[[int], None]
"""Copies so many bytes."""

_SMALLEST = 4096
_STEP = 4
_SECONDS_PER_SIZE = 0.15
_SMALL, _MANY, _FEW = 1 << 20, 8, 2
"""Copies in a row up to that size, and beyond it: the cost of a copy is the slope over their number."""


@dataclass(frozen=True)
class _Fitted:
    latency: Spread
    what: str
    alone: float
    """Seconds of the smallest copy that is waited for, beyond a wait for nothing."""


def copy_keys(kind: Kind) -> tuple[str, ...]:
    rates = (f"{kind}_{direction}_bytes_per_second" for direction in DIRECTIONS)
    return (*rates, f"{kind}_copy_call_seconds")


COPY_KEYS = (*copy_keys("pinned"), *copy_keys("pageable"))


def measure_copies(bench: Bench) -> None:
    _measure_copies(bench, "pinned", lambda arena, size: arena.pinned(size))
    _measure_copies(bench, "pageable", lambda arena, size: arena.pageable(size))


def sizes(largest: int) -> list[int]:
    """4 KiB, 16 KiB and so on to the largest, which is among them."""
    steps = [_SMALLEST]
    while steps[-1] * _STEP <= largest:
        steps.append(steps[-1] * _STEP)
    return steps if steps[-1] == largest or largest < _SMALLEST else [*steps, largest]


def _measure_copies(bench: Bench, kind: Kind, take: Callable[[Arena, int], int]) -> None:
    size = bench.sizes.transfer
    with bench.attempt(copy_keys(kind)):
        with Arena(bench.backend) as arena:
            host, device = take(arena, size), arena.device(size)
            host_array(host, size, (size,), np.dtype(np.uint8)).fill(1)
            copies: tuple[tuple[Direction, Copy], ...] = (
                ("to_device", lambda n: bench.backend.copy_to_device(device, host, n)),
                ("to_host", lambda n: bench.backend.copy_to_host(host, device, n)),
            )
            fitted = [_fit(bench, f"{kind}_{direction}", copy) for direction, copy in copies]
        _keep_call(bench, f"{kind}_copy_call_seconds", fitted)


def _fit(bench: Bench, name: str, copy: Copy) -> _Fitted:
    tried = sizes(bench.sizes.transfer)
    quick = replace(bench, limits=replace(bench.limits, seconds=min(_SECONDS_PER_SIZE, bench.limits.seconds)))
    times = [_one_more(quick, size, copy) for size in tried]
    medians = [float(np.median(repeats)) for repeats in times]
    bench.curves[name] = tuple((size, m) for size, m in zip(tried, medians, strict=True) if m > 0)
    latency, slope = fit_repeats(tried, times)
    rate, seconds = inverse(slope), medians[-1] - latency.value
    if seconds > 0:
        # The range holds the largest size too: beyond the CPU's caches a copy of pageable memory is slower.
        largest = tried[-1] / seconds
        rate = replace(rate, low=min(rate.low, largest), high=max(rate.high, largest))
    what = f"{units.size(tried[0])} to {units.size(tried[-1])}"
    bench.keep(f"{name}_bytes_per_second", rate, what)
    # Copies in a row hide a part of each behind the next one, which a copy that nothing follows cannot.
    alone = quick.repeat(lambda: _row(quick, tried[0], copy, 1) - _row(quick, tried[0], copy, 0))
    return _Fitted(latency, what, float(np.median(alone)))


def _one_more(bench: Bench, size: int, copy: Copy) -> list[float]:
    """The cost of one more copy in a row: many and a synchronize, less one and a synchronize."""
    more = _MANY if size <= _SMALL else _FEW
    return bench.repeat(lambda: (_row(bench, size, copy, 1 + more) - _row(bench, size, copy, 1)) / more)


def _row(bench: Bench, size: int, copy: Copy, count: int) -> float:
    """Seconds of so many copies in a row and the wait for them."""

    def work() -> None:
        for _ in range(count):
            copy(size)

    return bench.host_seconds(work)


def _keep_call(bench: Bench, key: str, fitted: Sequence[_Fitted]) -> None:
    """One figure for both directions; its range goes from the lower of a row to the higher of one alone."""
    both = [positive(each.latency) for each in fitted]
    joined = Spread(
        value=sum(each.value for each in both) / len(both),
        low=min(each.low for each in both),
        high=max([each.high for each in both] + [each.alone for each in fitted]),
        repeats=min(each.repeats for each in both),
    )
    bench.keep(key, joined, f"both directions, {fitted[0].what}")
