"""What kernels get of the device's own memory, of its L2 cache, and of its 32 bit arithmetic."""

from __future__ import annotations

from advisor import units
from advisor.calibration.bench import Bench
from advisor.calibration.kernels import Kernels
from advisor.strategies.placements.arena import Arena

MEMORY = "device_memory_bytes_per_second"
L2 = "l2_bytes_per_second"
FLOPS = "flops_per_second"
KEYS = (MEMORY, L2, FLOPS)

_LEAST_ROUNDS, _MOST_ROUNDS = 1 << 10, 1 << 20
_LONG_ENOUGH = 2e-3
"""Seconds of arithmetic beside which the start and the end of a kernel do not count."""


def measure(bench: Bench) -> None:
    """Memory by a copying kernel, the cache by reading half of it again, arithmetic by multiply-adds."""
    bench.attempt(KEYS, lambda: _measure(bench, Kernels(bench.backend)))


def _measure(bench: Bench, kernels: Kernels) -> None:
    bench.attempt([MEMORY], lambda: _memory(bench, kernels))
    bench.attempt([L2], lambda: _l2(bench, kernels))
    bench.attempt([FLOPS], lambda: _arithmetic(bench, kernels))


def _memory(bench: Bench, kernels: Kernels) -> None:
    size = bench.sizes.device
    with Arena(bench.backend) as arena:
        source, target = bench.floats(arena.device(size), size), bench.floats(arena.device(size), size)
        amount = kernels.copy_once(source, target)
        seconds = bench.device_times(lambda: kernels.copy_once(source, target))
        bench.keep_rate(MEMORY, amount, seconds, f"a kernel copying {units.size(size)}")


def _l2(bench: Bench, kernels: Kernels) -> None:
    if not bench.sizes.l2:
        bench.leave_out([L2], "the device does not tell the size of its L2 cache")
        return
    size = 1 << (bench.sizes.l2 // 2).bit_length() - 1
    with Arena(bench.backend) as arena:
        data, out = bench.floats(arena.device(size), size), bench.floats(arena.device(4), 4)
        amount = kernels.read_again(data, out, only_l2=True)
        seconds = bench.device_times(lambda: kernels.read_again(data, out, only_l2=True))
        bench.keep_rate(L2, amount, seconds, f"{units.size(amount)} in {units.size(size)}")


def _arithmetic(bench: Bench, kernels: Kernels) -> None:
    with Arena(bench.backend) as arena:
        out = bench.floats(arena.device(4), 4)
        rounds = _LEAST_ROUNDS

        def work() -> int:
            return kernels.multiply_add(rounds, out)

        while rounds < _MOST_ROUNDS and bench.device_seconds(work) < _LONG_ENOUGH:
            rounds *= 4
        amount, seconds = work(), bench.device_times(work)
        what = f"{units.digits(amount / 1e9)} billion operations as fused multiply-adds"
        bench.keep_rate(FLOPS, amount, seconds, what)
