"""The functions that the code to copy begins with: memory of each kind as NumPy and as CuPy arrays."""

from __future__ import annotations

from advisor.rules.snippets.base import Helper

_ARRAYS = ("import cupy", "import numpy as np")
_RUNTIME = ("from cuda.bindings import runtime  # CuPy cannot prefetch to the CPU",)

PINNED = Helper(
    ("import math", *_ARRAYS),
    '''

def pinned_empty(shape, dtype, flags=0):
    """A NumPy array in page-locked memory of exactly its size."""
    dtype, count = np.dtype(dtype), math.prod(shape)
    memory = cupy.cuda.PinnedMemory(count * dtype.itemsize, flags)
    return np.frombuffer(cupy.cuda.PinnedMemoryPointer(memory, 0), dtype, count).reshape(shape)
''',
)

MAPPED = Helper(
    ("import math", *_ARRAYS),
    '''

def mapped_empty(shape, dtype, flags=0):
    """One page-locked memory as a NumPy and as a CuPy array."""
    dtype, count = np.dtype(dtype), math.prod(shape)
    memory = cupy.cuda.PinnedMemory(count * dtype.itemsize, flags | cupy.cuda.runtime.hostAllocMapped)
    pointer = cupy.cuda.runtime.pointerGetAttributes(memory.ptr).devicePointer
    host = np.frombuffer(cupy.cuda.PinnedMemoryPointer(memory, 0), dtype, count).reshape(shape)
    shared = cupy.cuda.UnownedMemory(pointer, memory.size, memory)
    return host, cupy.ndarray(shape, dtype, memptr=cupy.cuda.MemoryPointer(shared, 0))
''',
)

REGISTERED = Helper(
    ("import math", "import mmap", "import weakref", *_ARRAYS),
    '''

def registered_empty(shape, dtype, flags=0):
    """A NumPy array on pages of its own, page-locked until it is freed; any array that stays will do."""
    dtype, count = np.dtype(dtype), math.prod(shape)
    host = np.frombuffer(mmap.mmap(-1, count * dtype.itemsize), dtype, count)
    cupy.cuda.runtime.hostRegister(host.ctypes.data, host.nbytes, flags)
    weakref.finalize(host, cupy.cuda.runtime.hostUnregister, host.ctypes.data)
    return host.reshape(shape)
''',
)

REGISTERED_MAPPED = Helper(
    _ARRAYS,
    '''

def mapped_registered_empty(shape, dtype):
    """The same as a NumPy and as a CuPy array."""
    host = registered_empty(shape, dtype, 2)  # cudaHostRegisterMapped, which CuPy does not name
    pointer = cupy.cuda.runtime.pointerGetAttributes(host.ctypes.data).devicePointer
    shared = cupy.cuda.UnownedMemory(pointer, host.nbytes, host)
    return host, cupy.ndarray(shape, host.dtype, memptr=cupy.cuda.MemoryPointer(shared, 0))
''',
)

MANAGED = Helper(
    ("import ctypes", "import math", *_ARRAYS),
    '''

def managed_empty(shape, dtype):
    """One managed memory as a NumPy and as a CuPy array."""
    dtype, count = np.dtype(dtype), math.prod(shape)
    memory = cupy.cuda.malloc_managed(count * dtype.itemsize)
    view = (ctypes.c_byte * (count * dtype.itemsize)).from_address(memory.ptr)
    view.owner = memory  # the NumPy array keeps the memory alive
    host = np.frombuffer(view, dtype).reshape(shape)
    return host, cupy.ndarray(shape, dtype, memptr=memory)
''',
)

REQUIRE = Helper(
    _RUNTIME,
    '''

def require(result):
    """Raises where a call of the CUDA runtime failed."""
    if result[0] != runtime.cudaError_t.cudaSuccess:
        raise RuntimeError(result[0].name)
''',
)

LOCATION = Helper(
    (*_ARRAYS, *_RUNTIME),
    '''

def location(side):
    """The CPU, or the current GPU."""
    kinds, place = runtime.cudaMemLocationType, runtime.cudaMemLocation()
    place.type = kinds.cudaMemLocationTypeDevice if side == "device" else kinds.cudaMemLocationTypeHost
    place.id = cupy.cuda.Device().id if side == "device" else 0
    return place
''',
)

PREFETCH = Helper(
    _RUNTIME,
    '''

def prefetch(host, side):
    """Moves managed memory to the "device" or the "host" before it is needed there."""
    call = getattr(runtime, "cudaMemPrefetchAsync_v2", runtime.cudaMemPrefetchAsync)  # _v2 on CUDA 12
    require(call(host.ctypes.data, host.nbytes, location(side), 0, stream.ptr))
''',
)

ATTACH = Helper(
    _RUNTIME,
    '''

def prefetch(host, side):
    """Gives managed memory to the "device" or the "host", in place of a prefetch that this GPU lacks."""
    kind = runtime.cudaMemAttachSingle if side == "device" else runtime.cudaMemAttachHost
    require(runtime.cudaStreamAttachMemAsync(stream.ptr, host.ctypes.data, 0, kind))
''',
)

ADVISE = Helper(
    _RUNTIME,
    '''

def advise(host, advice, side):
    """Tells the driver how managed memory is used."""
    call = getattr(runtime, "cudaMemAdvise_v2", runtime.cudaMemAdvise)  # _v2 on CUDA 12
    require(call(host.ctypes.data, host.nbytes, getattr(runtime.cudaMemoryAdvise, advice), location(side)))
''',
)

SYSTEM = Helper(
    _ARRAYS,
    '''

def system_empty(shape, dtype):
    """One ordinary memory as a NumPy and as a CuPy array; any array that stays will do."""
    host = np.empty(shape, dtype)
    shared = cupy.cuda.UnownedMemory(host.ctypes.data, host.nbytes, host, cupy.cuda.Device().id)
    return host, cupy.ndarray(shape, host.dtype, memptr=cupy.cuda.MemoryPointer(shared, 0))
''',
)
