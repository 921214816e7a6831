"""As much of CuPy as a small script uses, on NumPy, for tests in processes of their own.

Arrays know what kind of memory they are in; work on them sleeps as long as that kind is slow, so that
strategies differ. Nothing here is asynchronous.
"""

import contextlib
import ctypes
import math
import time
import types

import numpy as np

SECONDS = {"device": 0.08, "managed": 0.2, "mapped": 0.4, "system": 0.4, "async": 0.005}
HOOKS = []
LIVE = {}
STAGED = []


class CUDARuntimeError(RuntimeError):
    pass


def _take(kind):
    def take(size, *_):
        memory = np.zeros(max(size, 1), np.uint8)
        LIVE[memory.ctypes.data] = (kind, memory)
        return memory.ctypes.data

    return take


def _give(pointer):
    if pointer:
        LIVE.pop(pointer, None)


class Memory:
    """A chunk; `kind` from who took it. Ordinary memory is known by nobody having taken it."""

    def __init__(self, pointer, size):
        self.ptr, self.size = pointer, size
        self.kind = LIVE[pointer][0] if pointer in LIVE else "system"


class MemoryPool:
    def __init__(self, allocator=None):
        self._allocator = allocator or (lambda size: Memory(_take("device")(size), size))

    def malloc(self, size):
        memory = self._allocator(size)
        for hook in HOOKS:
            hook.alloc_postprocess(device_id=0, mem_size=size, mem_ptr=memory.ptr)
            hook.malloc_postprocess(
                device_id=0, size=size, mem_size=size, mem_ptr=memory.ptr, pmem_id=memory.ptr
            )
        return memory


class MemoryAsyncPool:
    def malloc(self, size):
        return Memory(_take("async")(size), size)


class PythonFunctionAllocator:
    def __init__(self, malloc_func, free_func):
        self._take = malloc_func

    def malloc(self, size):
        return Memory(self._take(size, 0), size)


class MemoryHook:
    def __enter__(self):
        HOOKS.append(self)
        return self

    def __exit__(self, *_):
        HOOKS.remove(self)


class Event:
    def record(self, stream=None):
        self.at = time.perf_counter()


class Stream:
    null = types.SimpleNamespace(ptr=0)

    def __init__(self, non_blocking=False):
        self.ptr = 7

    def use(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def synchronize(self):
        pass


class Device:
    attributes = {  # noqa: RUF012
        "Integrated": 0,
        "ManagedMemory": 1,
        "ConcurrentManagedAccess": 1,
        "CanMapHostMemory": 1,
        "PageableMemoryAccess": 0,
        "MemoryPoolsSupported": 1,
    }
    compute_capability = "89"
    pci_bus_id = "0000:3B:00.0"

    def __init__(self, index):
        self.index = index

    def use(self):
        pass


_pool = MemoryPool()
_state = {"allocator": _pool.malloc, "pinned": None}


def set_allocator(allocator=None):
    _state["allocator"] = allocator or MemoryPool().malloc


@contextlib.contextmanager
def using_allocator(allocator=None):
    before, _state["allocator"] = _state["allocator"], allocator
    try:
        yield
    finally:
        _state["allocator"] = before


def set_pinned_memory_allocator(allocator=None):
    _state["pinned"] = allocator


def _range_push(message, color=-1):
    pass


def _range_pop():
    pass


runtime = types.SimpleNamespace(
    CUDARuntimeError=CUDARuntimeError,
    getDeviceCount=lambda: 1,
    getDevice=lambda: 0,
    getDeviceProperties=lambda gpu: {"name": b"Fake GPU", "totalGlobalMem": 8 << 30},
    driverGetVersion=lambda: 13020,
    runtimeGetVersion=lambda: 13000,
    deviceSynchronize=lambda: None,
    mallocManaged=_take("managed"),
    hostAlloc=_take("mapped"),
    hostAllocMapped=2,
    pointerGetAttributes=lambda pointer: types.SimpleNamespace(devicePointer=pointer),
    free=_give,
    freeHost=_give,
)
cuda = types.SimpleNamespace(
    runtime=runtime,
    Device=Device,
    Stream=Stream,
    Event=Event,
    MemoryPool=MemoryPool,
    MemoryAsyncPool=MemoryAsyncPool,
    MemoryHook=MemoryHook,
    PythonFunctionAllocator=PythonFunctionAllocator,
    malloc_managed=lambda size: Memory(_take("managed")(size), size),
    set_allocator=set_allocator,
    using_allocator=using_allocator,
    get_allocator=lambda: _state["allocator"],
    set_pinned_memory_allocator=set_pinned_memory_allocator,
    get_current_stream=lambda: types.SimpleNamespace(ptr=0),
    get_elapsed_time=lambda begin, end: (end.at - begin.at) * 1e3,
    nvtx=types.SimpleNamespace(RangePush=_range_push, RangePushC=_range_push, RangePop=_range_pop),
)


def get_default_memory_pool():
    return _pool


class ndarray:  # noqa: N801
    def __init__(self, shape, dtype=np.float32):
        self.shape, self.dtype = tuple(np.atleast_1d(shape)), np.dtype(dtype)
        self.nbytes = math.prod(self.shape) * self.dtype.itemsize
        self.memory = _state["allocator"](self.nbytes)
        raw = (ctypes.c_byte * self.nbytes).from_address(self.memory.ptr)
        self._host = np.frombuffer(raw, self.dtype).reshape(self.shape)

    @property
    def __cuda_array_interface__(self):
        return {"data": (self.memory.ptr, False), "typestr": self.dtype.str, "shape": self.shape}

    def set(self, host):
        self._host[...] = host

    def get(self, *_, **__):
        return self._host.copy()

    def __add__(self, other):
        time.sleep(SECONDS[self.memory.kind])
        made = ndarray(self.shape, self.dtype)
        made._host[...] = self._host + other
        return made

    def copy(self):
        made = ndarray(self.shape, self.dtype)
        made.set(self._host)
        return made

    def __mul__(self, other):
        made = self.copy()
        made.set(self._host * (other._host if isinstance(other, ndarray) else other))
        return made

    def __setitem__(self, key, value):
        self._host[key] = value._host if isinstance(value, ndarray) else value

    def sum(self):
        return float(self._host.sum())


def array(source, dtype=None):
    """Stages in pinned memory where it can be had, as CuPy does."""
    if isinstance(source, ndarray):
        return source
    host = np.asarray(source, dtype)
    try:
        if _state["pinned"]:
            _state["pinned"](host.nbytes)
        STAGED.append(host.nbytes)
    except CUDARuntimeError:
        time.sleep(0.5)
    made = ndarray(host.shape, host.dtype)
    made.set(host)
    return made


def asarray(source, dtype=None):
    return array(source, dtype)


asanyarray = ascontiguousarray = asfortranarray = asarray


def asnumpy(source):
    return source.get()
