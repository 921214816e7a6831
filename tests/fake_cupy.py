"""As much of CuPy and of cuda-bindings as the program uses, without a GPU."""

from __future__ import annotations

import enum
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal


class CUDARuntimeError(RuntimeError):
    """As `cupy.cuda.runtime` has it."""


class FakeCupy(types.ModuleType):
    """A `cupy` with as much as `advisor.measure.backends.cuda` uses; `calls` holds the runtime's calls."""

    def __init__(self, *, count: int = 1) -> None:
        super().__init__("cupy")
        self.calls: list[tuple[Any, ...]] = []
        self.known = {"ClockRate": 1_980_000}
        self.broken: set[str] = set()
        self._streams = 0
        self.current_device = 0
        self.current_stream: Any = None
        self.entered_streams: list[Any] = [None]
        self.allocator: Any = object()
        self.get_default_memory_pool = lambda: types.SimpleNamespace(total_bytes=lambda: 12345)
        self.get_default_pinned_memory_pool = lambda: types.SimpleNamespace(n_free_blocks=lambda: 0)
        self.cuda = types.SimpleNamespace(
            runtime=self._runtime(count),
            Device=self._make_device,
            Stream=self._make_stream,
            Event=lambda disable_timing=False: FakeEvent(self.calls, timed=not disable_timing),
            UnownedMemory=self._record("UnownedMemory", ("memory",)),
            MemoryPointer=lambda memory, offset: ("at", memory, offset),
            get_elapsed_time=lambda start, end: 1.5,
            get_allocator=lambda: self.allocator,
            get_current_stream=lambda: self.current_stream,
            alloc_pinned_memory=self._record("alloc_pinned_memory", None),
            PinnedMemory=type("PinnedMemory", (), {}),
        )

    def asarray(self, array: Any) -> Any:
        self.calls.append(("asarray", self.current_device))
        return array

    def asnumpy(self, array: Any) -> Any:
        self.calls.append(("asnumpy", self.current_device))
        return array

    def ndarray(self, shape: Any, dtype: Any, memptr: Any) -> Any:
        return ("array", shape, dtype, memptr)

    def _runtime(self, count: int) -> Any:
        results: dict[str, Any] = dict.fromkeys(
            ("free", "freeHost", "hostRegister", "hostUnregister", "setDevice", "deviceEnablePeerAccess")
        )
        results |= dict.fromkeys(("memcpyAsync", "memcpy2DAsync", "memcpyPeerAsync"))
        results |= {"getDeviceCount": count, "driverGetVersion": 13020, "runtimeGetVersion": 12060}
        results |= {"malloc": 0xA00, "hostAlloc": 0xB00, "mallocManaged": 0xC00, "memGetInfo": (111, 222)}
        results |= {"pointerGetAttributes": types.SimpleNamespace(devicePointer=0xD00)}
        results |= {"deviceCanAccessPeer": 1}
        calls = {name: self._record(name, result) for name, result in results.items()}
        record = calls["setDevice"]

        def set_device(index: int) -> None:
            record(index)
            self.current_device = index

        calls["setDevice"] = set_device
        numbers = {"memcpyHostToDevice": 1, "memcpyDeviceToHost": 2, "hostAllocDefault": 0}
        numbers |= {"hostAllocPortable": 1, "hostAllocMapped": 2, "hostAllocWriteCombined": 4}
        return types.SimpleNamespace(
            CUDARuntimeError=CUDARuntimeError, getDevice=lambda: self.current_device, **numbers, **calls
        )

    def _record(self, name: str, result: Any) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            self.calls.append((name, *arguments, *sorted(keywords.items())))
            if name in self.broken:
                raise CUDARuntimeError(f"cudaError in {name}")
            return result

        return call

    def _make_device(self, index: int) -> Any:
        def use() -> None:
            self.calls.append(("use device", index))
            self.current_device = index

        return types.SimpleNamespace(attributes=self.known, pci_bus_id="0000:3B:00.0", use=use)

    def _make_stream(self, *, non_blocking: bool) -> Any:
        self.calls.append(("Stream", non_blocking))
        self._streams += 1
        return FakeStream(self, 0x56 + self._streams)

    def RawKernel(self, source: str, name: str) -> Callable[..., None]:  # noqa: N802
        return lambda grid, block, values: self.calls.append((name, grid, block, *map(int, values)))


@dataclass
class FakeEvent:
    calls: list[tuple[Any, ...]] = field(repr=False)
    timed: bool
    stream: int | None = None

    def record(self, stream: FakeStream) -> None:
        self.stream = stream.ptr

    def synchronize(self) -> None:
        self.calls.append(("event synchronize", self))


BINDINGS_ENUMS: dict[str, dict[str, int]] = {
    "cudaError_t": {"cudaSuccess": 0, "cudaErrorInvalidDevice": 101},
    "cudaMemLocationType": {"cudaMemLocationTypeDevice": 1, "cudaMemLocationTypeHost": 2},
    "cudaMemoryAdvise": {
        "cudaMemAdviseSetReadMostly": 1,
        "cudaMemAdviseSetPreferredLocation": 3,
        "cudaMemAdviseSetAccessedBy": 5,
    },
}


class FakeCudaBindings(types.ModuleType):
    """A `cuda.bindings.runtime` of CUDA 12.9 or 13 with as much as `backends.managed_calls` uses.

    In 12 the calls that take a location end in _v2, beside those that take a device's number; in 13 they
    lost the ending. `calls` holds what was called; `error` is what the calls give back.
    """

    def __init__(self, version: Literal[12, 13]) -> None:
        super().__init__("cuda.bindings.runtime")
        self.version = version
        self.calls: list[tuple[Any, ...]] = []
        self.cudaMemAttachHost, self.cudaMemAttachSingle = 2, 4
        self.cudaMemLocation = types.SimpleNamespace
        for name, members in BINDINGS_ENUMS.items():
            setattr(self, name, enum.IntEnum(name, members))
        self.error: Any = self.cudaError_t(0)
        for name, parameters in bindings_signatures(version).items():
            setattr(self, name, self._call(name, parameters))

    def _call(self, name: str, parameters: tuple[str, ...]) -> Callable[..., Any]:
        def call(*arguments: Any) -> tuple[Any, ...]:
            assert len(arguments) == len(parameters), f"{name} takes {parameters}"
            location = dict(zip(parameters, arguments, strict=True)).get("location")
            assert location is None or isinstance(location, types.SimpleNamespace), "a location is needed"
            self.calls.append((name, *(_place(argument) for argument in arguments)))
            return (self.error,)

        return call


def _place(argument: Any) -> Any:
    if isinstance(argument, list):
        return [_place(each) for each in argument]
    return (argument.type.name, argument.id) if isinstance(argument, types.SimpleNamespace) else argument


def bindings_signatures(version: Literal[12, 13]) -> dict[str, tuple[str, ...]]:
    """What the calls of cuda-bindings take, which differs from version to version."""
    prefetch, advise = ("devPtr", "count", "location", "flags", "stream"), ("devPtr", "count", "advice")
    ending = "_v2" if version == 12 else ""
    older = {
        "cudaMemPrefetchAsync": ("devPtr", "count", "dstDevice", "stream"),
        "cudaMemAdvise": (*advise, "device"),
    }
    return {
        **(older if version == 12 else {}),
        f"cudaMemPrefetchAsync{ending}": prefetch,
        f"cudaMemAdvise{ending}": (*advise, "location"),
        "cudaStreamAttachMemAsync": ("stream", "devPtr", "length", "flags"),
        **({} if version == 12 else {"cudaMemDiscardAndPrefetchBatchAsync": _DISCARD}),
    }


_DISCARD = (
    "dptrs", "sizes", "count", "prefetchLocs", "prefetchLocIdxs", "numPrefetchLocs", "flags", "stream",
)  # fmt: skip


class FakeStream:
    """As CuPy has it: a `with` block ends on the stream of the block around it, whatever `use` did."""

    def __init__(self, cupy: FakeCupy, ptr: int) -> None:
        self.cupy, self.ptr = cupy, ptr

    def __enter__(self) -> FakeStream:
        self.cupy.calls.append(("enter stream",))
        self.cupy.entered_streams.append(self)
        self.cupy.current_stream = self
        return self

    def __exit__(self, *_: object) -> None:
        self.cupy.entered_streams.pop()
        self.cupy.current_stream = self.cupy.entered_streams[-1]

    def use(self) -> None:
        self.cupy.current_stream = self

    def synchronize(self) -> None:
        self.cupy.calls.append(("synchronize",))

    def wait_event(self, event: object) -> None:
        self.cupy.calls.append(("wait_event", self.ptr, event))
