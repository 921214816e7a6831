"""What can be imposed on a script from outside, in the order shown. CuPy's side is backends/imposing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from advisor.errors import UsageError, nearest
from advisor.profiles.schema import Device

UNCHANGED = "default-pool"
"""The script as it is."""


@dataclass(frozen=True)
class ScriptStrategy:
    """One way to run the script. `code` is what to write at its top to have it for good."""

    name: str
    summary: str
    code: str
    unavailable: Callable[[Device], str | None] = lambda _: None
    """Why it cannot be used on that device, or None."""


def _lacks(attribute: str, why: str) -> Callable[[Device], str | None]:
    """Unavailable where the device says 0; an unknown attribute is no "no"."""
    return lambda device: f"{device.name} {why}" if device.attributes.get(attribute) == 0 else None


def _system(device: Device) -> str | None:
    """Unlike the others it must be known to be there: without it the first kernel ends the process."""
    if device.attributes.get("pageable_memory_access"):
        return None
    return f"kernels on {device.name} cannot access pageable memory (pageableMemoryAccess is 0)"


_POOL = "pool = cupy.cuda.MemoryPool({}.malloc)\ncupy.cuda.set_allocator(pool.malloc)\n"
_MANAGED = "pool = cupy.cuda.MemoryPool(cupy.cuda.malloc_managed)\ncupy.cuda.set_allocator(pool.malloc)\n"
_PREFETCHED = """\
def allocate(size, device):
    pointer = cupy.cuda.runtime.mallocManaged(size)
    # With CUDA 13 this call needs CuPy 14.
    cupy.cuda.runtime.memPrefetchAsync(pointer, size, device, cupy.cuda.get_current_stream().ptr)
    return pointer


allocator = cupy.cuda.PythonFunctionAllocator(allocate, lambda pointer, _: cupy.cuda.runtime.free(pointer))
"""
_MAPPED = """\
def allocate(size, _):
    return cupy.cuda.runtime.hostAlloc(size, cupy.cuda.runtime.hostAllocMapped)


allocator = cupy.cuda.PythonFunctionAllocator(allocate, lambda at, _: cupy.cuda.runtime.freeHost(at))
"""
_SYSTEM = """\
import ctypes

libc = ctypes.CDLL(None)
libc.aligned_alloc.restype = ctypes.c_void_p
libc.aligned_alloc.argtypes = [ctypes.c_size_t] * 2
libc.free.argtypes = [ctypes.c_void_p]
allocator = cupy.cuda.PythonFunctionAllocator(
    lambda size, _: libc.aligned_alloc(4096, -(-size // 4096) * 4096), lambda pointer, _: libc.free(pointer)
)
"""

SCRIPT_STRATEGIES: tuple[ScriptStrategy, ...] = (
    ScriptStrategy(UNCHANGED, "the unchanged script: CuPy's device pool, copies staged in pinned memory", ""),
    ScriptStrategy(
        "unpinned-staging",
        "the same, but copies go directly from and to pageable memory",
        "# Use array.set(host) and array.get() instead of cupy.asarray(host): they do not stage.\n",
    ),
    ScriptStrategy(
        "managed-pool",
        "a pool of managed memory, moved by page faults",
        _MANAGED,
        _lacks("managed_memory", "has no managed memory"),
    ),
    ScriptStrategy(
        "managed-prefetch-pool",
        "the same, prefetched to the GPU when the pool allocates it",
        _PREFETCHED + _POOL.format("allocator"),
        _lacks("concurrent_managed_access", "cannot prefetch managed memory (concurrentManagedAccess is 0)"),
    ),
    ScriptStrategy(
        "zero-copy-pool",
        "a pool of mapped, page-locked host memory that kernels use in place",
        _MAPPED + _POOL.format("allocator"),
        _lacks("can_map_host_memory", "cannot map host memory"),
    ),
    ScriptStrategy(
        "stream-ordered-pool",
        "the driver's own pool (cudaMallocAsync)",
        "cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)\n",
        _lacks("memory_pools_supported", "has no memory pools (memoryPoolsSupported is 0)"),
    ),
    ScriptStrategy(
        "system-pool",
        "a pool of pageable memory that kernels access directly",
        _SYSTEM + _POOL.format("allocator"),
        _system,
    ),
)


def choose(names: Sequence[str]) -> tuple[ScriptStrategy, ...]:
    """The named strategies, or all if none is named; the unchanged script is always among them.

    Raises `UsageError` with the nearest name.
    """
    known = [strategy.name for strategy in SCRIPT_STRATEGIES]
    for name in names:
        if name not in known:
            raise UsageError(
                f"a script cannot be run under {name!r}{nearest(name, known)}",
                next_step=f"Choose from {', '.join(known)}; all other strategies need a @workload.",
            )
    return tuple(s for s in SCRIPT_STRATEGIES if not names or s.name in (UNCHANGED, *names))


def code(name: str) -> str:
    """What to write at the top of the script to have that strategy; empty for the script as it is."""
    found = next((s.code for s in SCRIPT_STRATEGIES if s.name == name), "")
    return f"import cupy\n\n{found}" if found and not found.startswith("#") else found
