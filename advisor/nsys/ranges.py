"""Ranges of time, in nanoseconds of nsys: sets of intervals, and the NVTX ranges of an export, which are the
frames of our strategies, and can mark those of others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from advisor.nsys.database import LONGEST, THREAD_BITS, Database, Integers, Tables

Intervals = tuple[Integers, Integers]
"""Begins and ends in ns."""


def union(pieces: list[Intervals]) -> Intervals:
    """The same time as intervals that do not overlap, in order. Empties the list, to save memory."""
    several = zip(*pieces, (NOTHING, NOTHING), strict=True)
    begins, ends = pieces[0] if len(pieces) == 1 else map(np.concatenate, several)
    pieces.clear()
    if np.all(begins[1:] > ends[:-1]):
        return begins, ends
    order = np.argsort(begins, kind="stable")
    begins = begins[order]  # one after the other, to save memory
    ends = ends[order]
    del order
    np.maximum.accumulate(ends, out=ends)
    opens = np.concatenate(([True], begins[1:] > ends[:-1]))
    closes = np.concatenate((opens[1:], [True]))
    return begins[opens], ends[closes]


NOTHING = np.array([], np.int64)


def before(moments: Integers, united: Intervals) -> Integers:
    """How much of a union lies before each moment."""
    starts, stops = united
    if not len(starts):
        return np.zeros(len(moments), np.int64)
    totals = np.concatenate(([0], np.cumsum(stops - starts)))
    at = np.searchsorted(starts, moments, side="right")
    last = np.maximum(at - 1, 0)
    over = np.where(at > 0, np.maximum(stops[last] - moments, 0), 0)
    return np.asarray(totals[at] - over, np.int64)


def inside(intervals: Intervals, united: Intervals) -> Integers:
    """How much of each interval lies in a union."""
    begins, ends = intervals
    return before(ends, united) - before(begins, united)


def length(united: Intervals) -> float:
    """Seconds of a union."""
    return int((united[1] - united[0]).sum()) / 1e9


def seconds(intervals: Intervals, united: Intervals) -> float:
    """How much of these intervals, added up, lies in a union."""
    begins, ends = intervals
    parts = range(0, len(begins), _PART)
    return sum(int(inside((begins[i : i + _PART], ends[i : i + _PART]), united).sum()) for i in parts) / 1e9


_PART = 500_000
"""Intervals at a time, since each takes some 100 bytes on the way."""


def between(united: Intervals, window: Intervals) -> Intervals:
    """The parts of the window, which is a union too, that no interval covers."""
    starts, stops = united
    edges: list[Intervals] = [(NOTHING, NOTHING)]
    for begin, end in zip(*window, strict=True):
        first, last = np.searchsorted(stops, begin, side="right"), np.searchsorted(starts, end, side="left")
        covered = np.maximum(starts[first:last], begin), np.minimum(stops[first:last], end)
        edges.append((np.concatenate(([begin], covered[1])), np.concatenate((covered[0], [end]))))
    begins, ends = map(np.concatenate, zip(*edges, strict=True))
    return begins[ends > begins], ends[ends > begins]


def starting(begins: Integers, window: Intervals) -> Integers:
    """The positions of the intervals that begin in the window."""
    starts, stops = window
    at = np.searchsorted(starts, begins, side="right") - 1
    return np.flatnonzero((at >= 0) & (begins < stops[np.maximum(at, 0)]))


DOMAIN = "advisor"
STRATEGY = "strategy:"
FIRST_FRAMES = 2
"""Frames 0 to 2 come first in every process; those after them are steady."""
LEAST = 3
"""Repetitions, below which nothing repeats."""
_EVENTS = ("start", "end", "eventType", "text", "globalTid")
_NUMBERS = {"NvtxPushPopRange": 59, "NvtxStartEndRange": 60, "NvtxDomainCreate": 75}
"""From the user guide, for exports without ENUM_NSYS_EVENT_TYPE."""
_MOST_NAMES, _MOST_MARKS = 20, 1_000_000
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
    if not database.has("NVTX_EVENTS", *_EVENTS, "domainId"):
        return []
    payloads = [c for c in ("int64Value", "uint64Value", "int32Value") if database.has("NVTX_EVENTS", c)]
    domain = f"globalTid / {THREAD_BITS}, domainId"
    rows = database.rows(  # the ranges of our domain; never closed, they end at once
        f"SELECT globalTid, {_name(database)}, COALESCE({', '.join([*payloads, 'NULL', 'NULL'])}), start, "
        f"COALESCE(end, start) FROM NVTX_EVENTS WHERE eventType = {_types(database, 'NvtxPushPopRange')} AND "
        f"({domain}) IN (SELECT {domain} FROM NVTX_EVENTS WHERE eventType = "
        f"{_types(database, 'NvtxDomainCreate')} AND text = ?) LIMIT {_MOST_RANGES + 1}",
        (DOMAIN,),
    )
    ranges = [Range(int(t), str(n), p, int(b), int(e)) for t, n, p, b, e in rows if n is not None]
    if len(ranges) > _MOST_RANGES or sum(r.name.startswith(STRATEGY) for r in ranges) > _MOST_STRATEGIES:
        raise ValueError(f"more than {_MOST_RANGES} ranges of advisor, or {_MOST_STRATEGIES} strategies")
    ranges.sort(key=lambda r: (r.thread, r.begin, -r.end))  # outer before inner
    by_thread = groupby(ranges, key=lambda r: r.thread)
    return [frame for _, own in by_thread for frame in _frames(list(own))]


def recurring(database: Database) -> tuple[tuple[str, int], ...]:
    """Names of NVTX ranges that could be frames, and how often each occurs; the most frequent first."""
    if not database.has("NVTX_EVENTS", *_EVENTS):
        return ()
    name = _name(database)
    rows = database.rows(
        f"SELECT {name}, COUNT(*) FROM NVTX_EVENTS WHERE eventType IN ({_types(database)}) AND end > start "
        f"AND {name} NOT NULL AND globalTid NOT NULL GROUP BY 1 HAVING COUNT(*) >= {LEAST} "
        f"ORDER BY 2 DESC, 1 LIMIT {_MOST_NAMES}"
    )
    return tuple((str(text), int(count)) for text, count in rows)


def ranges_of(database: Database, wanted: str) -> Mapping[int, Intervals]:
    """The ranges of that name by process, of the threads that call CUDA; without those inside another of the
    same thread."""
    if not database.has("NVTX_EVENTS", *_EVENTS):
        return {}
    rows = database.rows(
        "SELECT globalTid, start, end FROM (SELECT globalTid, start, end, MAX(end) OVER (PARTITION BY "
        "globalTid ORDER BY start, end DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reached "
        f"FROM NVTX_EVENTS WHERE eventType IN ({_types(database)}) AND {_name(database)} = ? AND end > start "
        f"AND globalTid NOT NULL LIMIT {_MOST_MARKS}) WHERE reached IS NULL OR end > reached ORDER BY start",
        (wanted,),
    )
    table = np.array([tuple(map(int, row)) for row in rows], np.int64).reshape(-1, 3)
    if database.has(Tables.CALLS, "globalTid"):
        threads = f"SELECT DISTINCT globalTid FROM {Tables.CALLS} WHERE globalTid NOT NULL LIMIT 100000"
        calling = np.isin(table[:, 0], [int(thread) for (thread,) in database.rows(threads)])
        table = table[calling] if calling.any() else table
    processes = table[:, 0] // THREAD_BITS
    return {process: (*table[processes == process, 1:].T,) for process in np.unique(processes).tolist()}


def _name(database: Database) -> str:
    registered = database.has("NVTX_EVENTS", "textId") and database.has("StringIds", "id", "value")
    text = "COALESCE(text, (SELECT value FROM StringIds WHERE id = textId))" if registered else "text"
    return f"substr({text}, 1, {LONGEST})"


def _types(database: Database, *names: str) -> str:
    numbers = {name: number for number, name in database.names("ENUM_NSYS_EVENT_TYPE").items()}
    wanted = names or ("NvtxPushPopRange", "NvtxStartEndRange")
    return ",".join(str({**_NUMBERS, **numbers}[name]) for name in wanted)


def _frames(ranges: Sequence[Range]) -> list[Frame]:
    """The frames of one thread under each strategy, then the steps under each frame."""
    marked = [(name, frame) for name, frames in _steady(ranges) for frame in frames]
    steps = [r for r in ranges if r.name != "frame" and not r.name.startswith(STRATEGY)]
    begins = np.array([r.begin for r in steps], np.int64)
    firsts = np.searchsorted(begins, [frame.begin for _, frame in marked])
    lasts = np.searchsorted(begins, [frame.end for _, frame in marked])
    if len(marked) > _MOST_RANGES or (lasts - firsts).sum() > _MOST_STEPS:
        raise ValueError("its strategy or frame ranges overlap")
    frames = [
        Frame(strategy, frame.thread // THREAD_BITS, frame.begin, frame.end, tuple(steps[begin:end]))
        for (strategy, frame), begin, end in zip(marked, firsts, lasts, strict=True)
    ]
    return [frame for name in dict(marked) for frame in _whole([f for f in frames if f.strategy == name])]


def _steady(ranges: Sequence[Range]) -> Iterator[tuple[str, list[Range]]]:
    last = max((r.end for r in ranges), default=0)
    for outer in (r for r in ranges if r.name.startswith(STRATEGY)):
        end = outer.end if outer.end > outer.begin else last
        under = [r for r in ranges if r.name == "frame" and outer.begin <= r.begin < r.end <= end]
        steady = [r for r in under if r.payload is None or r.payload > FIRST_FRAMES]
        yield outer.name.removeprefix(STRATEGY), steady or under[-1:]


def _whole(frames: Sequence[Frame]) -> Iterator[Frame]:
    """Without frames that have but a part of the usual steps: of those that overlap, the last begins no
    other, and a mean over it would miss uploads and kernels."""
    steps = [Counter(step.name for step in frame.steps) for frame in frames]
    ((usual, _),) = Counter(tuple(sorted(each.elements())) for each in steps).most_common(1)
    return (frame for frame, mine in zip(frames, steps, strict=True) if not mine < Counter(usual))
