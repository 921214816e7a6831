"""Allocators of CuPy and PyTorch that a script can use instead of the default pool."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

VARIABLE = "PYTORCH_CUDA_ALLOC_CONF"
"""PyTorch reads it before the first array on the GPU: no line of a file sets it with certainty in time."""


@dataclass(frozen=True)
class Allocator:
    """CuPy's are an expression in `{cupy}`, what the file calls CuPy, after lines that it needs; PyTorch's a
    value of `VARIABLE`."""

    name: str
    library: Literal["cupy", "torch"]
    title: str
    setting: str
    before: tuple[str, ...] = ()

    def lines(self, cupy: str) -> tuple[str, ...]:
        """Lines for a file after its imports."""
        lines = (*self.before, f"{{cupy}}.cuda.set_allocator({self.setting})  # {self.title}")
        return tuple(line.replace("{cupy}", cupy) for line in lines)

    def callable(self, cupy: Any) -> Callable[[int], Any] | None:
        """The allocator itself, by the same text. None: memory is not pooled."""
        names: dict[str, Any] = {"cupy": cupy}
        exec("\n".join(self.before).replace("{cupy}", "cupy"), names)
        allocator: Callable[[int], Any] | None = eval(self.setting.replace("{cupy}", "cupy"), names)
        return allocator


ALLOCATORS = (
    Allocator("no-pool", "cupy", "no pool", "None"),
    Allocator("async-pool", "cupy", "stream-ordered pool", "{cupy}.cuda.MemoryAsyncPool().malloc"),
    Allocator(
        "managed-pool",
        "cupy",
        "pool of managed memory",
        "{cupy}.cuda.MemoryPool({cupy}.cuda.malloc_managed).malloc",
    ),
    Allocator(
        "managed-prefetch-pool",
        "cupy",
        "pool of managed memory, prefetched",
        "{cupy}.cuda.MemoryPool(prefetched).malloc",
        (
            "def prefetched(size):",
            "    memory = {cupy}.cuda.malloc_managed(size)",
            "    memory.mem.prefetch({cupy}.cuda.get_current_stream(), device_id={cupy}.cuda.Device().id)",
            "    return memory",
            "",
            "",
        ),
    ),
    Allocator("expandable-segments", "torch", "expandable segments", "expandable_segments:True"),
    Allocator("cuda-malloc-async", "torch", "cudaMallocAsync", "backend:cudaMallocAsync"),
)
"""Memory of the first four: https://docs.cupy.dev/en/stable/user_guide/memory.html; of the others:
https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management."""
BY_NAME = {each.name: each for each in ALLOCATORS}
