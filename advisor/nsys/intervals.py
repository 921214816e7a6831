"""Stretches of time on nsys's clock: which one a moment lies in, and how much of them the GPU worked."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import numpy as np

from advisor.nsys.database import Integers, distinct

Intervals = tuple[Integers, Integers]
"""Begins and ends in ns."""


class Windows:
    """Stretches of time, each of one process and with a number; those of one process do not overlap."""

    def __init__(self, stretches: Iterable[tuple[int, int, int, int]]) -> None:
        """`stretches`: process, begin, end, number."""
        ordered = sorted(stretches)
        self._of = {
            process: np.array([row[1:] for row in rows], np.int64)
            for process, rows in groupby(ordered, key=lambda row: row[0])
        }

    def find(self, processes: Integers, moments: Integers) -> Integers:
        """The number of the stretch that each moment lies in; -1 where it lies in none."""
        result = np.full(len(moments), -1, np.int64)
        for process, stretches in self._of.items():
            mine = np.flatnonzero(processes == process)
            if not len(mine):
                continue
            begins, ends, numbers = stretches.T
            at = np.searchsorted(begins, moments[mine], side="right") - 1
            inside = (at >= 0) & (moments[mine] <= ends[at])
            result[mine[inside]] = numbers[at[inside]]
        return result


class Busy:
    """Collects when the GPU worked, by process: 16 bytes for each piece of work, 32 while it is sorted."""

    def __init__(self) -> None:
        self._pieces: dict[int, list[Intervals]] = {}

    @property
    def seen(self) -> bool:
        return bool(self._pieces)

    def add(self, processes: Integers, begins: Integers, ends: Integers) -> None:
        for process in distinct(processes):
            mine = processes == process
            self._pieces.setdefault(process, []).append((begins[mine], ends[mine]))

    def share(self, process: int | None, begins: Integers, ends: Integers) -> float:
        """The share of these stretches, which do not overlap, in which it worked; None: any process."""
        if process is None and len(self._pieces) > 1:
            self._pieces = {0: [piece for pieces in self._pieces.values() for piece in pieces]}
        key = next(iter(self._pieces), 0) if process is None else process
        length = int((ends - begins).sum())
        if key not in self._pieces or length <= 0:
            return 0.0
        starts, stops = self._joined(key)
        worked = _before(ends, starts, stops) - _before(begins, starts, stops)
        return min(int(worked.sum()) / length, 1.0)

    def extent(self) -> tuple[int, int]:
        """The first begin and the last end of all; only where anything was seen."""
        pieces = [piece for pieces in self._pieces.values() for piece in pieces]
        return min(int(b.min()) for b, _ in pieces), max(int(e.max()) for _, e in pieces)

    def _joined(self, process: int) -> Intervals:
        """The pieces of a process as their union, which takes their place."""
        pieces = self._pieces[process]
        if len(pieces) > 1 or np.any(pieces[0][0][1:] <= pieces[0][1][:-1]):
            pieces[:] = [_union(pieces)]
        return pieces[0]


def _union(pieces: list[Intervals]) -> Intervals:
    """The same time as intervals that do not overlap, in order. Empties the list, to save memory."""
    begins = np.concatenate([begins for begins, _ in pieces])
    ends = np.concatenate([ends for _, ends in pieces])
    pieces.clear()
    order = np.argsort(begins, kind="stable")
    begins, ends = begins[order], ends[order]
    del order
    np.maximum.accumulate(ends, out=ends)
    opens = np.concatenate(([True], begins[1:] > ends[:-1]))
    closes = np.concatenate((opens[1:], [True]))
    return begins[opens], ends[closes]


def _before(moments: Integers, starts: Integers, stops: Integers) -> Integers:
    """How much of the intervals lies before each moment."""
    totals = np.concatenate(([0], np.cumsum(stops - starts)))
    at = np.searchsorted(starts, moments, side="right")
    last = np.maximum(at - 1, 0)
    over = np.where(at > 0, np.maximum(stops[last] - moments, 0), 0)
    return np.asarray(totals[at] - over, np.int64)
