"""Ordinary host memory whose pages are locked afterwards, copied or used in place."""

from __future__ import annotations

from advisor.profiles.schema import Device
from advisor.strategies.placements.arena import Arena
from advisor.strategies.placements.base import registration_unsupported
from advisor.strategies.placements.pinned import Pinned
from advisor.strategies.placements.zero_copy import ZeroCopy


class Registered(Pinned):
    """malloc and cudaHostRegister on the host, cudaMalloc on the device, asynchronous copies between them."""

    takes_foreign_memory = True
    registered = True

    def unavailable(self, device: Device) -> str | None:
        """Needs hostRegisterSupported."""
        return super().unavailable(device) or registration_unsupported(device)

    def host_memory(self, arena: Arena, nbytes: int) -> int:
        """Registered."""
        return arena.registered(nbytes)


class ZeroCopyRegistered(ZeroCopy):
    """malloc and cudaHostRegister with cudaHostRegisterMapped; kernels use the same memory in place."""

    takes_foreign_memory = True
    registered = True

    def unavailable(self, device: Device) -> str | None:
        """Needs hostRegisterSupported and canMapHostMemory."""
        if device.kind == "cpu":
            return "the CPU device has nothing to register: its zero-copy is one ordinary buffer"
        return super().unavailable(device) or registration_unsupported(device)

    def host_memory(self, arena: Arena, nbytes: int) -> int:
        """Registered and mapped."""
        return arena.registered(nbytes, mapped=True)
