"""Stand-ins for what tests must not depend on: a GPU, the clock, NVTX. CuPy's is in fake_cupy."""

from __future__ import annotations

import ctypes
import mmap
import time
import types
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from builders import cuda_device

from advisor.measure import worker
from advisor.measure.final_worker import Final
from advisor.measure.frames import Ranges
from advisor.measure.jobs import FinalJob, Job
from advisor.measure.placed_workload import PlacedWorkload, place
from advisor.profiles.schema import Device, MemoryKind, Side, WorkloadRecord
from advisor.strategies.backend import Backend, Hint, HostFlag, PageLocks, host_array
from advisor.strategies.parts import Span
from advisor.workloads.binding import bind
from advisor.workloads.definition import Workload
from advisor.workloads.loading import Loaded, prepare

ON_DEVICE = 1 << 52
"""Set in addresses that only the device knows; no process has memory there."""
PAGE = mmap.PAGESIZE

CAPABLE: dict[str, Any] = {
    "can_map_host_memory": 1,
    "managed_memory": 1,
    "concurrent_managed_access": 1,
    "host_register_supported": 1,
    "pageable_memory_access": 1,
}


class FakeClock:
    """Stands still until told to move; each look moves it by `step` seconds."""

    def __init__(self, step: float = 0.0) -> None:
        self.now = 0.0
        self.step = step

    def __call__(self) -> float:
        self.now += self.step
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class FakeCudaError(RuntimeError): ...


class DeviceArray:
    """As much of a cupy.ndarray as the program and the tests use. Its changes are kernels on the stream."""

    def __init__(self, backend: RecordingBackend, pointer: int, memory: Any) -> None:
        self._backend = backend
        self.memory = memory
        self.data = types.SimpleNamespace(ptr=pointer)
        self.shape = memory.shape
        self.dtype = memory.dtype

    def fill(self, value: Any) -> None:
        self._backend.submit("kernel", lambda: self.memory.fill(value))

    def __getitem__(self, key: Any) -> DeviceArray:
        part = self.memory[key]
        return DeviceArray(self._backend, int(part.ctypes.data) | ON_DEVICE, part)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._backend.submit("kernel", lambda: self.memory.__setitem__(key, _plain(value)))


def _plain(value: Any) -> Any:
    return value.memory if isinstance(value, DeviceArray) else value


class FakeXp:
    """An array module whose functions are kernels: they run on the backend's stream and return nothing."""

    def __init__(self, backend: RecordingBackend) -> None:
        self._backend = backend

    def launch(self, kernel: Callable[..., object], *arrays: DeviceArray) -> None:
        """A raw kernel: the function on the arrays' memory."""
        self._backend.submit("kernel", lambda: kernel(*map(_plain, arrays)))

    def __getattr__(self, name: str) -> Any:
        function = getattr(np, name)

        def launch(*arguments: Any, **keywords: Any) -> None:
            arrays = [a for a in (*arguments, *keywords.values()) if isinstance(a, DeviceArray)]
            assert all(a._backend is self._backend for a in arrays), "an array of another GPU"
            plain = [_plain(a) for a in arguments]
            named = {key: _plain(value) for key, value in keywords.items()}
            self._backend.submit("kernel", lambda: function(*plain, **named))

        return launch


@dataclass(eq=False)
class Mark:
    """A CUDA event: where a stream stood, and when by its own clock, once the stream got there."""

    stream: FakeStream
    reached: bool = False
    seconds: float | None = None
    used_again: bool = False


@dataclass(frozen=True)
class Work:
    """What a stream has to do, and the mark of another stream that must be reached before."""

    run: Callable[[], object]
    seconds: float = 0.0
    after: Mark | None = None


@dataclass(eq=False)
class FakeStream:
    """Work in order. An eager stream does it as soon as it may, a lazy one when somebody waits for it."""

    name: str
    ptr: int
    gpu: RecordingBackend
    lazy: bool
    seconds: float = 0.0
    queue: deque[Work] = field(default_factory=deque)

    def synchronize(self) -> None:
        self.gpu._call("synchronize", *([self.gpu.number] if self.gpu.number else []))
        self.force()
        self.gpu._progress()

    def step(self) -> bool:
        """Does the next thing unless it has to wait for another stream."""
        if not self.queue or not (self.queue[0].after is None or self.queue[0].after.reached):
            return False
        work = self.queue.popleft()
        self.seconds += work.seconds
        work.run()
        return True

    def force(self, until: Mark | None = None) -> None:
        """Does everything, or everything up to the mark, and what that depends on."""
        while self.queue and not (until and until.reached):
            after = self.queue[0].after
            if after is not None and not after.reached:
                after.stream.force(after)
            self.step()


Haste = Literal["eager", "lazy", "lazy kernels", "lazy copies"]
"""Which streams dawdle: none, all, the one of the kernels, or the others. CUDA allows all of it."""
EVERY_HASTE: tuple[Haste, ...] = ("eager", "lazy", "lazy kernels", "lazy copies")


class RecordingBackend:
    """A GPU in ordinary memory. Every call is in `calls`, as its name and its arguments.

    fail_at: the n-th call (from 1) raises, and with broken_after every call after it. haste: whether copies
    and kernels happen only when the host waits for them, the latest moment CUDA allows, or at once.
    Memory is never really given back, so that a use after free is found here and does not end the process.
    """

    def __init__(
        self,
        *,
        device: Device | None = None,
        haste: Haste = "eager",
        fail_at: int | None = None,
        broken_after: bool = False,
        copy_seconds: float = 0.0,
        kernel_seconds: float = 0.0,
        gpus: int = 1,
        beside: RecordingBackend | None = None,
    ) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.owners: dict[int, int] = {}
        """The GPU of each piece of device memory."""
        self.live: dict[int, tuple[str, int]] = {}
        self.requested: Counter[str] = Counter()
        self.left: str | None = None
        self.pool: int | None = None
        self.locks = PageLocks()
        self.free_bytes: int | None = 1 << 30
        self.discards = False
        self.marks: Counter[str] = Counter()
        self._haste: Haste = haste
        self._fail_at = fail_at
        self._broken_after = broken_after
        self._device = device or cuda_device(**CAPABLE)
        self._cost = {"copy": copy_seconds, "kernel": kernel_seconds}
        self._memory: list[Any] = []
        self._freed: set[int] = set()
        self._streams: list[FakeStream] = []
        self._count, self.reached = gpus, set[int]()
        self.number, self.gpus = 0, (self,)
        self.first, self.active = self, 0
        if beside is not None:  # one machine: memory, calls and streams are known to all of its GPUs
            self.first = beside
            self.number = len(beside.gpus)
            self.calls, self.live, self._memory = beside.calls, beside.live, beside._memory
            self._freed, self._streams, self.requested = beside._freed, beside._streams, beside.requested
        self.xp: Any = FakeXp(self)
        name = f"main{self.number}" if self.number else "main"
        self.stream: Any = self._stream(name, lazy=self._haste in ("lazy", "lazy kernels"))
        self._default: FakeStream | None = None

    # What tests ask

    @property
    def names(self) -> list[str]:
        return [call[0] for call in self.calls]

    @property
    def idle(self) -> bool:
        return not any(stream.queue for stream in self._streams)

    # The backend

    def device(self) -> Device:
        return self._device

    def open_gpus(self, count: int, chosen: Sequence[int] = ()) -> None:
        assert count <= self._count, "there are no more"
        while len(self.gpus) < count:
            costs = {f"{what}_seconds": seconds for what, seconds in self._cost.items()}
            everyone = (
                *self.gpus,
                RecordingBackend(device=self._device, haste=self._haste, beside=self, **costs),
            )
            for gpu in everyone:
                gpu.gpus = everyone

    @contextmanager
    def current(self) -> Iterator[None]:
        before, self.first.active = self.first.active, self.number
        yield
        self.first.active = before

    def enter(self) -> None:
        self.first.active = self.number

    def leave(self) -> None:
        self.first.active = 0

    def reach_peers(self, gpus: Sequence[int]) -> None:
        self.reached |= set(gpus) - {self.number}

    def copy_from_peer(self, span: Span, source_gpu: int, target: int, source: int) -> None:
        self._call("copy_from_peer", self.number, source_gpu, span.width * span.height)
        for pointer, owner in ((target, self.number), (source, source_gpu)):
            kind, size = self.live[pointer & ~ON_DEVICE]
            assert (kind, self.owner(pointer)) == ("device", owner), "memory of another GPU"
            assert span.end <= size
        self._move(span, target, source, self.stream)

    def owner(self, pointer: int) -> int:
        """The GPU that device memory was taken on."""
        return self.first.owners[pointer & ~ON_DEVICE]

    def environment(self) -> dict[str, str | int | float]:
        return {"cuda_runtime": "13.0"}

    def kind_of(self, asked: MemoryKind) -> MemoryKind:
        return asked

    def malloc(self, nbytes: int) -> int:
        self._call("malloc", nbytes)
        pointer = self._allocate("device", nbytes)
        self.first.owners[pointer] = self.number
        return pointer | ON_DEVICE

    def free(self, pointer: int) -> None:
        self._release("free", pointer, {"device", "managed"})

    def host_alloc(self, nbytes: int, *flags: HostFlag) -> int:
        self._call("host_alloc", nbytes, "+".join(flags))
        return self._allocate("mapped" if "mapped" in flags else "pinned", nbytes)

    def free_host(self, pointer: int) -> None:
        self._release("free_host", pointer, {"pinned", "mapped"})

    def host_register(self, pointer: int, nbytes: int, *, mapped: bool = False) -> None:
        self._call("host_register", pointer, nbytes, "mapped" if mapped else "")
        pages = range(pointer // PAGE, (pointer + nbytes - 1) // PAGE + 1)
        for other, (kind, size) in self.live.items():
            if kind.startswith("registered"):
                assert (other + size - 1) // PAGE < pages[0] or other // PAGE > pages[-1], "a page in two"
        self.live[pointer] = ("registered-mapped" if mapped else "registered", nbytes)

    def host_unregister(self, pointer: int) -> None:
        kind, _ = self.live.pop(pointer)
        assert kind.startswith("registered"), f"unregistering {kind} memory"
        self._call("host_unregister", pointer)

    def pool_array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> DeviceArray:
        self._call("pool_array", shape)
        return self._pooled(np.full(shape, 0xEE, np.uint8).astype(dtype))

    def upload(self, array: Any) -> DeviceArray:
        """The source is staged at once, the copy happens on the stream."""
        self._call("upload", array.ctypes.data)
        made, staged = self._pooled(np.zeros_like(array)), array.copy()
        self.submit("copy", lambda: np.copyto(made.memory, staged))
        return made

    def download(self, array: DeviceArray) -> Any:
        self._call("download", array.data.ptr)
        made = np.zeros_like(array.memory)
        self.submit("copy", lambda: np.copyto(made, array.memory))
        self.stream.force()
        self._progress()
        return made

    def _pooled(self, memory: Any) -> DeviceArray:
        self._memory.append(memory)
        return DeviceArray(self, int(memory.ctypes.data) | ON_DEVICE, memory)

    def malloc_managed(self, nbytes: int) -> int:
        self._call("malloc_managed", nbytes)
        return self._allocate("managed", nbytes)

    def prefetch(self, pointer: int, nbytes: int, side: Side) -> None:
        assert self._device.attributes.get("concurrent_managed_access"), "cudaErrorInvalidDevice"
        self._call("prefetch", pointer, nbytes, side)
        self._require_managed(pointer, nbytes)
        self.submit("migration", lambda: None)

    def discard(self, pointer: int, nbytes: int, side: Side) -> None:
        assert self.discards
        self._call("discard", pointer, nbytes, side)
        assert self.live[pointer] == ("managed", nbytes)
        self.submit("migration", lambda: ctypes.memset(pointer, 0xEE, nbytes))

    def attach(self, pointer: int, side: Side) -> None:
        assert not self._device.attributes.get("concurrent_managed_access"), "no need to attach"
        self._call("attach", pointer, side)
        assert self.live[pointer][0] == "managed"
        self.submit("migration", lambda: None)

    def advise(self, pointer: int, nbytes: int, hint: Hint) -> None:
        self._call("advise", *([self.number] if self.number else []), pointer, nbytes, hint)
        self._require_managed(pointer, nbytes)

    def _require_managed(self, pointer: int, nbytes: int) -> None:
        managed = [(at, at + size) for at, (kind, size) in self.live.items() if kind == "managed"]
        assert any(begin <= pointer <= end - nbytes for begin, end in managed)

    def host_device_pointer(self, pointer: int) -> int:
        self._call("host_device_pointer", pointer)
        assert self.live[pointer][0] in ("mapped", "registered-mapped"), "not mapped"
        return pointer | ON_DEVICE

    def copy_to_device(self, target: int, source: int, nbytes: int, stream: Any = None) -> None:
        self._require_device_memory(target, nbytes)
        self.copy_span(Span(0, nbytes, nbytes), "device", source, target, stream)

    def copy_to_host(self, target: int, source: int, nbytes: int, stream: Any = None) -> None:
        self._require_device_memory(source, nbytes)
        self.copy_span(Span(0, nbytes, nbytes), "host", target, source, stream)

    def copy_span(self, span: Span, to: Side, host: int, device: int, stream: Any = None) -> None:
        stream = stream or self.stream
        target, source = (device, host) if to == "device" else (host, device)
        self._call(f"copy_to_{to}", target, source, span.width * span.height, stream.name)
        _, size = self.live.get(device & ~ON_DEVICE, ("of the pool", span.end))
        self._require_device_memory(device, size)
        assert span.end <= size
        self._move(span, target, source, stream)

    def _move(self, span: Span, target: int, source: int, stream: FakeStream) -> None:
        to, back = target & ~ON_DEVICE, source & ~ON_DEVICE
        rows = range(span.offset, span.end, span.pitch)
        self.submit("copy", lambda: [ctypes.memmove(to + at, back + at, span.width) for at in rows], stream)

    def device_array(self, pointer: int, nbytes: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        self._call("device_array", pointer, nbytes, shape, dtype)
        self._require_device_memory(pointer, nbytes)
        memory = host_array(pointer & ~ON_DEVICE, nbytes, shape, dtype)
        return DeviceArray(self, pointer, memory)

    def synchronize(self) -> None:
        self.stream.synchronize()

    def default_stream(self) -> FakeStream:
        """A stream by itself, of which the main one takes no notice."""
        if self._default is None:
            self._default = self._stream("default", lazy=self._haste in ("lazy", "lazy copies"))
        return self._default

    def new_stream(self) -> FakeStream:
        self._call("new_stream")
        return self._stream(f"stream {len(self._streams)}", lazy=self._haste in ("lazy", "lazy copies"))

    def timestamp(self, stream: Any = None) -> Mark:
        return self.mark(stream, kind="timed")

    def mark(self, stream: Any = None, again: Mark | None = None, *, kind: str = "plain") -> Mark:
        self.marks[kind] += 1
        if again is not None:
            again.used_again = True
        mark = Mark(stream or self.stream)
        assert mark.stream.gpu is self, "an event is of another GPU than the stream"

        def reach() -> None:
            mark.reached, mark.seconds = True, mark.stream.seconds

        self.submit("mark", reach, mark.stream)
        return mark

    def hold(self, seconds: float) -> None:
        self._call("hold", seconds)

    def order(self, stream: FakeStream, mark: Mark) -> None:
        assert stream.gpu is self
        assert not mark.used_again, "it stands behind other work by now"
        self._call("order", stream.name, mark.stream.name)
        stream.queue.append(Work(lambda: None, after=mark))
        self._progress()

    def wait(self, mark: Mark) -> None:
        assert not mark.used_again, "it stands behind other work by now"
        self._call("wait", mark.stream.name)
        mark.stream.force(mark)
        self._progress()

    def seconds_between(self, start: Mark, end: Mark) -> float:
        assert start.seconds is not None, "the stream has not reached the start"
        assert end.seconds is not None, "the stream has not reached the end"
        return end.seconds - start.seconds

    def disturbed(self) -> str | None:
        return self.left

    def free_memory(self) -> int | None:
        return self.free_bytes

    def page_locks(self) -> AbstractContextManager[PageLocks | None]:
        self.locks = PageLocks()
        return nullcontext(self.locks)

    def pool_reserved(self) -> int | None:
        return self.pool

    def submit(self, what: str, work: Callable[[], object], stream: FakeStream | None = None) -> None:
        """Puts work on a stream, the main one unless another is named."""
        if what == "kernel":
            self._call("kernel", *([self.number] if self.number else []))
            assert self.first.active == self.number, "cudaErrorInvalidResourceHandle: another GPU is current"
        (stream or self.stream).queue.append(Work(work, self._cost.get(what, 0.0)))
        self._progress()

    def _stream(self, name: str, *, lazy: bool) -> FakeStream:
        self._streams.append(FakeStream(name, 7 + len(self._streams), self, lazy))
        return self._streams[-1]

    def _progress(self) -> None:
        """Eager streams go on as far as they may."""
        while any(stream.step() for stream in self._streams if not stream.lazy):
            pass

    def _call(self, name: str, *arguments: Any) -> None:
        self.calls.append((name, *arguments))
        number, failing = len(self.calls), self._fail_at
        if failing and (number == failing or (self._broken_after and number > failing)):
            raise FakeCudaError(f"{name} failed")

    def _allocate(self, kind: str, nbytes: int) -> int:
        memory = np.full(nbytes, 0xEE, np.uint8)
        self._memory.append(memory)
        pointer = int(memory.ctypes.data)
        self.live[pointer] = (kind, nbytes)
        self.requested[kind] += nbytes
        return pointer

    def _release(self, name: str, pointer: int, kinds: set[str]) -> None:
        key = pointer & ~ON_DEVICE
        assert key in self.live, f"{name}: freed twice, or never allocated"
        kind, _ = self.live.pop(key)
        self._freed.add(key)
        assert kind in kinds, f"{name} of {kind} memory"
        self._call(name, pointer)

    def _require_device_memory(self, pointer: int, nbytes: int) -> None:
        key = pointer & ~ON_DEVICE
        if key not in self.live:
            assert key not in self._freed, "used after it was freed"
            assert self._device.attributes.get("pageable_memory_access"), "the device cannot reach it"
            return
        kind, size = self.live[key]
        assert kind != "device" or self.owner(pointer) == self.number, "memory of another GPU"
        assert nbytes == size, "another size than was allocated"
        assert bool(pointer & ON_DEVICE) == (kind != "managed"), "a host address where the device's belongs"
        assert kind not in ("pinned", "registered"), "not mapped"


class FakeRanges(Ranges):
    """Records what was open at each push; `depth` must come back to 0."""

    def __init__(self, *, listening: bool = True) -> None:
        self._frame = listening or None
        self.stack: list[Any] = []
        self.seen: list[tuple[Any, ...]] = []

    @property
    def depth(self) -> int:
        return len(self.stack)

    def attributes(self, message: str, category: str | None = None) -> str:
        return message if category is None else f"{category} {message}"

    def push(self, attributes: Any) -> None:
        self.stack.append(attributes)
        self.seen.append(tuple(self.stack))

    def pop(self) -> None:
        self.stack.pop()

    def push_frame(self, index: int) -> None:
        self.push(f"frame {index}")


@dataclass(frozen=True, kw_only=True)
class Bench(PlacedWorkload):
    """A workload on its buffers, as a worker has it, with a fake in every place where one is needed."""

    backend: Any
    ranges: FakeRanges

    def start(self, frames: int = 1) -> None:
        """Set-up, and so many frames."""
        self.loop.run_setup()
        self.loop.first_frame()
        for index in range(1, frames):
            self.loop.frame(index)


def loaded_from(workload: Workload) -> Loaded:
    bound = bind(workload)
    record = WorkloadRecord(
        name="w",
        file="w.py",
        sha256="0" * 64,
        parameters={},
        buffers=bound.buffer_records(),
        stages=tuple(stage.record() for stage in bound.stages),
    )
    return Loaded(bound=bound, record=record)


@contextmanager
def bench(
    workload: Workload,
    strategy: str = "pageable",
    backend: Any = None,
    seed: int = 0,
    clock: Callable[[], float] = time.perf_counter,
    listening: bool = True,
    **options: Any,
) -> Iterator[Bench]:
    """Places the workload under the strategy; on a recording backend unless another is given.

    With `listening` a tool is attached, and each step has its range.
    """
    backend = backend or RecordingBackend()
    ranges, loaded = FakeRanges(listening=listening), loaded_from(workload)
    with place(job(strategy=strategy, seed=seed, **options), loaded, backend, ranges, clock=clock) as run:
        yield Bench(backend=backend, ranges=ranges, **vars(run))


def job(**changes: Any) -> Job:
    """A job of which nothing runs but what a test runs itself."""
    given: dict[str, Any] = {
        "task": "measure",
        "file": "w.py",
        "workload": None,
        "assignments": {},
        "backend": "cuda",
        "gpu": 0,
        "strategy": "pageable",
        "seconds": 0.01,
        "seed": 0,
        "directory": "",
        "reference": "",
    }
    return Job(**{**given, **changes})


def final_process(
    backend: Any, base: Job, contestants: Mapping[str, str], clock: Any = time.perf_counter, **fields: Any
) -> Final:
    """A process of the final, its blocks in this one; on the CPU's memory, taken for a GPU's."""
    power = {name: fields.pop(name) for name in ("meter", "sleep") if name in fields}
    given = {"process": 0, "frames": 5, "block_seconds": 0.05, "compare": 0, "directory": "", **fields}
    asked = FinalJob(base=base, contestants=contestants, **given)
    return Final(asked, backend, lambda of: prepare(Path(of.file), None, of.assignments), clock, **power)


def attempted(
    file: Path,
    strategy: str,
    directory: Path,
    *,
    backend: RecordingBackend | None = None,
    reference: Path | None = None,
    **changes: Any,
) -> Any:
    """What a worker leaves on a GPU's stand-in, which works as late as it may unless another is given."""
    places = {"directory": str(directory), "reference": str(reference or directory / "results")}
    stand_in = cast(Backend, backend or RecordingBackend(haste="lazy"))
    asked = job(**{"file": str(file), "strategy": strategy, **places, **changes})
    return worker.attempt(asked, lambda kind, gpu: stand_in)
