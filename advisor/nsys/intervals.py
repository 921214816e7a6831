"""Sets of intervals in ns: their union, what lies between them, and how much of one set lies in another."""

from __future__ import annotations

import numpy as np

from advisor.nsys.database import Integers

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
    edges = [
        (np.concatenate(([begin], stops)), np.concatenate((starts, [end])))
        for begin, end in zip(*window, strict=True)
        for starts, stops in [_clipped(united, begin, end)]
    ]
    begins = np.concatenate([b for b, _ in edges] or [NOTHING])
    ends = np.concatenate([e for _, e in edges] or [NOTHING])
    return begins[ends > begins], ends[ends > begins]


def _clipped(united: Intervals, begin: int, end: int) -> Intervals:
    starts, stops = united
    first, last = np.searchsorted(stops, begin, side="right"), np.searchsorted(starts, end, side="left")
    return np.maximum(starts[first:last], begin), np.minimum(stops[first:last], end)


def starting(begins: Integers, window: Intervals) -> Integers:
    """The positions of the intervals that begin in the window."""
    starts, stops = window
    at = np.searchsorted(starts, begins, side="right") - 1
    return np.flatnonzero((at >= 0) & (begins < stops[np.maximum(at, 0)]))
