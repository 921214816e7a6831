"""Counts what a workload page-locks by itself through CuPy, while its frames run.

Only calls through the attributes of CuPy's modules are seen, as in `cupy.cuda.runtime.hostRegister(...)` or
`cupyx.empty_pinned(...)`: a name that was imported from such a module is not, nor another library's call.
Memory that a pool had at hand was locked before and does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from advisor.strategies.backend import PageLocks

_CALLS = ("hostAlloc", "hostRegister", "hostUnregister", "freeHost")
"""Functions of `cupy.cuda.runtime` that lock or unlock pages."""


def counted(call: Callable[..., Any], found: PageLocks) -> Callable[..., Any]:
    """The call, counted and timed."""

    def timed(*arguments: Any, **keywords: Any) -> Any:
        begin = perf_counter()
        try:
            return call(*arguments, **keywords)
        finally:
            found.add(perf_counter() - begin)

    return timed


@contextmanager
def watching(cupy: Any) -> Iterator[PageLocks]:
    """Counts while it is open, and leaves CuPy's modules as they were."""
    found, cuda, runtime = PageLocks(), cupy.cuda, cupy.cuda.runtime
    kept = [(runtime, name, getattr(runtime, name)) for name in _CALLS if hasattr(runtime, name)]
    kept += [(cuda, name, getattr(cuda, name)) for name in ("alloc_pinned_memory", "PinnedMemory")]
    for module, name, call in kept[:-2]:
        setattr(module, name, counted(call, found))
    cuda.alloc_pinned_memory = _from_pool(cupy, cuda.alloc_pinned_memory, found)
    cuda.PinnedMemory = _counted_class(cuda.PinnedMemory, found)
    try:
        yield found
    finally:
        for module, name, call in kept:
            setattr(module, name, call)


def _from_pool(cupy: Any, allocate: Callable[[int], Any], found: PageLocks) -> Callable[[int], Any]:
    """Counts an allocation that had to lock pages: one without a pool, or for which the pool had to grow.

    Only CuPy's own pool is looked into: of another one nobody knows whether it grew.
    """
    pool = cupy.get_default_pinned_memory_pool()

    def looked_at(nbytes: int) -> Any:
        free, begin = pool.n_free_blocks(), perf_counter()
        pointer = allocate(nbytes)
        seconds = perf_counter() - begin
        of_pool = getattr(pointer.mem, "pool", None)  # a weak reference
        grown = of_pool is not None and of_pool() is pool and pool.n_free_blocks() >= free
        if of_pool is None or grown:
            found.add(seconds)
        return pointer

    return looked_at


def _counted_class(memory: Any, found: PageLocks) -> Any:
    """`cupy.cuda.PinnedMemory`, which locks pages when it is made."""

    class PinnedMemory(memory):  # type: ignore[misc]
        """CuPy's function, counted."""

        def __init__(self, *arguments: Any, **keywords: Any) -> None:
            counted(super().__init__, found)(*arguments, **keywords)

    return PinnedMemory
