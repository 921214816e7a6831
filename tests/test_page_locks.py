"""What a workload page-locks by itself in its frames, seen through CuPy's modules. Needs CuPy, but no GPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from advisor.measure.backends.cuda_calls import watching


class Memory:
    """Page-locked memory; `kept` counts what was made."""

    kept = 0

    def __init__(self, size: int) -> None:
        type(self).kept += 1
        self.size = size


class Pool:
    """As CuPy's: gives what it has, and grows by what it lacks."""

    def __init__(self) -> None:
        self.free = 0

    def n_free_blocks(self) -> int:
        return self.free

    def malloc(self, nbytes: int) -> Any:
        self.free = max(self.free - 1, 0)
        return SimpleNamespace(mem=SimpleNamespace(size=nbytes, pool=lambda: self))


@pytest.fixture
def cupy() -> Any:
    """As much of CuPy's modules as is watched."""
    pool = Pool()
    runtime = SimpleNamespace(
        hostAlloc=lambda size, flags: 0xB00,
        hostRegister=lambda pointer, size, flags: None,
        hostUnregister=lambda pointer: None,
        freeHost=lambda pointer: None,
        malloc=lambda size: 0xA00,
    )
    cuda = SimpleNamespace(runtime=runtime, alloc_pinned_memory=pool.malloc, PinnedMemory=Memory)
    return SimpleNamespace(cuda=cuda, pool=pool, get_default_pinned_memory_pool=lambda: pool)


@pytest.mark.parametrize(
    ("use", "calls"),
    [
        (lambda cupy: cupy.cuda.runtime.hostAlloc(8, 0), 1),
        (lambda cupy: cupy.cuda.runtime.hostRegister(1, 8, flags=0), 1),
        (lambda cupy: cupy.cuda.runtime.freeHost(1), 1),
        (lambda cupy: cupy.cuda.PinnedMemory(8), 1),
        (lambda cupy: cupy.cuda.alloc_pinned_memory(8), 1),
        (lambda cupy: cupy.cuda.runtime.malloc(8), 0),
    ],
)
def test_what_locks_pages_is_counted(cupy: Any, use: Any, calls: int):
    with watching(cupy) as found:
        use(cupy)
    assert found.calls == calls
    assert (found.seconds > 0) == bool(calls)
    use(cupy)
    assert found.calls == calls, "the modules were not put back"


def test_what_the_pool_has_at_hand_was_locked_before(cupy: Any):
    cupy.pool.free = 2
    with watching(cupy) as found:
        taken = [cupy.cuda.alloc_pinned_memory(8) for _ in range(3)]
    assert [pointer.mem.size for pointer in taken] == [8, 8, 8]
    assert found.calls == 1


@pytest.mark.parametrize(
    ("memory", "calls"),
    [(SimpleNamespace(size=8), 1), (SimpleNamespace(size=8, pool=lambda: "another pool"), 0)],
)
def test_without_a_pool_each_allocation_locks_and_another_pool_is_not_known(
    cupy: Any, memory: Any, calls: int
):
    cupy.cuda.alloc_pinned_memory = lambda nbytes: SimpleNamespace(mem=memory)
    with watching(cupy) as found:
        cupy.cuda.alloc_pinned_memory(8)
    assert found.calls == calls


def test_a_call_that_fails_still_fails_and_the_modules_are_put_back(cupy: Any):
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
