"""Page-locked host memory that kernels read and write in place."""

from __future__ import annotations

from advisor.profiles.schema import Device
from advisor.strategies.backend import HostFlag
from advisor.strategies.placements.arena import Arena
from advisor.strategies.placements.base import Layout, Placed, Placement, flag_is_off, one_memory
from advisor.strategies.schedule import Traits


class ZeroCopy(Placement):
    """cudaHostAlloc with cudaHostAllocMapped; kernels use the device's address of the same memory."""

    host_kind = "pinned"
    device_kind = "pinned"
    host_flags: tuple[HostFlag, ...] = ("mapped",)

    def traits(self, device: Device) -> Traits:
        """Nothing moves; the host waits for kernels before it touches the memory."""
        return Traits(moves="never", kernels_reach_host_memory=True)

    def unavailable(self, device: Device) -> str | None:
        """Needs canMapHostMemory. On the CPU device it is one buffer for both sides."""
        if flag_is_off(device, "can_map_host_memory"):
            return f"{device.name} cannot map host memory (canMapHostMemory is 0)"
        return None

    def place(self, arena: Arena, layout: Layout) -> Placed:
        """One memory with two addresses."""
        pointer = self.host_memory(arena, layout.nbytes)
        return one_memory(arena, pointer, arena.backend.host_device_pointer(pointer), layout)

    def host_memory(self, arena: Arena, nbytes: int) -> int:
        """The host's pointer to memory that the device reaches."""
        return arena.pinned(nbytes, *self.host_flags)
