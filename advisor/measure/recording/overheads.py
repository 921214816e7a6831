"""What recording cost: seconds that it timed, and calls of its own at the cost measured here."""

from __future__ import annotations

from dataclasses import dataclass

from advisor.measure.recording.calls import untimed_costs
from advisor.measure.recording.loops import Loop, Loops, head_cost
from advisor.measure.recording.origins import Origins
from advisor.measure.recording.recorder import Record, ScriptRecorder


@dataclass(frozen=True)
class Overheads:
    """Estimates of what a run would not have taken without its recording.

    crossing, launch, head: seconds of what the recorder cannot time, each time.
    """

    recorder: ScriptRecorder
    loops: Loops
    crossing: float
    launch: float
    head: float
    allocations: float
    """Seconds of all calls of the memory handler."""
    seconds: float
    """Of the run."""

    @classmethod
    def measured(cls, recorder: ScriptRecorder, loops: Loops, origins: Origins, seconds: float) -> Overheads:
        """At the end of a run of that many seconds."""
        allocations = origins.calls * origins.call_cost()
        return cls(recorder, loops, *untimed_costs(recorder), head_cost(), allocations, seconds)

    def whole(self) -> float:
        heads = sum(loop.called for loop in self.loops.all) * self.head
        lines = self._lines(list(self.recorder.records.values()))
        return min(
            self.recorder.overhead + self._launches(None) + heads + lines + self.allocations, self.seconds
        )

    def of_loop(self, loop: Loop) -> float:
        """Of all its iterations; allocations are taken to be spread evenly over the run."""
        records = [
            record
            for record in self.recorder.records.values()
            if any(each.loop is loop for each in record.loops)
        ]
        inner = {each.loop for record in records for each in record.loops[_place(record, loop) :]}
        heads = sum(each.called for each in {loop, *inner}) * self.head
        allocations = self.allocations * loop.seconds / self.seconds
        return min(self._lines(records) + self._launches(loop) + heads + allocations, loop.seconds)

    def _lines(self, records: list[Record]) -> float:
        return sum(record.overhead + record.count * self.crossing for record in records)

    def _launches(self, loop: Loop | None) -> float:
        return self.recorder.launch_overhead[loop] + self.recorder.launches[loop] * self.launch


def _place(record: Record, loop: Loop) -> int:
    return [each.loop for each in record.loops].index(loop)
