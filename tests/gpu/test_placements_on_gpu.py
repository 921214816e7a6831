"""Every placement on a real GPU: what the host writes the device sees, and the other way round."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
from on_gpu import require

from advisor.measure.backends import gpu_count
from advisor.strategies.arena import AllocationFailed, Arena
from advisor.strategies.backend import Backend, Hint
from advisor.strategies.kinds import External
from advisor.strategies.mixes import PLACEMENTS as PLACED
from advisor.strategies.placement import Layout, require_memory
from advisor.strategies.registry import STRATEGIES, Strategy, by_name

LAYOUT = Layout((1000, 1001), np.dtype(np.float32))


@pytest.mark.parametrize("foreign", [False, True], ids=["own", "external"])
@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: s.name)
def test_data_makes_the_round_trip(strategy: Strategy, foreign: bool, cuda: Backend) -> None:
    require(strategy.name, cuda)
    placement = External.before(strategy.placement) if foreign else strategy.placement
    if foreign and strategy.placement.takes_foreign_memory:
        pytest.skip("it works on foreign memory without a copy")
    expected = np.arange(1000 * 1001, dtype=np.float32).reshape(LAYOUT.shape)
    whole = tuple((0, n) for n in LAYOUT.shape)
    with Arena(cuda) as arena:
        placed = placement.place(arena, LAYOUT)
        assert placed.host is not None
        placed.host[...] = expected
        if placed.copy_in:
            placed.copy_in(whole)
        made = placed.to_device(None) if placed.to_device else None
        sent = placed.device if made is None else made
        cuda.xp.multiply(sent, 2, out=sent)
        back = placed.to_host(None) if placed.to_host else None
        cuda.synchronize()
        if placed.copy_out:
            placed.copy_out(whole)
        np.testing.assert_array_equal(placed.host if back is None else back, expected * 2)
        del placed


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: s.name)
def test_memory_is_given_back(strategy: Strategy, cuda: Backend) -> None:
    require(strategy.name, cuda)
    large = Layout((64 << 20,), np.dtype(np.float32))
    with Arena(cuda) as arena:
        strategy.placement.place(arena, large)  # the driver keeps some of the first allocation
    before = cuda.free_memory()
    with Arena(cuda) as arena:
        strategy.placement.place(arena, large)
    after = cuda.free_memory()
    assert before is not None
    assert after is not None
    assert abs(before - after) < 8 << 20


def test_kinds_of_memory_are_what_the_driver_says(cuda: Backend) -> None:
    runtime = cuda.xp.cuda.runtime
    with Arena(cuda) as arena:
        kinds = {
            name: runtime.pointerGetAttributes(pointer).type
            for name, pointer in (
                ("pageable", arena.pageable(4096)),
                ("pinned", arena.pinned(4096)),
                ("mapped", arena.pinned(4096, "mapped")),
                ("managed", arena.managed(4096)),
                ("device", arena.device(4096)),
            )
        }
    host, device, managed = (runtime.memoryTypeHost, runtime.memoryTypeDevice, runtime.memoryTypeManaged)
    assert (kinds["pinned"], kinds["mapped"]) == (host, host)
    assert (kinds["managed"], kinds["device"]) == (managed, device)
    assert kinds["pageable"] not in (host, device, managed)


def runtime() -> Any:
    """cuda-bindings, which comes with CuPy's extra."""
    return pytest.importorskip("cuda.bindings.runtime")


def flags_of(pointer: int) -> int:
    error, flags = runtime().cudaHostGetFlags(pointer)
    assert int(error) == 0
    return int(flags)


def last_prefetch(pointer: int) -> int:
    """Where an array of `LAYOUT` was prefetched to last: a GPU's number, -1 for the host, -2 for nowhere."""
    attribute = runtime().cudaMemRangeAttribute.cudaMemRangeAttributeLastPrefetchLocation
    error, place = runtime().cudaMemRangeGetAttribute(4, attribute, pointer, LAYOUT.nbytes)
    assert int(error) == 0
    return int(place)


def test_flags_of_page_locked_memory(cuda: Backend) -> None:
    with Arena(cuda) as arena:
        assert not flags_of(arena.pinned(4096)) & 4
        assert flags_of(arena.pinned(4096, "write-combined")) & 4
        assert flags_of(arena.pinned(4096, "mapped")) & 2
        assert flags_of(arena.pinned(4096, "mapped", "write-combined")) & 6 == 6
        if gpu_count() > 1:
            assert flags_of(arena.pinned(4096)) & 1


def test_registered_memory_is_page_locked(cuda: Backend) -> None:
    require("registered", cuda)
    attributes = cuda.xp.cuda.runtime.pointerGetAttributes
    with Arena(cuda) as arena:
        pointer = arena.registered(4096, mapped=True)
        assert attributes(pointer).type == cuda.xp.cuda.runtime.memoryTypeHost
        assert cuda.host_device_pointer(pointer)
    host, managed = cuda.xp.cuda.runtime.memoryTypeHost, cuda.xp.cuda.runtime.memoryTypeManaged
    assert attributes(pointer).type not in (host, managed), "unregistered at the end"


@pytest.mark.parametrize("name", ["managed-prefetch", "managed-advised"])
def test_prefetching_moves_the_pages_there_and_back(name: str, cuda: Backend) -> None:
    if not cuda.device().attributes["concurrent_managed_access"]:
        pytest.skip("prefetching needs concurrentManagedAccess")
    runtime()
    with Arena(cuda) as arena:
        placed = by_name(name).placement.place(arena, LAYOUT)
        assert placed.to_host
        pointer = placed.host.ctypes.data
        placed.host[...] = 1
        assert last_prefetch(pointer) == -2
        placed.to_device(None)
        cuda.synchronize()
        assert last_prefetch(pointer) == 0
        placed.to_host(None)
        cuda.synchronize()
        assert last_prefetch(pointer) == -1
        del placed


@pytest.mark.parametrize("hint", get_args(Hint))
def test_the_driver_takes_every_hint(hint: Hint, cuda: Backend) -> None:
    if not cuda.device().attributes["concurrent_managed_access"]:
        pytest.skip("advice needs concurrentManagedAccess")
    runtime()
    with Arena(cuda) as arena:
        replace(PLACED["managed-advised"], hints=(hint,)).place(arena, LAYOUT)


def test_what_is_too_much_fails_or_is_refused_and_leaves_nothing(cuda: Backend) -> None:
    with Arena(cuda) as arena:
        arena.device(64 << 20)
    before = cuda.free_memory()
    with Arena(cuda) as arena:
        arena.device(256 << 20)
        arena.pinned(1 << 20)
        with pytest.raises(AllocationFailed, match=r"allocating .* of device memory failed: .*[Mm]emory"):
            arena.device(1 << 50)
    after = cuda.free_memory()
    assert before is not None
    assert after is not None
    assert abs(before - after) < 8 << 20
    free = cuda.free_memory()
    assert free is not None
    with pytest.raises(AllocationFailed, match="--allow-oversubscription"):
        require_memory(cuda, {"a": PLACED["managed"]}, {"a": free + (64 << 30)}, oversubscribe=False)


def test_what_a_workload_leaves_behind_is_seen(cuda: Backend) -> None:
    assert cuda.disturbed() is None
    other = cuda.new_stream()
    with other:
        assert cuda.disturbed() == "it left another stream current"
    assert cuda.disturbed() is None
    with cuda.xp.cuda.using_allocator(cuda.xp.cuda.MemoryPool().malloc):
        assert cuda.disturbed() == "it left another CuPy allocator in use"
    assert cuda.disturbed() is None
