"""Kernels: launches, device memory, L2, arithmetic, mapped host memory and its re-reads over the link."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from advisor import units
from advisor.calibration.bench import Bench, Spread, fit_repeats, positive, spread
from advisor.measure.routines import TRANSPOSE, passes
from advisor.strategies.arena import Arena
from advisor.strategies.backend import Backend, host_array

SOURCE = (Path(__file__).parent / "kernels.cu").read_text(encoding="utf-8")
NAMES = tuple(re.findall(r"__global__ void (\w+)", SOURCE))

THREADS_PER_BLOCK = 256
_BLOCKS_PER_MULTIPROCESSOR = 8  # 2048 threads: as many as one holds at most, since Kepler
_FLOAT4 = 16
_FLOAT = 4
LOADS = 256
"""Loads of 16 bytes by each thread of `read_again`."""
TILE = 32
"""Rows and columns of a tile of `multiply_tiles`, as of CUDA's sample matrixMul."""
_RECORD = 16
"""Reads of 16 bytes in a record of `read_near`."""
FLOPS_PER_ROUND = 16
"""Operations of each thread of `multiply_add`: eight fused multiply-adds count two each."""


class Kernels:
    """Launches on the backend's stream. Arrays are float32 of `xp`; each method returns the bytes it moves
    (or its flops), as a program would count them."""

    def __init__(self, backend: Backend) -> None:
        # Without cached_property: a missing compiler is an error of the group, once.
        self._kernels: dict[str, Any] = {name: backend.xp.RawKernel(SOURCE, name) for name in NAMES}
        processors = int(backend.device().attributes.get("multiprocessor_count", 16))
        self.blocks = processors * _BLOCKS_PER_MULTIPROCESSOR
        self.threads = self.blocks * THREADS_PER_BLOCK

    def nothing(self) -> None:
        """Starts one thread that ends."""
        self._kernels["nothing"]((1,), (1,), ())

    def read_once(self, data: Any, out: Any) -> int:
        self._launch("read_once", data, np.uint64(_bytes(data) // _FLOAT4), out)
        return _bytes(data)

    def read_again(self, data: Any, out: Any, *, only_l2: bool = False) -> int:
        """Again and again; the array's length is a power of two."""
        name = "read_again_l2" if only_l2 else "read_again"
        self._launch(name, data, np.uint32(_bytes(data) // _FLOAT4 - 1), np.uint32(LOADS), out)
        return self.threads * LOADS * _FLOAT4

    def read_near(self, data: Any, passes: int, out: Any) -> int:
        """Each thread reads its record of 256 bytes, `passes` times."""
        records = _bytes(data) // (_RECORD * _FLOAT4)
        self._launch("read_near", data, np.uint64(records), np.uint32(passes * _RECORD), out)
        return passes * records * _RECORD * _FLOAT4

    def multiply_tiles(self, a: Any, b: Any, c: Any) -> int:
        """A product of square matrices in tiles; the side is a multiple of `TILE`. What tiles read counts."""
        side = int(a.shape[0])
        grid = side // TILE, side // TILE
        self._kernels["multiply_tiles"](grid, (TILE, TILE), (a, b, c, np.uint32(side)))
        return 2 * side * side * _FLOAT * (side // TILE)

    def write_once(self, data: Any) -> int:
        self._launch("write_once", data, np.uint64(_bytes(data) // _FLOAT4), np.float32(0.0))
        return _bytes(data)

    def copy_once(self, source: Any, target: Any) -> int:
        """All of it; what is read and what is written both count."""
        self._launch("copy_once", source, target, np.uint64(_bytes(source) // _FLOAT4))
        return 2 * _bytes(source)

    def multiply_add(self, rounds: int, out: Any) -> int:
        """Floating-point operations of 32 bit."""
        self._launch("multiply_add", np.uint32(rounds), np.float32(0.5), out)
        return self.threads * rounds * FLOPS_PER_ROUND

    def touch_in_turn(self, data: Any, step: int, out: Any) -> int:
        """One thread reads one word of every `step` bytes, each after the one before; how many. Data is 0."""
        count = _bytes(data) // step
        words = np.uint64(step // _FLOAT)
        self._kernels["touch_in_turn"]((1,), (1,), (data, words, np.uint32(count), out))
        return count

    def _launch(self, name: str, *arguments: Any) -> None:
        self._kernels[name]((self.blocks,), (THREADS_PER_BLOCK,), arguments)


def _bytes(array: Any) -> int:
    return int(array.shape[0]) * _FLOAT


LATENCIES = ("launch_seconds", "synchronize_seconds")
MEMORY = "device_memory_bytes_per_second"
L2 = "l2_bytes_per_second"
FLOPS = "flops_per_second"
ON_DEVICE = (MEMORY, L2, FLOPS)
ZERO_COPY = (
    "zero_copy_read_bytes_per_second",
    "zero_copy_reread_bytes_per_second",
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
    """Mapped host memory read once, again where caches could help, and written."""
    backend, size = bench.backend, bench.sizes.transfer
    if not backend.device().attributes.get("can_map_host_memory", 0):
        bench.leave_out(ZERO_COPY, "the device cannot map host memory")
        return
    with bench.attempt(ZERO_COPY), Arena(backend) as arena:
        kernels = Kernels(backend)
        data = _mapped(bench, arena, (size // 4,))
        out = bench.floats(arena.device(4), 4)
        window = data[: min(_WINDOW, size) // 4]
        works: tuple[tuple[Callable[[], int], str], ...] = (
            (lambda: kernels.read_once(data, out), ""),
            (lambda: kernels.read_again(window, out), f" in {units.size(window.shape[0] * 4)}"),
            (lambda: kernels.write_once(data), ""),
        )
        for key, (work, where) in zip(ZERO_COPY, works, strict=True):
            amount = work()
            bench.keep_rate(key, amount, bench.device_times(work), f"{units.size(amount)}{where}")


# The share of re-reads of mapped host memory that crosses the link: two kernels, and library routines. A pass
# over the same memory tells the rate; a kernel's time at that rate is the bytes that crossed.

TWO, ALONE = "link_again_share", "link_again_alone_share"
ROUTINES = "routine_again_share"
REREADS = (TWO, ALONE, ROUTINES)

_MOST = 16 << 20
"""Bytes of the operands: `var` reads them two dozen times."""
_AGAIN_WINDOW = 4 << 20
"""More than any L1 holds, of which kernels read each byte again and again."""
_NEAR_PASSES = 4
_LEAST = 0.01
"""A share too small to be measured."""
_FLOAT32 = np.dtype(np.float32)


def measure_rereads(bench: Bench) -> None:
    """Kernels where a link lies between, library routines wherever the GPU does not cache mapped memory."""
    device = bench.backend.device()
    if not device.attributes.get("can_map_host_memory", 0):
        bench.leave_out(REREADS, "the device cannot map host memory")
    elif device.memory_class == "coherent":
        bench.leave_out(REREADS, "the GPU's L2 cache holds mapped memory until it is read again")
    else:
        with bench.attempt(REREADS), Arena(bench.backend) as arena:
            _measure_linked(bench, arena, linked=not device.attributes.get("integrated", 0))


def _measure_linked(bench: Bench, arena: Arena, *, linked: bool) -> None:
    size, kernels = min(bench.sizes.transfer // 2, _MOST), Kernels(bench.backend)
    data, out = _mapped(bench, arena, (size // 4,)), bench.floats(arena.device(4), 4)
    side = _side(size // 2)
    operands = _mapped(bench, arena, (side, side)), _mapped(bench, arena, (side, side))
    rate = size / spread(bench.device_times(lambda: kernels.read_once(data, out))).value
    if linked:
        with bench.attempt([TWO]):
            first = 8 * side * side
            result = bench.backend.device_array(arena.device(first // 2), first // 2, (side, side), _FLOAT32)
            again = kernels.multiply_tiles(*operands, result) - first
            times = bench.device_times(lambda: kernels.multiply_tiles(*operands, result))
            what = f"a product of {side} x {side} matrices in tiles"
            bench.keep(TWO, _shares(times, rate, first, again), what)
        with bench.attempt([ALONE]):
            _alone(bench, kernels, data[: min(size, _AGAIN_WINDOW) // 4], out, rate)
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
        (lambda: xp.matmul(*operands), 8 * side**2, 1, passes("matmul", _FLOAT32, side)),
        (lambda: xp.var(square), count, 2, passes("var", _FLOAT32)),
        (lambda: xp.ascontiguousarray(square.T), count, 1, passes(TRANSPOSE, _FLOAT32)),
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
    host_array(host, nbytes, shape, _FLOAT32).fill(0)
    return bench.backend.device_array(bench.backend.host_device_pointer(host), nbytes, shape, _FLOAT32)


def _side(nbytes: int) -> int:
    """Side of the largest square of floats that fits in the bytes; a power of two."""
    return 1 << ((nbytes // 4).bit_length() - 1) // 2
