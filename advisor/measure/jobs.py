"""Messages between parent and workers: a job goes in, files come out of the job's directory.

A process of the final gets its requests and answers them over a connection.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, TypeAdapter

from advisor.devices.catalogue import System
from advisor.devices.entries import CatalogueEntry
from advisor.errors import AdvisorError, FileProblem, NothingMeasured, UsageError, WorkloadError
from advisor.measure.kept_results import LEAST_FRAMES
from advisor.measure.options import Options
from advisor.measure.sampling import MIN_FRAMES
from advisor.profiles.amounts import Amount, Bytes, Count, Number, Positive, PositiveSeconds, Seconds
from advisor.profiles.base import Record, optional, table
from advisor.profiles.conclusions import Preferences
from advisor.profiles.crossings import ScriptRun
from advisor.profiles.figures import Block, Iterations, SearchMode, StrategyFigures
from advisor.profiles.schema import Device, Footprint, Trace, WorkloadRecord
from advisor.profiles.secrets import masked_and_bounded, of_process
from advisor.profiles.system_state import GpuState
from advisor.strategies.backend import BackendName
from advisor.strategies.mixes import MixRecord
from advisor.strategies.registry import Strategy
from advisor.texts import printable


class CalibrationJob(Record):
    group: str
    """Group of measurements; "" tries the GPU."""
    backend: Literal["cpu", "cuda"]
    gpu: int
    directory: str


class Reading(Record):
    """A figure in the unit its key ends in, its range over the repeats, and what was measured how often."""

    value: Positive
    low: Positive
    high: Positive
    repeats: Number
    what: str


class GroupRun(Record):
    """What one process measured. `absent` has the reason for each figure that it should have and has not."""

    task: Literal["calibrate"] = "calibrate"
    device: Device
    gpu: dict[str, str | int | float]
    readings: dict[str, Reading]
    absent: dict[str, str]


class Probe(Record):
    """The result of trying the GPU; `problem` says what did not work."""

    task: Literal["probe"] = "probe"
    device: Device | None = None
    environment: dict[str, str | int | float] = Field(default_factory=dict)
    free_bytes: Bytes | None = None
    problem: str = ""
    next_step: str = ""


DESCRIPTION = "description.json"
OUTCOME = "outcome.json"
LOG = "log"
_ERRORS = (WorkloadError, UsageError, FileProblem, NothingMeasured)
_MOST_MESSAGE, _MOST_DETAIL = 1000, 16_000
"""Characters of a message and of the text shown below it: an exception can hold a whole buffer."""


def _cut(text: str, most: int) -> str:
    """Text of the user's, of this length at most, with what UTF-8 has no bytes for replaced."""
    masked = masked_and_bounded(text, most, of_process(()))
    return printable(masked.encode("utf-8", "replace").decode("utf-8"))


ShortText = Annotated[str, BeforeValidator(partial(_cut, most=_MOST_MESSAGE))]
LongText = Annotated[str, BeforeValidator(partial(_cut, most=_MOST_DETAIL))]
Task = Literal["parameters", "reference", "trace", "measure", "capture"]


class Tree(Record):
    """A version that is a clean checkout of the user's repository, apart from the user's own."""

    user: str = Field(description="The top folder of the user's checkout")
    checkout: str = Field(description="The top folder of the version's")
    folder: str = Field(description="The working directory's place in it")


@dataclass(frozen=True)
class Settings:
    """One run of `advisor profile`, validated before anything runs."""

    file: Path
    workload: str | None
    assignments: Mapping[str, str]
    backend: BackendName
    gpu: int
    strategies: tuple[Strategy, ...]
    targets: tuple[CatalogueEntry, ...]
    """Named by the user."""
    timeout: float
    """Seconds after which a process is ended, a script only where the user says so."""
    options: Options
    """Merged from the command line, the configuration and the file; the other fields follow from them."""
    command: str
    arguments: tuple[str, ...] | None = None
    """A script's own arguments; None where the file is a workload."""
    module: str = ""
    trial_seconds: float = math.inf
    """Time limit for the whole command with a script's trials, which end where it is over."""
    began: float | None = None
    """On the run's clock, when its time began; when it is run if None."""
    targets_under: System | None = None
    """Nobody named a target: the default devices are predicted, under this system."""
    gpus: tuple[int, ...] = ()
    search: SearchMode = "off"
    preferences: Preferences = field(default_factory=Preferences)
    tree: Tree | None = None
    """The checkout of a version of the code that is not the user's own; `file` is in it."""
    final: bool = True
    """Hold a final after the screening, where the device has one."""


class Job(Record):
    """One process's work. `reference` is the directory of the reference run's results. The task "parameters"
    runs nothing: it reads all values of the swept parameters. "trace" runs on the CPU, device stages as CuPy
    would."""

    task: Task
    file: str
    workload: str | None
    assignments: dict[str, str]
    backend: BackendName
    gpu: int
    gpus: tuple[int, ...] = optional("The GPUs that --gpus names; without it the first ones", ())
    strategy: str
    mixes: dict[str, MixRecord] = table("By short name")
    seconds: PositiveSeconds
    seed: int
    oversubscribe: bool = False
    numa: str = "local"
    directory: str
    reference: str
    swept: tuple[tuple[str, tuple[str, ...]], ...] = ()
    timeline: bool = optional("Whether to watch a frame step by step at the end", False)
    min_frames: Number = optional("Fewest timed frames", MIN_FRAMES)
    left_seconds: float | None = optional("Seconds left of the whole run when the job begins")
    limit_seconds: float | None = optional("Seconds after which --max-seconds ends it")
    frames: Number = optional("Steady frames to run for a tracing tool", 5)
    tree: Tree | None = optional("The checkout of a version that is not the user's")


PACKAGES = ("numpy", "cupy-cuda12x", "cupy-cuda13x", "cupy", "nvtx", "cuda-bindings")
"""Packages whose versions a profile keeps."""


class Description(Record):
    """What is known before anything of the user's frames is run."""

    device: Device
    gpu: dict[str, str | int | float]
    packages: dict[str, str]
    workload: WorkloadRecord
    cautions: tuple[str, ...] = optional("Likely oversights in the workload, as sentences", ())
    compiled: tuple[str, ...] = optional("Compiled extensions beside the workload", ())


class Done(Record):
    """Parameters can be read, or frames ran for a tracing tool, which keeps what it saw."""

    task: Literal["done"] = "done"


class ReferenceRun(Record):
    """The annotations held. `unlike`: by buffer, the first frame in which a second run from the same start
    gave other contents. `capped`: loops that ran to their limit in every frame."""

    task: Literal["reference"] = "reference"
    unlike: dict[str, int] = Field(default_factory=dict)
    capped: dict[str, int] = Field(default_factory=dict)
    nan: dict[str, int] = table("The first frame in which a buffer has NaN")


class Problem(Record):
    """Why a process has no result. `cause` tells the user's mistakes from the device's and from ours."""

    task: Literal["problem"] = "problem"
    cause: Literal["wrong", "raised", "twin", "differs", "state", "memory", "device", "bug"]
    error: str = ""
    message: ShortText
    next_step: ShortText = ""
    detail: LongText = ""

    @classmethod
    def of(cls, error: AdvisorError) -> Problem:
        """An error of our tree, sent by the worker and raised again in the parent."""
        kind, step = type(error).__name__, error.next_step
        return cls(cause="wrong", error=kind, message=error.message, next_step=step, detail=error.detail)

    def as_error(self) -> AdvisorError:
        """The error of our tree that it was, or a `WorkloadError`."""
        kind = {kind.__name__: kind for kind in _ERRORS}.get(self.error, WorkloadError)
        return kind(self.message, next_step=self.next_step, detail=self.detail)


class TraceRun(Record):
    """What device stages do that CuPy refuses, the first in each, and what all stages read and write."""

    task: Literal["trace"] = "trace"
    trace: Trace | None = optional("None where no stages could be traced")
    refused: tuple[Problem, ...] = ()
    wrong: tuple[Problem, ...] = optional("Wrong on a GPU too, whatever CuPy takes", ())


class Sample(StrategyFigures):
    """What one process measured of one strategy in one round."""

    task: Literal["measure"] = "measure"
    frame_seconds: tuple[PositiveSeconds, ...]
    breakdown: tuple[dict[str, Seconds], ...]
    host_seconds: dict[str, Seconds] = Field(description="Mean of the timed frames, by host stage")
    footprint: Footprint
    verified: bool
    latency_seconds: PositiveSeconds | None = None
    gpu_state: GpuState | None = optional("Read right after the last timed frame")
    iterations: tuple[Iterations, ...] = ()
    nan: dict[str, str] = table("By buffer: NaN at the end that the compared frames had not, in words")


class ScriptJob(Record):
    file: str
    module: str = optional("What `python -m` is given; `file` is what that runs", "")
    arguments: tuple[str, ...] = ()
    frame: str = optional("LINE or FILE:LINE of the loop that is the frame, as given", "")
    counts_bytes: bool = optional("Compare with the driver's count of bytes", False)
    backend: BackendName
    gpu: int
    directory: str


class Recorded(Record):
    """What was recorded of a script, however it ended."""

    task: Literal["record"] = "record"
    script: ScriptRun
    gpu_state: GpuState | None = optional("Read right after the script's end")


Outcome = Done | ReferenceRun | TraceRun | Sample | Recorded | GroupRun | Probe | Problem
_OUTCOME: TypeAdapter[Outcome] = TypeAdapter(Annotated[Outcome, Field(discriminator="task")])


def read_outcome(directory: Path) -> Outcome | None:
    """The outcome that a worker left; None where there is none that can be read."""
    file = directory / OUTCOME
    try:
        return _OUTCOME.validate_json(file.read_bytes()) if file.is_file() else None
    except (OSError, ValueError):  # pydantic's ValidationError among them
        return None


def write_outcome(directory: Path, outcome: Outcome) -> None:
    part = directory / f"{OUTCOME}.part"
    part.write_text(outcome.model_dump_json(), encoding="utf-8")
    part.rename(directory / OUTCOME)


class FinalJob(Record):
    """One process's work in the final. `base` is a measuring job whose strategy each contestant replaces."""

    base: Job
    process: Count
    contestants: dict[str, str] = Field(description="Name to strategy; two names may share one")
    frames: Number = Field(description="Timed frames of a block")
    block_seconds: Positive = Field(description="Where function and set-up take longer, they run once")
    capped: bool = optional("Blocks end after `block_seconds`, with fewer frames of slow contestants", False)
    energy_seconds: Amount = optional("A block is a window for energy of that length; 0 is none", 0.0)
    compare: Count = optional("Frames that are compared in each contestant's first block", LEAST_FRAMES)
    limit_seconds: float | None = optional("Seconds after which --max-seconds ends it")
    directory: str
    jobs: dict[str, Job] = table("By contestant that is a version of the code: in place of `base`")

    def job_of(self, contestant: str) -> Job:
        job = self.jobs.get(contestant, self.base)
        return job.model_copy(update={"strategy": self.contestants[contestant]})


class FinalRound(Record):
    """A request: a block of each of these, in this order."""

    round: int
    order: tuple[str, ...]
    warm_frames: Count = Field(description="Frames before the timed ones that do not count")


class BlockDone(Record):
    kind: Literal["block"] = "block"
    block: Block
    warming_seconds: tuple[float, ...] = Field(description="Each frame before the block, not counted")
    steps: dict[str, float] = table("Versions only: seconds of each step of a frame after the block")
    kept_setup: bool = optional("Function and set-up ran once, not for each block", False)


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


Message = BlockDone | Left | Unmeasurable
"""The answer for one contestant of a round, in the order of the request."""
MESSAGE: TypeAdapter[Message] = TypeAdapter(Annotated[Message, Field(discriminator="kind")])
