"""Stand-ins for what tests must not depend on: a GPU, CuPy, the clock, NVTX."""

from __future__ import annotations

import ctypes
import types
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from builders import cuda_device

from advisor.backends.base import host_array
from advisor.binding import bind
from advisor.frames import FrameLoop
from advisor.placements.arena import Arena
from advisor.placements.base import Layout, Placed
from advisor.profiles import Device, MemoryKind, WorkloadRecord
from advisor.ranges import Ranges
from advisor.schedule import Plan, plan
from advisor.strategies import by_name
from advisor.verify import Inspector
from advisor.workloads import Workload

ON_DEVICE = 1 << 52
"""Set in addresses that only the device knows; no process has memory there."""

CAPABLE = {
    "can_map_host_memory": 1,
    "managed_memory": 1,
    "concurrent_managed_access": 1,
    "host_register_supported": 1,
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


class FakeCudaError(RuntimeError):
    """What a call fails with."""


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

    def __setitem__(self, key: Any, value: Any) -> None:
        self._backend.submit("kernel", lambda: self.memory.__setitem__(key, _plain(value)))


def _plain(value: Any) -> Any:
    return value.memory if isinstance(value, DeviceArray) else value


class FakeXp:
    """An array module whose functions are kernels: they run on the backend's stream and return nothing."""

    def __init__(self, backend: RecordingBackend) -> None:
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        function = getattr(np, name)

        def launch(*arguments: Any, **keywords: Any) -> None:
            plain = [_plain(a) for a in arguments]
            named = {key: _plain(value) for key, value in keywords.items()}
            self._backend.submit("kernel", lambda: function(*plain, **named))

        return launch


class Mark:
    """A CUDA event: where the stream's own clock stood, known once the stream got there."""

    seconds: float | None = None


class RecordingBackend:
    """A GPU in ordinary memory. Every call is in `calls`, as its name and its arguments.

    fail_at: the n-th call (from 1) raises, and with broken_after every call after it. deferred: copies and
    kernels happen only in `synchronize`, the latest moment CUDA allows; else at once, the earliest. Memory
    is never really given back, so that a use after free is found here and does not end the process.
    """

    def __init__(
        self,
        *,
        device: Device | None = None,
        deferred: bool = False,
        fail_at: int | None = None,
        broken_after: bool = False,
        copy_seconds: float = 0.0,
        kernel_seconds: float = 0.0,
    ) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.live: dict[int, tuple[str, int]] = {}
        self.requested: Counter[str] = Counter()
        self.xp: Any = FakeXp(self)
        self.stream: Any = types.SimpleNamespace(ptr=7, synchronize=self.synchronize)
        self.pool: int | None = None
        self.free_bytes: int | None = 1 << 30
        self._fail_at = fail_at
        self._broken_after = broken_after
        self._device = device or cuda_device(**CAPABLE)
        self._deferred = deferred
        self._cost = {"copy": copy_seconds, "kernel": kernel_seconds}
        self._stream_seconds = 0.0
        self._queue: list[Callable[[], object]] = []
        self._memory: list[Any] = []

    # What tests ask

    @property
    def names(self) -> list[str]:
        return [call[0] for call in self.calls]

    @property
    def idle(self) -> bool:
        return not self._queue

    # The backend

    def device(self) -> Device:
        return self._device

    def environment(self) -> dict[str, str | int | float]:
        return {"cuda_runtime": "13.0"}

    def kind_of(self, asked: MemoryKind) -> MemoryKind:
        return asked

    def malloc(self, nbytes: int) -> int:
        self._call("malloc", nbytes)
        return self._allocate("device", nbytes) | ON_DEVICE

    def free(self, pointer: int) -> None:
        self._release("free", pointer, {"device", "managed"})

    def host_alloc(self, nbytes: int, *, mapped: bool = False) -> int:
        self._call("host_alloc", nbytes, mapped)
        return self._allocate("mapped" if mapped else "pinned", nbytes)

    def free_host(self, pointer: int) -> None:
        self._release("free_host", pointer, {"pinned", "mapped"})

    def malloc_managed(self, nbytes: int) -> int:
        self._call("malloc_managed", nbytes)
        return self._allocate("managed", nbytes)

    def host_device_pointer(self, pointer: int) -> int:
        self._call("host_device_pointer", pointer)
        assert self.live[pointer][0] == "mapped", "not mapped"
        return pointer | ON_DEVICE

    def copy_to_device(self, target: int, source: int, nbytes: int) -> None:
        self._call("copy_to_device", target, source, nbytes)
        self._require_device_memory(target, nbytes)
        real = target & ~ON_DEVICE
        self.submit("copy", lambda: ctypes.memmove(real, source, nbytes))

    def copy_to_host(self, target: int, source: int, nbytes: int) -> None:
        self._call("copy_to_host", target, source, nbytes)
        self._require_device_memory(source, nbytes)
        real = source & ~ON_DEVICE
        self.submit("copy", lambda: ctypes.memmove(target, real, nbytes))

    def device_array(self, pointer: int, nbytes: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        self._call("device_array", pointer, nbytes, shape, dtype)
        self._require_device_memory(pointer, nbytes)
        memory = host_array(pointer & ~ON_DEVICE, nbytes, shape, dtype)
        return DeviceArray(self, pointer, memory)

    def synchronize(self) -> None:
        self._call("synchronize")
        work, self._queue = self._queue, []
        for item in work:
            item()

    def timestamp(self) -> Mark:
        mark = Mark()
        self.submit("mark", lambda: setattr(mark, "seconds", self._stream_seconds))
        return mark

    def seconds_between(self, start: Mark, end: Mark) -> float:
        assert start.seconds is not None, "the stream has not reached the start"
        assert end.seconds is not None, "the stream has not reached the end"
        return end.seconds - start.seconds

    def free_memory(self) -> int | None:
        return self.free_bytes

    def pool_reserved(self) -> int | None:
        return self.pool

    def submit(self, what: str, work: Callable[[], object]) -> None:
        """Puts work on the stream."""

        def timed() -> None:
            self._stream_seconds += self._cost.get(what, 0.0)
            work()

        self._queue.append(timed)
        if not self._deferred:
            work_now, self._queue = self._queue, []
            for item in work_now:
                item()

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
        assert kind in kinds, f"{name} of {kind} memory"
        self._call(name, pointer)

    def _require_device_memory(self, pointer: int, nbytes: int) -> None:
        kind, size = self.live[pointer & ~ON_DEVICE]
        assert nbytes == size, "another size than was allocated"
        assert bool(pointer & ON_DEVICE) == (kind != "managed"), "a host address where the device's belongs"
        assert kind != "pinned", "not mapped"


class FakeRanges:
    """Records what was open at each push; `depth` must come back to 0."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.seen: list[tuple[Any, ...]] = []

    @property
    def depth(self) -> int:
        return len(self.stack)

    def attributes(self, message: str) -> str:
        return message

    def push(self, attributes: Any) -> None:
        self.stack.append(attributes)
        self.seen.append(tuple(self.stack))

    def pop(self) -> None:
        self.stack.pop()

    def push_frame(self, index: int) -> None:
        self.push(f"frame {index}")

    @contextmanager
    def strategy(self, name: str) -> Iterator[None]:
        self.push(f"strategy:{name}")
        try:
            yield
        finally:
            self.pop()


@dataclass(frozen=True)
class Bench:
    """A workload on its buffers, as a worker has it, with a fake in every place where one is needed."""

    backend: Any
    loop: FrameLoop
    inspector: Inspector
    placed: dict[str, Placed]
    plan: Plan
    ranges: FakeRanges


@contextmanager
def bench(
    workload: Workload, strategy: str = "pageable", backend: Any = None, seed: int = 0
) -> Iterator[Bench]:
    """Places the workload under the strategy; on a recording backend unless another is given."""
    backend = backend or RecordingBackend()
    bound, ranges = bind(workload), FakeRanges()
    record = WorkloadRecord(
        name="w",
        file="w.py",
        sha256="0" * 64,
        parameters={},
        buffers=bound.buffer_records(),
        stages=tuple(stage.record() for stage in bound.stages),
    )
    placements = by_name(strategy).placements(record)
    traits = {name: placement.traits(backend.device()) for name, placement in placements.items()}
    planned = plan([s.use for s in bound.setup], [s.use for s in bound.frame], traits)
    layouts = {name: Layout(b.dimensions, b.element) for name, b in workload.buffers.items()}
    with Arena(backend) as arena:
        placed = {name: placement.place(arena, layouts[name]) for name, placement in placements.items()}
        loop = FrameLoop(bound, planned, placed, backend, seed=seed, ranges=cast(Ranges, ranges))
        inspector = Inspector(bound, planned, placed, layouts, backend)
        yield Bench(backend, loop, inspector, placed, planned, ranges)


class CUDARuntimeError(RuntimeError):
    """As `cupy.cuda.runtime` has it."""


class FakeCupy(types.ModuleType):
    """A `cupy` with as much as `advisor.backends.cuda` uses; `calls` holds the runtime's calls."""

    def __init__(self, *, count: int = 1, attributes: dict[str, int] | None = None, cc: str = "89") -> None:
        super().__init__("cupy")
        self.calls: list[tuple[Any, ...]] = []
        self.capability = cc
        self.known = {"Integrated": 0, "L2CacheSize": 4096} if attributes is None else attributes
        self.broken: set[str] = set()
        self.cuda = types.SimpleNamespace(
            runtime=self._runtime(count),
            Device=self._make_device,
            Stream=self._make_stream,
            Event=self._make_event,
            UnownedMemory=self._record("UnownedMemory", ("memory",)),
            MemoryPointer=lambda memory, offset: ("at", memory, offset),
            get_elapsed_time=lambda start, end: 1.5,
        )

    def ndarray(self, shape: Any, dtype: Any, memptr: Any) -> Any:
        return ("array", shape, dtype, memptr)

    def get_default_memory_pool(self) -> Any:
        return types.SimpleNamespace(total_bytes=lambda: 12345)

    def _runtime(self, count: int) -> Any:
        pointers = types.SimpleNamespace(devicePointer=0xD00)
        properties = {"name": b"Fake RTX \xff", "totalGlobalMem": 8 << 30}
        results = {
            "getDeviceCount": count,
            "getDeviceProperties": properties,
            "driverGetVersion": 13020,
            "runtimeGetVersion": 12060,
            "malloc": 0xA00,
            "free": None,
            "hostAlloc": 0xB00,
            "freeHost": None,
            "mallocManaged": 0xC00,
            "pointerGetAttributes": pointers,
            "memcpyAsync": None,
            "memGetInfo": (111, 222),
        }
        calls = {name: self._record(name, result) for name, result in results.items()}
        numbers = {"memcpyHostToDevice": 1, "memcpyDeviceToHost": 2, "hostAllocDefault": 0}
        return types.SimpleNamespace(CUDARuntimeError=CUDARuntimeError, hostAllocMapped=2, **numbers, **calls)

    def _record(self, name: str, result: Any) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            self.calls.append((name, *arguments, *sorted(keywords.items())))
            if name in self.broken:
                raise CUDARuntimeError(f"cudaError in {name}")
            return result

        return call

    def _make_device(self, index: int) -> Any:
        return types.SimpleNamespace(
            attributes=self.known,
            compute_capability=self.capability,
            use=lambda: self.calls.append(("use device", index)),
        )

    def _make_stream(self, *, non_blocking: bool) -> Any:
        self.calls.append(("Stream", non_blocking))
        return types.SimpleNamespace(
            ptr=0x57,
            use=lambda: self.calls.append(("use stream",)),
            synchronize=lambda: self.calls.append(("synchronize",)),
        )

    def _make_event(self) -> Any:
        event = types.SimpleNamespace(recorded_on=None)
        event.record = lambda stream: setattr(event, "recorded_on", stream)
        return event
