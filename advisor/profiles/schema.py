"""The data: everything one `advisor profile` learned, as it stands in profile.json.

Measuring writes a `Profile`; advice, prediction and reports are pure functions of it. Times are in
seconds, sizes in bytes. What was not observed is None (with the reason in an `absent` table), never 0.
The JSON Schema is published as docs/profile.schema.json.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from advisor.profiles import figures
from advisor.profiles.amounts import Amount, Bytes, Count, Interval, Number, PositiveSeconds, Seconds, Share
from advisor.profiles.base import Name, Record, Text, Word, optional, table
from advisor.profiles.conclusions import Advice, Preferences, Recommendation
from advisor.profiles.crossings import ScriptRun
from advisor.profiles.files import as_path, write_atomically
from advisor.profiles.system_state import Environment
from advisor.profiles.traces import HostRates, NsysTrace, StageWork, Traffic, Wait
from advisor.profiles.trials import Trials

FORMAT = 2

MOST_PERIOD = 1000
"""Frames of a period: blocks are whole periods."""
MOST_GPUS = 16
"""GPUs of one workload: as many as one host of today has."""

Kind = Literal["cuda", "cpu", "catalogue"]
MemoryClass = Literal["tegra", "tegra-io-coherent", "tegra-coherent", "discrete", "discrete-hmm", "coherent"]
MemoryKind = Literal["pageable", "pinned", "managed", "device"]
AccessMode = Literal["in", "out", "inout"]
Side = Literal["host", "device"]
ArrayForm = Literal["torch", "numba", "pointer", "dlpack"]


class Commit(Record):
    """The version of the code, as git names it. No branch, no remote, no author: those name people."""

    revision: Word = Field(pattern=r"^[0-9a-f]{40,64}$", description="The commit's full hash")
    committed: Word = Field(description="The committer's time, ISO 8601, UTC")
    changed: bool | None = Field(
        description="Whether a tracked file differed from the commit; null: it may, since "
        "filters of git are not run"
    )


class Tool(Record):
    name: Literal["advisor"] = "advisor"
    version: Word


class BufferRecord(Record):
    """One buffer; `access` maps each stage that touches it to what it does to it."""

    name: Word
    shape: tuple[int, ...]
    dtype: Word
    bytes: Bytes
    access: dict[Name, AccessMode]
    external: bool = False
    scratch: bool = False
    valid: Word | None = optional("The buffer that holds how much of its first dimension is valid")
    regions: dict[Name, tuple[tuple[int, int], ...]] = table("Start and stop in each dimension, by stage")
    line: Text | None = optional("Where the user's code declares it: workload.py:34")


class Loop(Record):
    """A loop over stages of a frame: it ends once the first element of a buffer, as the host sees it after an
    iteration, is not 0."""

    number: Count = Field(description="Which loop of the frame, in order")
    until: Word = Field(description="The buffer")
    at_most: int = Field(ge=1, le=figures.MOST_ITERATIONS, description="Most iterations")


def distinct(loops: Iterable[Loop | None]) -> tuple[Loop, ...]:
    return tuple(dict.fromkeys(loop for loop in loops if loop is not None))


class StageRecord(Record):
    """One stage; `passes` and `flops` are what the user declared for a kernel tracing cannot see."""

    name: Name
    side: Side
    phase: Literal["setup", "frame"]
    passes: dict[Word, float] = Field(default_factory=dict)
    flops: float | None = None
    arrays: dict[Word, ArrayForm] = table("Buffers it asks for in another form than NumPy's or CuPy's arrays")
    every: int = Field(default=1, ge=1, le=MOST_PERIOD, description="In frames whose index this divides")
    loop: Loop | None = optional("The loop of the frame that it is in")
    textures: bool = optional("Its code samples through textures", False)
    gpu: int = Field(default=0, ge=0, lt=MOST_GPUS, description="Which of the workload's GPUs it runs on")
    line: Text | None = optional("Where its function begins: workload.py:12")


class WorkloadRecord(Record):
    """The workload. `file` is relative to the working directory where that is possible."""

    name: Name
    file: Text
    sha256: Word
    summary: Text = ""
    parameters: dict[Word, int | float | bool | Text]
    buffers: tuple[BufferRecord, ...]
    stages: tuple[StageRecord, ...]
    ignore: tuple[Word, ...] = optional("Rules that the workload file silences", ())

    def frame_stages(self, side: Side | None = None) -> tuple[StageRecord, ...]:
        return tuple(s for s in self.stages if s.phase == "frame" and side in (None, s.side))

    @property
    def gpus(self) -> int:
        """How many GPUs its stages run on; 1 where none runs on any."""
        return 1 + max((stage.gpu for stage in self.stages), default=0)

    @property
    def loops(self) -> tuple[Loop, ...]:
        return distinct(stage.loop for stage in self.frame_stages())

    def touching(self, buffer: BufferRecord, side: Side) -> dict[str, AccessMode]:
        """Frame stages of that side that touch the buffer, with what they do to it."""
        return {s.name: buffer.access[s.name] for s in self.frame_stages(side) if s.name in buffer.access}


class Device(Record):
    """A device and the attributes everything keys on (CUDA's names, in snake case)."""

    name: Word
    kind: Kind
    memory_class: MemoryClass | None = optional("None for the CPU device, which has no second memory")
    attributes: dict[Word, int | float | Word | bool] = Field(default_factory=dict)


class Footprint(Record):
    """Memory by kind. Requested is what the buffers need, reserved what was taken for them."""

    requested: dict[MemoryKind, Bytes]
    reserved: dict[MemoryKind, Bytes]
    physical_bytes: Bytes = Field(description="All reserved; on a card managed memory counts twice")
    places: dict[Word, figures.PlaceMemory] = table("Memory a frame was seen to use on host, gpu0 and so on")
    peak_process_bytes: Bytes | None = optional("Proportional set size added by the run")
    locked_bytes: Bytes | None = optional("VmLck: page-locked by the kernel's count")
    device_used_bytes: Bytes | None = optional("Drop of the GPU's free memory")
    absent: dict[Word, Text] = Field(default_factory=dict)


class Measured(figures.StrategyFigures, figures.Row, extra="ignore"):  # earlier profiles have stopped
    """A strategy that ran and gave the right results."""

    status: Literal["measured"] = "measured"
    frame_seconds: tuple[PositiveSeconds, ...] = Field(min_length=1, description="Raw, in the order taken")
    frames_per_round: tuple[Number, ...] = Field(
        min_length=1, description="How many of frame_seconds each process gave; sums to its length"
    )
    median_seconds: PositiveSeconds = Field(
        description="A frame's time, as verdicts compare it: from the final's blocks by docs/verdict.md, "
        "else the median of frame_seconds"
    )
    interval_seconds: Interval = Field(
        description="Interval of that time: from the final's blocks, else bootstrap"
    )
    stage_seconds: dict[Name, Seconds] = Field(description="Median time of each stage of a frame")
    transfer_seconds: Seconds = Field(description="Copies between the sides in one frame, both directions")
    synchronize_seconds: Seconds = 0.0
    device_path_seconds: Seconds = Field(description="Frame without host stages: copies, kernels, waiting")
    host_copy_seconds: Seconds | None = optional("The host's copies to and from external buffers in a frame")
    latency_seconds: PositiveSeconds | None = optional("Latency of a frame if frames overlap, else its time")
    iterations: tuple[figures.Iterations, ...] = optional("Iterations of each loop of the frame", ())
    footprint: Footprint
    verified: bool = Field(description="Annotations, results across strategies and the user's check held")
    samples: Literal["frames", "blocks"] = optional("frame_seconds holds frames or means of blocks", "frames")
    p95: figures.Quantile | None = optional("95th percentile of the latency of a frame")
    p99: figures.Quantile | None = None
    energy: figures.FrameEnergy | None = None
    absent: dict[Word, Text] = table("What has no figure, and why")
    outside: Text = optional("Why it was not in the final, or left it; its figures are of one process", "")

    @model_validator(mode="after")
    def _rounds_hold_all_frames(self) -> Measured:
        if sum(self.frames_per_round) != len(self.frame_seconds):
            raise ValueError("frames_per_round does not sum to the number of frame_seconds")
        return self

    @property
    def rounds(self) -> tuple[tuple[float, ...], ...]:
        frames = iter(self.frame_seconds)
        return tuple(tuple(islice(frames, count)) for count in self.frames_per_round)


class Skipped(figures.Row):
    """A strategy that does not apply here, or that the model declines to predict."""

    status: Literal["skipped"] = "skipped"
    reason: Text


RAISED = "the workload failed: "
"""How the reason of a strategy begins under which the user's code raised."""
LATE = "time: --max-seconds ran out"
"""Why a strategy that the time did not reach has no figures."""
WRONG_RESULTS = "its results are wrong: "
"""How the reason of a strategy begins whose results are not those of the reference run."""


class Failed(figures.Row):
    """A strategy that was tried: what happened, and the end of what the process said."""

    status: Literal["failed"] = "failed"
    reason: Text
    detail: Text = ""
    next_step: Text = ""


Draws = Annotated[Word, Field(pattern=r"^[1-9][0-9]{0,6}( [1-9][0-9]{0,6})*$", max_length=8000)]
LARGEST_DRAW = 9_999_999


class Predicted(figures.Row):
    """A computed figure, never shown as measured. `terms` add up to `likely_seconds`.

    low and high are the 5th and 95th percentile of joint draws of all figures that are uncertain.
    """

    status: Literal["predicted"] = "predicted"
    low_seconds: PositiveSeconds
    likely_seconds: PositiveSeconds
    high_seconds: PositiveSeconds
    terms: dict[Name, Seconds] = Field(
        description="Parts of the likely time of one frame, named as the NVTX ranges of a measured one: "
        "host:<stage>, to-device, device:<stage>, to-host, synchronize"
    )
    physical_bytes: Bytes
    latency_seconds: PositiveSeconds | None = optional("Latency of a frame where frames overlap")
    over: dict[Word, Interval] = table(
        "This time over that of the recommended strategy and of the baseline: 5th and 95th "
        "percentile of the ratio in each draw, which is narrower than a ratio of two ranges. Frames that "
        "overlap count by latency, except for the objective throughput"
    )
    host_spread: Amount | None = optional("Half the range over the median of host stages, by process")
    cpu_busy: Share | None = optional(
        "Where too few processes timed host stages to tell: the share of the CPU that other programs used"
    )
    host_interval: Interval | None = optional("Host stages of a frame alone; None where frames overlap")
    device_path_interval: Interval | None = optional("The same of all else in a frame")
    instead: dict[Word, figures.Instead] = table("Each buffer's next best placement in the best mix")
    draws: Draws | None = optional(
        "This time in each simulated device over the likely one, in thousandths. The same place is the same "
        "device in every prediction for it, so that two profiles can be compared draw by draw"
    )

    @property
    def drawn(self) -> tuple[int, ...]:
        return tuple(map(int, self.draws.split())) if self.draws else ()

    @property
    def host_seconds(self) -> float:
        """The host's stages in the likely time: timed on the CPU at hand, unlike all else."""
        return sum(seconds for name, seconds in self.terms.items() if name.startswith("host:"))


Result = Annotated[Measured | Skipped | Failed, Field(discriminator="status")]
PredictedResult = Annotated[Predicted | Skipped, Field(discriminator="status")]


class Trace(Record):
    """Memory traffic and work seen in the traced CPU run."""

    traffic: tuple[Traffic, ...] = ()
    work: tuple[StageWork, ...] = ()
    waits: tuple[Wait, ...] = optional("Calls of device stages that wait for the GPU by themselves", ())
    valid_bytes: dict[Word, float] = table("Mean of what was valid in a frame, for buffers with a length")
    iterations: tuple[figures.Iterations, ...] = optional(
        "Iterations of each loop; other figures are of one iteration", ()
    )
    host_rates: HostRates | None = optional("How fast the CPU at hand reads and writes memory")

    def times(self, loop: Loop | None) -> float:
        """How often a stage runs in a frame on average, by the loop it is in; `at_most` where nothing ran."""
        if loop is None:
            return 1.0
        return self.iterations[loop.number].mean if loop.number < len(self.iterations) else loop.at_most


class Prediction(Record):
    """The prediction for one device. "near" is said only where 95 % of simulated devices agree."""

    device: Device
    results: tuple[PredictedResult, ...]
    recommendation: Recommendation | None
    assumptions: tuple[Text, ...]
    confidence: Share | None = optional("Share of simulated devices where it is within 5 % of the best")


class Profile(Record):
    """One run of one workload on one device."""

    format: Literal[2] = 2
    tool: Tool
    created: Word = Field(description="ISO 8601, UTC")
    command: Text
    commit: Commit | None = optional(
        "Commit of the repository that holds the workload's file; None without one"
    )
    environment: Environment
    method: figures.Method
    preferences: Preferences = Preferences()
    workload: WorkloadRecord
    device: Device
    results: tuple[Result, ...]
    final: figures.FinalRecord | None = optional("None where no final was held")
    search: figures.Search | None = optional("The search for a mix of placements, if it was asked for")
    blocks: tuple[figures.Block, ...] = optional("What the final measured, raw", ())
    windows: tuple[figures.Block, ...] = optional("For energy, after the final or in its blocks", ())
    recommendation: Recommendation | None = None
    advice: tuple[Advice, ...] = ()
    traffic: Trace | None = None
    predictions: tuple[Prediction, ...] = ()
    trace: NsysTrace = NsysTrace(reason="not asked for")
    notes: tuple[Text, ...] = optional("Interruptions and what else limits the run", ())
    trials: Trials | None = optional("Changes that were tried on a script; None where none were asked for")
    script: ScriptRun | None = optional("A script instead of a workload; without buffers, stages and results")

    def measured(self) -> dict[str, Measured]:
        return {r.strategy: r for r in self.results if isinstance(r, Measured)}

    def save(self, path: Path | str) -> None:
        """Writes the file in one step: a reader sees the old one or the new one, never half.

        Raises `FileProblem` when it cannot be written.
        """
        write_atomically(as_path(path), self.to_json())

    def to_json(self) -> str:
        return self.model_dump_json(indent=1) + "\n"
