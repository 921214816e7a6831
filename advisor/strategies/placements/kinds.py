"""The ways to place a buffer: in two memories, one of the host's, managed memory, or on one side alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from advisor.profiles.schema import BufferRecord, Device, Side, WorkloadRecord
from advisor.strategies.backend import Hint, HostFlag
from advisor.strategies.parts import WHOLE, Bounds, index_of, overlapping
from advisor.strategies.placements.arena import Arena
from advisor.strategies.placements.base import Layout, Placed, Placement, flag_is_off, on_each
from advisor.strategies.schedule import Traits


class Pageable(Placement):
    """malloc on the host, cudaMalloc on the device, synchronous copies between them."""

    host_kind = "pageable"
    device_kind = "device"
    takes_foreign_memory = True
    not_on_cpu = None


class Staged(Placement):
    """malloc on the host, cudaMalloc on the device; to the device as cupy.asarray does it: a CPU copy into
    CuPy's pinned pool, then an asynchronous copy; to the host as cupy.asnumpy does it: from pageable memory.
    """

    host_kind = "pageable"
    device_kind = "device"
    takes_foreign_memory = True
    staged = True

    def place(self, arena: Arena, layout: Layout, gpus: Sequence[int] = (0,)) -> Placed:
        """A host array and device arrays of CuPy's pool; every move makes a new one, as the calls do."""
        arena.staging(layout.nbytes)
        begun = layout.at(arena.backend, arena.pageable(layout.nbytes), None)
        on_host = {"host": begun.host}
        return on_each(gpus, lambda gpu: self._staged(arena.on(gpu), begun, on_host, layout))

    @staticmethod
    def _staged(arena: Arena, begun: Placed, on_host: dict[str, Any], layout: Layout) -> Placed:
        """On the GPU of the arena; all GPUs share what the host has."""
        backend = arena.backend
        arrays = {"device": arena.pool_array(layout.shape, layout.dtype)}

        def to_device(stream: Any) -> Any:
            del stream
            arrays["device"] = backend.upload(on_host["host"])
            return arrays["device"]

        def to_host(stream: Any) -> Any:
            del stream
            on_host["host"] = backend.download(arrays["device"])
            return on_host["host"]

        def move_part(side: Side, part: Bounds, stream: Any) -> None:
            """`device[:n] = cupy.asarray(host[:n])`, and the other way round."""
            del stream
            index = index_of(part)
            if not on_host["host"][index].size:
                backend.synchronize()
            elif side == "device":
                with backend.current():
                    arrays["device"][index] = backend.upload(on_host["host"][index])
            else:
                on_host["host"][index] = backend.download(arrays["device"][index])

        moved = replace(
            begun, to_device=to_device, to_host=to_host, move_part=move_part, by_host=True, remade=True
        )
        return replace(moved, device=arrays["device"])


class Pinned(Placement):
    """cudaHostAlloc with default flags on the host, cudaMalloc on the device, asynchronous copies."""

    host_kind = "pinned"
    device_kind = "device"


class WriteCombined(Pinned):
    """cudaHostAlloc with cudaHostAllocWriteCombined on the host, cudaMalloc on the device, asynchronous
    copies. Buffers that the host reads are plain pinned memory.
    """

    host_flags = ("write-combined",)
    where_host_reads = Pinned()


class Registered(Pinned):
    """malloc and cudaHostRegister on the host, cudaMalloc on the device, asynchronous copies between them."""

    takes_foreign_memory = True
    registered = True


class ZeroCopy(Placement):
    """cudaHostAlloc with cudaHostAllocMapped; kernels use the device's address of the same memory."""

    host_kind = "pinned"
    device_kind = "pinned"
    host_flags: tuple[HostFlag, ...] = ("mapped",)
    not_on_cpu: str | None = None


class ZeroCopyWriteCombined(ZeroCopy):
    """cudaHostAlloc with Mapped and WriteCombined; buffers that the host reads are plain mapped memory."""

    host_flags = ("mapped", "write-combined")
    not_on_cpu = "the CPU device has no write-combined memory"
    where_host_reads = ZeroCopy()


class ZeroCopyRegistered(ZeroCopy):
    """malloc and cudaHostRegister with cudaHostRegisterMapped; kernels use the same memory in place."""

    takes_foreign_memory = True
    registered = True
    not_on_cpu = "the CPU device has no memory to register: its zero-copy is a pageable buffer"


class System(Placement):
    """malloc, and nothing else: kernels use the host's address."""

    host_kind = "pageable"
    device_kind = "pageable"
    takes_foreign_memory = True

    def unavailable(self, device: Device) -> str | None:
        """Needs pageableMemoryAccess, which has to be known to be 1."""
        if device.kind != "cpu" and not device.attributes.get("pageable_memory_access"):
            if device.kind == "catalogue" and device.memory_class == "discrete":
                return f"{device.name} is assumed to run without HMM (with HMM: see docs/devices.md)"
            value = "0" if flag_is_off(device, "pageable_memory_access") else "not known"
            return f"kernels on {device.name} cannot access pageable memory (pageableMemoryAccess is {value})"
        return super().unavailable(device)


class Managed(Placement):
    """cudaMallocManaged with cudaMemAttachGlobal, no hints."""

    host_kind = "managed"
    device_kind = "managed"


class ManagedPrefetch(Managed):
    """cudaMallocManaged, and cudaMemPrefetchAsync to the side that needs it at each change of side; contents
    that are overwritten there are discarded first, where the driver can (CUDA 13). Where
    concurrentManagedAccess is 0, cudaStreamAttachMemAsync in its place.
    """

    prefetched = True

    def _reached(self, arena: Arena, host: int, layout: Layout) -> Placed:
        backend, nbytes = arena.backend, layout.nbytes
        placed = super()._reached(arena, host, layout)
        pointer = host
        attaching = flag_is_off(backend.device(), "concurrent_managed_access")

        def move(side: Side) -> None:
            if attaching:
                backend.attach(pointer, side)
            else:
                backend.prefetch(pointer, nbytes, side)

        def move_part(side: Side, part: Bounds, stream: Any) -> None:
            """From its first to its last byte: pages hold what lies between rows, too."""
            del stream
            spans = layout.spans(part)
            if attaching and spans:
                backend.attach(pointer, side)
            elif spans:
                first, last = spans[0].offset, spans[-1].end
                backend.prefetch(pointer + first, last - first, side)

        def bring(side: Side) -> None:
            backend.discard(pointer, nbytes, side)

        return replace(
            placed,
            to_device=lambda _: move("device"),
            to_host=lambda _: move("host"),
            move_part=move_part,
            bring=bring if backend.discards and not attaching else None,
        )


class ManagedAdvised(ManagedPrefetch):
    """Like managed-prefetch, with cudaMemAdvise derived from the annotations: read-mostly for what is written
    in set-up only; else preferred location on the GPU, accessed by the host where host stages use it. On
    several GPUs each prefers the regions that it alone touches, and the first that uses it the rest.
    """

    def __init__(self, hints: tuple[Hint, ...] = (), regions: tuple[tuple[int, Bounds], ...] = ()) -> None:
        self.hints = hints
        self.regions = regions
        """The parts of the buffer that stages on several GPUs touch, each with its GPU."""

    def adapted(self, buffer: BufferRecord, workload: WorkloadRecord) -> ManagedAdvised:
        on_gpus = [s for s in workload.stages if s.side == "device" and s.name in buffer.access]
        touched = dict.fromkeys((stage.gpu, buffer.regions.get(stage.name, WHOLE)) for stage in on_gpus)
        several = len({gpu for gpu, _ in touched}) > 1
        host, device = workload.touching(buffer, "host"), workload.touching(buffer, "device")
        hints: tuple[Hint, ...] = ()
        if all(mode == "in" for mode in (*device.values(), *host.values())):
            hints = ("read-mostly",)
        elif device:
            hints = ("prefer-device", "accessed-by-host") if host else ("prefer-device",)
        return ManagedAdvised(hints, tuple(touched) if several else ())

    def unavailable(self, device: Device) -> str | None:
        if flag_is_off(device, "concurrent_managed_access"):
            return f"{device.name} does not support hints on managed memory (concurrentManagedAccess is 0)"
        return super().unavailable(device)

    def place(self, arena: Arena, layout: Layout, gpus: Sequence[int] = (0,)) -> Placed:
        """One memory, with its hints given before it is first touched."""
        placed = super().place(arena, layout, gpus)
        for hint in self.hints:
            arena.on(gpus[0]).backend.advise(placed.host_pointer, layout.nbytes, hint)
        if "prefer-device" in self.hints:
            for gpu, part in self.regions:
                self._advise_part(arena.on(gpu), placed.host_pointer, layout, gpu, part)
        return placed

    def _advise_part(self, arena: Arena, pointer: int, layout: Layout, gpu: int, part: Bounds) -> None:
        """The GPU prefers what no other one touches, and has the rest mapped."""
        alone = not any(other != gpu and overlapping(part, bounds) for other, bounds in self.regions)
        hint: Hint = "prefer-device" if alone else "accessed-by-device"
        if spans := layout.spans(part):
            first, last = spans[0].offset, spans[-1].end
            arena.backend.advise(pointer + first, last - first, hint)


class _OneSided(Placement):
    not_on_cpu = None

    def traits(self, device: Device) -> Traits:
        return Traits(moves="never")


class HostOnly(_OneSided):
    """malloc."""

    host_kind = "pageable"
    device_kind = "pageable"

    def place(self, arena: Arena, layout: Layout, gpus: Sequence[int] = (0,)) -> Placed:
        del gpus
        return layout.at(arena.backend, arena.pageable(layout.nbytes), None)


class DeviceOnly(_OneSided):
    """cudaMalloc."""

    host_kind = "device"
    device_kind = "device"

    def place(self, arena: Arena, layout: Layout, gpus: Sequence[int] = (0,)) -> Placed:

        def on(gpu: int) -> Placed:
            at = arena.on(gpu)
            pointer = at.device(layout.nbytes)
            return replace(layout.at(at.backend, None, pointer), device_pointer=pointer)

        return on_each(gpus, on)


class External(Placement):
    """Another placement behind foreign memory: the host copies between the two before and after.

    This is the copy that `np.copyto(managed, image)` hides: the data has to get into memory of the right
    kind, and that costs a pass over it on the CPU.
    """

    host_kind = "pageable"

    def __init__(self, inner: Placement) -> None:
        self.inner = inner
        self.device_kind = inner.device_kind
        self.hints = inner.hints

    @property
    def own(self) -> Placement:
        return self.inner

    def traits(self, device: Device) -> Traits:
        return replace(self.inner.traits(device), foreign=True)

    def unavailable(self, device: Device) -> str | None:
        return self.inner.unavailable(device)

    def place(self, arena: Arena, layout: Layout, gpus: Sequence[int] = (0,)) -> Placed:
        foreign = layout.at(arena.backend, arena.pageable(layout.nbytes), None).host
        inner = self.inner.place(arena, layout, gpus)
        own = inner.host
        assert own is not None
        assert foreign is not None
        return replace(
            inner,
            host=foreign,
            copy_in=lambda part: np.copyto(own[index_of(part)], foreign[index_of(part)]),
            copy_out=lambda part: np.copyto(foreign[index_of(part)], own[index_of(part)]),
        )


# Buffers that cross between GPUs: copied from one to the other, without the host


class Peer(Pinned):
    """Like pinned; what one GPU of the workload holds and another needs crosses between them, by
    cudaMemcpyPeerAsync, with peer access where the GPUs have it.
    """

    between_gpus = True
    not_on_cpu = None

    def among_gpus(self) -> Placement:
        return _PeerOnly()

    def place(self, arena: Arena, layout: Layout, gpus: Sequence[int] = (0,)) -> Placed:
        return _crossing(super().place(arena, layout, gpus), arena, layout, gpus)


class _PeerOnly(DeviceOnly):
    """cudaMalloc on several GPUs, between which it crosses."""

    between_gpus = True

    def traits(self, device: Device) -> Traits:
        return Traits(moves="copies", peer=True)

    def place(self, arena: Arena, layout: Layout, gpus: Sequence[int] = (0,)) -> Placed:
        return _crossing(super().place(arena, layout, gpus), arena, layout, gpus)


def _crossing(placed: Placed, arena: Arena, layout: Layout, gpus: Sequence[int]) -> Placed:
    """The buffer with the way to each GPU from the others: a copy on the stream of the GPU that needs it."""
    pointers = {gpu: placed.on(gpu).device_pointer for gpu in gpus}

    def way_to(gpu: int) -> Callable[[int, Bounds], None]:
        backend = arena.on(gpu).backend

        def bring(source: int, part: Bounds) -> None:
            for span in layout.spans(part):
                backend.copy_from_peer(span, source, pointers[gpu], pointers[source])

        return bring

    for gpu in gpus if len(gpus) > 1 else ():
        arena.on(gpu).backend.reach_peers(gpus)
        placed.on(gpu).to_peer = way_to(gpu)
    return placed
