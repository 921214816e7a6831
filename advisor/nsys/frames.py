"""Our NVTX ranges in an export of nsys: each strategy's steady frames with their steps; one frame's timeline.

Times are nsys's, in nanoseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any

import numpy as np

from advisor.nsys.activities import DIRECTIONS, cause_words
from advisor.nsys.database import LONGEST, THREAD_BITS, Database, Tables
from advisor.profiles.traces import Span, Timeline, Track, thinned, track

DOMAIN = "advisor"
STRATEGY = "strategy:"
FIRST_FRAMES = 2
"""Frames 0 to 2 come first in every process; those after them are steady."""
_EVENT_TYPES = {"NvtxPushPopRange": 59, "NvtxDomainCreate": 75}
"""Numbers from the user guide, for exports without ENUM_NSYS_EVENT_TYPE."""
MOST_SPANS = 300
_ON_HOST = ("host:", "host-copy", "synchronize")
"""Steps that the host itself does; the calls of the others return at once, or their work is the GPU's."""
_MOST_ROWS = 100_000
_MOST_RANGES = 200_000
"""Ranges of the advisor domain in one file; a thousand frames of all strategies have half as many."""
_MOST_STEPS = 1_000_000
"""Steps in all frames; a step within overlapping frames counts for each."""
_MOST_STRATEGIES = 100
"""Each runs in a capture of its own, or all in one of a whole run."""


@dataclass(frozen=True)
class Range:
    thread: int
    name: str
    payload: int | None
    begin: int
    end: int


@dataclass(frozen=True)
class Frame:
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
    """The ranges of our domain, by thread and begin, outer before inner."""
    if not database.has("NVTX_EVENTS", "start", "end", "eventType", "text", "globalTid", "domainId"):
        return []
    numbers = {name: number for number, name in database.names("ENUM_NSYS_EVENT_TYPE").items()}
    types = {**_EVENT_TYPES, **numbers}
    domains = {
        (int(thread) // THREAD_BITS, domain)
        for thread, domain in database.rows(
            "SELECT globalTid, domainId FROM NVTX_EVENTS WHERE eventType = ? AND text = ? LIMIT ?",
            (types["NvtxDomainCreate"], DOMAIN, _MOST_RANGES),
        )
    }
    ours = (
        Range(int(thread), str(name), payload, int(begin), int(begin if end is None else end))
        for thread, domain, name, payload, begin, end in _pushed(database, types["NvtxPushPopRange"])
        if (int(thread) // THREAD_BITS, domain) in domains and name is not None
    )
    ranges = list(islice(ours, _MOST_RANGES + 1))
    if len(ranges) > _MOST_RANGES or sum(r.name.startswith(STRATEGY) for r in ranges) > _MOST_STRATEGIES:
        raise ValueError(f"more than {_MOST_RANGES} ranges of advisor, or {_MOST_STRATEGIES} strategies")
    return sorted(ranges, key=lambda r: (r.thread, r.begin, -r.end))


def _pushed(database: Database, event_type: int) -> Iterable[tuple[Any, ...]]:
    """Rows of push and pop; a range that was never closed has no end, and its frame is left out."""
    payloads = [c for c in ("int64Value", "uint64Value", "int32Value") if database.has("NVTX_EVENTS", c)]
    payload = f"COALESCE({', '.join([*payloads, 'NULL', 'NULL'])})"
    registered = database.has("NVTX_EVENTS", "textId") and database.has("StringIds", "id", "value")
    name = "COALESCE(text, (SELECT value FROM StringIds WHERE id = textId))" if registered else "text"
    name = f"substr({name}, 1, {LONGEST})"
    return database.rows(
        f"SELECT globalTid, domainId, {name}, {payload}, start, end FROM NVTX_EVENTS WHERE eventType = ? "
        "AND domainId IS NOT NULL",
        (event_type,),
    )


def _frames(ranges: Sequence[Range]) -> list[Frame]:
    """The frames of one thread under each strategy, then the steps under each frame."""
    marked = []
    last = max((r.end for r in ranges), default=0)
    for outer in ranges:
        if not outer.name.startswith(STRATEGY):
            continue
        end = outer.end if outer.end > outer.begin else last
        under = [r for r in ranges if r.name == "frame" and outer.begin <= r.begin and r.end <= end]
        closed = [r for r in under if r.end > r.begin]
        steady = [r for r in closed if r.payload is None or r.payload > FIRST_FRAMES] or closed[-1:]
        marked += [(outer.name.removeprefix(STRATEGY), frame) for frame in steady]
        if len(marked) > _MOST_RANGES:
            raise ValueError("its strategy ranges overlap")
    steps = [r for r in ranges if r.name != "frame" and not r.name.startswith(STRATEGY)]
    begins = np.array([r.begin for r in steps], np.int64)
    firsts = np.searchsorted(begins, [frame.begin for _, frame in marked])
    lasts = np.searchsorted(begins, [frame.end for _, frame in marked])
    if (lasts - firsts).sum() > _MOST_STEPS:
        raise ValueError("its frame ranges overlap")
    frames = [
        Frame(strategy, frame.thread // THREAD_BITS, frame.begin, frame.end, tuple(steps[begin:end]))
        for (strategy, frame), begin, end in zip(marked, firsts, lasts, strict=True)
    ]
    # Without frames that have but a part of the usual steps: of those that overlap, the last begins no other,
    # and a mean over it would miss uploads and kernels.
    whole = []
    for name in dict(marked):
        of = [(f, Counter(step.name for step in f.steps)) for f in frames if f.strategy == name]
        kinds = Counter(tuple(sorted(steps.elements())) for _, steps in of)
        usual = Counter(kinds.most_common(1)[0][0])
        whole += [frame for frame, steps in of if not steps < usual]
    return whole


def timeline(database: Database, frame: Frame) -> Timeline:
    """The spans of one frame; those too close together to be distinguished are merged."""
    gpu_seen = database.readable(Tables.COPIES) or database.readable(Tables.KERNELS)
    # The GPU's own work stands in the place of the steps that it does, where that was seen.
    steps = [step for step in frame.steps if step.name.startswith(_ON_HOST) or not gpu_seen]
    spans = [_span(frame, track(step.name), step.name, step.begin, step.end) for step in steps]
    rows = list(_within(database, frame, Tables.KERNELS, "shortName"))
    names = database.strings(list({row[2] for row in rows}))
    spans += [_span(frame, "kernel", names.get(name, "kernel"), begin, end) for begin, end, name in rows]
    inside = [span for span in (*spans, *_copies(database, frame)) if span]
    inside.sort(key=lambda span: (span.begin_seconds, span.end_seconds))
    length = (frame.end - frame.begin) / 1e9
    return thinned(Timeline(source="nsys", frame_seconds=length, spans=tuple(inside)), MOST_SPANS)


def _copies(database: Database, frame: Frame) -> Iterator[Span | None]:
    names, labels = database.names("ENUM_CUDA_MEMCPY_OPER"), database.labels("ENUM_CUDA_MEMCPY_OPER")
    memories, causes = database.labels("ENUM_CUDA_MEM_KIND"), cause_words(database)
    for begin, end, kind, source, target, cause in _within(
        database, frame, Tables.COPIES, "copyKind", "srcKind", "dstKind", "migrationCause"
    ):
        name = names.get(kind, "")
        line: Track = "migration" if "_UVM_" in name else "copy"
        host = target if name.endswith("_DTOH") else source  # the side whose kind of memory tells something
        more = causes.get(cause, "") if line == "migration" else memories.get(host, "")
        label = labels.get(kind, f"kind {kind}")
        if line == "migration":
            label = DIRECTIONS.get(name.rpartition("_")[2], label)
        yield _span(frame, line, f"{label}, {more}" if more else label, begin, end)


def _within(database: Database, frame: Frame, table: str, *columns: str) -> Iterator[tuple[int, ...]]:
    """Begin, end and columns of a table's rows that touch the frame."""
    if not database.readable(table):
        return
    where = f'"start" < {frame.end} AND "end" > {frame.begin}'
    if database.has(table, "globalPid"):
        where += f" AND globalPid / {THREAD_BITS} = {frame.process}"
    for block in database.blocks(table, ("start", "end", *columns), where, _MOST_ROWS):
        yield from zip(*(block[c].tolist() for c in ("start", "end", *columns)), strict=True)


def _span(frame: Frame, line: Track, label: str, begin: int, end: int) -> Span | None:
    first, last = max(begin, frame.begin) - frame.begin, min(end, frame.end) - frame.begin
    if last <= first:
        return None
    return Span(track=line, label=label, begin_seconds=first / 1e9, end_seconds=last / 1e9)
