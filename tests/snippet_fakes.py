"""Stand-ins for CuPy, cuda-bindings, PyTorch and Numba, and what runs the code to copy on one GPU or several.

Each GPU has its own memory, streams work only when waited for, and every call asserts that the GPU it is for
is the current one: a missing event, wait or copy gives wrong results.
"""

from __future__ import annotations

import ctypes
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import numpy as np

MAPPED, WRITE_COMBINED = 2, 4
ALIAS = 1 << 40
"""How far a device's address of mapped memory lies from the host's, once more for each GPU."""


KERNELS: dict[str, Callable[..., Any]] = {
    "add": lambda xp, a, b, c: xp.add(a, b, out=c),
    "first": lambda xp, a, b, c: xp.add(*(x[: len(x) // 2] for x in (a, b)), out=c[: len(c) // 2]),
    "second": lambda xp, a, b, c: xp.add(*(x[len(x) // 2 :] for x in (a, b)), out=c[len(c) // 2 :]),
    "scale": lambda xp, image, features: xp.multiply(image, image, out=features),
    "root": lambda xp, features, result: xp.sqrt(features, out=result),
    "join": lambda xp, c, total: xp.multiply(c, c, out=total),
}
"""The device stages of the workloads, by name; `xp` is a library."""
Launch = Callable[[Callable[..., object], dict[str, Any], dict[str, Any]], object]
"""Gets a kernel, its arrays, and the names of the code that launches it."""


def computed(text: str, launch: Launch, frames: int = 4) -> list[Any]:
    """What the consumer sees in each frame, with the stages of the workload in place of their comments."""
    results: list[Any] = []
    calls = Counter[str]()

    def stage(name: str, arrays: dict[str, Any]) -> None:
        calls[name] += 1
        if name in KERNELS:
            launch(KERNELS[name], arrays, names)
            return
        host = [array.numpy() if hasattr(array, "numpy") else array for array in arrays.values()]
        for i, array in enumerate(host if name == "produce" else ()):
            array.fill(calls[name] - 1 + i)
        results.extend(map(np.array, host if name == "consume" else ()))

    def call(comment: re.Match[str]) -> str:
        used = dict.fromkeys(re.findall(r"[\w.]+", re.sub(r"\b(reads|writes)\b", "", comment["arrays"])))
        given = {name.rpartition(".")[2].partition("_device")[0]: name for name in used}
        return f"stage({comment['name']!r}, dict({', '.join(f'{k}={v}' for k, v in given.items())}))"

    text = re.sub(r"# your (?P<name>\w+), on [\w ]+: (?P<arrays>.*)", call, text)
    assert "# your" not in text
    names: dict[str, Any] = {"stage": stage}
    exec(compile(text, "snippet", "exec"), names)
    if "frames" in names:
        names["frames"](frames)
    else:
        for _ in range(frames):
            names["frame"]()
    return results


class Memory:
    """A block of memory with CuPy's attributes; `live` are those not yet freed, by their address."""

    live: ClassVar[WeakValueDictionary[int, Memory]] = WeakValueDictionary()

    def __init__(self, size: int, flags: int = 0) -> None:
        self.size, self.flags = size, flags
        self._block = (ctypes.c_byte * size)()
        self.ptr = ctypes.addressof(self._block)
        Memory.live[self.ptr] = self


class Array(np.ndarray):
    """Memory of a GPU, or with `gpu` None of the host; in the words of all three libraries."""

    gpu: int | None = None
    gpus: Gpus
    pinned = False

    def __array_finalize__(self, other: Any) -> None:
        self.gpu, self.gpus = getattr(other, "gpu", None), getattr(other, "gpus", None)
        self.pinned = getattr(other, "pinned", False)

    @property
    def data(self) -> Any:  # type: ignore[override]
        return SimpleNamespace(array=self, copy_from_device_async=self._from_peer)

    def set(self, source: Any, stream: Stream) -> None:
        self._copy(self, source, stream)

    copy_to_device = set

    def get(self, stream: Stream, out: Any, blocking: bool = True) -> None:
        self._copy(out, self, stream)
        if blocking:
            stream.run()

    def copy_to_host(self, target: Any, stream: Stream) -> None:
        self._copy(target, self, stream)
        if not getattr(target, "pinned", False):
            stream.run()  # CUDA returns when pageable memory has it

    def copy_(self, source: Array, non_blocking: bool = False) -> None:
        hosts = [array for array in (self, source) if array.gpu is None]
        assert all(host.pinned == non_blocking for host in hosts), "it would block, or is not awaited"
        stream = self.gpus.streams[-1]
        self._copy(self, source, stream)
        if not non_blocking:
            stream.run()

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
        self.gpus, self.gpu, self.synchronize = gpus, gpus.now, lambda: None

    def record(self, stream: Stream) -> Event:
        assert stream.gpu == self.gpu == self.gpus.now, "an event of another GPU"
        count = stream.count
        self.synchronize = lambda: stream.run(count)
        return self

    def wait(self, stream: Stream) -> None:
        stream.later(self.synchronize)


class Stream:
    """Work that is done when it is waited for, and no sooner. `ptr` is 0 for the null stream."""

    def __init__(self, gpus: Gpus, ptr: int = 77) -> None:
        self.gpus, self.gpu, self.ptr = gpus, gpus.now, ptr
        self.work: list[Callable[[], object]] = []
        self.count = self.done = 0

    def later(self, call: Callable[[], object]) -> None:
        self.work.append(call)
        self.count += 1

    def run(self, upto: int | None = None) -> None:
        while self.done < (self.count if upto is None else upto):
            self.done += 1
            self.work[self.done - 1]()

    synchronize = run

    def use(self) -> None:
        self.gpus.streams[-1] = self

    def record(self) -> Event:
        return Event(self.gpus).record(self)

    record_event = record

    def wait_event(self, event: Event) -> None:
        event.wait(self)

    def __enter__(self) -> Stream:
        assert self.gpu == self.gpus.now
        self.gpus.streams.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.gpus.streams.pop()


class Device:
    """Makes that GPU the current one; it can be entered again and again."""

    def __init__(self, gpus: Gpus, number: int | None = None) -> None:
        self.gpus, self.id, self.before = gpus, gpus.now if number is None else number, []

    def __enter__(self) -> None:
        self.before.append(self.gpus.now)
        self.gpus.now = self.id

    def __exit__(self, *_: object) -> None:
        self.gpus.now = self.before.pop()


class Gpus:
    """Which GPU is current, and the streams in use, innermost last."""

    def __init__(self) -> None:
        self.now = 0
        self.streams = [Stream(self, ptr=0)]

    def device(self, number: int | None = None) -> Device:
        return Device(self, number)

    @contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        with self.device(stream.gpu), stream:
            yield

    def placed(self, array: Any, gpu: int | None, *, pinned: bool = False) -> Array:
        made = array.view(Array)
        made.gpu, made.gpus, made.pinned = gpu, self, pinned
        return made


def launching(gpus: Gpus, library: str = "") -> Launch:
    """Kernels on the stream in use; those of Numba on the one that they are given."""

    def launch(kernel: Callable[..., object], arrays: dict[str, Any], names: dict[str, Any]) -> None:
        assert all(getattr(a, "gpu", gpus.now) == gpus.now for a in arrays.values()), "arrays of another GPU"
        stream = names[f"stream{gpus.now or ''}"] if library == "Numba" else gpus.streams[-1]
        stream.later(lambda: kernel(np, **arrays))

    return launch


def fake_cupy(gpus: Gpus) -> Any:
    """The part of CuPy that the code uses."""
    registered: dict[int, int] = {}

    def seen(memory: Any) -> Any:
        view = (ctypes.c_byte * memory.size).from_address(memory.ptr)
        view.owner = memory
        return view

    def ndarray(shape: Any, dtype: Any, memptr: Any) -> Array:
        array = np.frombuffer(seen(memptr), dtype).reshape(shape)
        return gpus.placed(array, getattr(memptr, "gpu", gpus.now))

    def unowned(pointer: int, size: int, owner: Any, device_id: int = -1) -> Any:
        host = owner.ptr if isinstance(owner, Memory) else owner.ctypes.data
        gpu = gpus.now if device_id < 0 else device_id
        if host in registered or host in Memory.live:
            assert pointer == host + ALIAS * (gpu + 1), "a kernel needs the device's address"
        else:
            assert pointer == host
            assert device_id >= 0, "CuPy cannot ask CUDA about memory that CUDA has not seen"
        return SimpleNamespace(ptr=host, size=size, owner=owner, gpu=gpu)

    def register(pointer: int, size: int, flags: int) -> None:
        assert pointer % 4096 == 0, "it would share a page with other memory"
        registered[pointer] = flags

    def attributes(pointer: int) -> Any:
        flags = registered[pointer] if pointer in registered else Memory.live[pointer].flags
        assert flags & MAPPED, "not mapped"
        return SimpleNamespace(devicePointer=pointer + ALIAS * (gpus.now + 1))

    def new_stream(non_blocking: bool) -> Stream:
        assert non_blocking, "it would wait for the null stream"
        return Stream(gpus)

    def asnumpy(array: Array, out: Any) -> None:
        gpus.streams[-1].run()
        out[...] = array

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
        PinnedMemoryPointer=lambda memory, _: seen(memory),
        UnownedMemory=unowned,
        MemoryPointer=lambda memory, _: memory,
        malloc_managed=lambda size: Memory(size, MAPPED),
        get_current_stream=lambda: gpus.streams[-1],
        Stream=new_stream,
        Device=gpus.device,
    )
    arrays = {
        "empty": lambda shape, dtype: gpus.placed(np.zeros(shape, dtype), gpus.now),
        "asarray": lambda array: gpus.placed(array.copy(), gpus.now),
        "asnumpy": asnumpy,
    }
    return SimpleNamespace(cuda=cuda, ndarray=ndarray, gpus=gpus, registered=registered, **arrays)


def fake_torch(gpus: Gpus) -> Any:
    """A copy between GPUs begins when both streams are there, whichever stream it is on."""

    def empty(shape: Any, dtype: Any, pin_memory: bool = False, device: str = "cpu") -> Array:
        gpu = gpus.now if device == "cuda" else None
        return gpus.placed(np.zeros(shape, dtype), gpu, pinned=pin_memory)

    def as_tensor(array: Array, device: str) -> Array:
        assert (type(array), array.gpu, device) == (Array, gpus.now, "cuda")
        return array

    cuda = SimpleNamespace(
        current_stream=lambda: gpus.streams[-1],
        Stream=lambda: Stream(gpus),
        device=gpus.device,
        stream=gpus.stream,
    )
    return SimpleNamespace(float32=np.float32, empty=empty, as_tensor=as_tensor, cuda=cuda)


def fake_numba(gpus: Gpus) -> Any:
    """Its GPUs are contexts."""

    def array(shape: Any, dtype: np.dtype[Any], **options: Any) -> Any:
        assert isinstance(dtype, np.dtype)
        return np.zeros(shape, dtype)

    cuda = SimpleNamespace(
        pinned_array=lambda shape, dtype: gpus.placed(array(shape, dtype), None, pinned=True),
        mapped_array=array,
        managed_array=array,
        device_array=lambda shape, dtype: gpus.placed(array(shape, dtype), gpus.now),
        stream=lambda: Stream(gpus),
        event=lambda timing: Event(gpus),
        gpus={number: gpus.device(number) for number in range(4)},
    )
    return SimpleNamespace(cuda=cuda)
