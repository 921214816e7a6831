"""One run of a script in a separate process, under changes."""

from __future__ import annotations

import subprocess
from pathlib import Path

from advisor.errors import WorkloadError
from advisor.measure.processes import end, start
from advisor.measure.trying.worker import OUTCOME, TrialJob, TrialRun


class TimeUp(Exception):
    """The time for all trials is over."""


WORKER = "advisor.measure.trying.worker"


def run_trial(job: TrialJob, timeout: float, folder: Path) -> TrialRun:
    """Runs the script once, with its output kept apart. Raises `WorkloadError` without an outcome, and
    `TimeUp` where the job's time ends before it."""
    left = job.most_seconds or float("inf")
    number = len([*folder.glob("trial-*")])
    directory = folder / f"trial-{number}"
    job = job.model_copy(update={"script": job.script.model_copy(update={"directory": str(directory)})})
    directory.mkdir(parents=True)
    printed = directory / "stdout"
    with printed.open("wb") as output, (directory / "stderr").open("wb") as errors:
        process = start(job, directory, WORKER, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
    try:
        process.wait(most if (most := min(timeout, left)) < float("inf") else None)
    except subprocess.TimeoutExpired:
        if left <= timeout:
            raise TimeUp from None
        raise WorkloadError(
            f"a trial of the script took longer than {timeout:.0f} s",
            next_step="Run again with a longer --timeout.",
        ) from None
    finally:
        end(process, directory)
    outcome = directory / OUTCOME
    if not outcome.exists():
        tail = (directory / "stderr").read_text("utf-8", "replace")[-2000:]
        raise WorkloadError(
            f"a trial of the script ended without results: exit code {process.returncode}",
            next_step="Check that it ends normally or with sys.exit, not os._exit.",
            detail=tail,
        )
    run = TrialRun.model_validate_json(outcome.read_bytes())
    lines = tuple(printed.read_text("utf-8", "replace").splitlines())
    return run.model_copy(update={"results": run.results.model_copy(update={"printed": lines})})
