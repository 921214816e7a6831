"""What the parent and a process of the final say to one another, a line each over a socket."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from advisor.measure.jobs import Job, Problem
from advisor.measure.kept_results import LEAST_FRAMES
from advisor.profiles.base import Record
from advisor.profiles.blocks import Block


class FinalJob(Record):
    """One process's work in the final. `base` is a measuring job whose strategy each contestant replaces."""

    base: Job
    process: Annotated[int, Field(ge=0)]
    contestants: dict[str, str] = Field(description="Name to strategy; two names may share one")
    frames: Annotated[int, Field(gt=0)] = Field(description="Timed frames of a block")
    block_seconds: float = Field(gt=0, description="Where function and set-up take longer, they run once")
    capped: bool = Field(
        default=False,
        description="Blocks end after `block_seconds`, with fewer frames of slow contestants",
    )
    energy_seconds: float = Field(
        default=0.0, ge=0, description="A block is a window for energy of that length; 0 is none"
    )
    compare: int = Field(
        default=LEAST_FRAMES, ge=0, description="Frames that are compared in each contestant's first block"
    )
    limit_seconds: float | None = Field(default=None, description="When --max-seconds ends it")
    directory: str
    jobs: dict[str, Job] = Field(
        default_factory=dict, description="Of contestants that are versions of the code: in place of `base`"
    )

    def job_of(self, contestant: str) -> Job:
        """The contestant's measuring job."""
        job = self.jobs.get(contestant, self.base)
        return job.model_copy(update={"strategy": self.contestants[contestant]})


class FinalRound(Record):
    """A request: a block of each of these, in this order."""

    round: int
    order: tuple[str, ...]
    warm_frames: int = Field(ge=0, description="Frames before the timed ones that do not count")


class BlockBegun(Record):
    """The contestant at work: the one that left, should the process die now."""

    kind: Literal["begun"] = "begun"
    contestant: str


class BlockDone(Record):
    """A block's figures."""

    kind: Literal["block"] = "block"
    block: Block
    warming_seconds: tuple[float, ...] = Field(description="Of the frames before it, which do not count")
    steps: dict[str, float] = Field(
        default_factory=dict, description="Of a version: seconds of each step of a frame after it, by label"
    )


class Left(Record):
    """A contestant that cannot go on. `broken`: nor can the process."""

    kind: Literal["left"] = "left"
    contestant: str
    problem: Problem
    broken: bool = False


class Unmeasurable(Record):
    """Windows for energy were asked for, and nothing counts it here."""

    kind: Literal["unmeasurable"] = "unmeasurable"
    reason: str


class RoundDone(Record):
    """All of a round's contestants had their block."""

    kind: Literal["round"] = "round"
    round: int
    kept_setup: bool = False


Message = BlockBegun | BlockDone | Left | Unmeasurable | RoundDone
_MESSAGE: TypeAdapter[Message] = TypeAdapter(Annotated[Message, Field(discriminator="kind")])


def as_line(message: Message | FinalRound) -> str:
    """The message as one line of JSON."""
    return message.model_dump_json() + "\n"


def read_message(line: str) -> Message:
    """The message of a line. Raises pydantic's `ValidationError` for what is none."""
    return _MESSAGE.validate_json(line)
