"""The child process: one group of measurements, one outcome. Run as `main([JOB.json, PARENT_PID])`."""

from __future__ import annotations

import traceback
from pathlib import Path

from advisor.calibration.bench import Bench
from advisor.calibration.groups import by_name
from advisor.calibration.sizes import measure_sizes
from advisor.errors import AdvisorError
from advisor.measure.backends import open_backend
from advisor.measure.calibration_jobs import CalibrationJob, GroupRun
from advisor.measure.jobs import Problem, write_outcome
from advisor.measure.worker import die_with_parent


def main(arguments: list[str]) -> None:
    """Measures the group of a file for the parent of that id; exits with 0 whenever it leaves an outcome."""
    die_with_parent(int(arguments[1]))
    job = CalibrationJob.model_validate_json(Path(arguments[0]).read_text(encoding="utf-8"))
    write_outcome(Path(job.directory), _attempt(job))


def _attempt(job: CalibrationJob) -> GroupRun | Problem:
    try:
        return measure(job)
    except AdvisorError as error:
        return Problem(
            cause="wrong", error=type(error).__name__, message=error.message, next_step=error.next_step
        )
    except Exception as error:  # a driver that fails at its first call, say
        return Problem(cause="device", message=str(error) or repr(error), detail=traceback.format_exc())


def measure(job: CalibrationJob) -> GroupRun:
    """One group on its backend, with sizes for what is free now."""
    backend = open_backend(job.backend, job.gpu)
    bench = Bench(backend, measure_sizes(backend.device(), backend.free_memory()))
    by_name(job.group).measure(bench)
    return bench.result()
