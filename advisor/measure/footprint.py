"""Memory of a run: what the buffers took by kind, and what the system says the process holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from advisor.profiles.schema import Footprint, MemoryKind
from advisor.strategies.backend import Backend
from advisor.strategies.placements.arena import Arena

_ROLLUP, _STATUS = "smaps_rollup", "status"
_PROCESS = Path("/proc/self")
_UNSEEN = "VmLck counts what mlock locks; what the CUDA driver locks does not show in it"


@dataclass(frozen=True)
class Reading:
    """What the system said at one moment, in bytes; None where it did not."""

    process: int | None
    locked: int | None
    device_free: int | None


def read(backend: Backend, process: Path = _PROCESS) -> Reading:
    """Proportional set size, page-locked memory and free device memory, now."""
    return Reading(
        _field(process / _ROLLUP, "Pss"), _field(process / _STATUS, "VmLck"), backend.free_memory()
    )


def footprint(arena: Arena, before: Reading, after: Reading) -> Footprint:
    """The footprint of a run between two readings; what could not be read is absent, with the reason."""
    requested = dict(arena.requested)
    reserved = _with_pool(requested, arena)
    locked = _rise(before.locked, after.locked)
    unseen = locked == 0 and requested.get("pinned", 0) > 0
    used = {
        "peak_process_bytes": _rise(before.process, after.process),
        "locked_bytes": None if unseen else locked,
        "device_used_bytes": _rise(after.device_free, before.device_free),
    }
    reasons = {
        "peak_process_bytes": f"{_PROCESS / _ROLLUP} cannot be read",
        "locked_bytes": _UNSEEN if unseen else f"{_PROCESS / _STATUS} has no VmLck",
        "device_used_bytes": "the device has no memory of its own, or does not say how much is free",
    }
    return Footprint(
        requested=requested,
        reserved=reserved,
        physical_bytes=sum(reserved.values()),
        absent={name: reasons[name] for name, value in used.items() if value is None},
        **used,
    )


def _with_pool(requested: Mapping[MemoryKind, int], arena: Arena) -> dict[MemoryKind, int]:
    reserved = {kind: count + arena.pooled[kind] for kind, count in requested.items()}
    pool = arena.backend.pool_reserved()
    if pool:
        kind = arena.backend.kind_of("device")
        reserved[kind] = reserved.get(kind, 0) + pool
    return reserved


def _rise(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else max(after - before, 0)


def _field(path: Path, name: str) -> int | None:
    """A field of /proc in bytes; it says kB and means KiB."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    values = [line.split()[1] for line in lines if line.startswith(f"{name}:")]
    return int(values[0]) * 1024 if values else None
