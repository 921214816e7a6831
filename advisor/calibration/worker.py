"""The child process: one group of measurements, one outcome. Run as `main([JOB.json, PARENT_PID])`."""

from __future__ import annotations

import traceback

from advisor.calibration.bench import Bench
from advisor.calibration.groups import by_name
from advisor.calibration.sizes import measure_sizes
from advisor.errors import AdvisorError
from advisor.measure.backends import open_backend
from advisor.measure.calibration_jobs import CalibrationJob, GroupRun
from advisor.measure.jobs import Problem
from advisor.measure.worker import run_job


def main(arguments: list[str]) -> None:
    """Measures a group; see `run_job`."""
    run_job(arguments, CalibrationJob, _attempt)


def _attempt(job: CalibrationJob) -> GroupRun | Problem:
    try:
        return measure(job)
    except AdvisorError as error:
        return Problem.of(error)
    except Exception as error:  # a driver that fails at its first call, say
        return Problem(cause="device", message=str(error) or repr(error), detail=traceback.format_exc())


def measure(job: CalibrationJob) -> GroupRun:
    """One group on its backend, with sizes for what is free now."""
    backend = open_backend(job.backend, job.gpu)
    bench = Bench(backend, measure_sizes(backend.device(), backend.free_memory()))
    by_name(job.group).measure(bench)
    return bench.result()
