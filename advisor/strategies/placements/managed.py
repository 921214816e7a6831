"""Managed memory: one address for both sides, moved by the driver."""

from __future__ import annotations

from advisor.profiles.schema import Device
from advisor.strategies.placements.arena import Arena
from advisor.strategies.placements.base import Layout, Placed, Placement, flag_is_off, one_memory
from advisor.strategies.schedule import Traits


class Managed(Placement):
    """cudaMallocManaged with cudaMemAttachGlobal, no hints."""

    host_kind = "managed"
    device_kind = "managed"

    def traits(self, device: Device) -> Traits:
        """Moves by itself; off limits to the host while kernels run where access is not concurrent."""
        return Traits(
            moves="never",
            kernels_reach_host_memory=True,
            exclusive=flag_is_off(device, "concurrent_managed_access"),
        )

    def unavailable(self, device: Device) -> str | None:
        """Needs managedMemory."""
        if flag_is_off(device, "managed_memory"):
            return f"{device.name} has no managed memory (managedMemory is 0)"
        return super().unavailable(device)

    def place(self, arena: Arena, layout: Layout) -> Placed:
        """One memory with one address."""
        pointer = arena.managed(layout.nbytes)
        return one_memory(arena, pointer, pointer, layout)
