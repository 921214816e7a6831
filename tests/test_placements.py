"""Placements on a recording backend: which calls, in which order, and that all memory comes back."""

from __future__ import annotations

import ctypes
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pytest
from builders import cuda_device
from every import every
from fakes import ON_DEVICE, FakeCudaError, RecordingBackend

from advisor.measure.backends import CpuBackend
from advisor.profiles.schema import Device
from advisor.strategies.arena import AllocationFailed, Arena, ReusedAllocations
from advisor.strategies.kinds import DEVICE_ONLY, HOST_ONLY, External
from advisor.strategies.mixes import PLACEMENTS as PLACED
from advisor.strategies.parts import WHOLE
from advisor.strategies.placement import Layout, Placement
from advisor.strategies.registry import STRATEGIES
from advisor.strategies.schedule import Traits

LAYOUT = Layout((2, 8), np.dtype(np.float32))
SHARED: list[Placement] = [strategy.placement for strategy in STRATEGIES]
EVERY: list[Placement] = [
    *SHARED,
    *(External.before(placement) for placement in SHARED if not placement.takes_foreign_memory),
    replace(PLACED["managed-advised"], hints=("prefer-device", "accessed-by-host")),
    HOST_ONLY,
    DEVICE_ONLY,
]
CPU = Device(name="CPU", kind="cpu")


def called(placement: Placement) -> str:
    names = (name for name, each in PLACED.items() if each == placement.own)
    return type(placement).__name__ + next(names, "")


def each(*placements: Placement) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("placement", placements, ids=called)


@dataclass
class Facts:
    """What a placement of one buffer does: calls that take memory, bytes booked by kind, what the schedule is
    told, and the calls of a copy each way."""

    taken: list[tuple[object, ...]]
    kinds: str
    traits: Traits
    there: str = ""
    back: str = ""


NO_FLAGS, WC = "", "write-combined"
MALLOC, ALLOC = ("malloc", 64), ("host_alloc", 64, NO_FLAGS)
MANAGED, POINTER = ("malloc_managed", 64), ("host_device_pointer",)
COPIES, BLOCKING = Traits(moves="copies"), Traits(moves="copies", blocking=True)
IN_PLACE = Traits(moves="never", kernels_reach_host_memory=True)
MIGRATES = Traits(moves="prefetches", kernels_reach_host_memory=True)
ALONE = Traits(moves="never")
STAGED = replace(BLOCKING, staged_uploads=True)
UP, DOWN, FETCH = "copy_to_device", "copy_to_host", "prefetch"
FACTS: dict[str, Facts] = {
    "pageable": Facts([MALLOC], "pageable device", BLOCKING, f"{UP} synchronize", f"{DOWN} synchronize"),
    "staged": Facts([("pool_array", (2, 8))], "pageable pinned device", STAGED, "upload", "download"),
    "pinned": Facts([ALLOC, MALLOC], "pinned device", COPIES, UP, DOWN),
    "write-combined": Facts([("host_alloc", 64, WC), MALLOC], "pinned device", COPIES, UP, DOWN),
    "registered": Facts([("host_register", 64, NO_FLAGS), MALLOC], "pinned device", COPIES, UP, DOWN),
    "peer": Facts([ALLOC, MALLOC], "pinned device", replace(COPIES, peer=True), UP, DOWN),
    "pinned-pipelined": Facts([ALLOC, MALLOC], "pinned device", COPIES, UP, DOWN),
    "zero-copy": Facts([("host_alloc", 64, "mapped"), POINTER], "pinned", IN_PLACE),
    "zero-copy-wc": Facts([("host_alloc", 64, f"mapped+{WC}"), POINTER], "pinned", IN_PLACE),
    "zero-copy-registered": Facts([("host_register", 64, "mapped"), POINTER], "pinned", IN_PLACE),
    "managed": Facts([MANAGED], "managed", IN_PLACE),
    "managed-prefetch": Facts([MANAGED], "managed", MIGRATES, FETCH, FETCH),
    "managed-advised": Facts([MANAGED], "managed", MIGRATES, FETCH, FETCH),
    "system": Facts([], "pageable", IN_PLACE),
}
CASES: list[tuple[Placement, Facts]] = [
    *((strategy.placement, FACTS[strategy.name]) for strategy in STRATEGIES),
    (HOST_ONLY, Facts([], "pageable", ALONE)),
    (DEVICE_ONLY, Facts([MALLOC], "device", ALONE)),
]
FREES = {
    "malloc": "free",
    "malloc_managed": "free",
    "host_alloc": "free_host",
    "host_register": "host_unregister",
}


def external(placement: Placement, facts: Facts) -> tuple[Placement, Facts]:
    """The same behind foreign memory, which is pageable."""
    traits = replace(facts.traits, foreign=True)
    return External.before(placement), replace(facts, kinds=f"{facts.kinds} pageable", traits=traits)


@every(("placement", "facts"), [*CASES, *(external(*case) for case in CASES[:-2])])
def test_what_is_allocated_booked_moved_and_freed(placement: Placement, facts: Facts) -> None:
    backend = RecordingBackend()
    with Arena(backend) as arena:
        placed = placement.place(arena, LAYOUT)
        taken = [call for call in backend.calls if call[0] != "device_array"]
        sized = [
            tuple(part for part in call if not (isinstance(part, int) and part > 1 << 20)) for call in taken
        ]
        assert sized == facts.taken
        kinds = Counter(facts.kinds.split())
        assert arena.requested == {kind: 64 * count for kind, count in kinds.items()}
        allocated = len(backend.calls)
        for move, calls in ((placed.to_device, facts.there), (placed.to_host, facts.back)):
            if move:
                move(None)
            assert backend.names[allocated:] == [*calls.split()]
            del backend.calls[allocated:]
        placement.place(arena, LAYOUT)
        assert arena.requested == {kind: 128 * count for kind, count in kinds.items()}
        del backend.calls[allocated:]
    freed = [FREES[str(call[0])] for call in reversed(facts.taken * 2) if call[0] in FREES]
    assert backend.names[allocated:] == freed
    assert not backend.live
    assert placement.traits(backend.device()) == facts.traits
    if not facts.traits.foreign:
        assert (placement.host_kind, placement.device_kind) == (
            facts.kinds.split()[0],
            facts.kinds.split()[-1],
        )


def _taken(backend: RecordingBackend, reused: ReusedAllocations) -> tuple[list[int], list[bytes]]:
    """Where memory of each kind lay, and what was in the host's, which is left written to."""
    with Arena(backend, reused=reused) as arena:
        on_host = [take(64) for _ in range(2) for take in (arena.pageable, arena.pinned, arena.registered)]
        found = [ctypes.string_at(pointer, 64) for pointer in on_host]
        for pointer in on_host:
            ctypes.memset(pointer, 7, 64)
        return [*on_host, arena.device(64)], found


def test_what_one_arena_gave_back_to_a_shelf_the_next_one_has_in_the_same_places() -> None:
    backend, reused = RecordingBackend(), ReusedAllocations()
    first, _ = _taken(backend, reused)
    second, found = _taken(backend, reused)
    assert second == first
    assert set(found) == {bytes(64)}
    with Arena(backend, reused=reused) as arena:
        assert arena.pinned(64, "mapped") not in first  # it is of another kind
        assert arena.pinned(32) not in first
    reused.use_for("the next round")
    assert not backend.live


IN_PLACE_KINDS = [PLACED[name] for name, facts in FACTS.items() if facts.traits == IN_PLACE]


@each(*IN_PLACE_KINDS, PLACED["managed-prefetch"], PLACED["managed-advised"])
def test_one_memory_needs_no_copy(placement: Placement) -> None:
    """Mapped memory has the device's address, all other the host's own."""
    with Arena(RecordingBackend()) as arena:
        placed, in_place = placement.place(arena, LAYOUT), placement in IN_PLACE_KINDS
        address = placed.host.ctypes.data
        assert placed.device.data.ptr == (address | ON_DEVICE if placement.locks else address)
        assert (placed.to_device is None) == (placed.to_host is None) == placed.is_one_memory == in_place
        placed.host[...] = 5
        assert (placed.device.memory == 5).all()


@every(("concurrent", "discards"), [(1, True), (1, False), (0, True)])
def test_managed_memory_is_prefetched_or_attached_and_contents_left_behind(
    concurrent: int, discards: bool
) -> None:
    """As far as the driver can."""
    backend = RecordingBackend(device=cuda_device(concurrent_managed_access=concurrent))
    backend.discards = discards
    with Arena(backend) as arena:
        placed = PLACED["managed-prefetch"].place(arena, LAYOUT)
        backend.calls.clear()
        placed.to_device(None)
        placed.to_host(None)
        pointer = placed.host_pointer
        move = ("prefetch", pointer, 64) if concurrent else ("attach", pointer)
        assert backend.calls == [(*move, "device"), (*move, "host")]
        assert (placed.bring is not None) == (concurrent == 1 and discards)
        if placed.bring:
            placed.bring("device")
            assert backend.calls[-1] == ("discard", pointer, 64, "device")


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
                    move(None)


def test_a_failed_allocation_says_what_and_why() -> None:
    backend = RecordingBackend(fail_at=1)
    with Arena(backend) as arena, pytest.raises(AllocationFailed) as raised:
        arena.pinned(3 << 20)
    assert str(raised.value) == "allocating 3.00 MiB of pinned memory failed: host_alloc failed"
    assert isinstance(raised.value.__cause__, FakeCudaError)
    assert not arena.requested


def test_a_failing_free_does_not_hide_the_error_before_it() -> None:
    """After some CUDA errors every further call fails; the first one says what happened."""
    backend = RecordingBackend(fail_at=3, broken_after=True)
    with pytest.raises(AllocationFailed, match="malloc_managed failed"), Arena(backend) as arena:
        [take(8) for take in (arena.device, arena.pinned, arena.managed)]
    assert backend.names[3:] == ["free_host", "free"], "one failing free must not spare the others"


@each(*EVERY)
def test_the_cpu_books_everything_as_ordinary_memory(placement: Placement) -> None:
    backend = CpuBackend()
    with Arena(backend) as arena:
        placed = placement.place(arena, LAYOUT)
        assert set(arena.requested) == {"pageable"}
        if placed.host is None or placed.device is None:
            return
        placed.host[...] = 7
        if placed.copy_in:
            placed.copy_in(WHOLE)
        if placed.to_device and (sent := placed.to_device(None)) is not None:
            placed = replace(placed, device=sent)
        assert (placed.device == 7).all()
        placed.device[...] = 8
        if placed.to_host and (back := placed.to_host(None)) is not None:
            placed = replace(placed, host=back)
        if placed.copy_out:
            placed.copy_out(WHOLE)
        assert (placed.host == 8).all()
    assert not backend._owned
