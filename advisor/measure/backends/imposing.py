"""Strategies imposed on the allocations of a script that uses CuPy.

The script keeps CuPy's own stream, device pool and pinned pool unless the strategy says otherwise.
"""

from __future__ import annotations

import ctypes
import mmap
import warnings
from collections.abc import Callable
from typing import Any

from advisor.measure.backends.cuda import import_cupy
from advisor.measure.backends.cuda_calls import ManagedCalls

_OUT_OF_MEMORY = 2
"""cudaErrorMemoryAllocation, which CuPy does not name."""


class Script:
    """CuPy in the process of one script, on one GPU, before the script runs."""

    def __init__(self, gpu: int) -> None:
        """Creates the context. Raises `NothingMeasured` without CuPy or without that GPU."""
        cupy = import_cupy()
        self._cupy = cupy
        self._runtime = cupy.cuda.runtime
        self._gpu = gpu
        cupy.cuda.Device(gpu).use()
        self._runtime.free(0)  # creates the context
        self._pool: Any = cupy.get_default_memory_pool()
        self._allocator: Any = None
        self._host_pointers: dict[int, int] = {}

    @property
    def pci_bus_id(self) -> str:
        return str(self._cupy.cuda.Device(self._gpu).pci_bus_id)

    def impose(self, strategy: str) -> None:
        """Puts the strategy into force; the unchanged script needs nothing."""
        cuda = self._cupy.cuda
        python: dict[str, Callable[[], tuple[Any, Any]]] = {
            "managed-prefetch-pool": self._prefetched,
            "zero-copy-pool": self._mapped,
            "system-pool": self._system,
        }
        if strategy == "unpinned-staging":
            self._refuse_staging()
        elif strategy == "managed-pool":
            self._take(cuda.MemoryPool(cuda.malloc_managed))
        elif strategy == "stream-ordered-pool":
            self._take(cuda.MemoryAsyncPool())
        elif strategy in python:
            self._take(cuda.MemoryPool(cuda.PythonFunctionAllocator(*python[strategy]()).malloc))
        self._allocator = cuda.get_allocator()

    def _take(self, pool: Any) -> None:
        self._pool = pool
        self._cupy.cuda.set_allocator(pool.malloc)

    def _refuse_staging(self) -> None:
        """CuPy falls back to a synchronous copy from pageable memory, and says so in a warning."""
        error = self._runtime.CUDARuntimeError

        def refuse(_: int) -> Any:
            raise error(_OUT_OF_MEMORY)

        warnings.filterwarnings("ignore", message="Using synchronous transfer")
        self._cupy.cuda.set_pinned_memory_allocator(refuse)

    def _prefetched(self) -> tuple[Any, Any]:
        """By cuda-bindings, whose call is the same in every version."""
        managed, current = ManagedCalls(self._gpu), self._cupy.cuda.get_current_stream

        def allocate(size: int, _: int) -> int:
            pointer = int(self._runtime.mallocManaged(size))
            managed.prefetch(pointer, size, "device", current().ptr)
            return pointer

        return allocate, lambda pointer, _: self._runtime.free(pointer)

    def _mapped(self) -> tuple[Any, Any]:
        """The device's address of the memory; on some devices it is not the host's."""
        runtime = self._runtime

        def allocate(size: int, _: int) -> int:
            host = int(runtime.hostAlloc(size, runtime.hostAllocMapped))
            pointer = int(runtime.pointerGetAttributes(host).devicePointer)
            self._host_pointers[pointer] = host
            return pointer

        return allocate, lambda pointer, _: runtime.freeHost(self._host_pointers.pop(pointer))

    @staticmethod
    def _system() -> tuple[Any, Any]:
        libc = ctypes.CDLL(None)
        libc.aligned_alloc.restype = ctypes.c_void_p
        libc.aligned_alloc.argtypes = [ctypes.c_size_t] * 2
        libc.free.argtypes = [ctypes.c_void_p]

        def allocate(size: int, _: int) -> int:
            pointer = libc.aligned_alloc(mmap.PAGESIZE, -(-size // mmap.PAGESIZE) * mmap.PAGESIZE)
            if not pointer:
                raise MemoryError(f"malloc of {size} bytes failed")
            return int(pointer)

        return allocate, lambda pointer, _: libc.free(pointer)

    def guard(self, changed: Callable[[], None]) -> None:
        """Calls `changed` when the script sets an allocator itself; it does so after that."""
        cuda = self._cupy.cuda

        def heard(call: Callable[..., Any]) -> Callable[..., Any]:
            def wrapped(*given: Any, **named: Any) -> Any:
                changed()
                return call(*given, **named)

            return wrapped

        for name in ("set_allocator", "using_allocator"):
            call = heard(getattr(cuda, name))
            for module in (cuda, getattr(cuda, "memory", cuda)):
                if hasattr(module, name):
                    setattr(module, name, call)

    def synchronize(self) -> None:
        self._runtime.deviceSynchronize()
