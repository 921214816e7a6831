"""Buffers that only one side touches: no strategy applies, each lives where it is used."""

from __future__ import annotations

from advisor.profiles.schema import Device
from advisor.strategies.backend import host_array
from advisor.strategies.placements.arena import Arena
from advisor.strategies.placements.base import Layout, Placed, Placement
from advisor.strategies.schedule import Traits


class HostOnly(Placement):
    """malloc."""

    host_kind = "pageable"
    device_kind = "pageable"

    def traits(self, device: Device) -> Traits:
        """Stays."""
        return Traits(moves="never")

    def unavailable(self, device: Device) -> str | None:
        """Works everywhere."""
        return None

    def place(self, arena: Arena, layout: Layout) -> Placed:
        """Host memory alone."""
        pointer = arena.pageable(layout.nbytes)
        return Placed(host_array(pointer, layout.nbytes, layout.shape, layout.dtype), None)


class DeviceOnly(Placement):
    """cudaMalloc."""

    host_kind = "device"
    device_kind = "device"

    def traits(self, device: Device) -> Traits:
        """Stays."""
        return Traits(moves="never")

    def unavailable(self, device: Device) -> str | None:
        """Works everywhere."""
        return None

    def place(self, arena: Arena, layout: Layout) -> Placed:
        """Device memory alone."""
        pointer = arena.device(layout.nbytes)
        return Placed(None, arena.backend.device_array(pointer, layout.nbytes, layout.shape, layout.dtype))
