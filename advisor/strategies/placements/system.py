"""Ordinary memory that kernels reach by themselves."""

from __future__ import annotations

from advisor.profiles.schema import Device
from advisor.strategies.placements.arena import Arena
from advisor.strategies.placements.base import Layout, Placed, Placement, flag_is_off, one_memory
from advisor.strategies.schedule import Traits


class System(Placement):
    """malloc, and nothing else: kernels use the host's address."""

    host_kind = "pageable"
    device_kind = "pageable"
    takes_foreign_memory = True

    def traits(self, device: Device) -> Traits:
        """Nothing moves on request; the host waits for kernels."""
        return Traits(moves="never", kernels_reach_host_memory=True)

    def unavailable(self, device: Device) -> str | None:
        """Needs pageableMemoryAccess, which has to be known to be 1."""
        if device.kind != "cpu" and not device.attributes.get("pageable_memory_access"):
            if device.kind == "catalogue" and device.memory_class == "discrete":
                return f"{device.name} is taken to be without HMM (with it: docs/devices.md)"
            told = "0" if flag_is_off(device, "pageable_memory_access") else "not known"
            return f"kernels on {device.name} cannot reach ordinary memory (pageableMemoryAccess is {told})"
        return super().unavailable(device)

    def place(self, arena: Arena, layout: Layout) -> Placed:
        """One memory with one address."""
        pointer = arena.pageable(layout.nbytes)
        return one_memory(arena, pointer, pointer, layout)
