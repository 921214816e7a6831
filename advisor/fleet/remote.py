"""The functions that run on a worker: both start a process of our own, so that neither CUDA nor a workload
that dies takes the worker along. Called by `advisor.fleet.dask_cluster` with text, they return text."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from advisor.errors import AdvisorError
from advisor.fleet.packaging import unpack
from advisor.fleet.planning import Answer, Task, wrong
from advisor.measure.processes import cause_of_death, end, keep_short, log_tail, python_command, start, wait
from advisor.profiles.redaction import here
from advisor.profiles.scratch import scratch
from advisor.profiles.text_files import read_unpacked

ANSWER = "answer.json"
_POLL_SECONDS = 0.25
_INSPECTION_SECONDS = 30


def inspect() -> str:
    """The machine as JSON; see `advisor.fleet.inspection`. Raises where it cannot be read in 30 s."""
    done = subprocess.run(
        python_command("advisor.fleet.inspection"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_INSPECTION_SECONDS,
        check=False,
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        raise RuntimeError(cause_of_death(done.returncode, done.stderr))
    return lines[-1]


def profile(text: str, wanted: Callable[[], bool] | None = None) -> str:
    """Makes the profile of a `Task` and returns an `Answer`, both as JSON.

    wanted: whether the task is still to run; asked now and then, and the process ends when it is not.
    """
    try:
        task = Task.model_validate_json(text)
    except ValidationError as problem:
        return Answer(status="failed", reason=f"the task cannot be read: {wrong(problem)}").model_dump_json()
    with scratch() as folder:
        files = folder / "files"
        files.mkdir()
        try:
            unpack(task.files, files)
        except (AdvisorError, OSError, ValueError) as problem:
            reason = f"the files cannot be unpacked: {problem}"
            return Answer(status="failed", reason=reason).model_dump_json()
        message = folder / "task.json"
        message.write_text(task.model_copy(update={"files": {}}).model_dump_json(), encoding="utf-8")
        return _run(task, message, wanted or _still_wanted)


def _run(task: Task, message: Path, wanted: Callable[[], bool]) -> str:
    log, answer = message.parent / "log", message.parent / ANSWER
    process = start(message, log, "advisor.fleet.profiling")
    deadline = time.monotonic() + task.seconds
    stopped = ""
    try:
        while not stopped and not wait(process, _POLL_SECONDS):
            keep_short(log)
            if time.monotonic() > deadline:
                stopped = f"did not finish within {task.seconds:g} s"
            elif not wanted():
                stopped = "the task was cancelled"
    finally:
        end(process, message)
    if answer.exists() and not stopped:
        return read_unpacked(answer).decode("utf-8", "replace")
    hide, printed = here(include_host=task.include_host).hide, log_tail(log)
    why = stopped or cause_of_death(process.returncode, printed)
    return Answer(status="lost", reason=hide(why), detail=hide(printed)).model_dump_json()


def _still_wanted() -> bool:
    """Whether this task of the Dask worker is still to run: not if it was cancelled, or its client left."""
    from distributed import get_worker  # the worker's own; elsewhere there is none

    worker: Any = get_worker()
    task = worker.state.tasks.get(worker.get_current_task())
    return task is not None and task.state in ("executing", "long-running")
