"""Our NVTX ranges in an export of nsys: the steady frames of each strategy and the steps within them.

Times are nsys's, in nanoseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from advisor.nsys.database import THREAD_BITS, Database

DOMAIN = "advisor"
STRATEGY = "strategy:"
FIRST_FRAMES = 2
"""Frames 0 to 2 come first in every process; those after them are steady."""
_EVENT_TYPES = {"NvtxPushPopRange": 59, "NvtxDomainCreate": 75}
"""As the user guide numbers them, for exports without ENUM_NSYS_EVENT_TYPE."""


@dataclass(frozen=True)
class Range:
    """One range of ours."""

    thread: int
    name: str
    payload: int | None
    begin: int
    end: int


@dataclass(frozen=True)
class Frame:
    """One steady frame: its strategy and its steps in order."""

    strategy: str
    process: int
    begin: int
    end: int
    steps: tuple[Range, ...]


def steady_frames(database: Database) -> list[Frame]:
    """The steady frames of every strategy; where a process had first frames alone, its last of those."""
    frames: list[Frame] = []
    for _, ranges in groupby(_ranges(database), key=lambda r: r.thread):
        frames += _frames(list(ranges))
    return frames


def _ranges(database: Database) -> list[Range]:
    """All of our domain, by thread and begin, outer before inner."""
    if not database.has("NVTX_EVENTS", "start", "end", "eventType", "text", "globalTid", "domainId"):
        return []
    types = {name: number for number, name in database.names("ENUM_NSYS_EVENT_TYPE").items()}
    types = {name: types.get(name, number) for name, number in _EVENT_TYPES.items()}
    domains = {
        (int(thread) // THREAD_BITS, domain)
        for thread, domain in database.rows(
            "SELECT globalTid, domainId FROM NVTX_EVENTS WHERE eventType = ? AND text = ?",
            (types["NvtxDomainCreate"], DOMAIN),
        )
    }
    found = [
        Range(int(thread), str(name), payload, int(begin), int(begin if end is None else end))
        for thread, domain, name, payload, begin, end in _pushed(database, types["NvtxPushPopRange"])
        if (int(thread) // THREAD_BITS, domain) in domains and name is not None
    ]
    return sorted(found, key=lambda r: (r.thread, r.begin, -r.end))


def _pushed(database: Database, event_type: int) -> Iterable[tuple[Any, ...]]:
    """Rows of push and pop; a range that was never closed has no end, and its frame is left out."""
    payloads = [c for c in ("int64Value", "uint64Value", "int32Value") if database.has("NVTX_EVENTS", c)]
    payload = f"COALESCE({', '.join([*payloads, 'NULL', 'NULL'])})"
    registered = database.has("NVTX_EVENTS", "textId") and database.has("StringIds", "id", "value")
    name = "COALESCE(text, (SELECT value FROM StringIds WHERE id = textId))" if registered else "text"
    return database.rows(
        f"SELECT globalTid, domainId, {name}, {payload}, start, end FROM NVTX_EVENTS WHERE eventType = ? "
        "AND domainId IS NOT NULL",
        (event_type,),
    )


def _frames(ranges: Sequence[Range]) -> list[Frame]:
    """Of one thread: the frames under each strategy, then the steps under each frame."""
    found = []
    for outer in ranges:
        if not outer.name.startswith(STRATEGY):
            continue
        end = outer.end if outer.end > outer.begin else max(r.end for r in ranges)
        under = [r for r in ranges if r.name == "frame" and outer.begin <= r.begin and r.end <= end]
        for frame in _steady([r for r in under if r.end > r.begin]):
            found.append((outer.name.removeprefix(STRATEGY), frame))
    steps = [r for r in ranges if r.name != "frame" and not r.name.startswith(STRATEGY)]
    begins = np.array([r.begin for r in steps], np.int64)
    frames = [
        Frame(
            strategy,
            frame.thread // THREAD_BITS,
            frame.begin,
            frame.end,
            tuple(steps[np.searchsorted(begins, frame.begin) : np.searchsorted(begins, frame.end)]),
        )
        for strategy, frame in found
    ]
    return [f for name in dict(found) for f in _whole([f for f in frames if f.strategy == name])]


def _whole(frames: Sequence[Frame]) -> list[Frame]:
    """Those of a strategy without any that has but a part of the usual steps: of frames that overlap, the
    last begins no other, and a mean over it would miss uploads and kernels."""
    steps = [tuple(sorted(step.name for step in frame.steps)) for frame in frames]
    usual = Counter(Counter(steps).most_common(1)[0][0])
    return [frame for frame, of in zip(frames, steps, strict=True) if not Counter(of) < usual]


def _steady(frames: Sequence[Range]) -> Sequence[Range]:
    steady = [frame for frame in frames if frame.payload is None or frame.payload > FIRST_FRAMES]
    return steady or frames[-1:]
