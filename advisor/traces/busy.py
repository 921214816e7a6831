"""How long the GPU worked: the union of everything it did, held against the frames."""

from __future__ import annotations

import numpy as np

from advisor.traces.database import Integers


class Busy:
    """Collects when the GPU worked, by process. Memory is 16 bytes for each piece of work."""

    def __init__(self) -> None:
        self._pieces: dict[int, list[tuple[Integers, Integers]]] = {}

    @property
    def seen(self) -> bool:
        """Whether the GPU was seen to do anything at all."""
        return bool(self._pieces)

    def add(self, processes: Integers, begins: Integers, ends: Integers) -> None:
        """Pieces of work from begin to end, in ns."""
        for process in np.unique(processes):
            mine = processes == process
            self._pieces.setdefault(int(process), []).append((begins[mine], ends[mine]))

    def share(self, process: int | None, begins: Integers, ends: Integers) -> float:
        """The share of these stretches, which do not overlap, in which it worked; None: any process."""
        chosen = [p for key, pieces in self._pieces.items() if process in (None, key) for p in pieces]
        length = int((ends - begins).sum())
        if not chosen or length <= 0:
            return 0.0
        starts, stops = _union(*(np.concatenate(parts) for parts in zip(*chosen, strict=True)))
        worked = _before(ends, starts, stops) - _before(begins, starts, stops)
        return min(int(worked.sum()) / length, 1.0)

    def extent(self) -> tuple[int, int]:
        """The first begin and the last end of all; only where anything was seen."""
        pieces = [piece for pieces in self._pieces.values() for piece in pieces]
        return min(int(b.min()) for b, _ in pieces), max(int(e.max()) for _, e in pieces)


def _union(begins: Integers, ends: Integers) -> tuple[Integers, Integers]:
    """The same time as intervals that do not overlap, in order."""
    order = np.argsort(begins, kind="stable")
    begins, reach = begins[order], np.maximum.accumulate(ends[order])
    opens = np.concatenate(([True], begins[1:] > reach[:-1]))
    closes = np.concatenate((opens[1:], [True]))
    return begins[opens], reach[closes]


def _before(moments: Integers, starts: Integers, stops: Integers) -> Integers:
    """How much of the intervals lies before each moment."""
    totals = np.concatenate(([0], np.cumsum(stops - starts)))
    at = np.searchsorted(starts, moments, side="right")
    last = np.maximum(at - 1, 0)
    over = np.where(at > 0, np.maximum(stops[last] - moments, 0), 0)
    return np.asarray(totals[at] - over, np.int64)
