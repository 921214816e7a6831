"""The driver's own count of copied bytes, with a mock of CUPTI: records as cupti_activity.h lays them out."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from advisor.measure.recording import driver_bytes
from advisor.measure.recording.driver_bytes import DriverBytes
from advisor.measure.recording.worker import _left
from advisor.profiles.crossings import CopiedBytes

RECORD = np.dtype(
    {
        "names": ["kind", "copy", "source", "target", "flags", "bytes", "start", "end"],
        "formats": ["<u4", "u1", "u1", "u1", "u1", "<u8", "<u8", "<u8"],
        "itemsize": 136,
    }
)
TO_DEVICE, TO_HOST, ON_DEVICE = 1, 2, 8


class Cupti:
    """Fills the client's buffers, each with at most `room` records."""

    def __init__(self, copies: list[tuple[int, int]], *, room: int = 100, status: int = 0) -> None:
        self.copies, self.room, self.status = copies, room, status
        self.enabled: list[int] = []

    def cuptiActivityRegisterCallbacks(self, request: Any, complete: Any) -> int:  # noqa: N802
        self.request, self.complete = request, complete
        return self.status

    def cuptiActivityEnable(self, kind: int) -> int:  # noqa: N802
        self.enabled.append(kind)
        return self.status

    def cuptiActivityDisable(self, kind: int) -> int:  # noqa: N802
        self.enabled.remove(kind)
        return 0

    def cuptiActivityFlushAll(self, _flag: int) -> int:  # noqa: N802
        for begin in range(0, len(self.copies), self.room):
            buffer, size, most = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
            self.request(ctypes.byref(buffer), ctypes.byref(size), ctypes.byref(most))
            part = self.copies[begin : begin + self.room]
            records = np.zeros(len(part), RECORD)
            records["kind"] = 1
            records["copy"], records["bytes"] = np.transpose(part)
            assert records.nbytes <= size.value
            ctypes.memmove(buffer, records.ctypes.data, records.nbytes)
            self.end, self.next = (buffer.value or 0) + records.nbytes, buffer.value or 0
            self.complete(None, 0, buffer, size, records.nbytes)
        return 0

    def cuptiActivityGetNextRecord(self, _buffer: Any, _size: Any, record: Any) -> int:  # noqa: N802
        if self.next >= self.end:
            return 12
        record._obj.value, self.next = self.next, self.next + RECORD.itemsize
        return 0


@pytest.mark.parametrize("room", [1, 3, 100])
def test_bytes_are_counted_by_direction(room: int) -> None:
    count = DriverBytes(
        Cupti([(TO_DEVICE, 1000), (TO_HOST, 30), (ON_DEVICE, 7), (TO_DEVICE, 2000)], room=room)
    )
    count.start()
    count.start()
    assert count.stop() == (3000, 30)
    assert count.stop() == (3000, 30)
    assert not count._buffers


def test_nothing_is_counted_where_cupti_refuses_or_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    refusing = DriverBytes(Cupti([(TO_DEVICE, 1)], status=39))
    refusing.start()
    assert refusing.stop() is None
    missing = DriverBytes()
    monkeypatch.setattr(driver_bytes, "MAJORS", (99,))
    missing.start()
    assert missing.stop() is None
    monkeypatch.setenv("NSYS_PROFILING_SESSION_ID", "1")
    beside = DriverBytes(cupti := Cupti([(TO_DEVICE, 1)]))
    beside.start()
    assert beside.stop() is None
    assert not cupti.enabled


def test_a_profiler_of_the_script_takes_over() -> None:
    count = DriverBytes(cupti := Cupti([(TO_DEVICE, 1)]))
    count.start()
    count.give_up()
    assert not cupti.enabled
    count.start()
    assert count.stop() is None


def test_the_share_on_lines_is_by_direction() -> None:
    def copied(up: int, down: int) -> CopiedBytes:
        return CopiedBytes(up=up, down=down, up_on_lines=900, down_on_lines=4)

    assert copied(900, 4).share == 1
    assert copied(800, 104).share == pytest.approx(804 / 904)
    assert copied(0, 0).share is None
    assert _left(copied(1924, 0)) == "1.00 KiB up, 0 B down"
