"""Ordinary host memory, copied to device memory and back: the baseline."""

from __future__ import annotations

from advisor.profiles.schema import Device
from advisor.strategies.placements.arena import Arena
from advisor.strategies.placements.base import Layout, Placed, Placement, two_memories
from advisor.strategies.schedule import Traits


class Pageable(Placement):
    """malloc on the host, cudaMalloc on the device, synchronous copies between them.

    The driver must stage each copy through pinned memory of its own, so the link is not used fully and
    the host waits. Good: nothing to change, any array will do. Bad: the slowest copies on a discrete GPU,
    and twice the memory on a shared DRAM (CUDA C++ Best Practices Guide, "Pinned Memory").
    """

    host_kind = "pageable"
    device_kind = "device"
    takes_foreign_memory = True

    def traits(self, device: Device) -> Traits:
        """Copies that return when they are done."""
        return Traits(moves="copies", blocking=True)

    def unavailable(self, device: Device) -> str | None:
        """Works everywhere."""
        return None

    def place(self, arena: Arena, layout: Layout) -> Placed:
        """Two memories."""
        return two_memories(arena, arena.pageable(layout.nbytes), layout, blocking=True)
