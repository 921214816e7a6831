"""Memory of one run: every allocation is booked by kind when it is made and freed in every path.

Placements take their memory here and never free it themselves; leaving the `with` block gives all of it
back in reverse order, also when an allocation half-way fails.
"""

from __future__ import annotations

import ctypes
import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
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


Give = Callable[[int], object]
Node = int | None
"""A NUMA node; None leaves it to the system."""
Held = tuple[int, Give]
"""Memory's pointer, and what frees it."""


class ReusedAllocations:
    """Memory that one arena gave back and the next may take, so that buffers alike lie in the same place.

    On an H200 blocks of frames differ by 5 to 12 % with the place, and by 1.5 to 4 % in one place. Managed
    memory is never on it: where its pages are and what was advised of them would come along.
    """

    def __init__(self) -> None:
        self._held: dict[Hashable, list[Held]] = {}
        self._of: Hashable = None

    def use_for(self, what: Hashable) -> None:
        """Frees what is there for anything else."""
        if what != self._of:
            self.clear()
            self._of = what

    def take(self, like: Hashable) -> Held | None:
        """The last such allocation that was put there; None where there is none."""
        there = self._held.get(like)
        return there.pop() if there else None

    def put(self, like: Hashable, allocation: Held) -> None:
        self._held.setdefault(like, []).append(allocation)

    def clear(self) -> None:
        for there in self._held.values():
            while there:
                pointer, give = there.pop()
                give(pointer)


class Arena:
    def __init__(
        self,
        backend: Backend,
        node: Node = None,
        nodes: Sequence[Node] = (),
        reused: ReusedAllocations | None = None,
    ) -> None:
        """`node`: the NUMA node that host memory shall come from; None leaves it to the system. `nodes`:
        those for buffers of each GPU of the workload, where it has several. `reused`: takes memory from there
        where it can, and gives it back there."""
        self.backend = backend
        self._reused = reused
        self._node = node
        self._nodes = nodes
        self.requested: Counter[MemoryKind] = Counter()
        self.pooled: Counter[MemoryKind] = Counter()
        """Bytes that pools took beyond what they were asked for."""
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
        """The same record of allocations, for memory of that GPU of the workload."""
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
        at = self.backend
        return self._book("pinned", nbytes, lambda: at.host_alloc(nbytes, *flags), at.free_host, *flags)

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

        return self._book("pinned", nbytes, take, give, "registered", mapped)

    def staging(self, nbytes: int) -> None:
        """Books what CuPy's pinned pool takes for such uploads: a power of two (cupy issues 3625, 8111)."""
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
        return self._book("managed", nbytes, lambda: self.backend.malloc_managed(nbytes), self.backend.free)

    def device(self, nbytes: int) -> int:
        return self._book("device", nbytes, lambda: self.backend.malloc(nbytes), self.backend.free)

    def _malloc(self, nbytes: int) -> int:
        """All pageable memory of the host, whatever becomes of it."""
        pointer, memory = ordinary_memory(nbytes)
        self._owned[pointer] = memory
        return pointer

    def _book(
        self, kind: MemoryKind, nbytes: int, take: Callable[[], int], give: Give, *how: Hashable
    ) -> int:
        """`how` tells apart what is not alike beside its kind and size."""
        reused = self._reused if kind != "managed" else None
        like = (kind, nbytes, self._node, id(self.backend), *how)
        allocation = reused.take(like) if reused else None
        if allocation is None:
            allocation = self._taken(kind, nbytes, take), give
        elif kind in ("pinned", "pageable"):
            ctypes.memset(allocation[0], 0, nbytes)  # as new pages are
        pointer, give = allocation
        if reused:
            self._cleanup.callback(reused.put, like, allocation)
        else:
            self._cleanup.callback(give, pointer)
        self.requested[self.backend.kind_of(kind)] += nbytes
        return pointer

    def _taken(self, kind: MemoryKind, nbytes: int, take: Callable[[], int]) -> int:
        try:
            with preferring(self._node if kind in ("pinned", "pageable") else None):
                return take()
        except Exception as problem:
            reason = str(problem) or type(problem).__name__
            raise AllocationFailed(
                f"allocating {units.size(nbytes)} of {kind} memory failed: {reason}"
            ) from problem
