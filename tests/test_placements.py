"""Placements on a recording backend: which calls, in which order, and that all memory comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from builders import cuda_device
from fakes import ON_DEVICE, FakeCudaError, RecordingBackend

from advisor.backends.cpu import CpuBackend
from advisor.placements.arena import AllocationFailed, Arena
from advisor.placements.base import Layout, Placed, Placement
from advisor.placements.external import External
from advisor.placements.managed import Managed
from advisor.placements.one_sided import DeviceOnly, HostOnly
from advisor.placements.pageable import Pageable
from advisor.placements.pinned import Pinned
from advisor.placements.zero_copy import ZeroCopy
from advisor.profiles import Device
from advisor.strategies import STRATEGIES

LAYOUT = Layout((2, 8), np.dtype(np.float32))
SHARED: list[Placement] = [strategy.placement for strategy in STRATEGIES]
EVERY: list[Placement] = [
    *SHARED,
    *(External(placement) for placement in SHARED if not placement.takes_foreign_memory),
    HostOnly(),
    DeviceOnly(),
]
CPU = Device(name="CPU", kind="cpu")


def called(placement: Placement) -> str:
    inner = getattr(placement, "inner", None)
    return type(placement).__name__ + (f"-{type(inner).__name__}" if inner else "")


def each(*placements: Placement) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("placement", placements, ids=called)


def calls_of(placement: Placement, use: Callable[[Placed], object]) -> list[str]:
    """The backend's calls while the placed buffer is used."""
    backend = RecordingBackend()
    with Arena(backend) as arena:
        placed = placement.place(arena, LAYOUT)
        backend.calls.clear()
        use(placed)
        return backend.names


def test_layout_counts_bytes() -> None:
    assert LAYOUT.nbytes == 64
    assert Layout((1 << 40, 1 << 40), np.dtype(np.float64)).nbytes == 1 << 83


@pytest.mark.parametrize(
    ("placement", "expected"),
    [
        (Pageable(), ["malloc", "device_array"]),
        (Pinned(), ["host_alloc", "malloc", "device_array"]),
        (ZeroCopy(), ["host_alloc", "host_device_pointer", "device_array"]),
        (Managed(), ["malloc_managed", "device_array"]),
        (HostOnly(), []),
        (DeviceOnly(), ["malloc", "device_array"]),
        (External(Pinned()), ["host_alloc", "malloc", "device_array"]),
        (External(ZeroCopy()), ["host_alloc", "host_device_pointer", "device_array"]),
        (External(Managed()), ["malloc_managed", "device_array"]),
    ],
    ids=lambda value: called(value) if isinstance(value, Placement) else "",
)
def test_what_is_allocated_and_freed(placement: Placement, expected: list[str]) -> None:
    backend = RecordingBackend()
    with Arena(backend) as arena:
        placement.place(arena, LAYOUT)
        assert backend.names == expected
    frees = {"malloc": "free", "malloc_managed": "free", "host_alloc": "free_host"}
    assert backend.names[len(expected) :] == [frees[name] for name in reversed(expected) if name in frees]
    assert not backend.live


def test_only_zero_copy_maps_its_memory() -> None:
    for placement, mapped in ((Pinned(), False), (ZeroCopy(), True)):
        backend = RecordingBackend()
        with Arena(backend) as arena:
            placement.place(arena, LAYOUT)
        assert backend.calls[0] == ("host_alloc", 64, mapped)


@each(*EVERY)
def test_each_side_has_an_array_of_the_right_form(placement: Placement) -> None:
    with Arena(RecordingBackend()) as arena:
        placed = placement.place(arena, LAYOUT)
        sides = [array for array in (placed.host, placed.device) if array is not None]
        assert {(array.shape, array.dtype) for array in sides} == {((2, 8), np.dtype(np.float32))}
        assert (placed.host is None) == isinstance(placement, DeviceOnly)
        assert (placed.device is None) == isinstance(placement, HostOnly)
        assert placed.host is None or placed.host.flags.writeable


def test_zero_copy_gives_kernels_the_devices_address_of_the_same_memory() -> None:
    with Arena(RecordingBackend()) as arena:
        placed = ZeroCopy().place(arena, LAYOUT)
        assert placed.host is not None
        assert placed.device.data.ptr == placed.host.ctypes.data | ON_DEVICE


def test_managed_memory_has_one_address() -> None:
    with Arena(RecordingBackend()) as arena:
        placed = Managed().place(arena, LAYOUT)
        assert placed.host is not None
        assert placed.device.data.ptr == placed.host.ctypes.data


@each(ZeroCopy(), Managed())
def test_one_memory_needs_no_copy(placement: Placement) -> None:
    with Arena(RecordingBackend()) as arena:
        placed = placement.place(arena, LAYOUT)
        assert placed.to_device is None
        assert placed.to_host is None
        assert placed.host is not None
        placed.host[...] = 5
        assert (placed.device.memory == 5).all()


@each(Pageable(), Pinned(), *(p for p in EVERY if isinstance(p, External)))
@pytest.mark.parametrize("deferred", [False, True])
def test_copies_arrive(placement: Placement, deferred: bool) -> None:
    """With every copy and kernel as late as CUDA allows, and as early."""
    backend = RecordingBackend(deferred=deferred)
    with Arena(backend) as arena:
        placed = placement.place(arena, LAYOUT)
        assert placed.host is not None
        assert placed.to_device is not None
        assert placed.to_host is not None
        blocking = placement.traits(backend.device()).blocking
        placed.host[...] = 3
        placed.to_device()
        if blocking:
            placed.host[...] = 4  # must not reach what was sent
        backend.xp.multiply(placed.device, 2, out=placed.device)
        placed.to_host()
        if not blocking:
            backend.synchronize()
        assert (placed.host == 6).all()


@pytest.mark.parametrize(
    ("placement", "there", "back"),
    [
        (Pageable(), ["copy_to_device", "synchronize"], ["copy_to_host", "synchronize"]),
        (Pinned(), ["copy_to_device"], ["copy_to_host"]),
        (External(Pinned()), ["synchronize", "copy_to_device"], ["copy_to_host", "synchronize"]),
        (External(ZeroCopy()), ["synchronize"], ["synchronize"]),
        (External(Managed()), ["synchronize"], ["synchronize"]),
    ],
    ids=lambda value: called(value) if isinstance(value, Placement) else "",
)
def test_calls_of_the_copies(placement: Placement, there: list[str], back: list[str]) -> None:
    assert calls_of(placement, lambda placed: placed.to_device and placed.to_device()) == there
    assert calls_of(placement, lambda placed: placed.to_host and placed.to_host()) == back


def test_copies_name_target_source_and_size() -> None:
    backend = RecordingBackend()
    with Arena(backend) as arena:
        placed = Pinned().place(arena, LAYOUT)
        assert placed.host is not None
        assert placed.to_device
        assert placed.to_host
        on_host, on_device = placed.host.ctypes.data, placed.device.data.ptr
        backend.calls.clear()
        placed.to_device()
        placed.to_host()
        assert backend.calls == [
            ("copy_to_device", on_device, on_host, 64),
            ("copy_to_host", on_host, on_device, 64),
        ]


@pytest.mark.parametrize("inner", [Pinned(), ZeroCopy(), Managed()], ids=called)
def test_foreign_data_waits_for_the_last_upload_before_it_overwrites_it(inner: Placement) -> None:
    backend = RecordingBackend(deferred=True)
    with Arena(backend) as arena:
        placed, result = External(inner).place(arena, LAYOUT), DeviceOnly().place(arena, LAYOUT)
        assert placed.host is not None
        assert placed.to_device
        placed.host[...] = 1
        placed.to_device()
        backend.xp.copyto(result.device, placed.device)
        placed.host[...] = 2
        placed.to_device()
        assert (result.device.memory == 1).all(), "the kernel has read the second image"
        backend.synchronize()
        assert (placed.device.memory == 2).all()


@pytest.mark.parametrize(
    ("placement", "kinds"),
    [
        (Pageable(), {"pageable": 64, "device": 64}),
        (Pinned(), {"pinned": 64, "device": 64}),
        (ZeroCopy(), {"pinned": 64}),
        (Managed(), {"managed": 64}),
        (HostOnly(), {"pageable": 64}),
        (DeviceOnly(), {"device": 64}),
        (External(Pinned()), {"pageable": 64, "pinned": 64, "device": 64}),
        (External(ZeroCopy()), {"pageable": 64, "pinned": 64}),
        (External(Managed()), {"pageable": 64, "managed": 64}),
    ],
    ids=lambda value: called(value) if isinstance(value, Placement) else "",
)
def test_memory_is_booked_by_kind(placement: Placement, kinds: dict[str, int]) -> None:
    with Arena(RecordingBackend()) as arena:
        placement.place(arena, LAYOUT)
        assert arena.requested == kinds
        assert {placement.host_kind, placement.device_kind} <= set(kinds) | {"device", "pageable"}
        placement.place(arena, LAYOUT)
        assert arena.requested == {kind: 2 * nbytes for kind, nbytes in kinds.items()}


@each(*EVERY)
def test_the_kinds_it_names_are_the_kinds_it_takes(placement: Placement) -> None:
    with Arena(RecordingBackend()) as arena:
        placed = placement.place(arena, LAYOUT)
        if placed.host is not None:
            assert placement.host_kind in arena.requested
        if placed.device is not None:
            assert placement.device_kind in arena.requested


@each(*EVERY)
def test_whatever_fails_all_memory_is_freed_once(placement: Placement) -> None:
    """The backend finds double frees and wrong frees itself."""
    clean = RecordingBackend()
    use(clean, placement)
    for failing in range(1, len(clean.calls) + 1):
        backend = RecordingBackend(fail_at=failing)
        with pytest.raises((AllocationFailed, FakeCudaError)):
            use(backend, placement)
        assert not backend.live, f"call {failing}, {clean.names[failing - 1]}, leaks"


def use(backend: RecordingBackend, placement: Placement) -> None:
    """Two buffers, copied there and back."""
    with Arena(backend) as arena:
        for placed in (placement.place(arena, LAYOUT), placement.place(arena, LAYOUT)):
            for move in (placed.to_device, placed.to_host):
                if move:
                    move()


def test_a_failed_allocation_says_what_and_why() -> None:
    backend = RecordingBackend(fail_at=1)
    with Arena(backend) as arena, pytest.raises(AllocationFailed) as raised:
        arena.pinned(3 << 20)
    assert str(raised.value) == "allocating 3.00 MiB of pinned memory failed: host_alloc failed"
    assert isinstance(raised.value.__cause__, FakeCudaError)
    assert not arena.requested


def test_an_allocation_may_fail_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = RecordingBackend()

    def fail(nbytes: int) -> int:
        raise MemoryError

    monkeypatch.setattr(backend, "malloc", fail)
    with Arena(backend) as arena, pytest.raises(AllocationFailed, match=r"failed: MemoryError$"):
        arena.device(1)


def test_a_failing_free_does_not_hide_the_error_before_it() -> None:
    """After some CUDA errors every further call fails; the first one says what happened."""
    backend = RecordingBackend(fail_at=3, broken_after=True)
    with pytest.raises(AllocationFailed, match="malloc_managed failed"):
        allocate_three_kinds(backend)
    assert backend.names[3:] == ["free_host", "free"], "one failing free must not spare the others"


def allocate_three_kinds(backend: RecordingBackend) -> None:
    with Arena(backend) as arena:
        arena.device(8)
        arena.pinned(8)
        arena.managed(8)


def test_a_failing_free_is_not_swallowed_otherwise() -> None:
    backend = RecordingBackend(fail_at=2)
    with pytest.raises(FakeCudaError, match="free failed"), Arena(backend) as arena:
        arena.device(8)


def test_pageable_memory_belongs_to_the_arena() -> None:
    backend = RecordingBackend()
    with Arena(backend) as arena:
        placed = HostOnly().place(arena, LAYOUT)
        assert placed.host is not None
        placed.host[...] = 1
        assert len(arena._owned) == 1
    assert not arena._owned


@each(*EVERY)
def test_the_cpu_books_everything_as_ordinary_memory(placement: Placement) -> None:
    backend = CpuBackend()
    with Arena(backend) as arena:
        placed = placement.place(arena, LAYOUT)
        assert set(arena.requested) == {"pageable"}
        if placed.to_device and placed.to_host:
            assert placed.host is not None
            placed.host[...] = 7
            placed.to_device()
            assert (placed.device == 7).all()
            placed.device[...] = 8
            placed.to_host()
            assert (placed.host == 8).all()
    assert not backend._owned


@contextmanager
def cpu_memory(nbytes: int) -> Iterator[tuple[CpuBackend, list[int]]]:
    backend = CpuBackend()
    pointers = [backend.malloc(nbytes), backend.host_alloc(nbytes), backend.malloc_managed(nbytes)]
    yield backend, pointers
    for pointer, free in zip(pointers, (backend.free, backend.free_host, backend.free), strict=True):
        free(pointer)


def test_the_cpu_has_its_own_memory_for_each_call() -> None:
    with cpu_memory(16) as (backend, pointers):
        assert len(set(pointers)) == 3
        assert backend.host_device_pointer(pointers[0]) == pointers[0]
    assert not backend._owned


def test_the_cpu_as_a_device() -> None:
    backend = CpuBackend()
    assert backend.xp is np
    assert backend.device() == CPU
    assert backend.environment() == {}
    assert backend.free_memory() is None
    assert backend.pool_reserved() is None
    backend.stream.synchronize()
    assert backend.stream.ptr == 0
    start = backend.timestamp()
    assert backend.seconds_between(start, start + 0.25) == 0.25


@pytest.mark.parametrize(
    ("placement", "traits"),
    [
        (Pageable(), {"moves": "copies", "blocking": True}),
        (Pinned(), {"moves": "copies", "blocking": False}),
        (ZeroCopy(), {"moves": "never", "kernels_reach_host_memory": True, "exclusive": False}),
        (Managed(), {"moves": "never", "kernels_reach_host_memory": True, "exclusive": False}),
        (External(Pinned()), {"moves": "copies", "blocking": True}),
        (HostOnly(), {"moves": "never", "kernels_reach_host_memory": False}),
        (DeviceOnly(), {"moves": "never", "kernels_reach_host_memory": False}),
    ],
    ids=lambda value: called(value) if isinstance(value, Placement) else "",
)
def test_traits(placement: Placement, traits: dict[str, object]) -> None:
    found = placement.traits(RecordingBackend().device())
    assert {name: getattr(found, name) for name in traits} == traits


def test_managed_memory_is_exclusive_where_access_is_not_concurrent() -> None:
    assert Managed().traits(cuda_device(concurrent_managed_access=0)).exclusive
    assert not Managed().traits(cuda_device(concurrent_managed_access=1)).exclusive


def test_external_leaves_availability_to_its_inner_placement() -> None:
    incapable = cuda_device(can_map_host_memory=0)
    assert External(ZeroCopy()).unavailable(incapable) == ZeroCopy().unavailable(incapable)
    assert External(Pinned()).unavailable(incapable) is None
