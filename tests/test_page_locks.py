"""What a workload page-locks by itself in its frames, seen through CuPy's modules. Needs CuPy, but no GPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from every import every

from advisor.measure.backends.cuda_calls import watching


class Memory:
    """Page-locked memory; `kept` counts what was made."""

    kept = 0

    def __init__(self, size: int) -> None:
        type(self).kept += 1
        self.size = size


class Pool:
    """As CuPy's: gives what it has, and grows by what it lacks. memory: what it gives in its own's place."""

    def __init__(self, free: int = 0, memory: Any = None) -> None:
        self.free, self._memory = free, memory

    def n_free_blocks(self) -> int:
        return self.free

    def malloc(self, nbytes: int) -> Any:
        self.free = max(self.free - 1, 0)
        return SimpleNamespace(mem=self._memory or SimpleNamespace(size=nbytes, pool=lambda: self))


def modules(*of_pool: Any) -> Any:
    """As much of CuPy's modules as is watched."""
    pool = Pool(*of_pool)
    runtime = SimpleNamespace(
        hostAlloc=lambda size, flags: 0xB00,
        hostRegister=lambda pointer, size, flags: None,
        hostUnregister=lambda pointer: None,
        freeHost=lambda pointer: None,
        malloc=lambda size: 0xA00,
    )
    cuda = SimpleNamespace(runtime=runtime, alloc_pinned_memory=pool.malloc, PinnedMemory=Memory)
    return SimpleNamespace(cuda=cuda, get_default_pinned_memory_pool=lambda: pool)


@every(
    ("use", "calls"),
    [
        (lambda cuda: cuda.runtime.hostAlloc(8, 0), 1),
        (lambda cuda: cuda.runtime.hostRegister(1, 8, flags=0), 1),
        (lambda cuda: cuda.runtime.freeHost(1), 1),
        (lambda cuda: cuda.PinnedMemory(8), 1),
        (lambda cuda: cuda.alloc_pinned_memory(8), 1),
        (lambda cuda: cuda.runtime.malloc(8), 0),
    ],
)
def test_what_locks_pages_is_counted(use: Any, calls: int):
    cupy = modules()
    with watching(cupy) as found:
        use(cupy.cuda)
    assert (found.calls, found.seconds > 0) == (calls, bool(calls))
    use(cupy.cuda)
    assert found.calls == calls, "the modules were not put back"


@every(
    ("free", "memory", "calls"),
    [
        (2, None, 1),  # what the pool has at hand was locked before
        (0, SimpleNamespace(size=8), 3),  # without a pool each allocation locks
        (0, SimpleNamespace(size=8, pool=lambda: "another pool"), 0),  # which is not known
    ],
)
def test_allocations_lock_what_no_pool_has_at_hand(free: int, memory: Any, calls: int):
    cupy = modules(free, memory)
    with watching(cupy) as found:
        taken = [cupy.cuda.alloc_pinned_memory(8) for _ in range(3)]
    assert [pointer.mem.size for pointer in taken] == [8] * 3
    assert found.calls == calls


def test_a_call_that_fails_still_fails_and_the_modules_are_put_back():
    cupy = modules()

    def failing(*_: Any) -> None:
        raise MemoryError("no pages")

    cupy.cuda.runtime.hostRegister = failing
    with pytest.raises(MemoryError, match="no pages"), watching(cupy) as found:
        cupy.cuda.runtime.hostRegister(1, 8, 0)
    assert found.calls == 1
    assert cupy.cuda.runtime.hostRegister is failing
    assert cupy.cuda.PinnedMemory is Memory


def test_cupy_itself_has_what_is_watched():
    """Its pool, its classes and its functions are as the counting takes them to be."""
    real = pytest.importorskip("cupy")
    cuda = real.cuda

    class Pages(cuda.PinnedMemory):  # type: ignore[misc]
        """No pages are locked where there is no GPU."""

        def __init__(self, size: int) -> None:
            self.ptr, self.size, self.flags = 4096, size, 0

        def __del__(self) -> None:
            pass

    pool = cuda.PinnedMemoryPool(lambda size: cuda.PinnedMemoryPointer(Pages(size), 0))
    cupy = SimpleNamespace(cuda=cuda, get_default_pinned_memory_pool=lambda: pool)
    register = cuda.runtime.hostRegister
    cuda.set_pinned_memory_allocator(pool.malloc)
    try:
        with watching(cupy) as found:
            assert cuda.runtime.hostRegister is not register
            assert cuda.PinnedMemory.__mro__[1:2] != (object,)
            first = cuda.alloc_pinned_memory(100)
            assert found.calls == 1
            del first
            again = cuda.alloc_pinned_memory(100)
            assert found.calls == 1
            del again
    finally:
        cuda.set_pinned_memory_allocator(real.get_default_pinned_memory_pool().malloc)
    assert cuda.runtime.hostRegister is register
