"""Buffers that cross between GPUs: copied from one to the other, without the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from advisor.profiles.schema import Device
from advisor.strategies.parts import Bounds, spans
from advisor.strategies.placements.arena import Arena
from advisor.strategies.placements.base import Layout, Placed, Placement
from advisor.strategies.placements.kinds import DeviceOnly, Pinned
from advisor.strategies.schedule import Traits


class Peer(Pinned):
    """Like pinned; what one GPU of the workload holds and another needs crosses between them, by
    cudaMemcpyPeerAsync, with peer access where the GPUs have it.
    """

    between_gpus = True
    not_on_cpu = None

    def among_gpus(self) -> Placement:
        return _PeerOnly()

    def place(self, arena: Arena, layout: Layout, gpus: Sequence[int] = (0,)) -> Placed:
        return _crossing(super().place(arena, layout, gpus), arena, layout, gpus)


class _PeerOnly(DeviceOnly):
    """cudaMalloc on several GPUs, between which it crosses."""

    between_gpus = True

    def traits(self, device: Device) -> Traits:
        return Traits(moves="copies", peer=True)

    def place(self, arena: Arena, layout: Layout, gpus: Sequence[int] = (0,)) -> Placed:
        return _crossing(super().place(arena, layout, gpus), arena, layout, gpus)


def _crossing(placed: Placed, arena: Arena, layout: Layout, gpus: Sequence[int]) -> Placed:
    """The buffer with the way to each GPU from the others: a copy on the stream of the GPU that needs it."""
    pointers = {gpu: placed.on(gpu).device_pointer for gpu in gpus}

    def way_to(gpu: int) -> Callable[[int, Bounds], None]:
        backend = arena.on(gpu).backend

        def bring(source: int, part: Bounds) -> None:
            for span in spans(part, layout.shape, layout.dtype.itemsize):
                backend.copy_from_peer(span, source, pointers[gpu], pointers[source])

        return bring

    for gpu in gpus if len(gpus) > 1 else ():
        arena.on(gpu).backend.reach_peers(gpus)
        placed.on(gpu).to_peer = way_to(gpu)
    return placed
