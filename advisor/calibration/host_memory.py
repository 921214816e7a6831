"""Rates at which one CPU thread reads, writes and copies into memory of each kind; copies between host and
device by size, and the rate and the cost of a call that follow from them.

NumPy calls that run at memory speed: a fill, the largest of 64 bit words, a copy. The fill is not with 0: for
that arm64 clears whole cache lines without writing data. Nor is it of bytes: memset
writes past the caches, half as fast again as a program's stores (13.4 against 8.8 GB/s on an H200's host).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from advisor import units
from advisor.calibration.bench import Bench, Spread, Work, fit_repeats, inverse, positive, spread
from advisor.calibration.device_rates import COUNTS, Kernels
from advisor.profiles.schema import Side
from advisor.strategies.arena import Arena
from advisor.strategies.backend import Array, host_array

PLAIN = "host"
PINNED = "host_pinned"
WRITE_COMBINED = "host_write_combined"
MANAGED = "host_managed"
ALONE = "host_uncached_access_seconds"
"""One read of memory that the CPU does not cache, however wide it is."""
_ACCESSES = 1 << 14


Take = Callable[[Arena, int], int]
"""Takes so many bytes of memory."""


def keys(*kinds: str) -> tuple[str, ...]:
    return tuple(f"{kind}_{what}_bytes_per_second" for kind in kinds for what in ("read", "write", "copy"))


PAGE_LOCKED_KEYS = keys(PINNED, WRITE_COMBINED)


def measure_plain(bench: Bench) -> None:
    """Pageable memory, and the size of the cache beyond which it was measured."""
    _measure_kind(bench, PLAIN, Arena.pageable)
    if bench.sizes.host_cache is None:
        bench.leave_out(["host_cache_bytes"], "Linux does not report the CPU cache sizes")


def measure_page_locked(bench: Bench) -> None:
    """Page-locked and write-combined memory. On Jetsons before Xavier the first is uncached on the CPU."""
    uncached = bench.backend.device().memory_class == "tegra"
    _measure_kind(bench, PINNED, Arena.pinned, alone=uncached)
    for what in ("read", "write") if uncached else ():
        reading = bench.readings.get(f"{PINNED}_{what}_bytes_per_second")
        if reading:
            bench.readings[f"host_uncached_{what}_bytes_per_second"] = reading
    _measure_kind(bench, WRITE_COMBINED, lambda arena, size: arena.pinned(size, "write-combined"))


def _measure_kind(
    bench: Bench, kind: str, take: Take, most: int | None = None, *, alone: bool = False
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


def copy_keys(kind: Kind) -> tuple[str, ...]:
    rates = (f"{kind}_{direction}_bytes_per_second" for direction in DIRECTIONS)
    return (*rates, f"{kind}_copy_call_seconds")


COPY_KEYS = (*copy_keys("pinned"), *copy_keys("pageable"))


def measure_copies(bench: Bench) -> None:
    _measure_copies(bench, "pinned", Arena.pinned)
    _measure_copies(bench, "pageable", Arena.pageable)


def sizes(largest: int) -> list[int]:
    """4 KiB, 16 KiB and so on to the largest, which is among them."""
    steps = [_SMALLEST]
    while steps[-1] * _STEP <= largest:
        steps.append(steps[-1] * _STEP)
    return steps if steps[-1] == largest or largest < _SMALLEST else [*steps, largest]


def _measure_copies(bench: Bench, kind: Kind, take: Take) -> None:
    size = bench.sizes.transfer
    with bench.attempt(copy_keys(kind)):
        with Arena(bench.backend) as arena:
            host, device = take(arena, size), arena.device(size)
            host_array(host, size, (size,), np.dtype(np.uint8)).fill(1)
            copies: tuple[Copy, Copy] = (
                lambda n: bench.backend.copy_to_device(device, host, n),
                lambda n: bench.backend.copy_to_host(host, device, n),
            )
            *rates, call = copy_keys(kind)
            fitted = [_fit(bench, rate, copy) for rate, copy in zip(rates, copies, strict=True)]
        calls = [positive(each) for each in fitted]  # one figure for both directions
        middle, repeats = sum(each.value for each in calls) / 2, min(each.repeats for each in calls)
        both = Spread(middle, min(each.low for each in calls), max(each.high for each in calls), repeats)
        bench.keep(call, both, f"both directions, {_range(sizes(size))}")


def _fit(bench: Bench, key: str, copy: Copy) -> Spread:
    """Keeps the rate of that copy; the cost of a call in a row, its range up to that of a copy alone: copies
    in a row hide a part of each behind the next one, which a copy that nothing follows cannot."""
    tried = sizes(bench.sizes.transfer)
    quick = replace(bench, limits=replace(bench.limits, seconds=min(_SECONDS_PER_SIZE, bench.limits.seconds)))
    times = [_one_more(quick, size, copy) for size in tried]
    medians = [float(np.median(repeats)) for repeats in times]
    latency, slope = fit_repeats(tried, times)
    rate, seconds = inverse(slope), medians[-1] - latency.value
    if seconds > 0:
        # The range holds the largest size too: beyond the CPU's caches a copy of pageable memory is slower.
        largest = tried[-1] / seconds
        rate = replace(rate, low=min(rate.low, largest), high=max(rate.high, largest))
    bench.keep(key, rate, _range(tried))
    alone = quick.repeat(lambda: _row(quick, tried[0], copy, 1) - _row(quick, tried[0], copy, 0))
    return replace(latency, high=max(latency.high, float(np.median(alone))))


def _range(tried: Sequence[int]) -> str:
    return f"{units.size(tried[0])} to {units.size(tried[-1])}"


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


# Managed memory: what its faults and migrations cost, and what prefetching does. Migration is measured as the
# first pass over pages that the other side had, less a second pass. Nothing migrates where both sides share
# one memory. Without concurrent managed access memory moves whole: the same passes over less of it.

FAULT = "fault_seconds"
BROUGHT = "migration_bytes"
MIGRATION = ("migration_to_device_bytes_per_second", "migration_to_host_bytes_per_second")
PREFETCH = ("prefetch_to_device_bytes_per_second", "prefetch_to_host_bytes_per_second")
WRITE = "write_fault_seconds"
CALL = "prefetch_call_seconds"
MOVING = (FAULT, BROUGHT, *MIGRATION, *PREFETCH, WRITE)
MANAGED_KEYS = (*keys(MANAGED), CALL, *MOVING)

PER = 4096
"""Bytes that one write fault is counted for, however large the system's pages are."""
WHOLE = 8 << 20
"""Bytes of memory that moves whole: at the 0.1 GB/s of Windows ten passes over it take a second."""
REGION = 2 << 20
"""The driver's own unit: faults in different regions of 2 MiB are not served together (ObservUVM)."""

TICK = 1e-9
"""The resolution of Python's performance counter, in seconds: a shorter difference is rounding."""


def measure_managed(bench: Bench) -> None:
    """Measures what the device supports; the rest is left out with the reason."""
    attributes = bench.backend.device().attributes
    if not attributes.get("managed_memory", 0):
        bench.leave_out(MANAGED_KEYS, "the device has no managed memory")
        return
    # Rates over managed memory whose pages are at the host.
    _measure_kind(bench, MANAGED, lambda arena, size: arena.managed(size), bench.sizes.managed)
    faults = bool(attributes.get("concurrent_managed_access", 0))
    _call(bench, prefetches=faults)
    if attributes.get("integrated", 0):
        bench.leave_out(MOVING, "CPU and GPU share one memory: nothing migrates")
        return
    if not faults:
        others = [key for key in MOVING if key not in MIGRATION]
        bench.leave_out(others, "pages do not migrate by faults without concurrent managed access")
    _measure(bench, faults=faults)


def _call(bench: Bench, *, prefetches: bool) -> None:
    """The cost of one more prefetch of a page back and forth; without faults, of one more attaching."""
    backend, what = bench.backend, "prefetches of 4 KiB" if prefetches else "attachings"
    with bench.attempt([CALL]), Arena(backend) as arena:
        pointer = arena.managed(PER)

        def turns(count: int) -> None:
            sides: tuple[Side, Side] = "device", "host"
            for side in sides * count:
                if prefetches:
                    backend.prefetch(pointer, PER, side)
                else:
                    backend.attach(pointer, side)

        calls = [2 * count for count in COUNTS]
        times = [bench.host_times(lambda count=count: turns(count)) for count in COUNTS]  # type: ignore[misc]
        each = positive(fit_repeats(calls, times)[1])
        bench.keep(CALL, each, f"rows of {calls[0]} to {calls[-1]} {what}, back and forth")


def _measure(bench: Bench, *, faults: bool) -> None:
    backend = bench.backend
    size = bench.sizes.managed if faults else min(bench.sizes.managed, WHOLE)
    with bench.attempt(MOVING if faults else MIGRATION), Arena(backend) as arena:
        kernels = Kernels(backend)
        pointer = arena.managed(size)
        host = host_array(pointer, size, (size // 4,), np.dtype(np.float32))
        device = bench.floats(pointer, size)
        out = bench.floats(arena.device(4), 4)
        works: tuple[tuple[Work, Work], ...] = (
            (lambda: kernels.read_once(device, out), lambda: host.fill(0)),
            (lambda: host.view(np.uint64).max(), lambda: kernels.write_once(device)),
        )
        with bench.attempt(MIGRATION):
            for key, (work, prepare) in zip(MIGRATION, works, strict=True):
                seconds = _first_less_second(bench, work, prepare)
                bench.keep_rate(key, size, seconds, f"{units.size(size)} in order")
        if faults:
            with bench.attempt((FAULT, BROUGHT)):
                _faults(bench, kernels, host, device, out)
            _prefetches(bench, pointer, host)


def _faults(bench: Bench, kernels: Kernels, host: Array, device: Any, out: Any) -> None:
    count = host.nbytes // REGION
    if not count:
        bench.leave_out((FAULT, BROUGHT), "not enough free memory")
        return
    took = _first_less_second(bench, lambda: kernels.touch_in_turn(device, REGION, out), lambda: host.fill(0))
    fault = positive(spread([seconds / count for seconds in took]))
    bench.keep(FAULT, fault, f"{count} consecutive faults, one every {units.size(REGION)}")
    rate = bench.readings.get(MIGRATION[0])
    if rate is None:
        bench.leave_out([BROUGHT], "the migration rate is not known")
        return
    arriving = spread([fault.value * rate.value])
    bench.keep(BROUGHT, arriving, "bytes that arrive during one fault at the sequential migration rate")


def _prefetches(bench: Bench, pointer: int, host: Array) -> None:
    to_device, to_host = (
        partial(bench.backend.prefetch, pointer, host.nbytes, side) for side in ("device", "host")
    )

    def bring_back() -> None:
        to_device()
        to_host()

    with bench.attempt(PREFETCH):
        host.fill(0)
        times = bench.host_times(to_device, to_host), bench.host_times(to_host, to_device)
        for key, seconds in zip(PREFETCH, times, strict=True):
            bench.keep_rate(key, host.nbytes, seconds)
    with bench.attempt([WRITE]):
        # Pages come back mapped for reading alone: a first pass of writes over them, less a second.
        seconds = _first_less_second(bench, lambda: host.fill(1), bring_back)
        each = positive(spread([s * PER / host.nbytes for s in seconds]))
        bench.keep(WRITE, each, f"{units.size(host.nbytes)} after a prefetch, for each {units.size(PER)}")


def _first_less_second(bench: Bench, work: Work, prepare: Work) -> list[float]:
    """By the host's clock: a pass over pages that are elsewhere, less one over pages that are there. Raises
    `ValueError` where the two do not differ."""

    def timed() -> float:
        first = bench.host_seconds(work, prepare)
        return first - bench.host_seconds(work)

    seconds = bench.repeat(timed)
    if np.median(seconds) < TICK:
        raise ValueError("the second pass took as long as the first")
    return seconds
