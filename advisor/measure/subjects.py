"""What is measured: a workload has a reference run that checks it, a traced run on the CPU, then frames under
every strategy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from advisor.errors import NothingMeasured, WorkloadError
from advisor.measure.jobs import (
    DESCRIPTION,
    Description,
    Problem,
    ReferenceRun,
    RefusedStage,
    Sample,
    Task,
    TraceRun,
)
from advisor.measure.launcher import Ended
from advisor.measure.regions import RegionViolation
from advisor.measure.results import combine
from advisor.measure.settings import Settings
from advisor.profiles.schema import Result, Trace, WorkloadRecord
from advisor.strategies.registry import BASELINE, Strategy

CONFIDENCE = 0.95
CPU_ROUNDS = 2
"""On the CPU device host stages are timed in two processes; nothing is decided there."""


@dataclass(frozen=True)
class Step:
    """One process to come. `label` names its folder, `shown` is what progress says of it."""

    task: Task
    strategy: str
    label: str
    shown: str
    timeline: bool = False


Launch = Callable[[Step], Ended]


@dataclass(frozen=True)
class Prepared:
    """What is known before the strategies are run."""

    trace: Trace | None = None
    notes: tuple[str, ...] = ()


@dataclass
class WorkloadSubject:
    settings: Settings
    directory: Path
    notes: list[str] = field(default_factory=list)
    kernels_only: Problem | None = None
    """Why the workload cannot run on the CPU, where a kernel has no twin there."""

    record: WorkloadRecord | None = None

    @property
    def rounds(self) -> int:
        """Processes of each strategy: one screens, on the CPU device two time the host's stages."""
        return min(CPU_ROUNDS, self.settings.rounds) if self.settings.backend == "cpu" else 1

    @property
    def has_final(self) -> bool:
        """The best strategies meet in processes that hold all; the CPU device has nothing to decide."""
        return self.settings.final and self.settings.backend != "cpu"

    def describe(self, launch: Launch) -> Description:
        """What it is and where it runs. Raises `AdvisorError` where it cannot be run at all."""
        ended = launch(Step("reference", BASELINE, "reference", "checking the workload"))
        problem = ended.outcome if isinstance(ended.outcome, Problem) else None
        if problem and problem.cause in ("wrong", "raised", "bug"):
            raise problem.as_error()
        if ended.how in ("timeout", "late"):
            option = "--timeout" if ended.how == "timeout" else "--max-seconds"
            raise WorkloadError(
                f"checking the workload {ended.reason}",
                next_step=f"Raise {option} SECONDS, or set smaller parameters with --set; if the frame has a "
                "repeat, check that it ends, or lower at_most.",
                detail=ended.log,
            )
        try:
            text = (self.directory / "reference" / DESCRIPTION).read_text(encoding="utf-8")
        except OSError:
            raise _hopeless(ended) from None
        if problem and problem.cause == "twin":
            self.kernels_only = problem
            self.notes.append(f"Nothing was run on the CPU: {problem.message}. {problem.next_step}")
        elif not isinstance(ended.outcome, ReferenceRun):
            reason = problem.message if problem else ended.reason
            self.notes.append(f"The reference run failed ({reason}), so results could not be compared.")
        else:
            self.notes += [_unrepeatable(ended.outcome.unlike)] if ended.outcome.unlike else []
            self.notes += [_limited(*loop) for loop in ended.outcome.capped.items()]
            self.notes += [
                f"Buffer {name!r} has NaN from frame {frame} on; NaN is taken for equal to NaN."
                for name, frame in ended.outcome.nan.items()
            ]
        described = _described(text, problem.message if problem else ended.reason)
        self.notes += described.cautions
        self.record = described.workload
        return described

    def prepare(self, launch: Launch) -> Prepared:
        """What each stage reads and writes, from a run on the CPU; absent where that is not possible.

        Raises `WorkloadError` if, without a GPU, CuPy would certainly refuse a device stage, or if a stage
        touches a buffer outside the region that it annotates.
        """
        ended = launch(Step("trace", "zero-copy", "trace", "tracing the workload"))
        result = ended.outcome if isinstance(ended.outcome, TraceRun) else TraceRun()
        if problems := (*(result.refused if self.settings.backend == "cpu" else ()), *result.wrong):
            raise _refused(problems)
        if result.trace:
            return Prepared(result.trace, tuple(self.notes))
        if self.kernels_only and self.settings.backend == "cpu":
            raise self.kernels_only.as_error()
        if isinstance(ended.outcome, Problem) and ended.outcome.error == RegionViolation.__name__:
            raise ended.outcome.as_error()
        problem = ended.outcome if isinstance(ended.outcome, Problem) else next(iter(result.refused), None)
        reason, step = (problem.message, problem.next_step) if problem else (ended.reason, "")
        note = f"Traffic could not be traced on the CPU: {reason}. {step}".strip()
        return Prepared(notes=(*self.notes, note))

    def obstacle(self, strategy: Strategy, description: Description) -> str | None:
        """Why a strategy is not run; None where it is."""
        if self.kernels_only:
            return "a device stage cannot run without a GPU and has no CPU twin"
        return strategy.unavailable(description.device) or strategy.unsuited(description.workload)

    def row(self, strategy: str, samples: Sequence[Sample]) -> Result | None:
        """The row of what its processes measured; None where that is too little for one."""
        if not samples or not self.record:
            return None
        return combine(strategy, samples, self.record, confidence=CONFIDENCE)


def _unrepeatable(unlike: Mapping[str, int]) -> str:
    listed = ", ".join(f"{name!r} from frame {frame} on" for name, frame in unlike.items())
    return (
        f"Two runs under {BASELINE} from the same start gave different results: {listed}. Those were not "
        "compared across strategies, so wrong ones would not be noticed. If stages draw random numbers, take "
        "them from the parameter `rng`, which gives the same in every run."
    )


def _limited(loop: str, most: int) -> str:
    return (
        f"Only at_most={most} ended {loop}, in every frame that was compared. If it should end earlier, "
        "check that a stage of the loop sets the buffer."
    )


def _refused(stages: Sequence[RefusedStage]) -> WorkloadError:
    """The first stage's error; the others stand below it."""
    first, *others = stages
    more = (f"Also: {each.message}\n  next: {each.next_step}\n{each.detail}" for each in others)
    return WorkloadError(first.message, next_step=first.next_step, detail="\n\n".join((first.detail, *more)))


def _described(text: str, reason: str) -> Description:
    """Raises `NothingMeasured` where the worker could not write all of it."""
    try:
        return Description.model_validate_json(text)
    except ValidationError:
        raise NothingMeasured(
            "the description of the workload that its process wrote is incomplete"
            + (f": {reason}" if reason else ""),
            next_step="Is the disk full, or does the workload limit the size of files (ulimit -f)?",
        ) from None


def _hopeless(ended: Ended) -> Exception:
    if isinstance(ended.outcome, Problem):
        return NothingMeasured(
            ended.outcome.message, next_step=ended.outcome.next_step, detail=ended.outcome.detail
        )
    return WorkloadError(
        f"the workload could not be loaded: {ended.reason}",
        next_step="Check that the file runs with python.",
        detail=ended.log,
    )
