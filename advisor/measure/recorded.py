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

from advisor import units
from advisor.devices.host import installed
from advisor.errors import WorkloadError
from advisor.measure.backends.cpu import CpuBackend
from advisor.measure.backends.driver import Driver
from advisor.measure.fork_server import Process
from advisor.measure.jobs import Description, Problem, Recorded, ScriptJob, read_outcome
from advisor.measure.processes import Popen, cause_of_death, end, memory, start, wait
from advisor.measure.settings import Settings
from advisor.measure.tasks import PACKAGES
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
        frame=settings.options.frame,
        counts_bytes=settings.options.count_bytes,
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
    process = start(job, directory, WORKER, popen=popen, stdout=2)
    try:
        note = _watch(process, directory, timeout)
    finally:
        end(process, directory)
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


def _watch(process: Process, directory: Path, timeout: float) -> str:
    """Waits for the end; why it was asked to end before, in a note."""
    begin, ending, note = time.monotonic(), math.inf, ""
    while True:
        try:
            if wait(process, _POLL_SECONDS):
                return note
            now = time.monotonic()
            if now > ending + _ENDING_SECONDS:
                return note
            if ending == math.inf and (directory / "outcome.json").exists():
                ending = now
            elif ending == math.inf and (why := _too_much(now - begin, timeout)):
                ending, note = now, why
                _interrupt(process)
        except KeyboardInterrupt:
            if note:
                raise
            ending, note = time.monotonic(), INTERRUPTED
            _interrupt(process)


def _too_much(seconds: float, timeout: float) -> str:
    if seconds > timeout:
        return f"The script was interrupted after {units.digits(timeout)} s (--timeout)."
    free, least = memory()
    return f"The script was interrupted: only {units.size(free)} of memory were left." if free < least else ""


def _interrupt(process: Process) -> None:
    with suppress(OSError):
        os.kill(process.pid, signal.SIGINT)
