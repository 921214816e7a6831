"""A script's one observed run, in a child process."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor import units
from advisor.devices.host import installed
from advisor.errors import WorkloadError
from advisor.measure.backends.cpu import CpuBackend
from advisor.measure.backends.driver import Driver
from advisor.measure.jobs import Description, Problem, Recorded, ScriptJob, read_outcome
from advisor.measure.processes import (
    MARK,
    Popen,
    cause_of_death,
    end,
    memory,
    uninterrupted,
    wait,
    worker_command,
)
from advisor.measure.settings import Settings
from advisor.measure.tasks import PACKAGES
from advisor.profiles.base import Record
from advisor.workloads.scripts import script_record

WORKER = "advisor.measure.recording.worker"
_POLL_SECONDS = 0.25
_ENDING_SECONDS = 30.0
"""For a script that was asked to end, and for its exit handlers once the record is there."""
LIBRARIES = ("torch", "numba", "numba-cuda")
"""Packages whose versions are of interest, beside those of every run."""
INTERRUPTED = "Interrupted: the record ends where the script did."


@dataclass(frozen=True)
class ScriptRecord:
    description: Description
    recorded: Recorded
    notes: tuple[str, ...]


def record(settings: Settings, folder: Path) -> ScriptRecord:
    """Runs the script once. Raises `AdvisorError` where nothing could be recorded."""
    device: Driver | CpuBackend = Driver(settings.gpu) if settings.backend == "cuda" else CpuBackend()
    description = Description(
        device=device.device(),
        gpu=device.environment(),
        packages=installed(*PACKAGES, *LIBRARIES),
        workload=script_record(settings.file),
    )
    recorded, notes = run_script(script_job(settings, folder), settings.timeout)
    return ScriptRecord(description, recorded, notes)


def script_job(settings: Settings, folder: Path) -> ScriptJob:
    return ScriptJob(
        file=str(settings.file),
        module=settings.module,
        arguments=settings.arguments or (),
        frame=settings.frame,
        backend=settings.backend,
        gpu=settings.gpu,
        directory=str(folder / "script"),
    )


def run_script(
    job: ScriptJob, timeout: float = math.inf, popen: Popen = subprocess.Popen
) -> tuple[Recorded, tuple[str, ...]]:
    """The record, and notes on how the run ended. The script has this process's stdin; what it prints goes to
    stderr. Ctrl-C ends it as Python would; what was recorded counts. Raises `AdvisorError` without a record.
    """
    directory = Path(job.directory)
    process, message = start_script(job, directory, WORKER, popen, stdout=2)
    try:
        note = _watch(process, directory, timeout)
    finally:
        end(process, message)
    outcome = read_outcome(directory)
    if isinstance(outcome, Recorded):
        return outcome, (note,) if note else ()
    if isinstance(outcome, Problem):
        raise outcome.as_error()
    how = note or cause_of_death(process.returncode, "")
    raise WorkloadError(
        f"nothing was recorded of {job.file}: {how}",
        next_step="Check that it runs with python, and that it ends normally or with sys.exit, not os._exit.",
    )


def start_script(
    job: Record, directory: Path, worker: str, popen: Popen = subprocess.Popen, **streams: Any
) -> tuple[subprocess.Popen[bytes], Path]:
    """A process for a job on a script, in that folder and in a session of its own; and the job's file."""
    directory.mkdir(parents=True, exist_ok=True)
    message = directory / "job.json"
    message.write_text(job.model_dump_json(), encoding="utf-8")
    with uninterrupted():
        process = popen(
            worker_command(message, parent=os.getpid(), worker=worker),
            env={**os.environ, MARK: str(message)},
            start_new_session=True,
            **streams,
        )
    return process, message


def _watch(process: subprocess.Popen[bytes], directory: Path, timeout: float) -> str:
    """Waits for the end; why it was asked to end before, in a note."""
    begin, asked, note = time.monotonic(), math.inf, ""
    while True:
        try:
            if wait(process, _POLL_SECONDS):
                return note
            now = time.monotonic()
            if now > asked + _ENDING_SECONDS:
                return note
            if asked == math.inf and (directory / "outcome.json").exists():
                asked = now
            elif asked == math.inf and (why := _too_much(now - begin, timeout)):
                asked, note = now, why
                _interrupt(process)
        except KeyboardInterrupt:
            if note:
                raise
            asked, note = time.monotonic(), INTERRUPTED
            _interrupt(process)


def _too_much(seconds: float, timeout: float) -> str:
    if seconds > timeout:
        return f"The script was interrupted after {units.digits(timeout)} s (--timeout)."
    free, least = memory()
    return f"The script was interrupted: only {units.size(free)} of memory were left." if free < least else ""


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        os.kill(process.pid, signal.SIGINT)
