"""Managed memory: one address for both sides, moved by the driver, on request, or with hints on its use."""

from __future__ import annotations

from dataclasses import replace

from advisor.profiles.schema import BufferRecord, Device, Side, WorkloadRecord
from advisor.strategies.backend import Hint
from advisor.strategies.placements.arena import Arena
from advisor.strategies.placements.base import Layout, Placed, Placement, flag_is_off


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

    def place(self, arena: Arena, layout: Layout) -> Placed:
        """One memory, moved on request."""
        backend, nbytes = arena.backend, layout.nbytes
        placed = super().place(arena, layout)
        pointer = placed.host_pointer
        attaching = flag_is_off(backend.device(), "concurrent_managed_access")

        def move(side: Side) -> None:
            if attaching:
                backend.attach(pointer, side)
            else:
                backend.prefetch(pointer, nbytes, side)

        def bring(side: Side) -> None:
            backend.discard(pointer, nbytes, side)

        return replace(
            placed,
            to_device=lambda _: move("device"),
            to_host=lambda _: move("host"),
            bring=bring if backend.discards and not attaching else None,
        )


class ManagedAdvised(ManagedPrefetch):
    """As managed-prefetch, with cudaMemAdvise derived from the annotations: read-mostly for what is written
    in set-up only; else preferred location on the GPU, accessed by the host where host stages use it.
    """

    def __init__(self, hints: tuple[Hint, ...] = ()) -> None:
        self.hints = hints

    def adapted(self, buffer: BufferRecord, workload: WorkloadRecord) -> ManagedAdvised:
        """With the hints that fit the buffer."""
        return ManagedAdvised(hints_for(buffer, workload))

    def unavailable(self, device: Device) -> str | None:
        """Needs concurrentManagedAccess."""
        if flag_is_off(device, "concurrent_managed_access"):
            return f"{device.name} takes no advice on managed memory (concurrentManagedAccess is 0)"
        return super().unavailable(device)

    def place(self, arena: Arena, layout: Layout) -> Placed:
        """One memory, with its hints given before it is first touched."""
        placed = super().place(arena, layout)
        for hint in self.hints:
            arena.backend.advise(placed.host_pointer, layout.nbytes, hint)
        return placed


def hints_for(buffer: BufferRecord, workload: WorkloadRecord) -> tuple[Hint, ...]:
    """What the annotations say of a buffer, as cudaMemAdvise wants it."""
    on_device = workload.touching(buffer, "device")
    on_host = workload.touching(buffer, "host")
    if all(mode == "in" for mode in (*on_device.values(), *on_host.values())):
        return ("read-mostly",)
    if not on_device:
        return ()
    return ("prefer-device", "accessed-by-host") if on_host else ("prefer-device",)
