"""Footprint: booked by kind, measured where the system tells, absent with a reason where not; huge pages."""

from __future__ import annotations

import mmap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from builders import cuda_device
from every import every
from fakes import RecordingBackend, bench
from mixing import SHAPES, made

from advisor.measure import footprint
from advisor.measure.backends import CpuBackend
from advisor.measure.footprint import Reading, host_pages, read
from advisor.profiles.figures import PlaceMemory
from advisor.profiles.schema import Device, Footprint, MemoryClass
from advisor.strategies.arena import Arena

KIB = 1024
ROLLUP = "55e0-7ff [rollup]\nRss:   900 kB\nPss:                 123 kB\nPss_Anon:    100 kB\n"
STATUS = "Name:\tpython\nVmRSS:\t     900 kB\nVmLck:\t       8 kB\nVmPin:\t       0 kB\n"


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "smaps_rollup").write_text(ROLLUP)
    (tmp_path / "status").write_text(STATUS)
    return tmp_path


def taken(before: Reading, after: Reading, backend: RecordingBackend | None = None) -> Footprint:
    """Of a run with 100 bytes of pinned, 30 + 10 of device memory."""
    with Arena(backend or RecordingBackend()) as arena:
        arena.pinned(100)
        arena.device(30)
        arena.device(10)
        return footprint.footprint(arena, before, after)


NOTHING = Reading(None, None, None)


def test_what_cannot_be_read(proc: Path) -> None:
    for name in ("", "smaps_rollup", "status"):
        if name:
            (proc / name).rename(proc / "away")
        reading = read(RecordingBackend(), proc)
        assert reading.process == (None if name == "smaps_rollup" else 123 * KIB)
        assert reading.locked == (None if name == "status" else 8 * KIB)
        if name:
            (proc / "away").rename(proc / name)


def test_this_machine() -> None:
    """Resident memory shows, far more than what else changes, and which of its pages are huge."""
    before = read(CpuBackend())
    memory = np.frombuffer(mmap.mmap(-1, 32 << 20), np.uint8)  # not where what others freed lies
    memory.fill(1)
    after = read(CpuBackend())
    found = host_pages([memory, None, array(0, 0)])
    assert (found.bytes, found.absent) == (memory.nbytes, {})
    assert 0 <= found.huge_bytes <= found.bytes
    if before.process is None or after.process is None:
        pytest.skip("no smaps_rollup here")
    assert memory.nbytes * 0.9 < after.process - before.process < memory.nbytes * 1.5


def test_the_librarys_pool_is_reserved_but_was_not_requested() -> None:
    backend = RecordingBackend()
    backend.pool = 1000
    found = taken(NOTHING, NOTHING, backend)
    assert found.requested == {"pinned": 100, "device": 40}
    assert found.reserved == {"pinned": 100, "device": 1040}
    assert found.physical_bytes == 1140


@every(
    ("memory_class", "sides"),
    [("discrete", 2), ("discrete-hmm", 2), ("coherent", 2), ("tegra", 1), ("tegra-coherent", 1)],
)
def test_managed_memory_beside_a_cards_own_is_booked_on_both_sides(
    memory_class: MemoryClass, sides: int
) -> None:
    with Arena(RecordingBackend(device=cuda_device(memory_class))) as arena:
        arena.managed(100)
        arena.pinned(10)
        arena.staging(1025)
        found = footprint.footprint(arena, NOTHING, NOTHING)
    assert found.requested == {"managed": 100, "pinned": 1035}
    assert found.reserved == {"managed": 100, "pinned": 2048 + 10}, "what the staging pool rounds up, too"
    assert found.physical_bytes == sides * 100 + 2058


class Filling(RecordingBackend):
    """A card and a host whose memory in use follows what runs: managed pages move to who touches them."""

    def __init__(self, proc: Path, **options: Any) -> None:
        super().__init__(**options)
        self.proc = proc
        self.use(host=1000, card=0)

    def use(self, host: int, card: int) -> None:
        (self.proc / "status").write_text(f"VmRSS:\t {host} kB\n")
        self.free_bytes = (1 << 30) - card * KIB

    def _call(self, name: str, *arguments: Any) -> None:
        super()._call(name, *arguments)
        if name == "kernel":
            self.use(host=1040, card=258)
        if name == "synchronize":
            self.use(host=1043, card=200)


@every(
    ("strategy", "device", "places"),
    [
        ("managed", cuda_device(), {"host": 43, "gpu1": 258}),
        ("pinned-pipelined", cuda_device(), {"host": 43, "gpu1": 258}),
        ("managed", cuda_device("tegra-io-coherent", concurrent_managed_access=0), {"host": 43}),
    ],
)
def test_what_a_frame_takes_by_place_at_most(
    strategy: str, device: Device, places: dict[str, int], proc: Path
) -> None:
    """One memory is the host's, and what cannot be read is no place."""
    backend = Filling(proc, device=device)
    before = read(backend, proc)
    setup, frame = SHAPES["weights"]
    with bench(made(frame, {}, setup=setup), strategy, backend=backend) as run:
        run.start()
        found = footprint.over_frames(run.loop, backend, before, 1, proc)
        assert footprint.over_frames(run.loop, backend, NOTHING, 0, proc) == {}
    assert found == {name: PlaceMemory(peak_bytes=kib * KIB) for name, kib in places.items()}


@every(
    ("missing", "value", "reason"),
    [
        ("", 0, ""),
        ("process", None, "smaps_rollup cannot be read"),
        ("locked", None, "no VmLck"),
        ("locked", 10, "not memory locked by the CUDA driver"),  # as many as before, and 100 bytes are
        ("device_free", None, "device"),
    ],
)
@every("which", [0, 1])
def test_what_was_not_read_is_absent_with_the_reason(
    missing: str, which: int, value: int | None, reason: str
) -> None:
    readings: list[dict[str, int | None]] = [
        {"process": 1000, "locked": 10, "device_free": 9000},
        {"process": 1700, "locked": 60, "device_free": 5000},
    ]
    added: dict[str, int | None] = {"process": 700, "locked": 50, "device_free": 4000}
    if missing:
        readings[1 if value else which][missing], added[missing] = value, None
    found = taken(*(Reading(**each) for each in readings))
    assert [found.peak_process_bytes, found.locked_bytes, found.device_used_bytes] == [*added.values()]
    assert len(found.absent) == bool(missing)
    assert all(reason in text for text in found.absent.values())


# Huge pages of the buffers, from recorded mappings and from this machine


MIB = 1 << 20
SMAPS = """\
7f0000000000-7f0000800000 rw-p 00000000 00:00 0
Size:               8192 kB
KernelPageSize:        4 kB
AnonHugePages:      4096 kB
VmFlags: rd wr mr mw me ac hg
7f0001000000-7f0001400000 rw-p 00000000 00:0f 1234                       /anon_hugepage (deleted)
KernelPageSize:     2048 kB
AnonHugePages:         0 kB
7f0002000000-7f0002100000 rw-s 00000000 00:05 42                         /dev/nvidia-uvm
KernelPageSize:        4 kB
AnonHugePages:         0 kB
"""


def array(pointer: int, nbytes: int) -> Any:
    return SimpleNamespace(ctypes=SimpleNamespace(data=pointer), nbytes=nbytes)


@pytest.mark.parametrize(
    ("spans", "huge"),
    [
        ([(0x7F0000200000, 2 * MIB)], MIB),
        ([(0x7F0000000000, 8 * MIB), (0x7F0001000000, 2 * MIB)], 6 * MIB),
        ([(0x7F0002000000, MIB)], 0),
        ([(0x7E0000000000, MIB)], None),
    ],
)
def test_huge_pages_of_the_buffers_mappings(
    spans: list[tuple[int, int]], huge: int | None, tmp_path: Path
) -> None:
    smaps = tmp_path / "smaps"
    smaps.write_text(SMAPS)
    arrays = [array(*span) for span in spans]
    found = host_pages(arrays, smaps)
    assert (found.bytes, found.huge_bytes) == (sum(nbytes for _, nbytes in spans), huge)
    assert ("huge_bytes" in found.absent) == (huge is None)
    absent = host_pages(arrays, tmp_path / "none")
    assert (absent.huge_bytes, "cannot be read" in absent.absent["huge_bytes"]) == (None, True)
    assert host_pages([None], smaps) is None, "without host memory there is nothing to tell"


def test_ordinary_memory_is_the_same_whatever_becomes_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """One allocator, one alignment, touched before anyone else does."""
    sizes: list[int] = []
    empty = np.empty

    def counted(size: Any, dtype: Any) -> Any:
        sizes.append(size)
        made = empty(size, dtype)
        made[...] = 0xEE
        return made

    with Arena(RecordingBackend()) as arena:
        monkeypatch.setattr(np, "empty", counted)
        pointers = [arena.pageable(3 * mmap.PAGESIZE + 5), arena.registered(3 * mmap.PAGESIZE + 5)]
        pointers.append(CpuBackend().malloc(5))  # the CPU device's is the same
        monkeypatch.undo()
        assert len(set(sizes[:2])) == 1
        assert pointers.pop() % mmap.PAGESIZE == 0
        for pointer in pointers:
            assert pointer % mmap.PAGESIZE == 0
            owned = arena._owned[pointer]
            first = pointer - int(owned.ctypes.data)
            assert [int(owned[first + page * mmap.PAGESIZE]) for page in range(4)] == [0] * 4
