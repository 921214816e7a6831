"""Starts a worker, watches over it, and says how it ended."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from advisor import units
from advisor.measure.calibration_jobs import CalibrationJob
from advisor.measure.final_messages import FinalJob
from advisor.measure.final_session import ProcessSession
from advisor.measure.fork_server import ForkServer, Process
from advisor.measure.jobs import LOG, OUTCOME, Job, Outcome, read_outcome
from advisor.measure.processes import (
    Popen,
    cause_of_death,
    end,
    keep_short,
    log_tail,
    memory,
    place_in,
    resident,
    start,
    uninterrupted,
    wait,
)
from advisor.measure.sessions import Session

_POLL_SECONDS = 0.25
_EXIT_SECONDS = 5.0
"""For exit handlers, once the result is there."""


@dataclass(frozen=True)
class Ended:
    """A process's outcome, or how it ended without one, and the end of what it printed."""

    outcome: Outcome | None
    how: Literal["finished", "timeout", "late", "memory", "died"]
    """late: --max-seconds ended it."""
    reason: str = ""
    log: str = ""


class Launcher(Protocol):
    """Runs a job to its end. Ctrl-C ends the job's processes and goes on as KeyboardInterrupt."""

    def __call__(self, job: Job) -> Ended: ...

    def session(self, job: FinalJob) -> Session:
        """Starts a process of the final, which waits for rounds."""


@dataclass(frozen=True)
class ProcessLauncher:
    """Fresh Python processes, each in a session of its own so that all it started ends with it."""

    timeout: float
    worker: str = "advisor.measure.worker"
    """The module whose `main` does the job."""
    server: ForkServer | None = None
    """Forks the processes where there is one."""
    memory: Callable[[], tuple[int, int]] = memory
    popen: Popen = subprocess.Popen

    def __call__(self, job: Job | CalibrationJob) -> Ended:
        directory = Path(job.directory)
        directory.mkdir(parents=True)
        message = directory / "job.json"
        message.write_text(job.model_dump_json(), encoding="utf-8")
        process = None
        try:
            with uninterrupted():
                process = start(message, directory / LOG, self.worker, server=self.server, popen=self.popen)
            stopped = self._watch(process, job)
        finally:
            if process is not None:
                end(process, message)
        return _ended(process.returncode, stopped, directory)

    def session(self, job: FinalJob) -> ProcessSession:
        """See `Launcher`."""
        return ProcessSession(job, self.timeout, self.server)

    def _watch(self, process: Process, job: Job | CalibrationJob) -> Ended | None:
        """Waits for the end; a verdict of our own when it takes too long or too much memory.

        Exit handlers that do not return are no reason to lose a result.
        """
        directory, late = Path(job.directory), job.limit_seconds if isinstance(job, Job) else None
        limit = self.timeout if late is None else min(self.timeout, late)
        deadline = time.monotonic() + limit
        while not wait(process, _POLL_SECONDS):
            keep_short(directory / LOG)
            if (directory / OUTCOME).exists():
                deadline = min(deadline, time.monotonic() + _EXIT_SECONDS)
            if time.monotonic() > deadline:
                at = place_in(job.file, process, directory) if isinstance(job, Job) else ""
                how: Literal["late", "timeout"] = "timeout" if limit == self.timeout else "late"
                return Ended(None, how, f"did not finish within {units.digits(limit)} s{at}")
            free, least = self.memory()
            if free < least:
                held = resident(process.pid)
                return Ended(
                    None, "memory", f"exhausted the memory: it held {held}, {units.size(free)} were left"
                )
        return None


def _ended(code: int, stopped: Ended | None, directory: Path) -> Ended:
    log = log_tail(directory / LOG)
    outcome = read_outcome(directory)
    if outcome is not None:
        return Ended(outcome, "finished", log=log)
    if stopped:
        return Ended(None, stopped.how, stopped.reason, log)
    return Ended(None, "died", cause_of_death(code, log), log)
