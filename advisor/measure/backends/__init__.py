"""Where stages run: the CPU, with NumPy for CuPy, or a CUDA GPU. Only this package makes CUDA calls."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import numpy as np

from advisor.errors import NothingMeasured, UsageError
from advisor.profiles.schema import Device, MemoryKind, Side
from advisor.strategies.backend import (
    Array,
    Backend,
    BackendName,
    HostFlag,
    PageLocks,
    host_array,
    ordinary_memory,
)
from advisor.strategies.parts import Span


class NullStream:
    """The `stream` of stages without a GPU: work is done when a call returns."""

    ptr = 0

    def synchronize(self) -> None:
        """Nothing to wait for."""


class CpuBackend:
    """The CPU as a device: every call is real, and finished when it returns. "Device memory" is a second
    buffer, so that `pageable` pays for its copies and `zero-copy` saves them."""

    def __init__(self) -> None:
        self.xp: Any = np
        self.stream: Any = NullStream()
        self.gpus: tuple[CpuBackend, ...] = (self,)
        self._owned: dict[int, Array] = {}
        self.clock: Callable[[], float] = perf_counter

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

    download = upload
    malloc_managed = malloc
    discards = False

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


def open_backend(name: BackendName, gpu: int = 0) -> Backend:
    """The backend of that name on that GPU. Raises `advisor.errors.NothingMeasured` without CuPy or GPU."""
    if name == "cpu":
        return CpuBackend()
    from advisor.measure.backends.cuda import CudaBackend

    return CudaBackend(gpu)


def gpu_count(library: Callable[[str], Any] = ctypes.CDLL) -> int:
    """How many GPUs the CUDA driver shows (CUDA_VISIBLE_DEVICES counts); creates no context. `library` opens
    a shared library by its name."""
    try:
        driver = library("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def has_cupy() -> bool:
    return find_spec("cupy") is not None


PREDICTING = ("predict", "predicts")


@dataclass(frozen=True)
class Machine:
    gpus: Callable[[], int] = gpu_count
    cupy: Callable[[], bool] = has_cupy


def choose_backend(
    gpu: int | None,
    no_gpu: bool,
    tell: Callable[[str], None],
    without: tuple[str, str] = PREDICTING,
    machine: Machine | None = None,
) -> BackendName:
    """The backend for these options; `tell` is called if there is a GPU that cannot be used. `without` says
    what can be done without one, and what is done. Raises `UsageError` or `NothingMeasured`."""
    there = machine or Machine()
    if no_gpu and gpu is not None:
        raise UsageError("--gpu and --no-gpu contradict each other", next_step="Omit one of them.")
    if gpu is not None:
        if there.gpus():
            return "cuda"
        step = f"Check the driver with nvidia-smi, or omit the number to {without[0]} without a GPU."
        raise NothingMeasured(f"there is no GPU {gpu}: the CUDA driver reports none", next_step=step)
    if no_gpu or there.gpus() == 0:
        return "cpu"
    if there.cupy():
        return "cuda"
    tell(
        f"There is a GPU but CuPy is not installed, so this run {without[1]}.\n"
        "  next: pip install 'gpu-memory-advisor[cuda13]' (or cuda12) to measure on it."
    )
    return "cpu"
