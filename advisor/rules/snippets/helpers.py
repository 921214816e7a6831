"""The functions that the code to copy begins with: memory of each kind as NumPy and as CuPy arrays."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

_IMPORTS = {name: f"import {name}" for name in ("ctypes", "cupy", "math", "mmap", "weakref")} | {
    "np": "import numpy as np",
    "runtime": "from cuda.bindings import runtime  # CuPy cannot prefetch to the CPU",
}
_TEXT = '''
def pinned_empty(shape, dtype, flags=0):
    """A NumPy array in page-locked memory of exactly its size."""
    dtype, count = np.dtype(dtype), math.prod(shape)
    memory = cupy.cuda.PinnedMemory(count * dtype.itemsize, flags)
    return np.frombuffer(cupy.cuda.PinnedMemoryPointer(memory, 0), dtype, count).reshape(shape)


def mapped_empty(shape, dtype, flags=0):
    """Page-locked memory as a NumPy and a CuPy array."""
    dtype, count = np.dtype(dtype), math.prod(shape)
    memory = cupy.cuda.PinnedMemory(count * dtype.itemsize, flags | cupy.cuda.runtime.hostAllocMapped)
    pointer = cupy.cuda.runtime.pointerGetAttributes(memory.ptr).devicePointer
    host = np.frombuffer(cupy.cuda.PinnedMemoryPointer(memory, 0), dtype, count).reshape(shape)
    shared = cupy.cuda.UnownedMemory(pointer, memory.size, memory)
    return host, cupy.ndarray(shape, dtype, memptr=cupy.cuda.MemoryPointer(shared, 0))


def registered_empty(shape, dtype, flags=0):
    """A NumPy array on its own pages, page-locked until it is freed; any array that stays alive will do."""
    dtype, count = np.dtype(dtype), math.prod(shape)
    host = np.frombuffer(mmap.mmap(-1, count * dtype.itemsize), dtype, count)
    cupy.cuda.runtime.hostRegister(host.ctypes.data, host.nbytes, flags)
    weakref.finalize(host, cupy.cuda.runtime.hostUnregister, host.ctypes.data)
    return host.reshape(shape)


def mapped_registered_empty(shape, dtype):
    """The same as a NumPy and as a CuPy array."""
    host = registered_empty(shape, dtype, 2)  # cudaHostRegisterMapped, which CuPy does not name
    pointer = cupy.cuda.runtime.pointerGetAttributes(host.ctypes.data).devicePointer
    shared = cupy.cuda.UnownedMemory(pointer, host.nbytes, host)
    return host, cupy.ndarray(shape, host.dtype, memptr=cupy.cuda.MemoryPointer(shared, 0))


def managed_empty(shape, dtype):
    """Managed memory as a NumPy and a CuPy array."""
    dtype, count = np.dtype(dtype), math.prod(shape)
    memory = cupy.cuda.malloc_managed(count * dtype.itemsize)
    view = (ctypes.c_byte * (count * dtype.itemsize)).from_address(memory.ptr)
    view.owner = memory  # the NumPy array keeps the memory alive
    host = np.frombuffer(view, dtype).reshape(shape)
    return host, cupy.ndarray(shape, dtype, memptr=memory)


def require(result):
    """Raises where a call of the CUDA runtime failed."""
    if result[0] != runtime.cudaError_t.cudaSuccess:
        raise RuntimeError(result[0].name)


def location(side):
    """The CPU, or the current GPU."""
    kinds, place = runtime.cudaMemLocationType, runtime.cudaMemLocation()
    place.type = kinds.cudaMemLocationTypeDevice if side == "device" else kinds.cudaMemLocationTypeHost
    place.id = cupy.cuda.Device().id if side == "device" else 0
    return place


def prefetch(host, side):
    """Moves managed memory to the "device" or the "host" before it is needed there."""
    call = getattr(runtime, "cudaMemPrefetchAsync_v2", runtime.cudaMemPrefetchAsync)  # _v2 on CUDA 12
    require(call(host.ctypes.data, host.nbytes, location(side), 0, stream.ptr))


def advise(host, advice, side):
    """Tells the driver how managed memory is used."""
    call = getattr(runtime, "cudaMemAdvise_v2", runtime.cudaMemAdvise)  # _v2 on CUDA 12
    require(call(host.ctypes.data, host.nbytes, getattr(runtime.cudaMemoryAdvise, advice), location(side)))


def on_gpu(host, gpu):
    """Memory that all GPUs reach, as a CuPy array of that GPU."""
    with cupy.cuda.Device(gpu):
        pointer = cupy.cuda.runtime.pointerGetAttributes(host.ctypes.data).devicePointer
    shared = cupy.cuda.UnownedMemory(pointer, host.nbytes, host, gpu)
    return cupy.ndarray(host.shape, host.dtype, memptr=cupy.cuda.MemoryPointer(shared, 0))


def system_empty(shape, dtype):
    """Pageable memory as a NumPy and a CuPy array; any array that stays alive will do."""
    host = np.empty(shape, dtype)
    shared = cupy.cuda.UnownedMemory(host.ctypes.data, host.nbytes, host, cupy.cuda.Device().id)
    return host, cupy.ndarray(shape, host.dtype, memptr=cupy.cuda.MemoryPointer(shared, 0))
'''
_ATTACH = '''
def prefetch(host, side):
    """Attaches managed memory to the "device" or "host"; this GPU has no prefetch."""
    kind = runtime.cudaMemAttachSingle if side == "device" else runtime.cudaMemAttachHost
    require(runtime.cudaStreamAttachMemAsync(stream.ptr, host.ctypes.data, 0, kind))
'''


def opening(code: str, imports: Sequence[str] = (), *, attaches: bool = False) -> str:
    """These imports and the functions that the code calls, with what they call and import themselves.

    attaches: `prefetch` attaches memory to the stream, for a GPU that cannot prefetch.
    """
    functions = _FUNCTIONS | (_split(_ATTACH) if attaches else {})
    found: set[str] = set()
    while called := {name for name in functions if name not in found and f"{name}(" in code}:
        found |= called
        code = "".join(functions[name] for name in called)
    text = "".join(functions[name] for name in functions if name in found)
    lines = {*imports, *(line for name, line in _IMPORTS.items() if re.search(rf"(?<![.\w]){name}\.", text))}
    standard = sorted(line for line in lines if line.split()[1] in sys.stdlib_module_names)
    others = sorted(lines - set(standard), key=lambda line: (line.startswith("from"), line))
    return "\n".join((*standard, *([""] if standard else []), *others, text))


def _split(text: str) -> dict[str, str]:
    """Functions by name, each behind two empty lines."""
    return {part.partition("(")[0]: f"\n\ndef {part.rstrip()}\n" for part in text.split("\ndef ")[1:]}


_FUNCTIONS = _split(_TEXT)
