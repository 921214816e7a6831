"""The child process: one job, one strategy, one outcome. Run as `main([JOB.json, PARENT_PID])`.

Whatever the workload or script does to its process stays in its process; the parent reads the outcome
file, or the way the process ended.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TypeVar

import numpy as np

from advisor.devices.host import installed
from advisor.errors import AdvisorError, FileProblem, NothingMeasured
from advisor.measure import footprint, jobs, tasks
from advisor.measure.backends import open_backend
from advisor.measure.backends.cuda_calls import ManagedCallFailed
from advisor.measure.cupy_mock import checks, tracing
from advisor.measure.fork_server import die_with_parent, end_if_forked
from advisor.measure.frames import Ranges
from advisor.measure.jobs import CalibrationJob, Job, Outcome, Problem, TraceRun
from advisor.measure.namespaces import ModuleSnapshot, Namespace, back_to_start, compiled, start_here
from advisor.measure.placed_workload import PlacedWorkload, afresh, place
from advisor.measure.processes import tell_where_on_request
from advisor.measure.reference import reference
from advisor.measure.steps import origin
from advisor.measure.tasks import ResultsDiffer
from advisor.profiles import secrets
from advisor.strategies.arena import AllocationFailed
from advisor.strategies.backend import Backend, BackendName
from advisor.strategies.placement import Placed
from advisor.workloads.binding import no_kernel
from advisor.workloads.bridges import require_libraries
from advisor.workloads.loading import Loaded, after_error, check_sweep, require_host_memory, user_traceback

AnyJob = TypeVar("AnyJob", Job, CalibrationJob)
_RESTORE = "Change the device, stream or allocator only inside a CuPy `with` block."
_READ_ONLY = "A buffer that a stage annotates In cannot be written: annotate it Out or InOut."
_TOOLKIT = (
    "CuPy needs the CUDA Toolkit to compile kernels, and its wheels do not include it. Install the "
    "toolkit, or on a PC or server pip install 'cupy-cuda13x[ctk]' (or cupy-cuda12x[ctk])."
)
_SPARE = 16
"""Descriptors with which to tell that a workload has used up all others."""
_ALL_OPEN = "the workload keeps as many files open as a process may have"
_CLOSE = "Close files and sockets once they are read, or raise the limit: ulimit -n 4096."
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_SHORT = " written"
"""So ends NumPy's error about part of an array on a full disk, which has no number."""
_ROOM = "Free space in the folder for temporary files, set TMPDIR to another, or raise ulimit -f."
_TWIN = "Without a GPU this device stage needs a CPU twin: device(function, cpu=numpy_function)."
_XP = (
    "Take xp as a parameter and use it in place of cupy: without a GPU it is numpy. A stage that needs cupy "
    "itself needs a CPU twin: device(function, cpu=numpy_function)."
)
_ON_HOST = "Host stages get NumPy arrays and run on the CPU: leave calls of the GPU to device stages."
_AT_ONCE = (
    "It raised before any Python code of the stage ran: look at what wraps it, such as functools.lru_cache."
)


def main(arguments: list[str]) -> None:
    run_job(arguments, Job, attempt)
    others = (t for t in threading.enumerate() if t is not threading.main_thread())
    if any(not thread.daemon for thread in others):  # Python would wait for these for ever
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def run_job(arguments: list[str], kind: type[AnyJob], attempt: Callable[[AnyJob], Outcome]) -> None:
    """Does the job of a file for the parent of that id; exits with 0 whenever it leaves an outcome. The id is
    0 where a tool stands between this process and the program: whose child it is, is unknown."""
    die_with_parent(int(arguments[1]))
    job = kind.model_validate_json(Path(arguments[0]).read_text(encoding="utf-8"))
    directory = Path(job.directory).resolve()  # the user's code may go elsewhere
    if isinstance(job, Job):
        secrets.remember(secrets.secret_values((), job.assignments))
        if job.backend == "cpu":  # also from PyTorch and Numba, which would take a GPU that is there
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
    here, worker = _identity(), os.getpid()
    try:
        outcome = attempt(job)
        end_if_forked(worker)
        jobs.write_outcome(directory, outcome)
    except OSError:
        if here == _identity():
            raise
        os.write(2, b"the workload changed the user or the root directory of its process, which ended it\n")
        sys.exit(1)


def _identity() -> tuple[int, int, int]:
    """The user and the root directory of this process, which decide whether it can write its outcome."""
    root = Path("/").stat()
    return os.geteuid(), root.st_dev, root.st_ino


def attempt(job: Job, opened: Callable[[BackendName, int], Backend] = open_backend) -> Outcome:
    """The outcome on the backend that `opened` gives, with all that can go wrong turned into a `Problem`."""
    path, began = Path(job.file), perf_counter()
    start_here()
    tell_where_on_request(Path(job.directory))
    snapshot = ModuleSnapshot()
    spare = [os.open(os.devnull, os.O_RDONLY) for _ in range(_SPARE)]
    try:
        with Namespace(job.tree).entered() if job.tree else nullcontext():
            return _run(job, path, opened)
    except BaseException as error:  # sys.exit, and what test and async libraries derive from it
        for descriptor in spare:
            with suppress(OSError):  # the workload closed it
                os.close(descriptor)
        replaced = snapshot.restore()
        back_to_start()  # where the file is, whose lines are shown
        problem = problem_of(error, job, path)
        if perf_counter() < began:
            now = "time.perf_counter() is less than when the process began"
            step = "Check the machine's clock, and what replaces Python's (sitecustomize, LD_PRELOAD)."
            return Problem.of(
                NothingMeasured(f"the clock of this machine runs backwards: {now}", next_step=step)
            )
        if replaced and problem.cause == "bug":  # the user's code took away what everything needs
            message = f"the workload replaced {replaced}, which advisor needs too"
            back = "Put it back before the workload's function or stage returns"
            step = f"{back}, or replace it in your own module only."
            return Problem(cause="raised", message=message, next_step=step)
        return problem
    finally:
        snapshot.restore()


def problem_of(error: BaseException, job: Job, path: Path) -> Problem:
    if isinstance(error, AdvisorError):
        return Problem.of(error)
    if isinstance(error, tasks.StateLeft):
        return Problem(cause="state", message=str(error), next_step=_RESTORE)
    if isinstance(error, ResultsDiffer):
        return Problem(cause="differs", message=str(error))
    if isinstance(error, (AllocationFailed, MemoryError)):
        message = origin(error).explain(_said(error) or "out of memory")
        return Problem(cause="memory", message=message, detail=user_traceback(error, path))
    return _explain(error, path, on_gpu=job.backend == "cuda")


def _explain(error: BaseException, path: Path, *, on_gpu: bool) -> Problem:
    """Tells an error of the device from one of the user's code and from one of ours."""
    detail, raised = user_traceback(error, path), origin(error)
    told = partial(Problem, cause="raised", detail=detail)
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return told(message=_ALL_OPEN, next_step=_CLOSE)
    message = f"{type(error).__name__}: {_said(error)}".rstrip(": ")
    of_cupy = type(error).__module__.startswith("cupy") and on_gpu
    if of_cupy or isinstance(error, ManagedCallFailed):
        return told(cause="device", message=raised.explain(f"CUDA: {_said(error)}"))
    if not detail.startswith("Traceback"):  # no line of the user's: a stage of compiled code, or our error
        compiled_code = told(message=raised.explain(message), next_step=_AT_ONCE)
        return compiled_code if raised.call and not raised.entered else _own(error)
    if isinstance(error, SystemExit):
        message = f"the workload called exit({error.code!r})"
    next_step = after_error(error, path)
    if unknown := checks.unknown_name(error):
        return told(message=unknown.message, next_step=unknown.next_step)
    if not on_gpu and _wants_a_gpu(error, message):
        if raised.call and raised.call.side == "host":
            return told(message=raised.explain(message), next_step=_ON_HOST)
        return told(cause="twin", message=message, next_step=_XP if _is_of_cupy(error) else _TWIN)
    if "CuPy failed to load" in message:
        next_step = _TOOLKIT
    elif "read-only" in message and raised.locked:
        buffers = " or ".join(map(repr, raised.locked))
        message, next_step = f"it may not write {buffers}: {message}", _READ_ONLY
    return told(message=raised.explain(message), next_step=next_step)


def _own(error: BaseException) -> Problem:
    if isinstance(error, OSError) and (error.errno in _FULL or str(error).endswith(_SHORT)):
        why = error.strerror or error
        return Problem.of(FileProblem(f"results cannot be written: {why}", next_step=_ROOM))
    return Problem(cause="bug", message=f"advisor failed: {error!r}", detail=traceback.format_exc())


def _wants_a_gpu(error: BaseException, message: str) -> bool:
    """What CuPy's, Numba's and PyTorch's GPU calls and our own kernels say where there is no GPU."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    signs = ("cupy", "not compiled with CUDA", "Found no NVIDIA driver")
    named = bool(kinds & {"KernelNeedsGpu", "CudaSupportError"}) or any(sign in message for sign in signs)
    name, known = checks.missing_name(error) or ("", {})  # of CuPy alone: `xp.RawKernel`, `a.get()`
    return named or _is_of_cupy(error) or name in known


def _is_of_cupy(error: BaseException) -> bool:
    absent = isinstance(error, ModuleNotFoundError) and error.name == "cupy"
    return absent or type(error).__module__.startswith("cupy")


def _said(error: BaseException) -> str:
    """The first line of its text; an exception of the user's can fail even at that."""
    try:
        return str(error).strip().partition("\n")[0]
    except Exception:
        return ""


def _run(job: Job, path: Path, opened: Callable[[BackendName, int], Backend]) -> Outcome:
    if job.swept:
        check_sweep(path, job.workload, job.assignments, dict(job.swept))
        return jobs.Done()
    backend = opened(job.backend, job.gpu)
    if job.task == "reference":
        return _run_reference(job, backend)
    if job.task == "trace":
        return _run_trace(job, backend)
    loaded = afresh(job)()
    backend.open_gpus(loaded.record.gpus, job.gpus)
    _require(loaded, backend)
    ranges = Ranges()
    before = footprint.read(backend)
    with ranges.strategy(job.strategy), place(job, loaded, backend, ranges) as run:
        if job.task == "capture":
            return tasks.capture(job, backend, run)
        return tasks.measure(job, loaded, backend, run, before)


def _run_trace(job: Job, backend: Backend) -> TraceRun:
    """Checks device stages and traces all on one load of the workload, and times them on another."""
    checking = Namespace()
    with checking.entered():
        with _traceable(job, backend) as run:
            checked, waits = tracing.check(run, job.seed)
        shared = compiled()
    sys.modules.update({name: checking.modules[name] for name in shared})
    if checked.wrong:
        return checked
    try:
        with _traceable(job, backend) as run:
            return tracing.trace(job, run, checked, waits)
    except Exception:
        if checked.refused:
            return TraceRun(refused=checked.refused)
        raise


@contextmanager
def _traceable(job: Job, backend: Backend) -> Iterator[PlacedWorkload]:
    """A new load of the workload on its buffers, without kernels that have no twin."""
    loaded, ranges = afresh(job)(), Ranges()
    backend.open_gpus(loaded.record.gpus, job.gpus)
    loaded = replace(loaded, bound=loaded.bound.without_kernels())
    _require(loaded, backend)
    with ranges.strategy(job.strategy), place(job, loaded, backend, ranges) as run:
        if any(each.stage.cpu is no_kernel for each in loaded.bound.frame):
            for placed in run.placed.values():
                _clear(placed)
        yield run


def _clear(placed: Placed) -> None:
    """Zeros for what kernels without a twin would have written: host stages read it."""
    for array in (placed.host, placed.device):
        if isinstance(array, np.ndarray):
            array[...] = np.zeros((), array.dtype)
    for other in placed.others.values():
        _clear(other)


def _require(loaded: Loaded, backend: Backend) -> None:
    """What stages ask for, and memory for the buffers. Raises `WorkloadError`."""
    require_libraries(loaded.bound, backend)
    require_host_memory(loaded.bound, copies=2 if backend.xp is np else 1)


def _run_reference(job: Job, backend: Backend) -> Outcome:
    """What is described is what runs first; one load at a time is held, since they may hold much."""
    make, ranges = afresh(job), Ranges()
    waiting = [make()]
    backend.open_gpus(waiting[0].record.gpus, job.gpus)
    described = jobs.Description(
        device=backend.device(),
        gpu=backend.environment(),
        packages=installed(*jobs.PACKAGES),
        workload=waiting[0].record,
        cautions=waiting[0].cautions,
        compiled=compiled(),
    )
    (Path(job.directory) / jobs.DESCRIPTION).write_text(described.model_dump_json(), encoding="utf-8")
    _require(waiting[0], backend)

    def begin(again: bool = False) -> AbstractContextManager[PlacedWorkload]:
        loaded = waiting.pop() if waiting else (make if again else afresh(job))()
        return place(job, loaded, backend, ranges)

    with ranges.strategy(job.strategy):
        return reference(job, backend, begin)
