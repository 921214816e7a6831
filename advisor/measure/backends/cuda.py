"""CUDA through CuPy. Every CUDA call of the program is made here.

Memory comes straight from the runtime (cudaMalloc, cudaHostAlloc, cudaMallocManaged), not from CuPy's pools,
which round up and keep what they took; only staging memory is the pool's, as CuPy's own copies have it.
One non-blocking stream is current for the life of the backend.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from advisor.devices.gpus import by_number
from advisor.errors import NothingMeasured
from advisor.extras import dotted
from advisor.measure.backends.cuda_calls import Driver, ManagedCalls, watching
from advisor.profiles.schema import Device, MemoryKind, Side
from advisor.strategies.backend import INSTALL, Hint, HostFlag, PageLocks
from advisor.strategies.parts import Span

_HOLD = """
extern "C" __global__ void advisor_hold(long long cycles)
{
    long long begin = clock64();
    while (clock64() - begin < cycles) { }
}
"""
_REGISTER_PORTABLE, _REGISTER_MAPPED = 1, 2
"""cudaHostRegisterPortable and cudaHostRegisterMapped, which CuPy does not name."""


class CudaBackend:
    """See `advisor.strategies.backend.Backend`. Creates the context of one GPU."""

    def __init__(self, gpu: int, first: CudaBackend | None = None) -> None:
        """`first`: the workload's first GPU, which is current again afterwards; else this one is."""
        try:
            import cupy
        except ImportError as problem:
            raise NothingMeasured(f"CuPy cannot be imported: {problem}", next_step=INSTALL) from None
        self.xp = cupy
        self._runtime = cupy.cuda.runtime
        self.index = gpu
        self._first = gpu if first is None else first.index
        self.gpus: tuple[CudaBackend, ...] = (self,)
        self.upload: Callable[[Any], Any] = cupy.asarray
        """Through CuPy's pinned pool, then an asynchronous copy (cupy issues 6360, 8090)."""
        self.download: Callable[[Any], Any] = cupy.asnumpy
        """Into a new array, whose pages are first touched by the copy."""
        self._portable = self._require_gpu() > 1
        self._device = cupy.cuda.Device(gpu)
        self._reached: set[int] = set()
        self._device.use()
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.stream.__enter__()  # not use(): a workload's own `with stream:` must end on this one again
        self._allocator = cupy.cuda.get_allocator()
        self._loaded: ManagedCalls | None = None
        with contextlib.suppress(Exception):  # whoever needs them is told; their import is no one's set-up
            self._loaded = ManagedCalls(gpu)

    def _require_gpu(self) -> int:
        try:
            count = self._runtime.getDeviceCount()
        except self._runtime.CUDARuntimeError as problem:
            step = "Check the driver with nvidia-smi, or omit --gpu to predict without a GPU."
            raise NothingMeasured(f"CUDA found no usable GPU: {problem}", next_step=step) from None
        if not 0 <= self.index < count:
            step = f"Choose --gpu 0 to {count - 1}; CUDA_VISIBLE_DEVICES hides all others."
            raise NothingMeasured(f"there is no GPU {self.index}; CUDA sees {count}", next_step=step)
        return int(count)

    def open_gpus(self, count: int, chosen: Sequence[int] = ()) -> None:
        if len(self.gpus) >= count:
            return
        there = range(self._require_gpu())
        wanted = [*chosen] or [self.index, *(gpu for gpu in there if gpu != self.index)]
        if len(wanted) < count:
            have = f"--gpus names {len(chosen)}" if chosen else f"CUDA sees {len(there)}"
            step = "Give that many with --gpus, or run on a machine that has them."
            raise NothingMeasured(f"the workload runs on {count} GPUs; {have}", next_step=step)
        others = [CudaBackend(gpu, self) for gpu in wanted[len(self.gpus) : count]]
        self._runtime.setDevice(self.index)
        self.gpus = (*self.gpus, *others)
        self.__dict__.pop("_joined", None)
        for gpu in self.gpus:
            gpu.gpus = self.gpus
            gpu.upload, gpu.download = gpu._here(self.xp.asarray), gpu._here(self.xp.asnumpy)

    @contextmanager
    def current(self) -> Iterator[None]:
        before = self._runtime.getDevice()
        if before == self.index:
            yield
            return
        self._runtime.setDevice(self.index)
        try:
            yield
        finally:
            self._runtime.setDevice(before)

    def enter(self) -> None:
        self._runtime.setDevice(self.index)

    def leave(self) -> None:
        self._runtime.setDevice(self._first)

    def reach_peers(self, gpus: Sequence[int]) -> None:
        with self.current():
            for gpu in gpus:
                peer = self.gpus[gpu].index
                if peer in (self.index, *self._reached) or not self._can_reach(peer):
                    continue
                self._reached.add(peer)
                try:
                    self._runtime.deviceEnablePeerAccess(peer)
                except self._runtime.CUDARuntimeError as problem:
                    if "AlreadyEnabled" not in str(problem):  # the workload, or CuPy, has done it
                        raise

    def _can_reach(self, peer: int) -> bool:
        return bool(self._runtime.deviceCanAccessPeer(self.index, peer))

    def copy_from_peer(self, span: Span, source_gpu: int, target: int, source: int) -> None:
        """cudaMemcpyPeerAsync, row by row: a copy of rows between GPUs needs peer access, this does not."""
        peer, copy = self.gpus[source_gpu].index, self._runtime.memcpyPeerAsync
        for start in range(span.offset, span.end, span.pitch):
            copy(target + start, self.index, source + start, peer, span.width, self.stream.ptr)

    def device(self) -> Device:
        return self._described

    @cached_property
    def _described(self) -> Device:
        return Driver(self.index).device()

    def environment(self) -> dict[str, str | int | float]:
        """Versions of CUDA, and the GPU's place on the PCI bus."""
        runtime = dotted(self._runtime.runtimeGetVersion())
        return {**Driver(self.index).environment(), "cuda_runtime": runtime, **self._joined}

    @cached_property
    def _joined(self) -> dict[str, str | int | float]:
        """Several GPUs by number: which each is, which others it can reach, and how it is joined."""
        if len(self.gpus) == 1:
            return {}
        facts = by_number([str(gpu._device.pci_bus_id) for gpu in self.gpus])
        for number, gpu in enumerate(self.gpus):
            others = (n for n, other in enumerate(self.gpus) if n != number and gpu._can_reach(other.index))
            facts[f"gpu{number}_peers"] = " ".join(map(str, others))
        return facts

    def kind_of(self, kind: MemoryKind) -> MemoryKind:
        return kind

    def malloc(self, nbytes: int) -> int:
        with self.current():
            return int(self._runtime.malloc(nbytes))

    def free(self, pointer: int) -> None:
        self._runtime.free(pointer)

    def host_alloc(self, nbytes: int, *flags: HostFlag) -> int:
        value = self._runtime.hostAllocPortable if self._portable else self._runtime.hostAllocDefault
        for flag in flags:  # hostAllocMapped, hostAllocWriteCombined, hostAllocPortable
            value |= getattr(self._runtime, f"hostAlloc{flag.title().replace('-', '')}")
        return int(self._runtime.hostAlloc(nbytes, value))

    def free_host(self, pointer: int) -> None:
        self._runtime.freeHost(pointer)

    def host_register(self, pointer: int, nbytes: int, *, mapped: bool = False) -> None:
        flags = (_REGISTER_MAPPED if mapped else 0) | (_REGISTER_PORTABLE if self._portable else 0)
        self._runtime.hostRegister(pointer, nbytes, flags)

    def host_unregister(self, pointer: int) -> None:
        self._runtime.hostUnregister(pointer)

    def pool_array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        with self.current():
            return self.xp.empty(shape, dtype)

    def _here(self, call: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def called(array: Any) -> Any:
            with self.current():
                return call(array)

        return called

    def malloc_managed(self, nbytes: int) -> int:
        """cudaMallocManaged with cudaMemAttachGlobal, CuPy's default."""
        return int(self._runtime.mallocManaged(nbytes))

    def prefetch(self, pointer: int, nbytes: int, side: Side) -> None:
        """cudaMemPrefetchAsync, by cuda-bindings: CuPy cannot prefetch to the host."""
        self._managed.prefetch(pointer, nbytes, side, self.stream.ptr)

    @cached_property
    def discards(self) -> bool:
        """CUDA 13 can, in bindings and driver."""
        return self._managed.discards and self._runtime.driverGetVersion() >= 13000

    def discard(self, pointer: int, nbytes: int, side: Side) -> None:
        self._managed.discard(pointer, nbytes, side, self.stream.ptr)

    def attach(self, pointer: int, side: Side) -> None:
        self._managed.attach(pointer, side, self.stream.ptr)

    def advise(self, pointer: int, nbytes: int, hint: Hint) -> None:
        self._managed.advise(pointer, nbytes, hint)

    @property
    def _managed(self) -> ManagedCalls:
        return self._loaded or ManagedCalls(self.index)

    def host_device_pointer(self, pointer: int) -> int:
        """CuPy has no cudaHostGetDevicePointer; cudaPointerGetAttributes tells the same."""
        with self.current():
            return int(self._runtime.pointerGetAttributes(pointer).devicePointer)

    def copy_to_device(self, target: int, source: int, nbytes: int, stream: Any = None) -> None:
        kind = self._runtime.memcpyHostToDevice
        self._runtime.memcpyAsync(target, source, nbytes, kind, (stream or self.stream).ptr)

    def copy_to_host(self, target: int, source: int, nbytes: int, stream: Any = None) -> None:
        kind = self._runtime.memcpyDeviceToHost
        self._runtime.memcpyAsync(target, source, nbytes, kind, (stream or self.stream).ptr)

    def copy_span(self, span: Span, to: Side, host: int, device: int, stream: Any = None) -> None:
        target, source = (device, host) if to == "device" else (host, device)
        target, source = target + span.offset, source + span.offset
        if span.height == 1:
            copy = self.copy_to_device if to == "device" else self.copy_to_host
            copy(target, source, span.width, stream)
            return
        runtime = self._runtime
        kind = runtime.memcpyHostToDevice if to == "device" else runtime.memcpyDeviceToHost
        sizes = (span.width, span.height, kind, (stream or self.stream).ptr)
        runtime.memcpy2DAsync(target, span.pitch, source, span.pitch, *sizes)

    def device_array(self, pointer: int, nbytes: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        cuda = self.xp.cuda
        memory = cuda.UnownedMemory(pointer, nbytes, owner=self, device_id=self.index)
        return self.xp.ndarray(shape, dtype, memptr=cuda.MemoryPointer(memory, 0))

    def synchronize(self) -> None:
        self.stream.synchronize()

    def default_stream(self) -> Any:
        """The legacy default stream, of which a non-blocking one takes no notice."""
        return self.xp.cuda.Stream.null

    def new_stream(self) -> Any:
        with self.current():
            return self.xp.cuda.Stream(non_blocking=True)

    def timestamp(self, stream: Any = None) -> Any:
        with self.current():
            event = self.xp.cuda.Event()
        event.record(stream or self.stream)
        return event

    def mark(self, stream: Any = None, again: Any = None) -> Any:
        event = again
        if event is None:
            with self.current():
                event = self.xp.cuda.Event(disable_timing=True)
        event.record(stream or self.stream)
        return event

    def hold(self, seconds: float) -> None:
        """A kernel of one thread that counts clock cycles; none where kernels cannot be compiled."""
        with contextlib.suppress(Exception), self.current():  # where no kernel compiles, the workload says so
            highest_clock = float(self._device.attributes.get("ClockRate", 1_000_000)) * 1e3  # of kilohertz
            self._holding((1,), (1,), (np.int64(seconds * highest_clock),))

    @cached_property
    def _holding(self) -> Any:
        return self.xp.RawKernel(_HOLD, "advisor_hold")

    def order(self, stream: Any, mark: Any) -> None:
        stream.wait_event(mark)

    def wait(self, mark: Any) -> None:
        mark.synchronize()

    def disturbed(self) -> str | None:
        cuda = self.xp.cuda
        if self._runtime.getDevice() != self._first:
            return f"it left device {self._runtime.getDevice()} current instead of {self._first}"
        for gpu in self.gpus:
            with gpu.current():
                if cuda.get_current_stream().ptr != gpu.stream.ptr:
                    return "it left another stream current"
        if cuda.get_allocator() != self._allocator:
            return "it left another CuPy allocator in use"
        return None

    def page_locks(self) -> AbstractContextManager[PageLocks | None]:
        return watching(self.xp)

    def seconds_between(self, start: Any, end: Any) -> float:
        """cudaEventElapsedTime; its resolution is about half a microsecond."""
        return float(self.xp.cuda.get_elapsed_time(start, end)) * 1e-3

    def free_memory(self) -> int | None:
        """cudaMemGetInfo; on Tegra it ignores swap."""
        with contextlib.suppress(self._runtime.CUDARuntimeError), self.current():
            return int(self._runtime.memGetInfo()[0])
        return None

    def pool_reserved(self) -> int | None:
        with self.current():
            return int(self.xp.get_default_memory_pool().total_bytes())
