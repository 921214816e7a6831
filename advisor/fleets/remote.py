"""The functions that run on a worker: both start a process of our own, so that neither CUDA nor a workload
that dies takes the worker along. Called by `advisor.fleets.dask_cluster` with text, they return text. `main`
is the process that makes one profile, as `advisor profile` would, and leaves an `Answer`."""

from __future__ import annotations

import os
import subprocess
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from advisor.errors import AdvisorError, NothingMeasured
from advisor.fleets.packaging import unpack
from advisor.fleets.planning import Answer, Task, wrong
from advisor.measure.jobs import LOG
from advisor.measure.process import die_with_parent
from advisor.measure.processes import cause_of_death, end, keep_short, log_tail, python_command, start, wait
from advisor.profiles.files import read_unpacked, scratch, write_atomically
from advisor.profiles.redaction import here
from advisor.profiles.schema import Profile

ANSWER = "answer.json"
_POLL_SECONDS = 0.25
_INSPECTION_SECONDS = 30

_LONGEST = 16_000
"""Characters of a detail."""


def inspect() -> str:
    """The machine as JSON; see `advisor.fleets.inspection`. Raises where it cannot be read in 30 s."""
    done = subprocess.run(
        python_command("advisor.fleets.inspection"),
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
        return _run(task.model_copy(update={"files": {}}), folder, wanted or _still_wanted)


def _run(task: Task, folder: Path, wanted: Callable[[], bool]) -> str:
    log, answer = folder / LOG, folder / ANSWER
    process = start(task, folder, "advisor.fleets.remote")
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
        end(process, folder)
    if answer.exists() and not stopped:
        return read_unpacked(answer).decode("utf-8", "replace")
    hide, printed = here(include_host=task.include_host).hide, log_tail(log)
    why = stopped or cause_of_death(process.returncode, printed)
    return Answer(status="lost", reason=hide(why), detail=hide(printed)).model_dump_json()


def _still_wanted() -> bool:
    """False once the task was cancelled or its client left."""
    from distributed import get_worker  # the worker's own; elsewhere there is none

    worker: Any = get_worker()
    task = worker.state.tasks.get(worker.get_current_task())
    return task is not None and task.state in ("executing", "long-running")


def main(arguments: list[str]) -> None:
    die_with_parent(int(arguments[1]))
    message = Path(arguments[0])
    task = Task.model_validate_json(message.read_text(encoding="utf-8"))
    if task.gpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = task.gpu
    os.chdir(message.parent / "files")
    write_atomically(message.parent / ANSWER, _answer(task).model_dump_json())


def _answer(task: Task) -> Answer:
    hide = here(include_host=task.include_host).hide  # of this machine, which the command's does not know
    try:
        return Answer(status="profiled", profile=_profile(task).to_json())
    except AdvisorError as error:
        texts = {"reason": error.message, "next_step": error.next_step, "detail": error.detail}
        hidden = {key: hide(text)[:_LONGEST] for key, text in texts.items()}
        return Answer(status="failed", exit_code=error.exit_code, **hidden)
    except Exception as bug:
        reason = hide(f"internal error: {type(bug).__name__}: {bug}")[:_LONGEST]
        detail = hide(traceback.format_exc())[-_LONGEST:]
        return Answer(status="failed", reason=reason, detail=detail, exit_code=70)


def _profile(task: Task) -> Profile:
    from advisor import configuration, pipeline  # not for the Dask worker, which runs none of it
    from advisor.measure.backends import choose_backend
    from advisor.measure.progress import Silent

    name = f"{task.file}::{task.workload}" if task.workload else task.file
    hidden = {"include_host": task.include_host, "no_environment": task.no_environment}
    source = configuration.arguments(**{**task.options, "workload": name, **hidden})
    backend = choose_backend(None, task.no_gpu, _require_gpu)
    settings = configuration.make_settings([source], backend=backend, command=task.command)
    with scratch() as folder:
        return pipeline.profile(settings, Silent(), keep_in=folder)


def _require_gpu(problem: str) -> None:
    """A worker that was given a GPU does not fall back to its CPU."""
    what, _, step = problem.partition("\n  next: ")
    raise NothingMeasured(what, next_step=step)
