"""Figures of a row beside times, and how they were measured: the method, the final, and its blocks.

A block is some frames of one contestant, timed on buffers placed for it alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from advisor.profiles.amounts import Amount, Bytes, Count, Number, Positive, PositiveSeconds, Seconds
from advisor.profiles.base import Name, Record, Text, Word, optional, table
from advisor.profiles.traces import Timeline

MOST_ITERATIONS = 1_000_000
"""Iterations that a loop of a frame may be told to do at most."""


class FrameFigures(Record):
    """Costs of a frame beside its time: in samples, blocks and rows.

    `advisor.measure.sampling.COUNTERS` says how each is read.
    """

    cpu_seconds: Seconds | None = optional("CPU time of a frame: all threads, waits that spin included")


class Instead(Record):
    """The next best placement of a buffer of a mix, and what a frame would take more."""

    placement: Word
    seconds: Seconds


class Row(Record):
    """One strategy. A mix names, for each shared buffer, the strategy whose placement the buffer has."""

    strategy: Word
    placements: dict[Word, Word] = table("In a mix: how each buffer that both sides use is placed")
    pipelined: bool = optional("In a mix: whether frames overlap", False)


class Quantile(Record):
    """A quantile of the frames' times. How sure each bound is: see `stats.quantile_by_blocks`."""

    seconds: PositiveSeconds
    low_seconds: PositiveSeconds
    high_seconds: PositiveSeconds


class FrameEnergy(Record):
    """Energy of a frame, above what the device takes while nothing runs."""

    joules: Positive = Field(description="Energy of a frame, without the idle power")
    watts: Positive = Field(description="Mean power in the windows, the idle power included")
    idle_watts: Amount = Field(description="With the process's context open and nothing running")
    seconds: Seconds = Field(description="All windows together")
    frames: Number = Field(description="Run in the windows")
    source: Text = Field(description="The counter or the rails, and what they include")
    gpus: tuple[Amount, ...] = optional(
        "Joules of a frame on each of several GPUs, above its idle power; 0 where it is not distinguishable",
        (),
    )


class PlaceMemory(Record, extra="ignore"):  # earlier profiles have steady_bytes
    """Memory that a run added in one place: the host, or a GPU."""

    peak_bytes: Bytes = Field(description="The most after any step of a frame")


class HostPages(Record):
    """The pages of the buffers' host memory, as the kernel placed them."""

    bytes: Bytes = Field(description="Host memory of all buffers")
    huge_bytes: Bytes | None = optional("How many of them are on huge pages, transparent or explicit")
    absent: dict[Word, Text] = Field(default_factory=dict)


class PageLocking(Record):
    """Memory that the workload's own stages page-locked through CuPy in the timed frames, per frame."""

    calls: Amount = Field(description="Allocations of page-locked memory, and registrations")
    seconds: Seconds = Field(description="Time these calls and those that undo them took")


class StrategyFigures(FrameFigures):
    """Also what is read once per process, in its sample and in the strategy's row."""

    host_pages: HostPages | None = None
    setup_seconds: Seconds = Field(description="Allocate, pin, set-up stages, first frame")
    transfer_bytes: dict[Literal["to-device", "to-host"], Bytes] = Field(default_factory=dict)
    hints: dict[Word, tuple[Word, ...]] = table("Hints given to the driver for each managed buffer")
    page_locking: PageLocking | None = optional("None where not observed, as on the CPU device")
    timeline: Timeline | None = optional("One frame step by step, by CUDA events after the timed frames")


class Iterations(Record):
    """How often a loop of the frame ran."""

    number: Count = Field(description="Which loop of the frame, in order")
    until: Word = Field(description="The buffer that ends it")
    counts: tuple[Number, ...] = Field(
        description="Iterations in single frames: of a strategy frames 0, 1, 2 and so on, which are compared "
        "with the reference run's; of the traced run those that it timed"
    )
    mean: float = Field(ge=1, le=MOST_ITERATIONS, description="Per frame, over the frames that are timed")


MOST_FRAMES = 200
"""Frames of a block that are kept one by one, its first."""


class GpuEnergy(Record):
    """Energy of a GPU during a block's frames, and its idle power."""

    joules: Amount
    idle_watts: Amount


class Energy(GpuEnergy):
    """Energy of all GPUs of the device together."""

    joules: Positive
    source: Text = Field(description="The counter or the rails, and what they include")
    gpus: tuple[GpuEnergy, ...] = optional("Each of several GPUs, by its number in the workload", ())


class RoundBlock(Record):
    """Which block of frames it is: its place in the run, and whose frames."""

    process: Count
    round: Count
    place: Count = Field(description="In the round's order")
    contestant: Word
    frames: Number


class Block(RoundBlock, FrameFigures):
    """Consecutive frames of one contestant, all with the same frame indices as the others' of that round."""

    seconds: PositiveSeconds = Field(description="All frames together, by contiguous timestamps")
    frame_seconds: tuple[Seconds, ...] = Field(description="The first frames, at most 200; none for energy")
    latency_seconds: PositiveSeconds | None = optional("Mean latency of a frame, where frames overlap")
    host_seconds: dict[Name, Seconds] = table("Mean of each host stage in a frame, by the host's clock")
    iterations: dict[Word, Annotated[float, Field(ge=1)]] = table("Mean of each loop if the same in all runs")
    frame_latencies: tuple[Seconds, ...] = optional("Latencies of the first frames, where frames overlap", ())
    energy: Energy | None = optional("Energy in a window of two seconds")

    @property
    def period_seconds(self) -> float:
        """Mean time from one finished frame to the next."""
        return self.seconds / self.frames

    @property
    def delays(self) -> tuple[float, ...]:
        """Latencies of frames one by one."""
        return tuple(seconds for seconds in self.frame_latencies or self.frame_seconds if seconds > 0)

    @property
    def joules(self) -> float | None:
        """Energy of a frame above the idle power; None where none was measured, or none shows above it."""
        if self.energy is None:
            return None
        above = self.energy.joules - self.energy.idle_watts * self.seconds
        return above / self.frames if above > 0 else None


SearchMode = Literal["off", "auto", "exhaustive"]


class Tried(Record):
    """A mix that the search measured. Times of the best uniform strategy over its own, from paired blocks."""

    placements: dict[Word, Word]
    gain: Positive = Field(description="1.05 is 5 % less time for the same frames")
    most: Positive = Field(description="Upper end, for all that were tried together")
    rounds: Count
    name: Word = optional("Its name in the final", "")


class Search(Record):
    mode: SearchMode
    reason: Text = optional("Why nothing was measured, or why the search ended early", "")
    over: Word = optional("The uniform strategy that gains are relative to", "")
    tried: tuple[Tried, ...] = optional("In the order of their gain", ())
    mixes: Count = optional("All mixes of the placements that were searched", 0)
    seconds: Seconds = 0.0


class Method(Record):
    """How the figures were measured, so that a run can be repeated."""

    rounds: Number
    max_seconds: PositiveSeconds = Field(description="Time of the whole run; of a script, its time limit")
    seed: Count
    confidence: float = Field(gt=0, lt=1)
    order: tuple[tuple[Word, ...], ...] = Field(description="The strategies of each round, in the order run")
    search: SearchMode = optional("Whether mixes of placements were searched for", "off")
    numa: Word = optional("Node of host memory asked for: local, remote or a number", "local")


def rounds(blocks: Iterable[Block]) -> list[list[float]]:
    """Mean seconds from one finished frame to the next in each block, by process."""
    by_process: dict[int, list[float]] = {}
    for block in blocks:
        by_process.setdefault(block.process, []).append(block.period_seconds)
    return [by_process[process] for process in sorted(by_process)]


class FinalRecord(Record):
    """How the final was run: processes with all contestants, in rounds of random order."""

    contestants: dict[Word, Word] = Field(description="Name to strategy; two names of one check the run")
    alias: Word = optional("The name under which one of them ran again", "")
    processes: Count
    rounds: Count = Field(description="In all processes together")
    looks: Count = Field(description="Planned looks at the figures that were used")
    share: float = Field(default=0.25, gt=0, le=1, description="The last look's part of the 5 % error")
    settled: bool = Field(description="More measuring would not change the choice")
    frames: Number = Field(description="Timed frames of a block")
    warm_frames: Count = optional("Frames before a block, which do not count", 0)
    kept_setup: bool = Field(description="Function and set-up ran once a contestant, not for each block")
    left: dict[Word, Text] = table("Strategies that left the final, and why")
    alone: tuple[Word, ...] = optional("Failed next to others and were measured in their own processes", ())
    dropped: tuple[Word, ...] = optional("Dropped early: slower by more than the indifference", ())
    process_seconds: Seconds = 0.0
    round_seconds: Seconds = optional("A block of each contestant", 0.0)
