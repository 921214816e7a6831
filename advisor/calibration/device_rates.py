"""Kernels: launches, device memory, L2 cache, arithmetic, mapped host memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from advisor import units
from advisor.calibration.bench import Bench, fit_repeats, positive
from advisor.calibration.kernels import Kernels
from advisor.strategies.backend import host_array
from advisor.strategies.placements.arena import Arena

LATENCIES = ("launch_seconds", "synchronize_seconds")
MEMORY = "device_memory_bytes_per_second"
L2 = "l2_bytes_per_second"
FLOPS = "flops_per_second"
ON_DEVICE = (MEMORY, L2, FLOPS)
ZERO_COPY = (
    "zero_copy_read_bytes_per_second",
    "zero_copy_reread_bytes_per_second",
    "zero_copy_strided_read_bytes_per_second",
    "zero_copy_random_read_bytes_per_second",
    "zero_copy_write_bytes_per_second",
)

COUNTS = (1, 2, 4, 8, 16, 32)
"""Numbers of calls in a row; the slope of their times is the cost of a call."""
_MOST_REPEATS = 200
"""Repeats of empty kernels are cheap, and the host's interruptions many."""
_LEAST_ROUNDS, _MOST_ROUNDS = 1 << 10, 1 << 20
_LONG_ENOUGH = 2e-3
"""Seconds of arithmetic beside which the start and the end of a kernel do not count."""
_WINDOW = 1 << 16
"""Bytes read again and again: the L2 of every GPU holds them, and the L1 of most."""


def measure_latencies(bench: Bench) -> None:
    """Times rows of empty kernels: the slope is a launch, the intercept a wait."""
    with bench.attempt(LATENCIES):
        kernels = Kernels(bench.backend)
        often = replace(bench, limits=replace(bench.limits, most=max(_MOST_REPEATS, bench.limits.least)))

        def launch(count: int) -> None:
            for _ in range(count):
                kernels.nothing()

        times = [often.host_times(lambda count=count: launch(count)) for count in COUNTS]  # type: ignore[misc]
        wait, more = fit_repeats(COUNTS, times)
        for key, cost in zip(LATENCIES, (more, wait), strict=True):
            bench.keep(key, positive(cost), f"rows of {COUNTS[0]} to {COUNTS[-1]} empty kernels")


def measure_on_device(bench: Bench) -> None:
    """Memory by a copying kernel, the cache by reading half of it again, arithmetic by multiply-adds."""
    with bench.attempt(ON_DEVICE):
        kernels = Kernels(bench.backend)
        for key, measure in ((MEMORY, _memory), (L2, _l2), (FLOPS, _arithmetic)):
            with bench.attempt([key]), Arena(bench.backend) as arena:
                measure(bench, kernels, arena)


def _memory(bench: Bench, kernels: Kernels, arena: Arena) -> None:
    size = bench.sizes.device
    source, target = bench.floats(arena.device(size), size), bench.floats(arena.device(size), size)
    amount = kernels.copy_once(source, target)
    seconds = bench.device_times(lambda: kernels.copy_once(source, target))
    bench.keep_rate(MEMORY, amount, seconds, f"a kernel copying {units.size(size)}")


def _l2(bench: Bench, kernels: Kernels, arena: Arena) -> None:
    if not bench.sizes.l2:
        bench.leave_out([L2], "the device does not report the size of its L2 cache")
        return
    size = 1 << (bench.sizes.l2 // 2).bit_length() - 1
    data, out = bench.floats(arena.device(size), size), bench.floats(arena.device(4), 4)
    amount = kernels.read_again(data, out, only_l2=True)
    seconds = bench.device_times(lambda: kernels.read_again(data, out, only_l2=True))
    bench.keep_rate(L2, amount, seconds, f"{units.size(amount)} in {units.size(size)}")


def _arithmetic(bench: Bench, kernels: Kernels, arena: Arena) -> None:
    out, rounds = bench.floats(arena.device(4), 4), _LEAST_ROUNDS

    def work() -> int:
        return kernels.multiply_add(rounds, out)

    while rounds < _MOST_ROUNDS and bench.device_seconds(work) < _LONG_ENOUGH:
        rounds *= 4
    amount, seconds = work(), bench.device_times(work)
    what = f"{units.digits(amount / 1e9)} billion operations as fused multiply-adds"
    bench.keep_rate(FLOPS, amount, seconds, what)


def measure_zero_copy(bench: Bench) -> None:
    """Mapped host memory read once, again where caches could help, strided, at random, and written."""
    backend, size = bench.backend, bench.sizes.transfer
    if not backend.device().attributes.get("can_map_host_memory", 0):
        bench.leave_out(ZERO_COPY, "the device cannot map host memory")
        return
    with bench.attempt(ZERO_COPY), Arena(backend) as arena:
        kernels = Kernels(backend)
        host = arena.pinned(size, "mapped")
        host_array(host, size, (size,), np.dtype(np.uint8)).fill(0)
        data = bench.floats(backend.host_device_pointer(host), size)
        out = bench.floats(arena.device(4), 4)
        window = data[: min(_WINDOW, size) // 4]
        over = f" over {units.size(size)}"
        works: tuple[tuple[Callable[[], int], str], ...] = (
            (lambda: kernels.read_once(data, out), ""),
            (lambda: kernels.read_again(window, out), f" in {units.size(window.shape[0] * 4)}"),
            (lambda: kernels.read_strided(data, out), over),
            (lambda: kernels.read_random(data, out), over),
            (lambda: kernels.write_once(data), ""),
        )
        for key, (work, where) in zip(ZERO_COPY, works, strict=True):
            amount = work()
            bench.keep_rate(key, amount, bench.device_times(work), f"{units.size(amount)}{where}")
