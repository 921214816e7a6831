"""What runs before the strategies: a reference run that checks the workload, and a traced run on the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from advisor.errors import NothingMeasured, WorkloadError
from advisor.measure.jobs import DESCRIPTION, Description, Problem, ReferenceRun, TraceRun
from advisor.measure.launcher import Ended
from advisor.measure.regions import RegionViolation
from advisor.profiles.schema import Trace
from advisor.strategies.registry import BASELINE


@dataclass
class Preparation:
    notes: list[str] = field(default_factory=list)
    kernels_only: Problem | None = None
    """Why the workload cannot run on the CPU, where a kernel has no twin there."""

    def describe(self, ended: Ended, directory: Path) -> Description:
        """The workload, by the reference run in that folder. Raises `AdvisorError` where it cannot be run."""
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
            text = (directory / DESCRIPTION).read_text(encoding="utf-8")
        except OSError:
            raise _hopeless(ended) from None
        reason = problem.message if problem else ended.reason
        if problem and problem.cause == "twin":
            self.kernels_only = problem
            self.notes.append(f"Nothing was run on the CPU: {reason}. {problem.next_step}")
        elif not isinstance(ended.outcome, ReferenceRun):
            self.notes.append(f"The reference run failed ({reason}), so results could not be compared.")
        else:
            self.notes += _notes(ended.outcome)
        described = _described(text, reason)
        self.notes += described.cautions
        return described

    def trace(self, ended: Ended, *, on_cpu: bool) -> Trace | None:
        """What each stage reads and writes; None where that could not be traced.

        Raises `WorkloadError` if, without a GPU, CuPy would certainly refuse a device stage, or if a stage
        touches a buffer outside the region that it annotates.
        """
        result = ended.outcome if isinstance(ended.outcome, TraceRun) else TraceRun()
        if problems := (*(result.refused if on_cpu else ()), *result.wrong):
            raise _refused(problems)
        if result.trace:
            return result.trace
        if self.kernels_only and on_cpu:
            raise self.kernels_only.as_error()
        problem = ended.outcome if isinstance(ended.outcome, Problem) else next(iter(result.refused), None)
        if problem and problem.error == RegionViolation.__name__:
            raise problem.as_error()
        reason, step = (problem.message, problem.next_step) if problem else (ended.reason, "")
        self.notes.append(f"Traffic could not be traced on the CPU: {reason}. {step}".strip())
        return None


def _notes(run: ReferenceRun) -> Iterator[str]:
    if run.unlike:
        yield _unrepeatable(run.unlike)
    for loop, most in run.capped.items():
        yield (
            f"Only at_most={most} ended {loop}, in every frame that was compared. If it should end earlier, "
            "check that a stage of the loop sets the buffer."
        )
    for name, frame in run.nan.items():
        yield f"Buffer {name!r} has NaN from frame {frame} on; NaN is taken for equal to NaN."


def _unrepeatable(unlike: Mapping[str, int]) -> str:
    listed = ", ".join(f"{name!r} from frame {frame} on" for name, frame in unlike.items())
    return (
        f"Two runs under {BASELINE} from the same start gave different results: {listed}. Those were not "
        "compared across strategies, so wrong ones would not be noticed. If stages draw random numbers, take "
        "them from the parameter `rng`, which gives the same in every run."
    )


def _refused(stages: Sequence[Problem]) -> WorkloadError:
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
