"""How many bytes each stage reads and writes of each buffer, seen while it runs in NumPy on the CPU.

`wrap` gives a traced view of a buffer (see traced_arrays.py); what NumPy does with it inside
`with recorder.stage(name)` is counted. Bytes count every pass over the data. Memory is told apart by
address, so views and views of views belong to their buffer, and everything else is the stage's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from advisor.model.traced_arrays import TracedArray, extent
from advisor.profiles import StageWork, Trace, Traffic
from advisor.schedule import StageUse

Array = npt.NDArray[Any]


@dataclass
class _Tally:
    """What one stage did so far, over all the times it ran."""

    runs: int = 0
    read: dict[str, float] = field(default_factory=dict)
    written: dict[str, float] = field(default_factory=dict)
    temporary: float = 0.0
    flops: float = 0.0


class TrafficRecorder:
    """Counts the NumPy traffic of traced arrays, per stage and buffer."""

    def __init__(self) -> None:
        self._memory: dict[tuple[int, int], tuple[str, Array]] = {}
        self._tallies: dict[str, _Tally] = {}
        self._current: _Tally | None = None

    def wrap(self, name: str, array: Array) -> Array:
        """A traced view of the same memory, as writeable as `array`; buffer `name` owns it from now on."""
        # The array is kept, so that its addresses cannot be given to another one.
        self._memory[extent(array)] = (name, array)
        return TracedArray.of(array, self)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """What happens inside belongs to this stage; outside of any stage nothing is counted."""
        before = self._current
        self._current = self._tallies.setdefault(name, _Tally())
        self._current.runs += 1
        try:
            yield
        finally:
            self._current = before

    @property
    def counting(self) -> bool:
        """Whether a stage is running."""
        return self._current is not None

    def read(self, array: Array, count: float) -> None:
        """Counts `count` bytes read from the memory of `array`."""
        self._count(array, count, written=False)

    def wrote(self, array: Array, count: float) -> None:
        """Counts `count` bytes written to the memory of `array`."""
        self._count(array, count, written=True)

    def computed(self, flops: float) -> None:
        """Counts arithmetic."""
        if self._current is not None:
            self._current.flops += flops

    def _count(self, array: Array, count: float, *, written: bool) -> None:
        if self._current is None:
            return
        owner = self._owner(array)
        if owner is None:
            self._current.temporary += count
            return
        table = self._current.written if written else self._current.read
        table[owner] = table.get(owner, 0.0) + count

    def _owner(self, array: Array) -> str | None:
        low, high = extent(array)
        for (start, end), (name, _) in self._memory.items():
            if start <= low and high <= end:
                return name
        return None

    def trace(
        self,
        uses: Sequence[StageUse],
        passes: Mapping[str, Mapping[str, float]],
        flops: Mapping[str, float],
        bytes_of: Mapping[str, int],
        seconds: Mapping[str, float],
    ) -> Trace:
        """The record of what was seen, for one run of each stage.

        `passes` and `flops` by stage are what the user declared: they win. An annotated access of which
        nothing was seen (the array went to a C library) is taken as one pass, marked "assumed". Of a stage
        that did not run, and of which nothing is declared, there is no record.
        """
        traffic = tuple(
            self._traffic(use, buffer, passes.get(use.name, {}), bytes_of[buffer])
            for use in uses
            if use.name in self._tallies or passes.get(use.name)
            for buffer in use.access
        )
        work = tuple(self._work(use.name, flops.get(use.name), seconds.get(use.name)) for use in uses)
        return Trace(traffic=traffic, work=work)

    def _traffic(self, use: StageUse, buffer: str, passes: Mapping[str, float], size: int) -> Traffic:
        tally = self._tallies.get(use.name, _Tally())
        runs = max(tally.runs, 1)
        read, written = tally.read.get(buffer, 0.0) / runs, tally.written.get(buffer, 0.0) / runs
        unread = use.access[buffer] != "out" and read == 0
        unwritten = use.access[buffer] != "in" and written == 0
        if unwritten:
            written = float(size)
        if buffer in passes:
            read = passes[buffer] * size
        elif unread:
            read = float(size)
        return Traffic(
            stage=use.name,
            buffer=buffer,
            bytes_read=read,
            bytes_written=written,
            source="declared" if buffer in passes else "assumed" if unread or unwritten else "traced",
        )

    def _work(self, stage: str, declared: float | None, seconds: float | None) -> StageWork:
        tally = self._tallies.get(stage, _Tally())
        runs = max(tally.runs, 1)
        seen = tally.flops / runs if tally.flops else None
        return StageWork(
            stage=stage,
            flops=seen if declared is None else declared,
            temporary_bytes=tally.temporary / runs,
            seconds=seconds,
        )
