"""Page-locked host memory, copied to device memory and back."""

from __future__ import annotations

from advisor.profiles.schema import Device
from advisor.strategies.placements.arena import Arena
from advisor.strategies.placements.base import Layout, Placed, Placement, two_memories
from advisor.strategies.schedule import Traits


class Pinned(Placement):
    """cudaHostAlloc with default flags on the host, cudaMalloc on the device, asynchronous copies."""

    host_kind = "pinned"
    device_kind = "device"

    def traits(self, device: Device) -> Traits:
        """Copies that return at once."""
        return Traits(moves="copies")

    def place(self, arena: Arena, layout: Layout) -> Placed:
        """Two memories."""
        return two_memories(arena, self.host_memory(arena, layout.nbytes), layout, blocking=False)

    def host_memory(self, arena: Arena, nbytes: int) -> int:
        """The host's pointer to page-locked memory."""
        return arena.pinned(nbytes, *self.host_flags)
