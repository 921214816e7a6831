"""Stand-ins for CuPy, cuda-bindings, PyTorch and Numba that run the code to copy: two memories, and a log.

Device memory is a its own memory, so that a forgotten copy gives wrong results; what is called on a
stream is done at once, and noted in the log.
"""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np

DEVICE_ALIAS = 1 << 40
"""How far the device's address of mapped memory lies from the host's, to catch a mix-up."""
MAPPED, WRITE_COMBINED = 2, 4


class Memory:
    """A block of memory with CuPy's attributes; `live` counts those not yet freed."""

    live = 0

    def __init__(self, size: int, flags: int = 0) -> None:
        self.size, self.flags = size, flags
        self._block = (ctypes.c_byte * size)()
        self.ptr = ctypes.addressof(self._block)
        Memory.live += 1

    def __del__(self) -> None:
        Memory.live -= 1


class Array(np.ndarray):
    """A stand-in for cupy.ndarray: NumPy with `set` and `get`, which note that they were called."""

    def set(self, source: np.ndarray, stream: Any) -> None:
        self[...] = source
        stream.note("set")

    def get(self, stream: Any, out: np.ndarray, blocking: bool = True) -> None:
        out[...] = self
        stream.note("get and wait" if blocking else "get")


class Stream:
    """Notes what is done on it, under its own name. `ptr` is 0 for the null stream."""

    def __init__(self, log: list[Any], name: str = "", ptr: int = 77) -> None:
        self.log, self.name, self.ptr = log, name, ptr

    def note(self, what: str) -> None:
        self.log.append(f"{self.name}:{what}" if self.name else what)

    def synchronize(self) -> None:
        self.note("synchronize")

    def use(self) -> None:
        self.note("use")

    def record(self) -> Any:
        self.note("record")
        return SimpleNamespace(of=self.name, synchronize=lambda: self.log.append(f"wait {self.name}"))

    def wait_event(self, event: Any) -> None:
        self.note(f"after {event.of}")

    def __enter__(self) -> Stream:
        self.note("enter")
        return self

    def __exit__(self, *_: object) -> None:
        return None


def fake_cupy() -> Any:
    """The part of CuPy that the code uses; `stream` is the current one, `log` what was done."""
    log: list[Any] = []
    stream, registered = Stream(log, ptr=0), {}
    names = iter(("uploads", "kernels", "downloads"))

    def ndarray(shape: Any, dtype: Any, memptr: Any) -> Array:
        view = (ctypes.c_byte * memptr.size).from_address(memptr.ptr)
        view.owner = memptr
        return np.frombuffer(view, dtype).reshape(shape).view(Array)

    def pinned_pointer(memory: Memory, offset: int) -> Any:
        view = (ctypes.c_byte * memory.size).from_address(memory.ptr + offset)
        view.owner = memory
        return view

    def unowned(pointer: int, size: int, owner: Any, device_id: int = -1) -> Any:
        host = owner.ptr if isinstance(owner, Memory) else owner.ctypes.data
        ordinary = not isinstance(owner, Memory) and host not in registered
        if ordinary:
            assert pointer == host
            assert device_id == 0, "CuPy cannot ask CUDA about memory that CUDA has not seen"
        else:
            assert pointer == host + DEVICE_ALIAS, "a kernel needs the device's address"
        return SimpleNamespace(ptr=host, size=size, owner=owner)

    def register(pointer: int, size: int, flags: int) -> None:
        assert pointer % 4096 == 0, "it would share a page with other memory"
        registered[pointer] = flags

    def attributes(pointer: int) -> Any:
        assert registered.get(pointer, MAPPED) == MAPPED, "not mapped"
        return SimpleNamespace(devicePointer=pointer + DEVICE_ALIAS)

    def asnumpy(array: np.ndarray, out: np.ndarray) -> None:
        out[...] = array
        log.append("asnumpy")

    def new_stream(non_blocking: bool) -> Stream:
        assert non_blocking, "it would wait for the null stream"
        return Stream(log, next(names))

    def asarray(array: np.ndarray) -> Array:
        log.append("asarray")
        return array.copy().view(Array)

    cuda = SimpleNamespace(
        runtime=SimpleNamespace(
            hostAllocMapped=MAPPED,
            hostAllocWriteCombined=WRITE_COMBINED,
            hostAllocPortable=1,
            pointerGetAttributes=attributes,
            hostRegister=register,
            hostUnregister=registered.pop,
        ),
        PinnedMemory=Memory,
        PinnedMemoryPointer=pinned_pointer,
        UnownedMemory=unowned,
        MemoryPointer=lambda memory, offset: memory,
        malloc_managed=Memory,
        get_current_stream=lambda: stream,
        Stream=new_stream,
        Device=lambda: SimpleNamespace(id=0),
    )
    return SimpleNamespace(
        cuda=cuda,
        ndarray=ndarray,
        empty=lambda shape, dtype: np.full(shape, 0, dtype).view(Array),
        asarray=asarray,
        asnumpy=asnumpy,
        stream=stream,
        log=log,
        registered=registered,
    )


def fake_bindings(log: list[Any], *, cuda: int = 13) -> Any:
    """The calls on managed memory; CUDA 12 has those with a place under names that end in _v2."""
    success = SimpleNamespace(name="cudaSuccess")
    places = SimpleNamespace(cudaMemLocationTypeDevice="device", cudaMemLocationTypeHost="host")

    def call(name: str) -> Any:
        def done(pointer: int, size: int, *rest: Any) -> tuple[Any]:
            place = next(part for part in rest if hasattr(part, "type"))
            log.append((name, place.type))
            assert rest[-1] in (0, 77, place)
            return (success,)

        return done

    def older(*_: Any) -> None:
        raise AssertionError("the call without a place")

    def attach(stream: int, pointer: int, size: int, kind: str) -> tuple[Any]:
        assert size == 0
        if kind == "single" and not stream:
            return (SimpleNamespace(name="cudaErrorInvalidValue"),)
        log.append(("attach", kind))
        return (success,)

    advice = ("SetReadMostly", "SetPreferredLocation", "SetAccessedBy")
    calls = {"cudaMemPrefetchAsync": call("prefetch"), "cudaMemAdvise": call("advise")}
    if cuda == 12:
        calls = {f"{name}_v2": made for name, made in calls.items()} | dict.fromkeys(calls, older)
    return SimpleNamespace(
        cudaError_t=SimpleNamespace(cudaSuccess=success),
        cudaMemLocationType=places,
        cudaMemLocation=SimpleNamespace,
        cudaMemoryAdvise=SimpleNamespace(**{f"cudaMemAdvise{name}": name for name in advice}),
        cudaMemAttachSingle="single",
        cudaMemAttachHost="host",
        cudaStreamAttachMemAsync=attach,
        **calls,
    )


class Tensor:
    """A tensor over an array; `numpy()` is the same memory, and only on the host."""

    def __init__(self, array: np.ndarray, log: list[Any], *, pinned: bool, on_device: bool) -> None:
        self.array, self.log, self.pinned, self.on_device = array, log, pinned, on_device

    def numpy(self) -> np.ndarray:
        assert not self.on_device
        return self.array

    def copy_(self, source: Tensor, non_blocking: bool = False) -> None:
        assert self.on_device != source.on_device
        host = source if self.on_device else self
        assert host.pinned == non_blocking, "it would block, or is not awaited"
        self.array[...] = source.array
        self.log.append("set" if self.on_device else "get")


def fake_torch(log: list[Any]) -> Any:
    """The part of PyTorch that the code uses."""

    def empty(shape: Any, dtype: Any, pin_memory: bool = False, device: str = "cpu") -> Tensor:
        return Tensor(np.zeros(shape, dtype), log, pinned=pin_memory, on_device=device == "cuda")

    def as_tensor(array: Array, device: str) -> Tensor:
        assert (type(array), device) == (Array, "cuda")
        return Tensor(array, log, pinned=False, on_device=True)

    stream = Stream(log)
    return SimpleNamespace(
        float32=np.float32,
        empty=empty,
        as_tensor=as_tensor,
        cuda=SimpleNamespace(current_stream=lambda: stream),
    )


def fake_numba(log: list[Any]) -> Any:
    """The part of Numba that the code uses."""

    class DeviceArray(np.ndarray):
        def copy_to_device(self, source: np.ndarray, stream: Any) -> None:
            self[...] = source
            stream.note("set")

        def copy_to_host(self, target: np.ndarray, stream: Any) -> None:
            target[...] = self
            stream.note("get")

    def array(shape: Any, dtype: np.dtype[Any], **options: Any) -> np.ndarray:
        assert isinstance(dtype, np.dtype)
        log.append(options) if options else None
        return np.zeros(shape, dtype)

    cuda = SimpleNamespace(
        pinned_array=array,
        mapped_array=array,
        managed_array=array,
        device_array=lambda shape, dtype: np.zeros(shape, dtype).view(DeviceArray),
        stream=lambda: Stream(log),
    )
    return SimpleNamespace(cuda=cuda)
