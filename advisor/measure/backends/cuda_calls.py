"""Calls on managed memory, and a count of those that lock pages."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any
from uuid import UUID

from advisor.devices.entries import memory_class
from advisor.errors import NothingMeasured
from advisor.extras import dotted
from advisor.profiles.schema import Device, Side
from advisor.strategies.backend import INSTALL, Hint, PageLocks

ATTRIBUTES = {
    "multiprocessor_count": 16,
    "integrated": 18,
    "can_map_host_memory": 19,
    "l2_cache_size": 38,
    "async_engine_count": 40,
    "managed_memory": 83,
    "host_native_atomic_supported": 86,
    "pageable_memory_access": 88,
    "concurrent_managed_access": 89,
    "host_register_supported": 99,
    "pageable_memory_access_uses_host_page_tables": 100,
    "direct_managed_mem_access_from_host": 101,
    "memory_pools_supported": 115,
}
"""CUdevice_attribute of cuda.h, by CUDA's names in snake case."""
_MAJOR, _MINOR = 75, 76


class Driver:
    """One GPU. Raises `NothingMeasured` where the driver shows none of that number."""

    def __init__(self, gpu: int, library: Callable[[str], Any] = ctypes.CDLL) -> None:
        self._gpu = gpu
        try:
            self._cuda = library("libcuda.so.1")
        except OSError as problem:
            step = "Add --no-gpu to predict without a GPU."
            raise NothingMeasured(f"there is no CUDA driver: {problem}", next_step=step) from None
        self._ask("cuInit", 0)
        self._device = self._number("cuDeviceGet", gpu)

    def device(self) -> Device:
        """Without the attributes that an old driver does not know."""
        attributes: dict[str, int | float | str | bool] = {
            name: value
            for name, number in ATTRIBUTES.items()
            if (value := self._attribute(number)) is not None
        }
        attributes["compute_capability"] = f"{self._attribute(_MAJOR)}.{self._attribute(_MINOR)}"
        attributes["total_global_mem"] = self._number("cuDeviceTotalMem_v2", self._device, of=ctypes.c_size_t)
        name = self._text("cuDeviceGetName", 256)
        return Device(name=name, kind="cuda", memory_class=memory_class(attributes), attributes=attributes)

    def environment(self) -> dict[str, str | int | float]:
        version = self._number("cuDriverGetVersion")
        place = self._text("cuDeviceGetPCIBusId", 32)
        return {"cuda_driver": dotted(version), "pci_bus_id": place}

    def uuid(self) -> str:
        """Empty where the driver has none; version 2 of the call distinguishes the parts of a GPU (MIG)."""
        number = (ctypes.c_ubyte * 16)()
        call = getattr(self._cuda, "cuDeviceGetUuid_v2", None) or self._cuda.cuDeviceGetUuid
        known = call(ctypes.byref(number), self._device) == 0 and any(number)
        return str(UUID(bytes=bytes(number))) if known else ""

    def _attribute(self, number: int) -> int | None:
        value = ctypes.c_int()
        failed = self._cuda.cuDeviceGetAttribute(ctypes.byref(value), number, self._device)
        return None if failed else value.value

    def _text(self, call: str, length: int) -> str:
        buffer = ctypes.create_string_buffer(length)
        self._ask(call, buffer, length, self._device)
        return buffer.value.decode(errors="replace")

    def _number(self, call: str, *arguments: int, of: type[Any] = ctypes.c_int) -> int:
        answer = of()
        self._ask(call, ctypes.byref(answer), *arguments)
        return int(answer.value)

    def _ask(self, call: str, *arguments: Any) -> None:
        if code := getattr(self._cuda, call)(*arguments):
            step = "Check the driver with nvidia-smi, or add --no-gpu to predict without a GPU."
            raise NothingMeasured(f"GPU {self._gpu} cannot be used: {call} returned {code}", next_step=step)


class ManagedCallFailed(RuntimeError):
    """A call on managed memory was refused by the runtime."""


class ManagedCalls:
    """Prefetch, advise and attach for one GPU. Raises `NothingMeasured` without cuda-bindings."""

    def __init__(self, gpu: int) -> None:
        try:
            from cuda.bindings import runtime
        except ImportError as problem:
            message = f"prefetch and advice on managed memory need cuda-bindings: {problem}"
            raise NothingMeasured(message, next_step=INSTALL) from None
        self._runtime: Any = runtime
        self._prefetch = getattr(runtime, "cudaMemPrefetchAsync_v2", runtime.cudaMemPrefetchAsync)
        self._advise = getattr(runtime, "cudaMemAdvise_v2", runtime.cudaMemAdvise)
        self._discard: Any = getattr(runtime, "cudaMemDiscardAndPrefetchBatchAsync", None)
        self.discards = self._discard is not None
        self._places = {"host": self._location("host", gpu), "device": self._location("device", gpu)}

    def prefetch(self, pointer: int, nbytes: int, side: Side, stream: int) -> None:
        self._require(self._prefetch(pointer, nbytes, self._places[side], 0, stream))

    def discard(self, pointer: int, nbytes: int, side: Side, stream: int) -> None:
        self._require(self._discard([pointer], [nbytes], 1, [self._places[side]], [0], 1, 0, stream))

    def attach(self, pointer: int, side: Side, stream: int) -> None:
        """cudaStreamAttachMemAsync of the whole allocation (length 0)."""
        runtime = self._runtime
        flag = runtime.cudaMemAttachHost if side == "host" else runtime.cudaMemAttachSingle
        self._require(runtime.cudaStreamAttachMemAsync(stream, pointer, 0, flag))

    def advise(self, pointer: int, nbytes: int, hint: Hint) -> None:
        """cudaMemAdvise; read-mostly ignores the place."""
        advice = self._runtime.cudaMemoryAdvise
        call = {
            "read-mostly": advice.cudaMemAdviseSetReadMostly,
            "prefer-device": advice.cudaMemAdviseSetPreferredLocation,
        }.get(hint, advice.cudaMemAdviseSetAccessedBy)
        place = self._places["host" if hint == "accessed-by-host" else "device"]
        self._require(self._advise(pointer, nbytes, call, place))

    def _location(self, side: Side, gpu: int) -> Any:
        kinds = self._runtime.cudaMemLocationType
        place = self._runtime.cudaMemLocation()
        place.type = kinds.cudaMemLocationTypeHost if side == "host" else kinds.cudaMemLocationTypeDevice
        place.id = 0 if side == "host" else gpu
        return place

    def _require(self, outcome: tuple[Any, ...]) -> None:
        if (error := outcome[0]) != self._runtime.cudaError_t.cudaSuccess:
            raise ManagedCallFailed(f"{error.name} ({int(error)})")


_CALLS = ("hostAlloc", "hostRegister", "hostUnregister", "freeHost")
"""Functions of `cupy.cuda.runtime` that lock or unlock pages."""


def counted(call: Callable[..., Any], locks: PageLocks) -> Callable[..., Any]:

    def timed(*arguments: Any, **keywords: Any) -> Any:
        begin = perf_counter()
        try:
            return call(*arguments, **keywords)
        finally:
            locks.add(perf_counter() - begin)

    return timed


@contextmanager
def watching(cupy: Any) -> Iterator[PageLocks]:
    locks, cuda, runtime = PageLocks(), cupy.cuda, cupy.cuda.runtime
    originals = [(runtime, name, getattr(runtime, name)) for name in _CALLS if hasattr(runtime, name)]
    originals += [(cuda, name, getattr(cuda, name)) for name in ("alloc_pinned_memory", "PinnedMemory")]
    for module, name, call in originals[:-2]:
        setattr(module, name, counted(call, locks))
    cuda.alloc_pinned_memory = _from_pool(cupy, cuda.alloc_pinned_memory, locks)
    memory = cuda.PinnedMemory

    class PinnedMemory(memory):  # type: ignore[misc, valid-type]
        def __init__(self, *arguments: Any, **keywords: Any) -> None:
            counted(super().__init__, locks)(*arguments, **keywords)

    cuda.PinnedMemory = PinnedMemory
    try:
        yield locks
    finally:
        for module, name, call in originals:
            setattr(module, name, call)


def _from_pool(cupy: Any, allocate: Callable[[int], Any], locks: PageLocks) -> Callable[[int], Any]:
    """Counts an allocation that had to lock pages: one without a pool, or for which the pool had to grow.
    Only CuPy's own pool is looked into: of another one nobody knows whether it grew."""
    pool = cupy.get_default_pinned_memory_pool()

    def looked_at(nbytes: int) -> Any:
        free, begin = pool.n_free_blocks(), perf_counter()
        pointer = allocate(nbytes)
        seconds = perf_counter() - begin
        of_pool = getattr(pointer.mem, "pool", None)  # a weak reference
        grown = of_pool is not None and of_pool() is pool and pool.n_free_blocks() >= free
        if of_pool is None or grown:
            locks.add(seconds)
        return pointer

    return looked_at
