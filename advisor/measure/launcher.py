"""Workers, watched to their end. One of the final is asked for rounds over a socket: what dies or hangs there
costs its contestant. A script's worker has the terminal, and Ctrl-C ends it as Python would."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from pathlib import Path
from typing import Literal, Protocol

from pydantic import ValidationError

from advisor import units
from advisor.devices.host import installed
from advisor.errors import WorkloadError
from advisor.measure import jobs
from advisor.measure.backends import CpuBackend
from advisor.measure.backends.cuda_calls import Driver
from advisor.measure.final import Session
from advisor.measure.fork_server import ForkServer
from advisor.measure.processes import (
    OVERDUE,
    Popen,
    cause_of_death,
    end,
    keep_short,
    log_tail,
    memory,
    place_in,
    resident,
    start,
    wait,
    watch,
)
from advisor.workloads.outline import script_record


@dataclass(frozen=True)
class Ended:
    """A process's outcome, or how it ended without one, and the end of what it printed."""

    outcome: jobs.Outcome | None
    how: Literal["finished", "timeout", "late", "memory", "died"]
    """late: --max-seconds ended it."""
    reason: str = ""
    log: str = ""


class Launcher(Protocol):
    """Runs a job to its end. Ctrl-C ends the job's processes and goes on as KeyboardInterrupt."""

    def __call__(self, job: jobs.Job) -> Ended: ...

    def session(self, job: jobs.FinalJob) -> Session:
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

    def __call__(self, job: jobs.Job | jobs.CalibrationJob) -> Ended:
        directory = Path(job.directory)
        late = job.limit_seconds if isinstance(job, jobs.Job) else None
        limit = self.timeout if late is None else min(self.timeout, late)
        process = start(job, directory, self.worker, server=self.server, popen=self.popen)

        def exhausted() -> str:
            free, least = self.memory()
            if free >= least:
                return ""
            return f"exhausted the memory: it held {resident(process.pid)}, {units.size(free)} were left"

        try:
            why = watch(process, directory, limit, exhausted)
            file = job.file if isinstance(job, jobs.Job) and not (directory / jobs.OUTCOME).exists() else ""
            at = place_in(file, process, directory) if file and why == OVERDUE else ""
        finally:
            end(process, directory)
        log = log_tail(directory / jobs.LOG)
        outcome = jobs.read_outcome(directory)
        if outcome is not None:
            return Ended(outcome, "finished", log=log)
        if why == OVERDUE:
            how: Literal["late", "timeout"] = "timeout" if limit == self.timeout else "late"
            return Ended(None, how, f"did not finish within {units.digits(limit)} s{at}", log)
        if why:
            return Ended(None, "memory", why, log)
        return Ended(None, "died", cause_of_death(process.returncode, log), log)

    def session(self, job: jobs.FinalJob) -> ProcessSession:
        return ProcessSession(job, self.timeout, self.server)


_LONGEST_POLL = 1e6
"""Its milliseconds must fit in 31 bits."""


@dataclass
class ProcessSession:
    """Runs rounds in a fresh Python process. `timeout`: seconds that a block may take, the first one's
    start included."""

    job: jobs.FinalJob
    timeout: float
    server: ForkServer | None = None

    def __post_init__(self) -> None:
        self._directory, limit = Path(self.job.directory), self.job.limit_seconds
        self._end = math.inf if limit is None else time.monotonic() + limit
        self._link, theirs = Pipe()
        with theirs:
            self._process = start(
                self.job,
                self._directory,
                "advisor.measure.final_worker",
                pass_fds=(theirs.fileno(),),
                server=self.server,
            )
        self._log = self._directory / jobs.LOG

    def round(self, request: jobs.FinalRound) -> Iterator[jobs.Message]:
        at = request.order[0]
        try:
            self._link.send_bytes(request.model_dump_json().encode())
            for name in request.order:
                at = name
                received = self._received()
                if received is None:
                    return
                message = jobs.MESSAGE.validate_json(received)
                yield message
                if isinstance(message, jobs.Left) and message.broken:
                    return
        except (OSError, EOFError, ValidationError) as ended:
            yield jobs.Left(contestant=at, problem=self._problem(ended), broken=True)

    def ready(self) -> bool:
        try:
            return self._received() is not None
        except (OSError, EOFError):
            return False

    def close(self) -> None:
        self._link.close()
        end(self._process, self._directory)

    def _received(self) -> bytes | None:
        """The next answer; None once the time of the run is over, which no contestant is to blame for. Raises
        `TimeoutError` where a block takes longer than it may."""
        left = self._end - time.monotonic()
        if not self._link.poll(max(min(self.timeout, left, _LONGEST_POLL), 0.001)):
            if left < self.timeout:
                return None
            raise TimeoutError
        keep_short(self._log)
        return self._link.recv_bytes()

    def _problem(self, ended: Exception) -> jobs.Problem:
        if isinstance(ended, TimeoutError):
            at = place_in(self.job.base.file, self._process, self._directory)
            reason = f"a block did not finish within {self.timeout:g} s{at}"
        elif wait(self._process, 5):
            reason = cause_of_death(self._process.wait(), log_tail(self._log))
        else:
            reason = "the process closed its connection"
        return jobs.Problem(cause="device", message=reason, detail=log_tail(self._log))


_ENDING_SECONDS = 30.0
"""For a script that was asked to end, and for its exit handlers once the record is there."""
LIBRARIES = ("torch", "numba", "numba-cuda")
"""Packages whose versions are of interest, beside those of every run."""


def record(settings: jobs.Settings, folder: Path) -> tuple[jobs.Description, jobs.Recorded, tuple[str, ...]]:
    """Runs the script once; notes say how it ended. Raises `AdvisorError` where nothing could be recorded.
    The script has this process's stdin; what it prints goes to stderr."""
    device: Driver | CpuBackend = Driver(settings.gpu) if settings.backend == "cuda" else CpuBackend()
    description = jobs.Description(
        device=device.device(),
        gpu=device.environment(),
        packages=installed(*jobs.PACKAGES, *LIBRARIES),
        workload=script_record(settings.file, settings.module),
    )
    job = script_job(settings, folder)
    directory = Path(job.directory)
    process = start(job, directory, "advisor.measure.recording.worker", stdout=2)
    note, interrupted = "", "Interrupted: the record ends where the script did."
    try:
        try:
            why = watch(process, directory, settings.timeout, _short_of_memory, exit_seconds=_ENDING_SECONDS)
            if why and not (directory / jobs.OUTCOME).exists():
                limit = f" after {units.digits(settings.timeout)} s (--timeout)."
                note = f"The script was interrupted{limit if why == OVERDUE else why}"
        except KeyboardInterrupt:
            note = interrupted
        if note:
            with suppress(OSError):
                os.kill(process.pid, signal.SIGINT)
            watch(process, directory, _ENDING_SECONDS)
    finally:
        end(process, directory)
    outcome = jobs.read_outcome(directory)
    if isinstance(outcome, jobs.Recorded):
        return description, outcome, (note,) if note else ()
    if isinstance(outcome, jobs.Problem):
        raise outcome.as_error()
    if note == interrupted:
        raise KeyboardInterrupt
    how = note or cause_of_death(process.returncode, "")
    step = "Check that it runs with python, and that it ends normally or with sys.exit, not os._exit."
    raise WorkloadError(f"nothing was recorded of {job.file}: {how}", next_step=step)


def script_job(settings: jobs.Settings, folder: Path) -> jobs.ScriptJob:
    return jobs.ScriptJob(
        file=str(settings.file),
        module=settings.module,
        arguments=settings.arguments or (),
        frame=settings.options.frame,
        counts_bytes=settings.options.count_bytes,
        backend=settings.backend,
        gpu=settings.gpu,
        directory=str(folder / "script"),
    )


def _short_of_memory() -> str:
    free, least = memory()
    return f": only {units.size(free)} of memory were left." if free < least else ""
