"""Memory of one run: every allocation is booked by kind when it is made and freed in every path.

Placements take their memory here and never free it themselves; leaving the `with` block gives all of it
back in reverse order, also when an allocation half-way fails.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext, suppress
from copy import copy
from types import TracebackType
from typing import Any

import numpy as np

from advisor import units
from advisor.profiles.schema import MemoryKind
from advisor.strategies.backend import Array, Backend, HostFlag, ordinary_memory
from advisor.strategies.placements.numa import preferring


class AllocationFailed(Exception):
    """Memory of a kind could not be had; the text says how much and why."""


class Arena:
    """Allocates through one backend and frees on exit."""

    def __init__(self, backend: Backend, node: int | None = None, nodes: Sequence[int | None] = ()) -> None:
        """`node`: the NUMA node that host memory shall come from; None leaves it to the system. `nodes`:
        those for buffers of each GPU of the workload, where it has several."""
        self.backend = backend
        self._node = node
        self._nodes = nodes
        self.requested: Counter[MemoryKind] = Counter()
        self.pooled: Counter[MemoryKind] = Counter()
        """What pools took beyond what they were asked for."""
        self._owned: dict[int, Array] = {}
        self._cleanup = ExitStack()

    def __enter__(self) -> Arena:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(Exception) if error else nullcontext():  # the first error says what happened
            self._cleanup.close()

    def on(self, gpu: int) -> Arena:
        """The same books, for memory of that GPU of the workload."""
        other = copy(self)
        other.backend = self.backend.gpus[gpu]
        other._node = self._nodes[gpu] if self._nodes else self._node
        return other

    def pad(self, nbytes: int) -> None:
        """Takes that much on both sides, unbooked, so that what comes after lies elsewhere; 0 takes none."""
        if nbytes:
            self._owned[0] = np.empty(nbytes, np.uint8)
            self._cleanup.callback(self.backend.free, self.backend.malloc(nbytes))

    def pageable(self, nbytes: int) -> int:
        """malloc, as any ordinary array has it. The host's pointer."""
        return self._book("pageable", nbytes, lambda: self._malloc(nbytes), self._owned.pop)

    def pinned(self, nbytes: int, *flags: HostFlag) -> int:
        """Page-locked host memory. The host's pointer."""
        backend = self.backend
        return self._book("pinned", nbytes, lambda: backend.host_alloc(nbytes, *flags), backend.free_host)

    def registered(self, nbytes: int, *, mapped: bool = False) -> int:
        """Pageable memory on pages of its own, locked afterwards. The host's pointer."""
        backend = self.backend

        def take() -> int:
            pointer = self._malloc(nbytes)
            try:
                backend.host_register(pointer, nbytes, mapped=mapped)
            except BaseException:
                del self._owned[pointer]
                raise
            return pointer

        def give(pointer: int) -> None:
            backend.host_unregister(pointer)
            del self._owned[pointer]

        return self._book("pinned", nbytes, take, give)

    def staging(self, nbytes: int) -> None:
        """Books what CuPy's pinned pool takes for uploads of that size, and keeps: a power of two (cupy
        issues 3625, 8111)."""
        kind = self.backend.kind_of("pinned")
        self.requested[kind] += nbytes
        if kind == "pinned":
            self.pooled[kind] += (1 << max(nbytes - 1, 0).bit_length()) - nbytes

    def pool_array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """An array of the library's own pool, whose size the footprint knows."""
        array = self.backend.pool_array(shape, dtype)
        kind, nbytes = self.backend.kind_of("device"), math.prod(shape) * dtype.itemsize
        self.requested[kind] += nbytes
        if self.backend.pool_reserved() is not None:
            self.pooled[kind] -= nbytes
        return array

    def managed(self, nbytes: int) -> int:
        """Managed memory. One pointer for both sides."""
        return self._book("managed", nbytes, lambda: self.backend.malloc_managed(nbytes), self.backend.free)

    def device(self, nbytes: int) -> int:
        """Device memory. The device's pointer."""
        return self._book("device", nbytes, lambda: self.backend.malloc(nbytes), self.backend.free)

    def _malloc(self, nbytes: int) -> int:
        """All pageable memory of the host, whatever becomes of it."""
        pointer, memory = ordinary_memory(nbytes)
        self._owned[pointer] = memory
        return pointer

    def _book(
        self, kind: MemoryKind, nbytes: int, take: Callable[[], int], give: Callable[[int], object]
    ) -> int:
        try:
            with preferring(self._node if kind in ("pinned", "pageable") else None):
                pointer = take()
        except Exception as problem:
            reason = str(problem) or type(problem).__name__
            raise AllocationFailed(
                f"allocating {units.size(nbytes)} of {kind} memory failed: {reason}"
            ) from problem
        self._cleanup.callback(give, pointer)
        self.requested[self.backend.kind_of(kind)] += nbytes
        return pointer
