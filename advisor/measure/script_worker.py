"""The child process of script mode: the script once, under one strategy. Run by its `main`."""

from __future__ import annotations

import os
import runpy
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import Any

from advisor.errors import AdvisorError
from advisor.measure.backends import open_backend
from advisor.measure.jobs import Problem, ScriptDescription, write_outcome
from advisor.measure.script_ranges import RangeWatch
from advisor.measure.worker import PACKAGES, die_with_parent
from advisor.profiles.scripts import ScriptCell, ScriptJob
from advisor.strategies.scripts import UNCHANGED
from advisor.workloads import script_output

RESULTS = "results"
STDOUT = "stdout"


class AllocatorChanged(BaseException):
    """The script sets CuPy's allocator itself; no `except Exception` of its own may hold this up."""


def main(arguments: list[str]) -> None:
    """Does the job of a file for the parent of that id; exits with 0 whenever it leaves an outcome."""
    die_with_parent(int(arguments[1]))
    job = ScriptJob.model_validate_json(Path(arguments[0]).read_text(encoding="utf-8"))
    directory = Path(job.directory).resolve()
    outcome = _attempt(job, directory)
    write_outcome(directory, outcome)
    sys.stderr.flush()
    os._exit(0)  # threads and exit handlers that the script left are its own affair


def _attempt(job: ScriptJob, directory: Path) -> ScriptCell | ScriptDescription | Problem:
    try:
        return _describe(job) if job.task == "describe" else _run(job, directory)
    except AdvisorError as error:
        return Problem(
            cause="wrong", error=type(error).__name__, message=error.message, next_step=error.next_step
        )
    except Exception as error:
        said = str(error) or repr(error)
        return Problem(cause="device", message=said.partition("\n")[0], detail=traceback.format_exc())


def _describe(job: ScriptJob) -> ScriptDescription:
    """The GPU, in a process of its own: a backend brings a stream that the script must not have."""
    backend = open_backend("cuda", job.gpu)
    packages = {}
    for name in PACKAGES:
        try:
            packages[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return ScriptDescription(device=backend.device(), gpu=backend.environment(), packages=packages)


def _run(job: ScriptJob, directory: Path) -> ScriptCell:
    from advisor.measure.backends.imposing import Script

    begin = time.perf_counter()
    script = Script(job.gpu)
    script.impose(job.strategy)
    script.synchronize()
    setup_seconds = time.perf_counter() - begin
    watch, results = RangeWatch(script), script_output.Results(directory / RESULTS)
    copies = memory = None
    if job.observe:
        script.listen_to_ranges(watch)
        watch.listen_to_nvtx()
        copies, memory = script.watch_copies(), script.watch_memory()
        results.unobserved = copies.paused
    changed = _Changed(job.strategy)
    script.guard(changed)
    with _counting_forks() as forks, results.listening(), script_output.stdout_into(directory / STDOUT):
        begin = time.perf_counter()
        code, error = _execute(Path(job.file), job.arguments)
        script.synchronize()
        seconds = time.perf_counter() - begin - results.seconds
    return ScriptCell(
        seconds=max(seconds, 1e-9),
        setup_seconds=setup_seconds,
        exit_code=code,
        stdout_sha256=script_output.digest(directory / STDOUT),
        stdout_bytes=(directory / STDOUT).stat().st_size,
        results=tuple(results.names),
        ranges=watch.ranges(),
        copies=copies.copies() if copies else None,
        memory=memory.memory() if memory else None,
        forks=len(forks),
        allocator_changed=changed.where,
        error=error,
    )


class _Changed:
    """Notes where the script sets the allocator; ends it where that would undo the strategy."""

    def __init__(self, strategy: str) -> None:
        self.where = ""
        self._strategy = strategy

    def __call__(self) -> None:
        caller: FrameType | None = sys._getframe(2)
        if caller is not None:
            self.where = f"{Path(caller.f_code.co_filename).name}, line {caller.f_lineno}"
        if self._strategy != UNCHANGED:
            raise AllocatorChanged(self.where)


def _execute(file: Path, arguments: tuple[str, ...]) -> tuple[int, str]:
    """Runs the file as `python file arguments` would. Its exit code, and the exception that ended it."""
    process = os.getpid()
    sys.argv = [str(file), *arguments]
    sys.path.insert(0, str(file.resolve().parent))
    code, error = 0, ""
    try:
        runpy.run_path(str(file), run_name="__main__")
    except SystemExit as asked:
        code = _code(asked.code)
    except AllocatorChanged:
        pass
    except BaseException as problem:
        code, error = 1, traceback.format_exception_only(type(problem), problem)[-1].strip()
        _print_traceback(problem, file)
    if os.getpid() != process:  # a child of the script's own that came back here
        sys.stdout.flush()
        os._exit(code)
    return code, error


def _code(given: Any) -> int:
    """What the process would have exited with; a message goes to stderr and is 1."""
    if given is None:
        return 0
    if isinstance(given, int):
        return given & 0xFF
    print(given, file=sys.stderr)
    return 1


def _print_traceback(problem: BaseException, file: Path) -> None:
    """To the log, from the script's own first line on."""
    frames = traceback.extract_tb(problem.__traceback__)
    own = next((i for i, frame in enumerate(frames) if Path(frame.filename) == file), 0)
    print("Traceback (most recent call last):", file=sys.stderr)
    lines = traceback.format_list(frames[own:]) + traceback.format_exception_only(type(problem), problem)
    print("".join(lines), end="", file=sys.stderr)


@contextmanager
def _counting_forks() -> Iterator[list[int]]:
    """One entry for each os.fork, multiprocessing's among them; subprocess has its own way."""
    forks: list[int] = []
    open_ = [True]
    os.register_at_fork(before=lambda: forks.append(1) if open_ else None)
    yield forks
    open_.clear()
