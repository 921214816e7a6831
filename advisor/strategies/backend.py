"""The device as placements and the frame loop need it: raw memory, copies, a stream, timestamps.

One thin interface, so that unit tests can put a recording fake in the GPU's place. Pointers are integers;
whoever allocates frees (see `arena`). Copies and kernels are asynchronous on the
backend's one stream unless a backend says otherwise.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from advisor.profiles.schema import Device, MemoryKind, Side
from advisor.strategies.parts import Span

Array = npt.NDArray[Any]
BackendName = Literal["cpu", "cuda"]
Hint = Literal["read-mostly", "prefer-device", "accessed-by-device", "accessed-by-host"]
"""Hints for cudaMemAdvise."""
HostFlag = Literal["mapped", "write-combined", "portable"]
"""Flags of cudaHostAlloc."""


@dataclass
class PageLocks:
    """Calls that lock or unlock pages of host memory, and the seconds they took."""

    calls: int = 0
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        self.calls += 1
        self.seconds += seconds


INSTALL = "Install it for your CUDA: pip install 'gpu-memory-advisor[cuda13]' (or cuda12)."
"""The next step where a library of the GPU is missing."""


class Backend(Protocol):
    """A device and its memory calls; CUDA's own names for what they do, in snake case."""

    xp: Any
    """The array module device stages are given: cupy or numpy."""
    stream: Any
    """The stream device stages run on: a `cupy.cuda.Stream`, or a stand-in with `synchronize` and `ptr`."""

    def device(self) -> Device: ...

    @property
    def gpus(self) -> Sequence[Backend]:
        """The workload's GPUs: this one, and those that were opened beside it."""

    def open_gpus(self, count: int, chosen: Sequence[int] = ()) -> None:
        """Opens further GPUs until there are so many: those that are chosen (the first is this one), else
        the first that there are. Raises `NothingMeasured` where they are too few."""

    def current(self) -> AbstractContextManager[object]:
        """Kernels launched within it run here; outside, on the first of the GPUs."""

    def enter(self) -> None:
        """The first half of `current`, for code that must not lose time."""

    def leave(self) -> None: ...

    def reach_peers(self, gpus: Sequence[int]) -> None:
        """Lets this GPU reach the memory of those of the workload that it can reach."""

    def copy_from_peer(self, span: Span, source_gpu: int, target: int, source: int) -> None:
        """From the memory of that GPU of the workload to this one's, laid out alike, on this one's stream."""

    def environment(self) -> dict[str, str | int | float]:
        """Versions of driver and runtime; empty where there are none."""

    def kind_of(self, kind: MemoryKind) -> MemoryKind:
        """The kind that memory of a requested kind really has here: on the CPU everything is pageable."""

    def malloc(self, nbytes: int) -> int: ...
    def free(self, pointer: int) -> None: ...
    def host_alloc(self, nbytes: int, *flags: HostFlag) -> int: ...
    def free_host(self, pointer: int) -> None: ...

    def host_register(self, pointer: int, nbytes: int, *, mapped: bool = False) -> None:
        """Locks the pages of ordinary host memory, and maps them into the device's address space or not."""

    def host_unregister(self, pointer: int) -> None: ...

    def pool_array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any: ...

    def upload(self, array: Array) -> Any:
        """A new device array of the same contents, by the library's own call; the source is free at once."""

    def download(self, array: Any) -> Array:
        """A new host array of the same contents, by the library's own call; complete on return."""

    def malloc_managed(self, nbytes: int) -> int: ...

    def prefetch(self, pointer: int, nbytes: int, side: Side) -> None:
        """Migrates managed memory to a side, on the stream. Needs concurrent managed access."""

    @property
    def discards(self) -> bool:
        """Whether it can `discard`."""

    def discard(self, pointer: int, nbytes: int, side: Side) -> None:
        """Brings managed memory to a side without its contents, which nobody needs."""

    def attach(self, pointer: int, side: Side) -> None:
        """Gives managed memory to a side, on the stream: the hint where prefetching is unsupported."""

    def advise(self, pointer: int, nbytes: int, hint: Hint) -> None: ...
    def host_device_pointer(self, pointer: int) -> int: ...

    def copy_to_device(self, target: int, source: int, nbytes: int, stream: Any = None) -> None:
        """Host to device on the stream; the host memory is in use until the stream is synchronised."""

    def copy_to_host(self, target: int, source: int, nbytes: int, stream: Any = None) -> None:
        """Device to host on the stream; the host memory is valid once the stream is synchronised."""

    def copy_span(self, span: Span, to: Side, host: int, device: int, stream: Any = None) -> None:
        """The same of a part of two memories that are laid out alike, to that side."""

    def device_array(self, pointer: int, nbytes: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """An array of `xp` over device-visible memory that somebody else owns."""

    def synchronize(self) -> None: ...
    def default_stream(self) -> Any: ...
    def new_stream(self) -> Any: ...

    def timestamp(self, stream: Any = None) -> Any:
        """A mark in a stream's work, for `seconds_between`, `order` and `wait`."""

    def mark(self, stream: Any = None, again: Any = None) -> Any:
        """A mark without a time, for `order` and `wait` alone: it costs the stream less. `again` is one that
        nobody needs any more, which is used once more."""

    def hold(self, seconds: float) -> None:
        """Keeps the stream busy for about so long: what is launched meanwhile starts without a gap."""

    def order(self, stream: Any, mark: Any) -> None:
        """Work that the stream is given from now on starts after the mark."""

    def wait(self, mark: Any) -> None: ...

    def seconds_between(self, start: Any, end: Any) -> float:
        """Time the stream spent between two marks; both must have been reached."""

    def disturbed(self) -> str | None:
        """Names what a workload changed and did not change back (device, stream, allocator), if anything."""

    def page_locks(self) -> AbstractContextManager[PageLocks | None]:
        """Counts what the workload page-locks while it is open; gives None where nobody can tell."""

    def free_memory(self) -> int | None:
        """Bytes of device memory that are free; None where the device does not say."""

    def pool_reserved(self) -> int | None:
        """Bytes the array library's own pools hold for temporaries; None where there is no pool."""


def wait_for_all(backend: Backend) -> None:
    for gpu in backend.gpus:
        gpu.synchronize()


def ordinary_memory(nbytes: int) -> tuple[int, Array]:
    """Memory of NumPy's allocator, and what to hold on to. Raises MemoryError. It is on pages of its own,
    since a page can be registered only once. Each is touched here first, so that strategies do not differ in
    where their memory lies."""
    page = mmap.PAGESIZE
    memory = np.empty(-(-nbytes // page) * page + page - 1, np.uint8)
    first = -int(memory.ctypes.data) % page
    memory[first : first + nbytes : page] = 0
    return int(memory.ctypes.data) + first, memory


def host_array(pointer: int, nbytes: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """A NumPy array over memory that somebody else owns and frees."""
    memory = (ctypes.c_byte * nbytes).from_address(pointer)
    return np.frombuffer(memoryview(memory), dtype=dtype).reshape(shape)
