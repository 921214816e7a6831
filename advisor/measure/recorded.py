"""A script's one observed run: the device is looked at, then the script runs in a process of its own."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from advisor import units
from advisor.errors import NothingMeasured, WorkloadError
from advisor.measure.jobs import Description, Problem, Recorded, ScriptJob, read_outcome
from advisor.measure.launcher import Launcher
from advisor.measure.measurement import job_of
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
from advisor.measure.progress import Progress
from advisor.measure.settings import Settings

WORKER = "advisor.measure.recording.worker"
_POLL_SECONDS = 0.25
_ENDING_SECONDS = 30.0
"""For a script that was asked to end, and for its exit handlers once the record is there."""
INTERRUPTED = "Interrupted: the record ends where the script did."


@dataclass(frozen=True)
class ScriptRecord:
    """What a profile of a script has that had to be measured."""

    description: Description
    recorded: Recorded
    notes: tuple[str, ...]


RunScript = Callable[[ScriptJob, float], "tuple[Recorded | Problem | None, str]"]


def record(settings: Settings, launcher: Launcher, progress: Progress, folder: Path) -> ScriptRecord:
    """Runs the script once. Raises `AdvisorError` where nothing could be recorded."""
    progress.begin("looking at the device")
    described = launcher(job_of(settings, "describe", "script", folder, "describe"))
    progress.end()
    if not isinstance(described.outcome, Description):
        raise _no_device(described.outcome, described.reason, described.log)
    job = ScriptJob(
        file=str(settings.file),
        module=settings.module,
        arguments=settings.arguments or (),
        frame=settings.frame,
        backend=settings.backend,
        gpu=settings.gpu,
        directory=str(folder / "script"),
    )
    recorded, notes = run_script(job, settings.timeout)
    return ScriptRecord(described.outcome, recorded, notes)


def _no_device(outcome: object, reason: str, log: str) -> NothingMeasured:
    if isinstance(outcome, Problem):
        step = outcome.next_step or "Check the driver with nvidia-smi."
        return NothingMeasured(outcome.message, next_step=step, detail=outcome.detail)
    return NothingMeasured(
        f"the GPU cannot be used: {reason}",
        next_step="The output of the process is below. Run `advisor doctor` to check each component.",
        detail=log,
    )


def run_script(
    job: ScriptJob, timeout: float = math.inf, popen: Popen = subprocess.Popen
) -> tuple[Recorded, tuple[str, ...]]:
    """The record, and notes on how the run ended. The script has this process's stdin; what it prints goes to
    stderr. Ctrl-C ends it as Python would; what was recorded counts. Raises `AdvisorError` without a record.
    """
    directory = Path(job.directory)
    directory.mkdir(parents=True)
    message = directory / "job.json"
    message.write_text(job.model_dump_json(), encoding="utf-8")
    with uninterrupted():
        process = popen(
            worker_command(message, parent=os.getpid(), worker=WORKER),
            env={**os.environ, MARK: str(message)},
            stdout=2,
            start_new_session=True,
        )
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
