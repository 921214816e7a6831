"""Data that arrives in memory the program does not choose: a camera's, a decoder's, a library's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from advisor.profiles.schema import Device
from advisor.strategies.placements.arena import Arena
from advisor.strategies.placements.base import Layout, Placed, Placement
from advisor.strategies.schedule import Traits


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

    @property
    def own(self) -> Placement:
        """The inner placement."""
        return self.inner

    def traits(self, device: Device) -> Traits:
        """The inner placement's, behind foreign memory."""
        return replace(self.inner.traits(device), foreign=True)

    def unavailable(self, device: Device) -> str | None:
        """As the inner placement."""
        return self.inner.unavailable(device)

    def place(self, arena: Arena, layout: Layout) -> Placed:
        """Foreign memory beside the inner placement's."""
        foreign = layout.at(arena.backend, arena.pageable(layout.nbytes), None).host
        inner = self.inner.place(arena, layout)
        own = inner.host
        assert own is not None
        assert foreign is not None
        return replace(
            inner,
            host=foreign,
            copy_in=lambda: np.copyto(own, foreign),
            copy_out=lambda: np.copyto(foreign, own),
        )
