"""As much of CuPy as trials of changes need, on NumPy: copies take longer from pageable memory.

An upload from page-locked memory is asynchronous: the bytes are read when the stream is waited for, so that
a host that writes too early changes them, as on a GPU.
"""

import os
import time
import types

import numpy as np

PAGEABLE, PINNED, NEW = 2.4e-3, 4e-4, 1.2e-3
"""Seconds of a copy from or to each memory, and of getting new host memory."""
_pass_time = getattr(time, "pass_time", time.sleep)
_locked = {}
_waiting = []


class CUDARuntimeError(RuntimeError):
    pass


class _Pinned(bytearray):
    """Page-locked memory; the script's own bytearrays are not."""


def _is_locked(array):
    base = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    address = base.__array_interface__["data"][0]
    owner = getattr(base.base, "obj", base.base)  # NumPy may keep a memoryview
    return address in _locked or isinstance(owner, _Pinned)


def _register(pointer, size, flags):
    if pointer in _locked:
        raise CUDARuntimeError("cudaErrorHostMemoryAlreadyRegistered")
    _locked[pointer] = size


def _synchronize(*_):
    while _waiting:
        device, index, host = _waiting.pop(0)
        device.host[index] = host


class Stream:
    def synchronize(self):
        _synchronize()


_stream = Stream()
runtime = types.SimpleNamespace(
    CUDARuntimeError=CUDARuntimeError,
    hostRegister=_register,
    hostUnregister=lambda pointer: _locked.pop(pointer),
    deviceSynchronize=_synchronize,
)


class Pool:
    """Memory on the GPU, which takes some seconds to get."""

    def __init__(self, source=None):
        self.seconds = float(os.environ.get("TRIAL_POOL_SECONDS", "0")) if source is None else 8e-4
        self.source = source

    def malloc(self, size):
        _pass_time(self.seconds)
        if callable(self.source):
            self.source(size)


class MemoryAsyncPool(Pool):
    def __init__(self):
        super().__init__(0)
        self.seconds = 0


def _malloc_managed(size):
    raise RuntimeError("managed memory is not played")


_allocator = [Pool().malloc]
cuda = types.SimpleNamespace(
    runtime=runtime,
    get_current_stream=lambda: _stream,
    alloc_pinned_memory=_Pinned,
    MemoryPool=Pool,
    MemoryAsyncPool=MemoryAsyncPool,
    malloc_managed=_malloc_managed,
    get_allocator=lambda: _allocator[0],
    set_allocator=lambda allocator=None: _allocator.__setitem__(0, allocator),
    using_allocator=None,
)


class ndarray:  # noqa: N801
    def __init__(self, host):
        self.host = host
        self.shape, self.dtype, self.size, self.nbytes = host.shape, host.dtype, host.size, host.nbytes
        (_allocator[0] or Pool(0).malloc)(self.nbytes)

    def get(self, out=None):
        _synchronize()
        if out is None:
            _pass_time(NEW)
            out = np.empty(self.shape, self.dtype)
        _pass_time(PINNED if _is_locked(out) else PAGEABLE)
        out[...] = self.host
        return out

    def set(self, host, stream=None, index=...):
        locked = _is_locked(host)
        _pass_time(PINNED if locked else PAGEABLE)
        if locked:
            _waiting.append((self, index, host))
        else:
            self.host[index] = host

    def __setitem__(self, index, host):
        self.set(host, index=index)

    def fill(self, value):
        _synchronize()
        self.host[...] = value

    def ravel(self, _):
        _synchronize()
        return self.host.ravel()

    def copy(self):
        _synchronize()
        return ndarray(self.host.copy())

    def __mul__(self, other):
        _synchronize()
        return ndarray(self.host * other)

    def __float__(self):
        return float(self.host.reshape(-1)[0])


def asarray(a, blocking=False):
    locked = _is_locked(a)
    _pass_time(PINNED if locked else PAGEABLE)
    device = ndarray(np.array(a))
    if locked:
        device.host[...] = 0
        _waiting.append((device, ..., a))
    if blocking:
        _synchronize()
    return device


def asnumpy(array, out=None):
    return array.get(out=out)
