"""How often CuPy's routines read mapped host memory again: the points of advisor/measure/routines.toml.

`python -m tests.benchmarks.routines` prints them as CSV in about a minute. Each routine runs on the same
operands in device memory and in mapped host memory; what the second takes longer, over the time of one
pass over the link, is how often its operands cross it. On a Jetson the link is the uncached way to the DRAM.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

MIB = 1 << 20
REPEATS = 9
COLUMNS = ("routine", "operands_mib", "device_memory_ms", "mapped_host_memory_ms", "passes_over_link")


@dataclass(frozen=True)
class Routine:
    """A call on operands of these shapes."""

    name: str
    call: Callable[..., object]
    shapes: tuple[tuple[int, ...], ...]
    dtype: str = "float32"


def routines(xp: Any) -> Iterator[Routine]:
    """Products by size and dtype; one pass, several, and scattered reads of 64 MiB."""
    for n in (64, 128, 256, 512, 1024, 2048, 4096):
        yield Routine(f"matmul float32 {n}", xp.matmul, ((n, n), (n, n)))
    for n in (1024, 4096):
        yield Routine(f"matmul float16 {n}", xp.matmul, ((n, n), (n, n)), "float16")
        yield Routine(f"matmul float64 {n}", xp.matmul, ((n, n), (n, n)), "float64")
    for columns in (1, 4, 16, 64):
        yield Routine(f"thin product by {columns}", xp.matmul, ((65536, 256), (256, columns)))
    yield Routine("batched product 64 x 256", xp.matmul, ((64, 256, 256), (64, 256, 256)))
    flat, square = ((16 * MIB,),), ((4096, 4096),)
    for name in ("sum", "var", "cumsum", "sort", "median"):
        yield Routine(name, getattr(xp, name), flat)
    yield Routine("norm", xp.linalg.norm, flat)
    yield Routine("histogram", lambda a: xp.histogram(a, 256), flat)
    yield Routine("rfft", xp.fft.rfft, square)
    yield Routine("fft2", xp.fft.fft2, square)
    yield Routine("transpose copy", lambda a: xp.ascontiguousarray(a.T), square)
    yield Routine("column sums", lambda a: a.sum(axis=0), square)
    indices = xp.asarray(np.random.default_rng(0).permutation(16 * MIB)[: 4 * MIB])
    yield Routine("take a random quarter", lambda a: a[indices], flat)


def measured(gpu: Gpu) -> Iterator[dict[str, Any]]:
    """A row for each routine; the link's rate from a sum, which reads once."""
    once = np.zeros(16 * MIB, np.float32)
    own, mapped = gpu.on_device(once), gpu.mapped(once)
    pass_seconds = gpu.seconds(mapped.sum) - gpu.seconds(own.sum)
    per_byte = max(pass_seconds, 1e-12) / once.nbytes
    for routine in routines(gpu.xp):
        yield _row(gpu, routine, per_byte)


def _row(gpu: Gpu, routine: Routine, per_byte: float) -> dict[str, Any]:
    generator = np.random.default_rng(1)
    operands = [generator.random(shape, np.float32).astype(routine.dtype) for shape in routine.shapes]
    size = sum(array.nbytes for array in operands)
    times = []
    for place in (gpu.on_device, gpu.mapped):
        placed = [place(array) for array in operands]
        times.append(gpu.seconds(lambda given=placed: routine.call(*given)))  # type: ignore[misc]
    device, mapped = times
    passes = (mapped - device) / (per_byte * size)
    values = (routine.name, round(size / MIB, 2), device * 1e3, mapped * 1e3, round(passes, 2))
    return dict(zip(COLUMNS, values, strict=True))


class Gpu:
    """CuPy's current device."""

    def __init__(self) -> None:
        import cupy

        self.xp = cupy

    def on_device(self, array: Any) -> Any:
        return self.xp.asarray(array)

    def mapped(self, array: Any) -> Any:
        """In page-locked memory that unified addressing maps for the GPU."""
        runtime, cuda = self.xp.cuda.runtime, self.xp.cuda
        pointer = runtime.hostAlloc(array.nbytes, runtime.hostAllocMapped)
        memory = cuda.UnownedMemory(pointer, array.nbytes, owner=None, device_id=cuda.Device().id)
        found = self.xp.ndarray(array.shape, array.dtype, cuda.MemoryPointer(memory, 0))
        found.set(array)
        return found

    def seconds(self, call: Callable[[], object]) -> float:
        """By events; two calls before, which compile."""
        events = [self.xp.cuda.Event() for _ in range(2)]
        found = []
        for number in range(REPEATS + 2):
            events[0].record()
            call()
            events[1].record()
            events[1].synchronize()
            if number > 1:
                found.append(self.xp.cuda.get_elapsed_time(*events) / 1e3)
        return median(found)


if __name__ == "__main__":
    writer = csv.DictWriter(sys.stdout, COLUMNS)
    writer.writeheader()
    writer.writerows(measured(Gpu()))
