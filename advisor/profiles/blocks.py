"""Blocks, which the final saves: some frames of one contestant, timed on buffers placed for it alone."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from advisor.profiles.base import PositiveSeconds, Record, Seconds

MOST_FRAMES = 200
"""Frames of a block that are kept one by one, its first."""
Count = Annotated[int, Field(ge=0)]


class Block(Record):
    """Consecutive frames of one contestant, all with the same frame indices as the others' of that round."""

    process: Count
    round: Count
    place: Count = Field(description="In the round's order")
    contestant: str
    frames: Annotated[int, Field(gt=0)]
    seconds: PositiveSeconds = Field(description="All frames together, by contiguous timestamps")
    frame_seconds: tuple[Seconds, ...] = Field(description="The first frames one by one, at most 200")
    latency_seconds: PositiveSeconds | None = Field(
        default=None, description="Mean from begin to end of a frame, where frames overlap"
    )
    host_seconds: dict[str, Seconds] = Field(
        default_factory=dict, description="Mean of each host stage in a frame, by the host's clock"
    )

    @property
    def period_seconds(self) -> float:
        """Mean time from one finished frame to the next."""
        return self.seconds / self.frames
