"""Blocks, which the final saves: some frames of one contestant, timed on buffers placed for it alone."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from advisor.profiles.base import PositiveSeconds, Record, Seconds

MOST_FRAMES = 200
"""Frames of a block that are kept one by one, its first."""
Count = Annotated[int, Field(ge=0)]


class Energy(Record):
    """What the device took while a block's frames ran, all of it, and what it takes while nothing runs."""

    joules: Annotated[float, Field(gt=0)]
    idle_watts: Annotated[float, Field(ge=0)]
    source: str = Field(description="The counter or the rails, and what they include")


class Block(Record):
    """Consecutive frames of one contestant, all with the same frame indices as the others' of that round."""

    process: Count
    round: Count
    place: Count = Field(description="In the round's order")
    contestant: str
    frames: Annotated[int, Field(gt=0)]
    seconds: PositiveSeconds = Field(description="All frames together, by contiguous timestamps")
    frame_seconds: tuple[Seconds, ...] = Field(
        description="The first frames one by one, at most 200; none of a window for energy"
    )
    latency_seconds: PositiveSeconds | None = Field(
        default=None, description="Mean from begin to end of a frame, where frames overlap"
    )
    host_seconds: dict[str, Seconds] = Field(
        default_factory=dict, description="Mean of each host stage in a frame, by the host's clock"
    )
    cpu_seconds: Seconds | None = Field(
        default=None, description="CPU time of a frame: all threads of the process, waits that spin included"
    )
    frame_latencies: tuple[Seconds, ...] = Field(
        default=(), description="Begin to end of the first frames one by one, where frames overlap"
    )
    energy: Energy | None = Field(default=None, description="Of a window for energy, of two seconds")

    @property
    def period_seconds(self) -> float:
        """Mean time from one finished frame to the next."""
        return self.seconds / self.frames

    @property
    def delays(self) -> tuple[float, ...]:
        """Begin to end of frames one by one."""
        return tuple(seconds for seconds in self.frame_latencies or self.frame_seconds if seconds > 0)

    @property
    def joules(self) -> float | None:
        """Energy of a frame above the idle power; None where none was measured, or none shows above it."""
        if self.energy is None:
            return None
        above = self.energy.joules - self.energy.idle_watts * self.seconds
        return above / self.frames if above > 0 else None
