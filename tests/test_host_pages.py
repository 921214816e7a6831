"""Host memory: huge pages of the buffers, from recorded mappings and from this machine."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fakes import RecordingBackend

from advisor.measure.backends import CpuBackend
from advisor.measure.footprint import host_pages
from advisor.strategies.arena import Arena

MIB = 1 << 20
SMAPS = """\
7f0000000000-7f0000800000 rw-p 00000000 00:00 0
Size:               8192 kB
KernelPageSize:        4 kB
MMUPageSize:           4 kB
Rss:                8192 kB
AnonHugePages:      4096 kB
VmFlags: rd wr mr mw me ac hg
7f0001000000-7f0001400000 rw-p 00000000 00:0f 1234                       /anon_hugepage (deleted)
Size:               4096 kB
KernelPageSize:     2048 kB
MMUPageSize:        2048 kB
AnonHugePages:         0 kB
VmFlags: rd wr sh mr mw me ms de ht
7f0002000000-7f0002100000 rw-s 00000000 00:05 42                         /dev/nvidia-uvm
Size:               1024 kB
KernelPageSize:        4 kB
Rss:                   0 kB
AnonHugePages:         0 kB
"""


def array(pointer: int, nbytes: int) -> Any:
    return SimpleNamespace(ctypes=SimpleNamespace(data=pointer), nbytes=nbytes)


@pytest.fixture
def smaps(tmp_path: Path) -> Path:
    (tmp_path / "smaps").write_text(SMAPS)
    return tmp_path / "smaps"


@pytest.mark.parametrize(
    ("spans", "huge"),
    [
        ([(0x7F0000000000, 8 * MIB)], 4 * MIB),
        ([(0x7F0000200000, 2 * MIB)], MIB),
        ([(0x7F0001000000, 4 * MIB)], 4 * MIB),
        ([(0x7F0000000000, 8 * MIB), (0x7F0001000000, 2 * MIB)], 6 * MIB),
        ([(0x7F0002000000, MIB)], 0),
        ([(0x7E0000000000, MIB)], None),
    ],
)
def test_huge_pages_of_the_buffers_mappings(
    spans: list[tuple[int, int]], huge: int | None, smaps: Path
) -> None:
    found = host_pages([array(*span) for span in spans], smaps)
    assert (found.bytes, found.huge_bytes) == (sum(nbytes for _, nbytes in spans), huge)
    assert ("huge_bytes" in found.absent) == (huge is None)


def test_a_missing_file_has_its_reason(tmp_path: Path) -> None:
    found = host_pages([array(0x7F0000000000, MIB)], tmp_path / "none")
    assert found.huge_bytes is None
    assert "cannot be read" in found.absent["huge_bytes"]


def test_without_host_memory_there_is_nothing_to_tell(smaps: Path) -> None:
    assert host_pages([None], smaps) is None


def test_this_machine() -> None:
    memory = np.ones(8 * MIB, np.uint8)
    found = host_pages([memory, None, array(0, 0)], Path(f"/proc/{os.getpid()}/smaps"))
    assert found.bytes == 8 * MIB
    assert 0 <= found.huge_bytes <= found.bytes
    assert found.absent == {}


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
