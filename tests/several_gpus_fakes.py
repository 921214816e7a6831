"""Stand-ins for CuPy, PyTorch and Numba with several GPUs, whose streams work only when waited for.

Each GPU has its own memory, and every call asserts that the GPU it is for is the current one. A missing
event, wait or copy gives wrong results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np

MAPPED = 2
ALIAS = 1 << 40
"""How far a device's address of mapped memory lies from the host's, once more for each GPU."""


class Array(np.ndarray):
    """Memory of a GPU, or with `gpu` None of the host; in the words of all three libraries."""

    gpu: int | None = None
    gpus: Gpus

    def __array_finalize__(self, other: Any) -> None:
        self.gpu, self.gpus = getattr(other, "gpu", None), getattr(other, "gpus", None)

    @property
    def data(self) -> Any:  # type: ignore[override]
        return SimpleNamespace(array=self, copy_from_device_async=self._from_peer)

    def set(self, source: Any, stream: Stream) -> None:
        self._copy(self, source, stream)

    def get(self, stream: Stream, out: Any, blocking: bool = True) -> None:
        self._copy(out, self, stream)
        if blocking:
            stream.synchronize()

    def copy_to_device(self, source: Any, stream: Stream) -> None:
        self._copy(self, source, stream)

    def copy_to_host(self, target: Any, stream: Stream) -> None:
        self._copy(target, self, stream)

    def copy_(self, source: Array, non_blocking: bool = False) -> None:
        stream = self.gpus.streams[-1]
        self._copy(self, source, stream)
        if not non_blocking:
            stream.synchronize()

    def numpy(self) -> Array:
        assert self.gpu is None
        return self

    def _from_peer(self, source: Any, nbytes: int, stream: Stream) -> None:
        assert nbytes == self.nbytes == source.array.nbytes
        self._copy(self, source.array, stream)

    def _copy(self, target: Any, source: Any, stream: Stream) -> None:
        assert self.gpu in (None, self.gpus.now), "an array of another GPU"
        assert stream.gpu == self.gpus.now, "a stream of another GPU"
        stream.later(lambda: np.copyto(target, source))


class Event:
    """What is on a stream before it."""

    def __init__(self, gpus: Gpus) -> None:
        self.gpus, self.gpu, self.run = gpus, gpus.now, lambda: None

    def record(self, stream: Stream) -> Event:
        assert stream.gpu == self.gpu == self.gpus.now, "an event of another GPU"
        count = stream.count
        self.run = lambda: stream.run(count)
        return self

    def wait(self, stream: Stream) -> None:
        stream.wait_event(self)


class Stream:
    """Work that is done when it is waited for, and no sooner."""

    def __init__(self, gpus: Gpus) -> None:
        self.gpus, self.gpu, self.ptr = gpus, gpus.now, 77
        self.work: list[Callable[[], object]] = []
        self.count = self.done = 0

    def later(self, call: Callable[[], object]) -> None:
        self.work.append(call)
        self.count += 1

    def run(self, upto: int) -> None:
        while self.done < upto:
            self.done += 1
            self.work[self.done - 1]()

    def synchronize(self) -> None:
        self.run(self.count)

    def record(self) -> Event:
        return Event(self.gpus).record(self)

    record_event = record

    def wait_event(self, event: Event) -> None:
        self.later(event.run)

    def __enter__(self) -> Stream:
        assert self.gpu == self.gpus.now
        self.gpus.streams.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.gpus.streams.pop()


class Gpus:
    """Which GPU is current, and the streams in use, innermost last."""

    def __init__(self) -> None:
        self.now = 0
        self.streams = [Stream(self)]

    @contextmanager
    def device(self, number: int) -> Iterator[None]:
        before, self.now = self.now, number
        try:
            yield
        finally:
            self.now = before

    @contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        with self.device(stream.gpu), stream:
            yield

    def empty(self, shape: Any, dtype: Any, *, on: int | None) -> Array:
        made = np.zeros(shape, dtype).view(Array)
        made.gpu, made.gpus = on, self
        return made

    def asarray(self, array: Any) -> Array:
        made = self.empty(array.shape, array.dtype, on=self.now)
        made[...] = array
        return made


def fake_cupy(gpus: Gpus) -> Any:
    """Page-locked memory is the host's array itself, mapped memory known by its address."""
    mapped: dict[int, Any] = {}

    def pinned(size: int, flags: int = 0) -> Any:
        memory = np.zeros(size, np.uint8)
        if flags & MAPPED:
            mapped[memory.ctypes.data] = memory
        return SimpleNamespace(ptr=memory.ctypes.data, size=size, array=memory)

    def attributes(pointer: int) -> Any:
        assert pointer in mapped, "not mapped"
        return SimpleNamespace(devicePointer=pointer + ALIAS * (gpus.now + 1))

    def unowned(pointer: int, size: int, owner: Any, device_id: int = -1) -> Any:
        gpu = gpus.now if device_id < 0 else device_id
        return SimpleNamespace(array=mapped[pointer - ALIAS * (gpu + 1)], gpu=gpu)

    def ndarray(shape: Any, dtype: Any, memptr: Any) -> Array:
        made = memptr.array.view(dtype).reshape(shape).view(Array)
        made.gpu, made.gpus = getattr(memptr, "gpu", gpus.now), gpus
        return made

    def managed(size: int) -> Any:
        memory = pinned(size, MAPPED)
        return SimpleNamespace(**vars(memory), gpu=gpus.now)

    def asnumpy(array: Array, out: Any) -> None:
        array.get(gpus.streams[-1], out)

    cuda = SimpleNamespace(
        runtime=SimpleNamespace(
            hostAllocMapped=MAPPED, hostAllocWriteCombined=4, pointerGetAttributes=attributes
        ),
        PinnedMemory=pinned,
        PinnedMemoryPointer=lambda memory, _: memory.array,
        UnownedMemory=unowned,
        MemoryPointer=lambda memory, _: memory,
        malloc_managed=managed,
        get_current_stream=lambda: gpus.streams[-1],
        Stream=lambda non_blocking: Stream(gpus),
        Device=gpus.device,
    )
    return SimpleNamespace(
        cuda=cuda,
        ndarray=ndarray,
        empty=lambda shape, dtype: gpus.empty(shape, dtype, on=gpus.now),
        asarray=gpus.asarray,
        asnumpy=asnumpy,
    )


def fake_torch(gpus: Gpus) -> Any:
    """A copy between GPUs begins when both streams are there, whichever stream it is on."""

    def empty(shape: Any, dtype: Any, pin_memory: bool = False, device: str = "cpu") -> Array:
        return gpus.empty(shape, dtype, on=gpus.now if device == "cuda" else None)

    cuda = SimpleNamespace(
        current_stream=lambda: gpus.streams[-1],
        Stream=lambda: Stream(gpus),
        device=gpus.device,
        stream=gpus.stream,
    )
    return SimpleNamespace(float32=np.float32, empty=empty, cuda=cuda)


def fake_numba(gpus: Gpus) -> Any:
    """Its GPUs are contexts."""
    cuda = SimpleNamespace(
        pinned_array=lambda shape, dtype: gpus.empty(shape, dtype, on=None),
        device_array=lambda shape, dtype: gpus.empty(shape, dtype, on=gpus.now),
        stream=lambda: Stream(gpus),
        event=lambda timing: Event(gpus),
        gpus={number: _Context(gpus, number) for number in range(4)},
    )
    return SimpleNamespace(cuda=cuda)


class _Context:
    """Can be entered again and again."""

    def __init__(self, gpus: Gpus, number: int) -> None:
        self.gpus, self.number, self.open = gpus, number, []

    def __enter__(self) -> None:
        self.open.append(self.gpus.device(self.number))
        self.open[-1].__enter__()

    def __exit__(self, *_: object) -> None:
        self.open.pop().__exit__(None, None, None)
