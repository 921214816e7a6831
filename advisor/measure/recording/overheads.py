"""What recording cost: crossings by those that were timed, and what else the recorder timed."""

from __future__ import annotations

from dataclasses import dataclass

from advisor.measure.recording.calls import wrapper_costs
from advisor.measure.recording.loops import Loop, Loops, head_cost
from advisor.measure.recording.origins import Origins
from advisor.measure.recording.recorder import Record, ScriptRecorder


@dataclass(frozen=True)
class Overheads:
    """Estimates of what a run would not have taken without its recording.

    wrapper, launch, head: seconds of what the recorder cannot time, each time.
    """

    recorder: ScriptRecorder
    loops: Loops
    wrapper: float
    launch: float
    head: float
    allocations: float
    """Seconds of all calls of the memory handler."""
    seconds: float
    """Of the run."""

    @classmethod
    def measured(cls, recorder: ScriptRecorder, loops: Loops, origins: Origins, seconds: float) -> Overheads:
        """At the end of a run of that many seconds."""
        return cls(recorder, loops, *wrapper_costs(recorder), head_cost(), origins.cost(), seconds)

    def of(self, loop: Loop | None = None) -> float:
        """The cost of all iterations of a loop, or of the run, over which allocations are taken as even."""
        recorder, seconds = self.recorder, loop.seconds if loop else self.seconds
        chains = [(record, [each.loop for each in record.loops]) for record in recorder.records.values()]
        inside = [(record, chain) for record, chain in chains if loop is None or loop in chain]
        heads = {each for _, chain in inside for each in chain} if loop else self.loops.all
        return min(
            sum(self._crossings(record) for record, _ in inside)
            + recorder.launch_overhead[loop]
            + recorder.launches[loop] * self.launch
            + sum(each.called for each in heads) * self.head
            + self.allocations * seconds / self.seconds,
            seconds,
        )

    def _crossings(self, record: Record) -> float:
        """The others of a line as those that were timed, but not in detail."""
        each = record.noting / record.noted if record.noted else 0.0
        return record.overhead + (record.count - record.detailed) * each + record.count * self.wrapper
