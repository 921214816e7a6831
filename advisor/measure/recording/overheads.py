"""What recording cost: crossings at the price of some recorded at the end, and what it timed itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

from advisor.measure.recording.calls import wrapper_costs
from advisor.measure.recording.events import LibraryRecorder
from advisor.measure.recording.loops import Loop, Loops, head_cost
from advisor.measure.recording.origins import Origins
from advisor.measure.recording.recorder import FIRST_CLOCKED, Record, ScriptRecorder

_FILE, _SOURCE = "<copies>", "for _ in range(turns):\n    copy()\n"
_BLOCKS, _TURNS = 15, 40
"""Blocks of copies with and without recording, in turns: their median difference is a crossing's price."""


@dataclass(frozen=True)
class Price:
    """Seconds of a crossing that is recorded but not timed, and of the part that is timed in others."""

    seconds: float
    noting: float | None

    def of(self, record: Record) -> float:
        """The cost of all crossings of a line: where noting them took longer than here, so did the rest."""
        in_place = record.noting / record.noted if record.noted else self.noting
        slower = max(in_place / self.noting, 1.0) if in_place and self.noting else 1.0
        return record.overhead + (record.count - record.detailed) * self.seconds * slower


@dataclass(frozen=True)
class Overheads:
    """Estimates of what a run would not have taken without its recording.

    launch, head: seconds of what the recorder cannot time, each time.
    """

    recorder: ScriptRecorder
    loops: Loops
    crossing: Price
    launch: float
    head: float
    allocations: float
    """Seconds of all calls of the memory handler."""
    seconds: float
    """Of the run."""

    @classmethod
    def measured(
        cls,
        recorder: ScriptRecorder,
        loops: Loops,
        origins: Origins,
        libraries: Sequence[LibraryRecorder],
        seconds: float,
    ) -> Overheads:
        """At the end of a run of that many seconds."""
        allocations = origins.cost()
        wrapper, launch = wrapper_costs(recorder)
        price = crossing_price(recorder, loops, libraries, wrapper)
        return cls(recorder, loops, price, launch, head_cost(), allocations, seconds)

    def of(self, loop: Loop | None = None) -> float:
        """The cost of all iterations of a loop, or of the run, over which allocations are taken as even."""
        recorder, seconds = self.recorder, loop.seconds if loop else self.seconds
        chains = [(record, [each.loop for each in record.loops]) for record in recorder.records.values()]
        inside = [(record, chain) for record, chain in chains if loop is None or loop in chain]
        heads = {each for _, chain in inside for each in chain} if loop else self.loops.all
        return min(
            sum(map(self.crossing.of, (record for record, _ in inside)))
            + recorder.launch_overhead[loop]
            + recorder.launches[loop] * self.launch
            + sum(each.called for each in heads) * self.head
            + self.allocations * seconds / self.seconds,
            seconds,
        )


def crossing_price(
    recorder: ScriptRecorder, loops: Loops, libraries: Sequence[LibraryRecorder], wrapper: float
) -> Price:
    """Measured by copies of the script's libraries, which leave no record; wrapper: what a wrapper costs."""
    records, prices, notings = dict(recorder.records), list[float](), list[float]()
    code = loops.compiled(_SOURCE, _FILE)
    for library in libraries:
        with suppress(Exception):  # the GPU may be out of memory, or gone after the script's own error
            for copy in library.copies():
                prices.append(wrapper + _added(recorder, code, copy))
    notings += [r.noting / r.noted for key, r in recorder.records.items() if key not in records and r.noted]
    recorder.records, recorder.recording = records, False
    loops.forget(_FILE)
    return Price(max(median(prices), 0.0) if prices else wrapper, median(notings) if notings else None)


def _added(recorder: ScriptRecorder, code: Any, copy: Callable[[], Any]) -> float:
    """Seconds that recording adds to a copy."""

    def seconds(turns: int, recording: bool) -> float:
        recorder.recording, begin = recording, perf_counter()
        exec(code, {"turns": turns, "copy": copy})
        return (perf_counter() - begin) / turns

    seconds(2 * FIRST_CLOCKED, True)
    return median(seconds(_TURNS, True) - seconds(_TURNS, False) for _ in range(_BLOCKS))
