"""Script mode's side of CuPy: strategies imposed on a script's allocations, and what is seen of them.

The script keeps CuPy's own stream, device pool and pinned pool unless the strategy says otherwise.
"""

from __future__ import annotations

import ctypes
import mmap
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from advisor.measure.backends.cuda import import_cupy
from advisor.measure.backends.cuda_calls import ManagedCalls
from advisor.measure.nvtx_ranges import RangeWatch
from advisor.profiles.row_figures import ScriptCopies, ScriptMemory

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

    def mark(self) -> Any:
        event = self._cupy.cuda.Event()
        event.record(self._cupy.cuda.get_current_stream())
        return event

    def seconds_between(self, begin: Any, end: Any) -> float:
        return float(self._cupy.cuda.get_elapsed_time(begin, end)) * 1e-3

    def listen_to_ranges(self, watch: RangeWatch) -> None:
        """CuPy's NVTX functions, which `cupyx.profiler.time_range` uses too."""
        module = self._cupy.cuda.nvtx
        for name, around in (("Push", watch.opening), ("PushC", watch.opening), ("Pop", watch.closing)):
            call = getattr(module, f"Range{name}", None)
            if call is not None:
                setattr(module, f"Range{name}", around(call))

    def watch_copies(self) -> CopyWatch:
        return CopyWatch(self._cupy)

    def watch_memory(self) -> MemoryWatch:
        return MemoryWatch(self._cupy, self._pool)


class CopyWatch:
    """Listeners around the functions by which a script copies between the sides; ndarray's methods too."""

    def __init__(self, cupy: Any) -> None:
        self._array = cupy.ndarray
        self._inside = False
        self._seen = {"to-device": [0, 0], "to-host": [0, 0]}
        for name in ("array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray"):
            setattr(cupy, name, self._upload(getattr(cupy, name)))
        cupy.ndarray.set = self._moving("to-device", cupy.ndarray.set)
        cupy.ndarray.get = self._moving("to-host", cupy.ndarray.get)

    def copies(self) -> ScriptCopies:
        up, down = self._seen["to-device"], self._seen["to-host"]
        return ScriptCopies(to_device=up[0], to_device_bytes=up[1], to_host=down[0], to_host_bytes=down[1])

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Copies within are not the script's."""
        outer, self._inside = self._inside, True
        try:
            yield
        finally:
            self._inside = outer

    def _upload(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Counts what was no array of the device before; functions that call one another count once."""

        def wrapped(source: Any, *given: Any, **named: Any) -> Any:
            outer = self._inside
            with self.paused():
                made = call(source, *given, **named)
            if not outer and not hasattr(source, "__cuda_array_interface__"):
                self._count("to-device", int(made.nbytes))
            return made

        return wrapped

    def _moving(self, way: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def moved(array: Any, *given: Any, **named: Any) -> Any:
            if not self._inside:
                self._count(way, int(array.nbytes))
            return call(array, *given, **named)

        return moved

    def _count(self, way: str, nbytes: int) -> None:
        self._seen[way][0] += 1
        self._seen[way][1] += nbytes


class MemoryWatch:
    """CuPy's memory hooks: requests to the pool, and the pool's to CUDA."""

    def __init__(self, cupy: Any, pool: Any) -> None:
        watch = self
        self._requests = self._allocations = self._reserved = self._used = self._peak = 0
        self._sizes: dict[int, int] = {}

        class Hook(cupy.cuda.MemoryHook):  # type: ignore[misc]
            name = "advisor"

            def alloc_postprocess(self, **told: Any) -> None:
                """The pool took memory from CUDA."""
                watch._allocations += 1
                watch._reserved += int(told["mem_size"])

            def malloc_postprocess(self, **told: Any) -> None:
                """An array took memory from the pool."""
                watch._requests += 1
                watch._sizes[int(told["pmem_id"])] = size = int(told["mem_size"])
                watch._used += size
                watch._peak = max(watch._peak, watch._used)

            def free_postprocess(self, **told: Any) -> None:
                """It came back."""
                watch._used -= watch._sizes.pop(int(told["pmem_id"]), 0)

        self._has_hooks = isinstance(pool, cupy.cuda.MemoryPool)
        self._hook = Hook()
        self._hook.__enter__()

    def memory(self) -> ScriptMemory | None:
        """Counts so far; None where the pool has no hooks (CUDA's own)."""
        self._hook.__exit__(None, None, None)
        if not self._has_hooks:
            return None
        return ScriptMemory(
            requests=self._requests,
            allocations=self._allocations,
            reserved_bytes=self._reserved,
            peak_bytes=self._peak,
        )
