"""Data that arrives in memory the program does not choose: a camera's, a decoder's, a library's."""

from __future__ import annotations

from typing import Any

import numpy as np

from advisor.backends.base import host_array
from advisor.placements.arena import Arena
from advisor.placements.base import Layout, Placed, Placement
from advisor.profiles import Device
from advisor.schedule import Traits


class External(Placement):
    """Another placement behind foreign memory: the host copies between the two before and after.

    This is the copy that `np.copyto(managed, image)` hides: the data has to get into memory of the right
    kind, and that costs a pass over it on the CPU.
    """

    host_kind = "pageable"

    def __init__(self, inner: Placement) -> None:
        self.inner = inner
        self.device_kind = inner.device_kind
        self.hints = inner.hints

    def traits(self, device: Device) -> Traits:
        """Copies that return when the foreign memory may be touched again."""
        return Traits(moves="copies", blocking=True)

    def unavailable(self, device: Device) -> str | None:
        """As the inner placement."""
        return self.inner.unavailable(device)

    def place(self, arena: Arena, layout: Layout) -> Placed:
        """Foreign memory beside the inner placement's."""
        backend = arena.backend
        pointer = arena.pageable(layout.nbytes)
        foreign = host_array(pointer, layout.nbytes, layout.shape, layout.dtype)
        inner = self.inner.place(arena, layout)
        assert inner.host is not None
        own = inner.host

        def to_device(stream: Any) -> None:
            backend.synchronize()  # own memory may still be in use by the last upload or kernel
            np.copyto(own, foreign)
            if inner.to_device:
                inner.to_device(stream)

        def to_host(stream: Any) -> None:
            if inner.to_host:
                inner.to_host(stream)
            backend.synchronize()
            np.copyto(foreign, own)

        return Placed(foreign, inner.device, to_device, to_host)
