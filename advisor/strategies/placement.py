"""A placement: how one buffer is allocated and reached from both sides."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import psutil

from advisor import units
from advisor.profiles.schema import BufferRecord, Device, MemoryClass, MemoryKind, Side, WorkloadRecord
from advisor.strategies.arena import AllocationFailed, Arena
from advisor.strategies.backend import Array, Backend, Hint, HostFlag, host_array
from advisor.strategies.parts import Bounds, Span, spans
from advisor.strategies.schedule import Traits

Mover = Callable[[Any], Any]
"""Moves a buffer; takes the stream to do it on, or None for the backend's own. Returns the array that the
side has from now on where moving makes a new one (`Placed.remade`), else None."""
PartMover = Callable[[Side, Bounds, Any], None]
"""Moves a part of a buffer to a side, on that stream; the arrays stay."""


@dataclass
class Length:
    rows: int = 0
    times: int = 0
    total: int = 0

    def note(self, rows: int) -> None:
        self.rows = rows
        self.times += 1
        self.total += rows

    @property
    def bounds(self) -> Bounds:
        return ((0, self.rows),)

    @property
    def mean(self) -> float:
        return self.total / self.times if self.times else float(self.rows)


@dataclass
class Placed:
    """A buffer in memory. A side that cannot reach it has None; one that needs no copy has no mover. Its
    arrays are others after a move that makes new ones (`remade`); everything else stays. copy_in and copy_out
    are there where host stages use foreign memory: the host's copies to and from it."""

    host: Array | None
    device: Any
    to_device: Mover | None = None
    to_host: Mover | None = None
    by_host: bool = False
    """The CPU takes part in its copies."""
    remade: bool = False
    """Its movers make new arrays."""
    bring: Callable[[Side], None] | None = None
    """Brings it to a side whose stage overwrites it, without its contents, where that can be done."""
    copy_in: Callable[[Bounds], None] | None = None
    copy_out: Callable[[Bounds], None] | None = None
    move_part: PartMover | None = None
    device_pointer: int = 0
    """Where the device finds a memory of its own."""
    to_peer: Callable[[int, Bounds], None] | None = None
    """Brings it, or a part of it, from that GPU of the workload to this one."""
    others: dict[int, Placed] = field(default_factory=dict)
    """On other GPUs of the workload that use it; this is on the first of them, and has the host's side."""
    length: Length = field(default_factory=Length)

    def on(self, gpu: int) -> Placed:
        return self.others.get(gpu, self)

    @property
    def is_one_memory(self) -> bool:
        """Both sides use the very same bytes."""
        return self.host is not None and self.to_device is None and self.copy_in is None

    @property
    def host_pointer(self) -> int:
        assert self.host is not None
        return int(self.host.ctypes.data)


@dataclass(frozen=True)
class Layout:
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def spans(self, part: Bounds) -> tuple[Span, ...]:
        return spans(part, self.shape, self.dtype.itemsize)

    def at(self, backend: Backend, host: int | None, device: int | None) -> Placed:
        shaped = (self.nbytes, self.shape, self.dtype)
        return Placed(
            None if host is None else host_array(host, *shaped),
            None if device is None else backend.device_array(device, *shaped),
        )


Movement = Literal["copied", "prefetched", "migrated", "in-place"]
"""How a buffer's contents get from one side to the other: by a copy between two memories, by pages that are
moved on request, by pages that move when they are touched, or not at all."""
_ONE_MEMORY: tuple[MemoryClass, ...] = ("tegra", "tegra-io-coherent", "tegra-coherent")


@dataclass(frozen=True, kw_only=True)
class Placement:
    """One way to place a buffer, stated as facts; the memory belongs to the arena. How it is allocated and
    scheduled follows from the facts. Rules, the model and snippets ask for them too, buffer by buffer, never
    for a strategy's name."""

    host_kind: MemoryKind
    """The kind of memory that host stages work on."""
    device_kind: MemoryKind
    """The kind of memory that device stages work on."""
    takes_foreign_memory: bool = False
    """Works on memory the program did not choose, without a copy to its own."""
    host_flags: tuple[HostFlag, ...] = ()
    """Flags of page-locked memory."""
    registered: bool = False
    """Allocated as pageable memory and page-locked afterwards."""
    staged: bool = False
    """The CPU copies it into CuPy's pinned pool on its way to the device."""
    prefetched: bool = False
    """Pages are moved on request at each change of side, where the device can do that."""
    where_host_reads: Placement | None = None
    """The placement in its stead for a buffer that the host reads; None where it is the same."""
    between_gpus: bool = False
    """What one GPU of a workload holds and another needs crosses between them, by cudaMemcpyPeerAsync, with
    peer access where the GPUs have it."""
    hints: tuple[Hint, ...] = ()
    """Hints for the driver."""
    not_on_cpu: str = "the CPU device has only pageable memory: only `pageable` and `zero-copy` differ"
    """Why it cannot be used without a GPU; empty where it can."""

    @property
    def own(self) -> Placement:
        """The program's own memory, where this stands behind foreign memory."""
        return self

    @property
    def write_combined(self) -> bool:
        """The host's memory is write-combined: quick to write in order, very slow to read."""
        return "write-combined" in self.host_flags

    @property
    def locks(self) -> bool:
        return "pinned" in (self.own.host_kind, self.own.device_kind)

    @property
    def managed(self) -> bool:
        return self.own.device_kind == "managed"

    def movement(self, memory_class: MemoryClass | None) -> Movement:
        """How its contents get from side to side on devices of that class."""
        own = self.own
        if own.host_kind != own.device_kind:
            return "copied"
        if own.device_kind == "managed" and memory_class not in _ONE_MEMORY:
            return "prefetched" if own.prefetched else "migrated"
        return "migrated" if own.device_kind == "pageable" and memory_class == "discrete-hmm" else "in-place"

    def gpu_caches(self, memory_class: MemoryClass | None) -> bool:
        """Whether the GPU's caches serve what kernels read again; over a link they serve no host memory. CUDA
        for Tegra, "Memory Types" and, of Thor, 3.2 and 4.1: before Thor page-locked memory is not cached; on
        Thor registered and pageable memory is, managed and other page-locked memory is not."""
        own = self.own
        if own.device_kind == "device" or memory_class == "coherent":
            return True
        if memory_class in ("tegra", "tegra-io-coherent"):
            return own.device_kind != "pinned"
        if memory_class == "tegra-coherent":
            return own.device_kind == "pageable" or own.registered
        return self.movement(memory_class) != "in-place"

    def cpu_caches(self, memory_class: MemoryClass | None) -> bool:
        """Whether the CPU's caches hold what host stages touch. CUDA for Tegra, "Memory Types": not
        page-locked memory before compute capability 7.2."""
        return not (memory_class == "tegra" and self.host_kind == "pinned")

    def traits(self, device: Device) -> Traits:
        return Traits(
            moves="copies" if self._is_copied else "prefetches" if self.prefetched else "never",
            blocking=self._is_copied and not self.locks,
            kernels_reach_host_memory=not self._is_copied,
            exclusive=self.managed and flag_is_off(device, "concurrent_managed_access"),
            staged_uploads=self.staged,
            peer=self.between_gpus,
        )

    def adapted(self, buffer: BufferRecord, workload: WorkloadRecord) -> Placement:
        """The placement for this very buffer: one that the host must not read is for those it only writes."""
        host = {stage.name for stage in workload.stages if stage.side == "host"}
        reads = any(mode != "out" for stage, mode in buffer.access.items() if stage in host)
        return self.where_host_reads if self.where_host_reads is not None and reads else self

    def unavailable(self, device: Device) -> str | None:
        """Why it cannot be used on that device, or None; an unknown attribute is no reason, but for access to
        pageable memory, which has to be known."""
        if device.kind == "cpu" and self.not_on_cpu:
            return self.not_on_cpu
        if self.device_kind == "pageable" and not device.attributes.get("pageable_memory_access"):
            if device.kind == "catalogue" and device.memory_class == "discrete":
                return f"{device.name} is assumed to run without HMM (with HMM: see docs/devices.md)"
            value = "0" if flag_is_off(device, "pageable_memory_access") else "not known"
            return f"kernels on {device.name} cannot access pageable memory (pageableMemoryAccess is {value})"
        if self.locks and not self._is_copied and flag_is_off(device, "can_map_host_memory"):
            return f"{device.name} cannot map host memory (canMapHostMemory is 0)"
        if self.managed and flag_is_off(device, "managed_memory"):
            return f"{device.name} has no managed memory (managedMemory is 0)"
        unsupported = flag_is_off(device, "host_register_supported") or device.memory_class == "tegra"
        if self.registered and unsupported:
            return f"{device.name} cannot register host memory (hostRegisterSupported is 0)"
        return None

    def place(self, arena: Arena, layout: Layout, gpus: Sequence[int] = (0,)) -> Placed:
        """Allocates the buffer, for the host and those GPUs of the workload. Raises `AllocationFailed`."""
        first, nbytes = arena.on(gpus[0]), layout.nbytes
        if self.registered:
            host = first.registered(nbytes, mapped="mapped" in self.host_flags)
        elif self.locks:
            host = first.pinned(nbytes, *self.host_flags)
        else:
            host = first.managed(nbytes) if self.managed else first.pageable(nbytes)
        placed = on_each(gpus, lambda gpu: self._reached(arena.on(gpu), host, layout))
        return self._crossing(placed, arena, layout, gpus)

    def _reached(self, arena: Arena, host: int, layout: Layout) -> Placed:
        """How the GPU of the arena gets at a buffer with that host memory."""
        backend, nbytes = arena.backend, layout.nbytes
        if not self._is_copied:
            return layout.at(backend, host, backend.host_device_pointer(host) if self.locks else host)
        device, blocking = arena.device(nbytes), not self.locks
        to_device: Mover = partial(backend.copy_to_device, device, host, nbytes)
        to_host: Mover = partial(backend.copy_to_host, host, device, nbytes)

        def waiting(move: Mover) -> Mover:
            def moved(stream: Any) -> None:
                move(stream)
                (stream or backend).synchronize()

            return moved

        def move_part(side: Side, part: Bounds, stream: Any) -> None:
            for span in layout.spans(part):
                backend.copy_span(span, side, host, device, stream)
            if blocking:
                (stream or backend).synchronize()

        if blocking:
            to_device, to_host = waiting(to_device), waiting(to_host)
        arrays = replace(layout.at(backend, host, device), device_pointer=device, by_host=blocking)
        return replace(arrays, to_device=to_device, to_host=to_host, move_part=move_part)

    def _crossing(self, placed: Placed, arena: Arena, layout: Layout, gpus: Sequence[int]) -> Placed:
        """The placed buffer, with copies between GPUs on the stream of the GPU that needs the data."""
        pointers = {gpu: placed.on(gpu).device_pointer for gpu in gpus}

        def bring(backend: Backend, gpu: int, source: int, part: Bounds) -> None:
            for span in layout.spans(part):
                backend.copy_from_peer(span, source, pointers[gpu], pointers[source])

        for gpu in gpus if self.between_gpus and len(gpus) > 1 else ():
            backend = arena.on(gpu).backend
            backend.reach_peers(gpus)
            placed.on(gpu).to_peer = partial(bring, backend, gpu)
        return placed

    @property
    def _is_copied(self) -> bool:
        return self.host_kind != self.device_kind


def on_each(gpus: Sequence[int], place: Callable[[int], Placed]) -> Placed:
    first, *others = gpus
    return replace(place(first), others={gpu: place(gpu) for gpu in others})


def flag_is_off(device: Device, attribute: str) -> bool:
    return attribute in device.attributes and not device.attributes[attribute]


def require_memory(
    backend: Backend,
    placements: Mapping[str, Placement],
    sizes: Mapping[str, int],
    *,
    oversubscribe: bool,
    available: Callable[[], int] = lambda: int(psutil.virtual_memory().available),
) -> None:
    """Holds the bytes that buffers need on the device against what is free there. `oversubscribe` lifts the
    limit for managed memory, which can be moved out; nothing lifts it for the rest. `available` tells the
    bytes that the system could free. Raises `AllocationFailed` with the figures."""
    free = backend.free_memory()
    if free is None:
        return
    if backend.device().attributes.get("integrated"):
        # cudaMemGetInfo leaves out what the system could free.
        free = max(free, available())
    kinds: tuple[MemoryKind, ...] = ("device",) if oversubscribe else ("device", "managed")
    needed = sum(sizes[name] for name, placed in placements.items() if placed.device_kind in kinds)
    if needed > free:
        managed = any(placed.device_kind == "managed" for placed in placements.values())
        liftable = managed and not oversubscribe
        hint = "; --allow-oversubscription permits this for managed memory" if liftable else ""
        need = f"need {units.size(needed)} of device memory; {units.size(free)} are free{hint}"
        raise AllocationFailed(f"the buffers {need}")
