"""The CPU as a device: NumPy in CuPy's place, every call real and finished when it returns.

"Device memory" is a second buffer, so that `pageable` pays for its copies and `zero-copy` saves them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter
from typing import Any

import numpy as np

from advisor.profiles.schema import Device, MemoryKind, Side
from advisor.strategies.backend import Array, HostFlag, PageLocks, host_array, ordinary_memory
from advisor.strategies.parts import Span


class NullStream:
    """The `stream` of stages without a GPU: work is done when a call returns."""

    ptr = 0

    def synchronize(self) -> None:
        """Nothing to wait for."""


class CpuBackend:
    def __init__(self) -> None:
        self.xp: Any = np
        self.stream: Any = NullStream()
        self.gpus: tuple[CpuBackend, ...] = (self,)
        self._owned: dict[int, Array] = {}
        self.clock: Callable[[], float] = perf_counter
        """Clock for timestamps."""

    def device(self) -> Device:
        """The CPU device; it has no memory class, since it has no second memory."""
        return Device(name="CPU", kind="cpu")

    def open_gpus(self, count: int, chosen: Sequence[int] = ()) -> None:
        """Each GPU asked for is this CPU once more, with memory of its own."""
        del chosen
        self.gpus += tuple(CpuBackend() for _ in range(len(self.gpus), count))

    def current(self) -> AbstractContextManager[object]:
        return nullcontext()

    def copy_from_peer(self, span: Span, source_gpu: int, target: int, source: int) -> None:
        del source_gpu
        self.copy_span(span, "device", source, target)

    def environment(self) -> dict[str, str | int | float]:
        return {}

    def kind_of(self, kind: MemoryKind) -> MemoryKind:
        del kind
        return "pageable"

    def malloc(self, nbytes: int) -> int:
        pointer, memory = ordinary_memory(nbytes)
        self._owned[pointer] = memory
        return pointer

    def free(self, pointer: int) -> None:
        del self._owned[pointer]

    def host_alloc(self, nbytes: int, *flags: HostFlag) -> int:
        del flags
        return self.malloc(nbytes)

    free_host = free

    def pool_array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        return self.xp.empty(shape, dtype)  # type: ignore[no-any-return]

    def upload(self, array: Array) -> Array:
        return array.copy()

    def download(self, array: Array) -> Array:
        return array.copy()

    malloc_managed = malloc

    @property
    def discards(self) -> bool:
        return False

    def host_device_pointer(self, pointer: int) -> int:
        return pointer

    def copy_to_device(self, target: int, source: int, nbytes: int, stream: Any = None) -> None:
        del stream
        ctypes.memmove(target, source, nbytes)

    copy_to_host = copy_to_device

    def copy_span(self, span: Span, to: Side, host: int, device: int, stream: Any = None) -> None:
        target, source = (device, host) if to == "device" else (host, device)
        for start in range(span.offset, span.end, span.pitch):
            self.copy_to_device(target + start, source + start, span.width, stream)

    def device_array(self, pointer: int, nbytes: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        return host_array(pointer, nbytes, shape, dtype)

    def default_stream(self) -> NullStream:
        return NullStream()

    new_stream = default_stream

    def timestamp(self, stream: Any = None) -> float:
        del stream
        return self.clock()

    def seconds_between(self, start: float, end: float) -> float:
        return end - start

    def page_locks(self) -> AbstractContextManager[PageLocks | None]:
        return nullcontext(None)

    def _nothing(self, *_: Any, **__: Any) -> None:
        """One memory, and work that is done when a call returns: nothing to move, lock, order or wait for."""

    reach_peers = enter = leave = host_register = host_unregister = _nothing
    prefetch = discard = attach = advise = mark = hold = order = wait = synchronize = _nothing
    disturbed = free_memory = pool_reserved = _nothing
