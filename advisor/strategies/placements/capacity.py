"""Refuses a run that asks for more memory than there is, before anything of it is allocated.

Managed memory beyond what a card has free can hang a GPU that others use, so that it needs an explicit yes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import psutil

from advisor import units
from advisor.profiles.schema import MemoryKind
from advisor.strategies.backend import Backend
from advisor.strategies.placements.arena import AllocationFailed
from advisor.strategies.placements.base import Placement


def _available() -> int:
    return int(psutil.virtual_memory().available)


def require_memory(
    backend: Backend,
    placements: Mapping[str, Placement],
    sizes: Mapping[str, int],
    *,
    oversubscribe: bool,
    available: Callable[[], int] = _available,
) -> None:
    """Holds the bytes that buffers need on the device against what is free there.

    `oversubscribe` lifts the limit for managed memory, which can be moved out; nothing lifts it for the
    rest. `available` tells the bytes that the system could free. Raises `AllocationFailed` with the figures.
    """
    free = backend.free_memory()
    if free is None:
        return
    if backend.device().attributes.get("integrated"):
        # cudaMemGetInfo leaves out what the system could free.
        free = max(free, available())
    kinds: tuple[MemoryKind, ...] = ("device",) if oversubscribe else ("device", "managed")
    needed = sum(sizes[name] for name, placed in placements.items() if placed.device_kind in kinds)
    if needed > free:
        managed = any(placed.device_kind == "managed" for placed in placements.values())
        liftable = managed and not oversubscribe
        hint = "; --allow-oversubscription permits this for managed memory" if liftable else ""
        raise AllocationFailed(
            f"the buffers need {units.size(needed)} of device memory; {units.size(free)} are free{hint}"
        )
