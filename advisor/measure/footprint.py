"""Memory of a run: what the buffers took by kind, and what the system says the process holds.

Managed memory beside a card's own has pages on both sides: for 192 MiB an H200 gave 258 MiB and its host 43
to 235, by who touched them last. It is booked on both sides, and what frames were seen to take is told by
place.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from advisor.measure.frames import FrameLoop
from advisor.profiles.figures import HostPages, PlaceMemory
from advisor.profiles.schema import Footprint
from advisor.strategies.arena import Arena
from advisor.strategies.backend import Backend, wait_for_all

_ROLLUP, _STATUS = "smaps_rollup", "status"
_PROCESS = Path("/proc/self")
_UNSEEN = "VmLck counts memory locked by mlock, not memory locked by the CUDA driver"


@dataclass(frozen=True)
class Reading:
    """The system's counts at one moment, in bytes; None where unreadable."""

    process: int | None
    locked: int | None
    device_free: int | None
    resident: int | None = None
    """Memory of the process, each page whole: cheap enough to be asked for after every step of a frame."""
    cards: tuple[int | None, ...] = field(default=(), compare=False)
    """Free memory of each of several GPUs; `device_free` is the sum."""


def read(backend: Backend, process: Path = _PROCESS) -> Reading:
    """Walks the process's page tables, which takes 2 ms for 200 MiB."""
    status, cards = process / _STATUS, tuple(gpu.free_memory() for gpu in backend.gpus)
    locked, resident = _field(status, "VmLck"), _field(status, "VmRSS")
    free = None if None in cards else sum(card for card in cards if card is not None)
    return Reading(_field(process / _ROLLUP, "Pss"), locked, free, resident, cards)


def over_frames(
    loop: FrameLoop, backend: Backend, before: Reading, gpu: int, process: Path = _PROCESS
) -> dict[str, PlaceMemory]:
    """Memory that the next frames take beyond `before`, by place: `host`, and `gpu0` of a card. Each of
    several GPUs has its own, by its number in the workload.

    Read after each step of two frames, which may be under way at once, and once nothing is. A step's own
    temporaries that it gives back are not seen, but for those of the GPU's pool, which keeps them.
    """
    resident: list[int | None] = []
    free: list[list[int | None]] = [[] for _ in backend.gpus]

    def look() -> None:
        resident.append(_field(process / _STATUS, "VmRSS"))
        for card, levels in zip(backend.gpus, free, strict=True):
            levels.append(card.free_memory())

    def look_after(call: Callable[[], object], _: Any) -> None:
        call()
        look()

    with loop.watched(lambda action: action.around(look_after)):
        loop.frame(loop.index)
        loop.index += 1
        loop.next_alone()
    wait_for_all(backend)
    look()
    places = {"host": [_rise(before.resident, now) for now in resident]}
    if not backend.device().attributes.get("integrated"):
        start = 0 if len(free) > 1 else gpu
        for number, (levels, at_first) in enumerate(zip(free, before.cards, strict=False), start):
            places[f"gpu{number}"] = [_rise(now, at_first) for now in levels]
    known = {name: [count for count in counts if count is not None] for name, counts in places.items()}
    return {n: PlaceMemory(peak_bytes=max(c)) for n, c in known.items() if c}


def footprint(
    arena: Arena, before: Reading, after: Reading, places: Mapping[str, PlaceMemory] | None = None
) -> Footprint:
    requested = dict(arena.requested)
    reserved = {kind: count + arena.pooled[kind] for kind, count in requested.items()}
    if pool := sum(gpu.pool_reserved() or 0 for gpu in arena.backend.gpus):
        kind = arena.backend.kind_of("device")
        reserved[kind] = reserved.get(kind, 0) + pool
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
        "device_used_bytes": "the device has no separate memory, or does not report how much is free",
    }
    on_both_sides = arena.backend.device().memory_class in ("discrete", "discrete-hmm", "coherent")
    managed_again = reserved.get("managed", 0) if on_both_sides else 0
    return Footprint(
        requested=requested,
        reserved=reserved,
        physical_bytes=sum(reserved.values()) + managed_again,
        places=dict(places or {}),
        absent={name: reasons[name] for name, value in used.items() if value is None},
        **used,
    )


def _rise(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else max(after - before, 0)


def _field(path: Path, name: str) -> int | None:
    """A field of /proc in bytes; it says kB and means KiB."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    values = [line.split()[1] for line in lines if line.startswith(f"{name}:")]
    return int(values[0]) * 1024 if values else None


_SMAPS = Path("/proc/self/smaps")
_MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) .*\n((?:[A-Z]\w+:.*\n?)+)", re.MULTILINE)
Span = tuple[int, int]
"""The first byte's address, and how many bytes."""


def host_pages(arrays: Iterable[Any], smaps: Path = _SMAPS) -> HostPages | None:
    """Pages of the buffers' host arrays; None where the host has none. Touches no memory. Shares of a mapping
    that holds more than a buffer are taken to be spread evenly over it."""
    spans = [(int(array.ctypes.data), int(array.nbytes)) for array in arrays if array is not None]
    spans = [span for span in spans if span[1]]
    if not spans:
        return None
    huge = _huge_bytes(spans, smaps)
    why = f"{_SMAPS} cannot be read, or does not list the buffers' pages"
    absent = {"huge_bytes": why} if huge is None else {}
    return HostPages(bytes=sum(nbytes for _, nbytes in spans), huge_bytes=huge, absent=absent)


def _huge_bytes(spans: Sequence[Span], smaps: Path) -> int | None:
    try:
        text = smaps.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    sizes = []
    for first, last, body in _MAPPING.findall(text):
        begin, end = int(first, 16), int(last, 16)
        shared = [min(end, start + nbytes) - max(begin, start) for start, nbytes in spans]
        if max(shared) > 0:
            kilobytes = re.findall(r"^(AnonHugePages|KernelPageSize): +(\d+) kB", body, re.MULTILINE)
            fields = {name: int(count) * 1024 for name, count in kilobytes}
            whole = fields.get("KernelPageSize", 0) > mmap.PAGESIZE  # made of huge pages explicitly
            huge = end - begin if whole else fields.get("AnonHugePages", 0)
            sizes += [huge * each // (end - begin) for each in shared if each > 0]
    return sum(sizes) if sizes else None
