"""Figures of a row beside times: the slowest frames, energy, and its memory by place."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from advisor.profiles.amounts import Amount, Bytes, Count, Number, Positive, PositiveSeconds, Seconds
from advisor.profiles.base import Record, Text, Word, deprecated, optional, table

MOST_ITERATIONS = 1_000_000
"""Iterations that a loop of a frame may be told to do at most."""


class FrameFigures(Record):
    """What a frame spends beside its time: in samples, blocks and rows.

    `advisor.measure.sampling.COUNTERS` says how each is read.
    """

    cpu_seconds: Seconds | None = optional(
        "CPU time of a frame, all threads of the process, waits that spin included"
    )


class Instead(Record):
    """The next best placement of a buffer of a mix, and what a frame would take more."""

    placement: Word
    seconds: Seconds


class Row(Record):
    """One strategy. A mix names, for each shared buffer, the strategy whose placement the buffer has."""

    strategy: Word
    placements: dict[Word, Word] = table("Of a mix: how each buffer that both sides use is placed")
    pipelined: bool = optional("Of a mix: frames overlap", False)


class Quantile(Record):
    """A quantile of the frames' times. Each bound holds with 95 %; see `stats.quantile_by_blocks`."""

    seconds: PositiveSeconds
    low_seconds: PositiveSeconds
    high_seconds: PositiveSeconds


class FrameEnergy(Record):
    """Energy of a frame, above what the device takes while nothing runs."""

    joules: Positive = Field(description="Of a frame, without the idle power")
    watts: Positive = Field(description="Mean power in the windows, the idle power included")
    idle_watts: Amount = Field(description="With the process's context open and nothing running")
    seconds: Seconds = Field(description="All windows together")
    frames: Number = Field(description="Run in the windows")
    source: Text = Field(description="The counter or the rails, and what they include")
    gpus: tuple[Amount, ...] = optional(
        "Joules of a frame on each of several GPUs, above its idle power; 0 where it is not distinguishable",
        (),
    )


class PlaceMemory(Record):
    """Memory that a run added in one place: the host, or a GPU."""

    steady_bytes: Bytes = Field(description="Between frames")
    peak_bytes: Bytes = Field(description="The most after any step of a frame")


class HostPages(Record):
    """The pages of the buffers' host memory, as the kernel placed them."""

    model_config = ConfigDict(json_schema_extra=deprecated("nodes"))
    bytes: Bytes = Field(description="Host memory of all buffers")
    huge_bytes: Bytes | None = optional("Of these on huge pages, transparent or explicit")
    absent: dict[Word, Text] = Field(default_factory=dict)


class StrategyFigures(FrameFigures):
    """Also what is read once per process, in its sample and in the strategy's row."""

    host_pages: HostPages | None = None


class Iterations(Record):
    """How often a loop of the frame ran."""

    number: Count = Field(description="Which loop of the frame, in order")
    until: Word = Field(description="The buffer that ends it")
    counts: tuple[Number, ...] = Field(
        description="Of single frames: of a strategy 0, 1, 2 and so on, those that are compared with the "
        "reference run's; of the traced run those that it timed"
    )
    mean: float = Field(ge=1, le=MOST_ITERATIONS, description="Per frame, over the frames that are timed")
