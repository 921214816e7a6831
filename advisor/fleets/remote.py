"""The functions that run on a worker, `inspect` and `profile`: called by `fleets.dask_cluster` with text,
they return text. Both start a process of our own, so that neither CUDA, which keeps memory of every GPU, nor
a workload that dies takes the worker along.

`main` is that process: without arguments it prints the machine; with a task it makes one profile, as `advisor
profile` would, and leaves an `Answer`.
"""

from __future__ import annotations

import os
import platform
import re
import socket
import subprocess
import traceback
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from advisor.devices.entries import memory_class
from advisor.devices.host import ROOT, Tree, cpu_model
from advisor.errors import AdvisorError, NothingMeasured
from advisor.extras import driver_version
from advisor.fleets.planning import Answer, Device, Machine, Task
from advisor.fleets.request import unpack
from advisor.measure.backends import gpu_count, has_cupy
from advisor.measure.backends.cuda_calls import Driver
from advisor.measure.fork_server import die_with_parent
from advisor.measure.jobs import LOG
from advisor.measure.processes import OVERDUE, cause_of_death, end, log_tail, python_command, start, watch
from advisor.profiles.files import read_whole, scratch, write_atomically
from advisor.profiles.redaction import here
from advisor.texts import shortened
from advisor.version import __version__

ANSWER = "answer.json"
_INSPECTION_SECONDS = 120
"""A busy machine took more than 30."""
_LONGEST = 16_000
"""Characters of a detail."""


def inspect() -> str:
    """The worker's `Machine` as JSON. Raises where it cannot be read in two minutes."""
    command = python_command("advisor.fleets.remote")
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_INSPECTION_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"they were not read within {_INSPECTION_SECONDS} s") from None
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        raise RuntimeError(cause_of_death(done.returncode, done.stderr))
    return lines[-1]


def profile(text: str) -> str:
    """Makes the profile of a `Task` and returns an `Answer`, both as JSON."""
    with scratch() as folder:
        files = folder / "files"
        files.mkdir()
        try:
            task = Task.model_validate_json(text)
            unpack(task.files, files)
        except (AdvisorError, OSError, ValueError) as problem:
            reason = f"the task cannot be read: {shortened(problem, 300)}"
            return Answer(status="failed", reason=reason).model_dump_json()
        answer = folder / ANSWER
        process = start(task.model_copy(update={"files": {}}), folder, "advisor.fleets.remote")
        try:
            stopped = watch(process, folder, task.seconds, _cancelled)
        finally:
            end(process, folder)
        if stopped == OVERDUE:
            stopped = f"did not finish within {task.seconds:g} s"
        if answer.exists() and not stopped:
            return read_whole(answer).decode("utf-8", "replace")
        hide, printed = here(include_host=task.include_host).hide, log_tail(folder / LOG)
        why = stopped or cause_of_death(process.returncode, printed)
        return Answer(status="lost", reason=hide(why), detail=hide(printed)).model_dump_json()


def _cancelled() -> str:
    """Why the process is to end: once the task was cancelled or its client left."""
    from distributed import get_worker  # the worker's own; elsewhere there is none

    worker: Any = get_worker()
    task = worker.state.tasks.get(worker.get_current_task())
    return "" if task and task.state in ("executing", "long-running") else "the task was cancelled"


def main(arguments: list[str]) -> None:
    if not arguments:
        print(machine().model_dump_json(), flush=True)
        os._exit(0)  # the driver's own exit handlers have nothing to do
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
        from advisor import configuration, pipeline  # not for the Dask worker, which runs none of it
        from advisor.measure.backends import choose_backend
        from advisor.measure.progress import Silent

        name = f"{task.file}::{task.workload}" if task.workload else task.file
        kept = {"include_host": task.include_host, "no_environment": task.no_environment}
        source = configuration.arguments(**{**task.options, "workload": name, **kept})
        backend = choose_backend(None, task.no_gpu, _require_gpu)
        settings = configuration.make_settings([source], backend=backend, command=task.command)
        with scratch() as folder:
            result = pipeline.profile(settings, Silent(), keep_in=folder)
        return Answer(status="profiled", profile=result.to_json())
    except AdvisorError as error:
        texts = {"reason": error.message, "next_step": error.next_step, "detail": error.detail}
        hidden = {key: hide(text)[:_LONGEST] for key, text in texts.items()}
        return Answer(status="failed", exit_code=error.exit_code, **hidden)
    except Exception as bug:
        reason = hide(f"internal error: {type(bug).__name__}: {bug}")[:_LONGEST]
        detail = hide(traceback.format_exc())[-_LONGEST:]
        return Answer(status="failed", reason=reason, detail=detail, exit_code=70)


def _require_gpu(problem: str) -> None:
    """A worker that was given a GPU does not fall back to its CPU."""
    what, _, step = problem.partition("\n  next: ")
    raise NothingMeasured(what, next_step=step)


_CUPY = re.compile(r"cupy(?:-cuda(\d+)x)?", re.IGNORECASE)


def machine() -> Machine:
    cupy, built_for = _cupy()
    host, cpu = socket.gethostname(), (cpu_model(Tree(ROOT)) or platform.machine())[:300]
    place = f"host {host}"
    return Machine(
        host=host,
        advisor=__version__,
        cpu=Device(name=cpu, kind="cpu", host=host, cpu=cpu, identity=place, place=place),
        gpus=tuple(_gpus(host, cpu)),
        cupy=cupy,
        cupy_cuda=built_for,
        driver_cuda=driver_version(),
    )


def _cupy() -> tuple[str | None, int | None]:
    """CuPy's version, and the CUDA release of its wheel; None each where it is not known."""
    for each in metadata.distributions():
        named = _CUPY.fullmatch(each.metadata["Name"] or "")
        if named:
            return each.version, int(named[1]) if named[1] else None
    return "unknown" if has_cupy() else None, None


def _gpus(host: str, cpu: str) -> Iterator[Device]:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    for index in range(gpu_count()):
        with suppress(NothingMeasured):
            gpu = Driver(index)
            device, number = gpu.device(), gpu.uuid()
            # A part of a GPU (MIG) has its name from CUDA_VISIBLE_DEVICES.
            visible_name = visible[index].strip() if index < len(visible) else ""
            uuid = visible_name if visible_name.startswith("MIG-") else f"GPU-{number}" if number else None
            # A board has one GPU, and older drivers of boards take no UUID there.
            integrated, name = bool(device.attributes.get("integrated")), device.name or "GPU"
            identity = uuid if uuid and not integrated else f"{host}|{name}|{index}"
            yield Device(
                name=name,
                kind="cuda",
                host=host,
                cpu=cpu,
                identity=identity,
                place=f"host {host}" if integrated else identity,
                uuid=None if integrated else uuid,
                memory_class=memory_class(device.attributes),
            )
