"""The process on a worker that makes one profile, as `advisor profile` would, and leaves an `Answer`."""

from __future__ import annotations

import os
import traceback
from dataclasses import replace
from pathlib import Path

from advisor import configuration, pipeline
from advisor.errors import AdvisorError, NothingMeasured
from advisor.fleet.planning import Answer, Task
from advisor.fleet.remote import ANSWER
from advisor.measure.backends import choose_backend
from advisor.measure.process import die_with_parent
from advisor.measure.progress import Silent
from advisor.profiles.redaction import here
from advisor.profiles.schema import Profile
from advisor.profiles.scratch import scratch
from advisor.profiles.text_files import write_atomically

_LONGEST = 16_000
"""Characters of a detail."""


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
    name = f"{task.file}::{task.workload}" if task.workload else task.file
    source = configuration.arguments(**{**task.options, "workload": name})
    backend = choose_backend(None, task.no_gpu, _require_gpu)
    settings = configuration.make_settings([source], backend=backend, command=task.command)
    settings = replace(settings, include_host=task.include_host, no_environment=task.no_environment)
    with scratch() as folder:
        return pipeline.profile(settings, Silent(), keep_in=folder)


def _require_gpu(problem: str) -> None:
    """A worker that was given a GPU measures on it, or says why it cannot."""
    what, _, step = problem.partition("\n  next: ")
    raise NothingMeasured(what, next_step=step)
