"""Managed memory: the CPU's rates over it, what its faults and migrations cost, and what prefetching does.

Migration is measured as the first pass over pages that the other side had, less a second pass. Nothing
migrates where both sides share one memory. Without concurrent managed access memory moves whole: the same
passes over less of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from advisor import units
from advisor.calibration import host_memory
from advisor.calibration.bench import Bench, Work, fit_repeats, positive, spread
from advisor.calibration.device_rates import COUNTS, Kernels
from advisor.profiles.schema import Side
from advisor.strategies.backend import Array, host_array
from advisor.strategies.placements.arena import Arena

FAULT = "fault_seconds"
BROUGHT = "migration_bytes"
MIGRATION = ("migration_to_device_bytes_per_second", "migration_to_host_bytes_per_second")
PREFETCH = ("prefetch_to_device_bytes_per_second", "prefetch_to_host_bytes_per_second")
WRITE = "write_fault_seconds"
CALL = "prefetch_call_seconds"
MOVING = (FAULT, BROUGHT, *MIGRATION, *PREFETCH, WRITE)
KEYS = (CALL, *MOVING)

PER = 4096
"""Bytes that one write fault is counted for, however large the system's pages are."""
WHOLE = 8 << 20
"""Bytes of memory that moves whole: at the 0.1 GB/s of Windows ten passes over it take a second."""
REGION = 2 << 20
"""The driver's own unit: faults in different regions of 2 MiB are not served together (ObservUVM)."""

TICK = 1e-9
"""The resolution of Python's performance counter, in seconds: a shorter difference is rounding."""


def measure(bench: Bench, host_view: Callable[..., Array] = host_array) -> None:
    """Measures what the device supports; the rest is left out with the reason.

    `host_view` makes the CPU's array of managed memory: address, bytes, shape, element.
    """
    attributes = bench.backend.device().attributes
    if not attributes.get("managed_memory", 0):
        bench.leave_out((*host_memory.keys(host_memory.MANAGED), *KEYS), "the device has no managed memory")
        return
    host_memory.measure_managed(bench)
    faults = bool(attributes.get("concurrent_managed_access", 0))
    _call(bench, prefetches=faults)
    if attributes.get("integrated", 0):
        bench.leave_out(MOVING, "CPU and GPU share one memory: nothing migrates")
        return
    if not faults:
        others = [key for key in MOVING if key not in MIGRATION]
        bench.leave_out(others, "pages do not migrate by faults without concurrent managed access")
    _measure(bench, host_view, faults=faults)


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


def _measure(bench: Bench, host_view: Callable[..., Array], *, faults: bool) -> None:
    backend = bench.backend
    size = bench.sizes.managed if faults else min(bench.sizes.managed, WHOLE)
    with bench.attempt(MOVING if faults else MIGRATION), Arena(backend) as arena:
        kernels = Kernels(backend)
        pointer = arena.managed(size)
        host = host_view(pointer, size, (size // 4,), np.dtype(np.float32))
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
    together = _first_less_second(
        bench, lambda: kernels.touch_in_turn(device, REGION, out), lambda: host.fill(0)
    )
    fault = positive(spread([seconds / count for seconds in together]))
    bench.keep(FAULT, fault, f"{count} consecutive faults, one every {units.size(REGION)}")
    rate = bench.readings.get(MIGRATION[0])
    if rate is None:
        bench.leave_out([BROUGHT], "the migration rate is not known")
        return
    arriving = spread([fault.value * rate.value])
    bench.keep(BROUGHT, arriving, "bytes that arrive during one fault at the sequential migration rate")


def _prefetches(bench: Bench, pointer: int, host: Array) -> None:
    def to_device() -> None:
        bench.backend.prefetch(pointer, host.nbytes, "device")

    def to_host() -> None:
        bench.backend.prefetch(pointer, host.nbytes, "host")

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
    """By the host's clock: a pass over pages that are elsewhere, less one over pages that are there.

    Raises `ValueError` where the two do not differ.
    """

    def timed() -> float:
        first = bench.host_seconds(work, prepare)
        return first - bench.host_seconds(work)

    seconds = bench.repeat(timed)
    if np.median(seconds) < TICK:
        raise ValueError("the second pass took as long as the first")
    return seconds
