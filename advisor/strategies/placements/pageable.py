"""Ordinary host memory, copied to device memory and back: the baseline."""

from __future__ import annotations

from advisor.profiles.schema import Device
from advisor.strategies.placements.arena import Arena
from advisor.strategies.placements.base import Layout, Placed, Placement, two_memories
from advisor.strategies.schedule import Traits


class Pageable(Placement):
    """malloc on the host, cudaMalloc on the device, synchronous copies between them."""

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
