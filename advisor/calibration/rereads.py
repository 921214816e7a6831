"""The share of re-reads of mapped host memory that crosses the link: two kernels, and library routines.

A pass over the same memory tells the rate; a kernel's time at that rate is the bytes that crossed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from advisor import units
from advisor.calibration.bench import Bench, Spread, spread
from advisor.calibration.device_rates import Kernels
from advisor.measure.routines import TRANSPOSE, passes
from advisor.strategies.backend import host_array
from advisor.strategies.placements.arena import Arena

TWO, ALONE = "link_again_share", "link_again_alone_share"
ROUTINES = "routine_again_share"
KEYS = (TWO, ALONE, ROUTINES)

_MOST = 16 << 20
"""Bytes of the operands: `var` reads them two dozen times."""
_WINDOW = 4 << 20
"""More than any L1 holds, of which kernels read each byte again and again."""
_NEAR_PASSES = 4
_LEAST = 0.01
"""A share that no time can tell from none."""
_FLOAT = np.dtype(np.float32)


def measure(bench: Bench) -> None:
    """Kernels where a link lies between, library routines wherever the GPU does not cache mapped memory."""
    device = bench.backend.device()
    if not device.attributes.get("can_map_host_memory", 0):
        bench.leave_out(KEYS, "the device cannot map host memory")
    elif device.memory_class == "coherent":
        bench.leave_out(KEYS, "the GPU's L2 cache holds mapped memory until it is read again")
    else:
        with bench.attempt(KEYS), Arena(bench.backend) as arena:
            _measure(bench, arena, linked=not device.attributes.get("integrated", 0))


def _measure(bench: Bench, arena: Arena, *, linked: bool) -> None:
    size, kernels = min(bench.sizes.transfer // 2, _MOST), Kernels(bench.backend)
    data, out = _mapped(bench, arena, (size // 4,)), bench.floats(arena.device(4), 4)
    side = _side(size // 2)
    operands = _mapped(bench, arena, (side, side)), _mapped(bench, arena, (side, side))
    rate = size / spread(bench.device_times(lambda: kernels.read_once(data, out))).value
    if linked:
        with bench.attempt([TWO]):
            first = 8 * side * side
            result = bench.backend.device_array(arena.device(first // 2), first // 2, (side, side), _FLOAT)
            again = kernels.multiply_tiles(*operands, result) - first
            times = bench.device_times(lambda: kernels.multiply_tiles(*operands, result))
            what = f"a product of {side} x {side} matrices in tiles"
            bench.keep(TWO, _shares(times, rate, first, again), what)
        with bench.attempt([ALONE]):
            _alone(bench, kernels, data[: min(size, _WINDOW) // 4], out, rate)
    else:
        bench.leave_out([TWO, ALONE], "CPU and GPU share one memory: no link lies between")
    with bench.attempt([ROUTINES]):
        square = _mapped(bench, arena, (_side(size),) * 2)
        _routines(bench, operands, square, rate)


def _alone(bench: Bench, kernels: Kernels, window: Any, out: Any, rate: float) -> None:
    """Far apart, as is likely; the low end is that of reads of neighbouring addresses."""
    size = 4 * window.shape[0]
    works: tuple[Callable[[], int], ...] = (
        lambda: kernels.read_again(window, out),
        lambda: kernels.read_near(window, _NEAR_PASSES, out),
    )
    far, near = (_shares(bench.device_times(work), rate, size, work() - size) for work in works)
    share = replace(far, low=min(far.low, near.value))
    bench.keep(ALONE, share, f"{units.size(size)} again and again; low end records of 256 bytes")


def _routines(bench: Bench, operands: tuple[Any, Any], square: Any, rate: float) -> None:
    """Reads beyond a routine's passes, over those where routines.toml was measured."""
    xp, side, count = bench.backend.xp, operands[0].shape[0], 4 * square.shape[0] ** 2
    works: Sequence[tuple[Callable[[], object], float, float, float]] = (
        (lambda: xp.matmul(*operands), 8 * side**2, 1, passes("matmul", _FLOAT, side)),
        (lambda: xp.var(square), count, 2, passes("var", _FLOAT)),
        (lambda: xp.ascontiguousarray(square.T), count, 1, passes(TRANSPOSE, _FLOAT)),
    )
    shares = [
        _shares(bench.device_times(work), rate, counted * nbytes, (known - counted) * nbytes).value
        for work, nbytes, counted, known in works
    ]
    share = replace(spread(shares), low=min(shares), high=max(shares))
    bench.keep(ROUTINES, share, "a product, var and the copy of a transpose, over routines.toml")


def _shares(seconds: Sequence[float], rate: float, first: float, again: float) -> Spread:
    """The part of the bytes read again that crossed beyond a first pass."""
    return spread([max((s * rate - first) / again, _LEAST) for s in seconds])


def _mapped(bench: Bench, arena: Arena, shape: tuple[int, ...]) -> Any:
    """Zeros in mapped host memory."""
    nbytes = 4 * math.prod(shape)
    host = arena.pinned(nbytes, "mapped")
    host_array(host, nbytes, shape, _FLOAT).fill(0)
    return bench.backend.device_array(bench.backend.host_device_pointer(host), nbytes, shape, _FLOAT)


def _side(nbytes: int) -> int:
    """Side of the largest square of floats that fits in the bytes; a power of two."""
    return 1 << ((nbytes // 4).bit_length() - 1) // 2
