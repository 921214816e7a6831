"""What recording cost: seconds that it timed, and calls of its own at the cost measured here."""

from __future__ import annotations

from dataclasses import dataclass

from advisor.measure.recording.calls import untimed_costs
from advisor.measure.recording.loops import Loop, Loops, head_cost
from advisor.measure.recording.origins import Origins
from advisor.measure.recording.recorder import ScriptRecorder


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

    def of(self, loop: Loop | None = None) -> float:
        """Of all iterations of a loop, or of the run; allocations are taken to be spread evenly over it."""
        recorder, seconds = self.recorder, loop.seconds if loop else self.seconds
        chains = [(record, [each.loop for each in record.loops]) for record in recorder.records.values()]
        inside = [(record, chain) for record, chain in chains if loop is None or loop in chain]
        heads = {each for _, chain in inside for each in chain} if loop else self.loops.all
        return min(
            sum(record.overhead + record.count * self.crossing for record, _ in inside)
            + recorder.launch_overhead[loop]
            + recorder.launches[loop] * self.launch
            + sum(each.called for each in heads) * self.head
            + self.allocations * seconds / self.seconds
            + (recorder.overhead if loop is None else 0.0),
            seconds,
        )
