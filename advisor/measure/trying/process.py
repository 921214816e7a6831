"""One run of a script in a separate process, under changes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from advisor.errors import WorkloadError
from advisor.measure.fork_server import ForkServer
from advisor.measure.jobs import LOG
from advisor.measure.processes import end, fork_server, log_tail, start
from advisor.measure.trying.candidates import is_variable
from advisor.measure.trying.worker import ERRORS, OUTCOME, PRINTED, TrialJob, TrialRun


class TimeUp(Exception):
    """The time for all trials is over."""


WORKER = "advisor.measure.trying.worker"


@contextmanager
def preloaded(libraries: Sequence[str], files: Sequence[Path]) -> Iterator[ForkServer | None]:
    """A server whose workers have the script's libraries imported, which takes seconds for each run else.

    None where one of the script's files has to do with variables of the environment, which a library may read
    when it is imported.
    """
    if any(b"environ" in text or b"putenv" in text for text in (each.read_bytes() for each in files)):
        yield None
        return
    with fork_server([WORKER, *libraries]) as server:
        yield server


def run_trial(job: TrialJob, timeout: float, folder: Path, server: ForkServer | None = None) -> TrialRun:
    """Runs the script once, with its output kept apart. Raises `WorkloadError` without an outcome, and
    `TimeUp` where the job's time ends before it."""
    left = job.most_seconds or float("inf")
    number = len([*folder.glob("trial-*")])
    directory = folder / f"trial-{number}"
    job = job.model_copy(update={"script": job.script.model_copy(update={"directory": str(directory)})})
    directory.mkdir(parents=True)
    if any(map(is_variable, job.changes)):
        server = None  # PyTorch reads the variable when it is imported
    process = start(job, directory, WORKER, server=server)
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
        raise WorkloadError(
            f"a trial of the script ended without results: exit code {process.returncode}",
            next_step="Check that it ends normally or with sys.exit, not os._exit.",
            detail=log_tail(directory / ERRORS) or log_tail(directory / LOG),
        )
    run = TrialRun.model_validate_json(outcome.read_bytes())
    lines = tuple((directory / PRINTED).read_text("utf-8", "replace").splitlines())
    return run.model_copy(update={"results": run.results.model_copy(update={"printed": lines})})
