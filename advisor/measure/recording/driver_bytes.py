"""Counts the bytes that the driver copies between host and GPU, by CUPTI: how many of them were recorded.

Records arrive by the buffer, so that a copy costs no Python; CUPTI itself takes 5 to 10 µs for each (on an
H200's host), to the end of the process. Where it is missing or another profiler holds it, nothing is counted.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

MAJORS = (13, 12)
"""Versions of CUDA whose records begin as `_HEAD`."""
BUFFER = 1 << 20
_MEMCPY, _FORCED = 1, 1
_UP, _DOWN = (1, 3), (2, 4)
"""CUPTI_ACTIVITY_MEMCPY_KIND: to and from device memory and arrays."""
_HEAD = {"names": ("kind", "copy", "bytes"), "formats": ("<u4", "u1", "<u8"), "offsets": (0, 4, 8)}
"""How CUpti_ActivityMemcpy begins in every version of it (cupti_activity.h of CUDA 12 and 13)."""
_OTHERS = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID")
"""Set by Nsight's tools, which use CUPTI themselves."""

_Request = ctypes.CFUNCTYPE(
    None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t)
)
_Complete = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t
)


class DriverBytes:
    """Counts from `start` to `stop`. `cupti` is the library, or None to look for it."""

    def __init__(self, cupti: Any = None) -> None:
        self._cupti = cupti
        self._up = self._down = 0
        self._counting = self._complete = False
        self._buffers: dict[int, Any] = {}
        # CUPTI keeps their addresses: they live as long as this process
        self._callbacks = _Request(self._request), _Complete(self._completed)

    def start(self) -> None:
        """Once a CUDA library is loaded, whose own CUPTI is then taken. Does nothing the second time."""
        if self._counting or self._complete or any(map(os.environ.get, _OTHERS)):
            return
        self._cupti = self._cupti or _library()
        if self._cupti is None:
            return
        _kept.append(self)
        self._counting = (
            self._cupti.cuptiActivityRegisterCallbacks(*self._callbacks) == 0
            and self._cupti.cuptiActivityEnable(_MEMCPY) == 0
        )

    def stop(self) -> tuple[int, int] | None:
        """Bytes up and down so far, None where they were not counted throughout; the GPU must be idle."""
        if self._counting:
            self._counting = False
            self._complete = self._cupti.cuptiActivityFlushAll(_FORCED) == 0
            self._cupti.cuptiActivityDisable(_MEMCPY)
        return (self._up, self._down) if self._complete else None

    def give_up(self) -> None:
        """Leaves CUPTI to a profiler of the script's own: what was counted until then is no whole."""
        if self._counting:
            self.stop()
        self._complete, self._cupti = False, None

    def _request(self, buffer: Any, size: Any, most: Any) -> None:
        memory = (ctypes.c_uint64 * (BUFFER // 8))()
        address = ctypes.addressof(memory)
        self._buffers[address] = memory
        buffer[0], size[0], most[0] = address, BUFFER, 0

    def _completed(self, _context: Any, _stream: int, buffer: int, _size: int, valid: int) -> None:
        memory = self._buffers.pop(buffer)
        if not valid:
            return
        record, begins = ctypes.c_void_p(), list[int]()
        following = (ctypes.c_void_p(buffer), ctypes.c_size_t(valid), ctypes.byref(record))
        # The first two tell the size of all, which are of one kind.
        while len(begins) < 2 and not self._cupti.cuptiActivityGetNextRecord(*following):
            begins.append(record.value or 0)
        stride = begins[1] - begins[0] if len(begins) == 2 else valid
        records = np.ndarray(valid // stride, np.dtype({**_HEAD, "itemsize": stride}), memory)  # type: ignore[call-overload]
        copies = records[records["kind"] == _MEMCPY]
        self._up += int(copies["bytes"][np.isin(copies["copy"], _UP)].sum())
        self._down += int(copies["bytes"][np.isin(copies["copy"], _DOWN)].sum())


_kept: list[DriverBytes] = []


def _library() -> Any:
    """CUPTI of the CUDA that this process has loaded, or of the machine's."""
    for name in _names():
        with suppress(OSError):
            return ctypes.CDLL(str(name))
    return None


def _names() -> Iterator[str | Path]:
    homes = [os.environ.get("CUDA_PATH"), os.environ.get("CUDA_HOME"), "/usr/local/cuda"]
    for major in MAJORS:
        file = f"libcupti.so.{major}"
        yield file
        for folder in map(Path, sys.path):
            yield from folder.glob(f"nvidia/c*/lib/{file}")  # nvidia/cu13 and nvidia/cuda_cupti
        for home in filter(None, homes):
            yield from (Path(home) / each / file for each in ("extras/CUPTI/lib64", "lib64", "lib"))
