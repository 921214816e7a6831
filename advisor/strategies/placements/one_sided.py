"""Buffers that only one side touches: no strategy applies, each lives where it is used."""

from __future__ import annotations

from advisor.profiles.schema import Device
from advisor.strategies.placements.arena import Arena
from advisor.strategies.placements.base import Layout, Placed, Placement
from advisor.strategies.schedule import Traits


class _OneSided(Placement):
    not_on_cpu = None

    def traits(self, device: Device) -> Traits:
        """Stays."""
        return Traits(moves="never")


class HostOnly(_OneSided):
    """malloc."""

    host_kind = "pageable"
    device_kind = "pageable"

    def place(self, arena: Arena, layout: Layout) -> Placed:
        """Host memory alone."""
        return layout.at(arena.backend, arena.pageable(layout.nbytes), None)


class DeviceOnly(_OneSided):
    """cudaMalloc."""

    host_kind = "device"
    device_kind = "device"

    def place(self, arena: Arena, layout: Layout) -> Placed:
        """Device memory alone."""
        return layout.at(arena.backend, None, arena.device(layout.nbytes))
