"""The child process: one job, one strategy, one outcome. Run as `main([JOB.json, PARENT_PID])`.

Whatever the workload does to its process stays in its process; the parent reads the outcome file, or the
way the process ended.
"""

from __future__ import annotations

import ctypes
import os
import random
import signal
import sys
import threading
import traceback
from contextlib import suppress
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import numpy as np

from advisor.errors import AdvisorError
from advisor.measure import tasks
from advisor.measure.backends import open_backend
from advisor.measure.backends.managed_calls import ManagedCallFailed
from advisor.measure.jobs import DESCRIPTION, Checked, Description, Job, Outcome, Problem, write_outcome
from advisor.measure.nvtx_ranges import Ranges
from advisor.strategies.backend import Backend
from advisor.strategies.placements.arena import AllocationFailed
from advisor.workloads.frameworks import numba_versions
from advisor.workloads.frameworks.bridging import require_libraries
from advisor.workloads.loading import Loaded, check_sweep, load, user_traceback

PACKAGES = ("numpy", "cupy-cuda12x", "cupy-cuda13x", "cupy", "nvtx", "cuda-bindings")
"""Whose versions the profile keeps."""
_RESTORE = "Change the device, the stream or the allocator inside a `with` block of CuPy."
_READ_ONLY = "A buffer that a stage annotates In cannot be written: annotate it Out or InOut."
_TOOLKIT = (
    "CuPy's wheels leave out the CUDA Toolkit, with which it compiles kernels: install the toolkit, or on a "
    "PC or server pip install 'cupy-cuda13x[ctk]' (or cupy-cuda12x[ctk])."
)
_TWIN = "Without a GPU this device stage needs a CPU twin: device(function, cpu=numpy_function)."
_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Runs the job of a file for the parent of that id; exits with 0 whenever it leaves an outcome.

    The id is 0 where a tool stands between this process and the program: whose child it is, is unknown.
    """
    die_with_parent(int(arguments[1]))
    job = Job.model_validate_json(Path(arguments[0]).read_text(encoding="utf-8"))
    random.seed(job.seed)
    np.random.seed(job.seed)  # a workload that ignores `rng` still repeats
    write_outcome(Path(job.directory), _attempt(job))
    _leave_threads_behind()


def _attempt(job: Job) -> Outcome:
    """The outcome, with everything that can go wrong turned into a `Problem`."""
    path = Path(job.file)
    try:
        return _run(job, path)
    except BaseException as error:  # sys.exit, and what test and async libraries derive from it
        return problem_of(error, job, path)


def problem_of(error: BaseException, job: Job, path: Path) -> Problem:
    """What went wrong in a worker: the user's mistake, the device's, or ours."""
    if isinstance(error, AdvisorError):
        return _wrong(error)
    if isinstance(error, tasks.StateLeft):
        return Problem(cause="state", message=str(error), next_step=_RESTORE)
    if isinstance(error, tasks.ResultsDiffer):
        return Problem(cause="differs", message=str(error))
    if isinstance(error, (AllocationFailed, MemoryError)):
        message = _said(error) or "out of memory"
        return Problem(cause="memory", message=message, detail=user_traceback(error, path))
    return _explain(error, path, on_gpu=job.backend == "cuda")


def _explain(error: BaseException, path: Path, *, on_gpu: bool) -> Problem:
    """Tells an error of the device from one of the user's code and from one of ours."""
    detail = user_traceback(error, path)
    if type(error).__module__.startswith("cupy") or isinstance(error, ManagedCallFailed):
        return Problem(cause="device", message=f"CUDA: {_said(error)}", detail=detail)
    if not detail.startswith("Traceback"):
        return Problem(cause="bug", message=f"advisor failed: {error!r}", detail=traceback.format_exc())
    message = f"{type(error).__name__}: {_said(error)}".rstrip(": ")
    if isinstance(error, SystemExit):
        message = f"the workload called exit({error.code!r})"
    next_step = f"The traceback is of your own code, in {path}."
    if numba_versions.is_misfit(error):
        return Problem(cause="raised", message=message, next_step=numba_versions.fitting(), detail=detail)
    if not on_gpu and _wants_a_gpu(error, message):
        return Problem(cause="twin", message=message, next_step=_TWIN, detail=detail)
    if "CuPy failed to load" in message:
        next_step = _TOOLKIT
    elif "read-only" in message:
        next_step = _READ_ONLY
    return Problem(cause="raised", message=message, next_step=next_step, detail=detail)


def _wants_a_gpu(error: BaseException, message: str) -> bool:
    """What CuPy's, Numba's and PyTorch's GPU calls and our own kernels say where there is no GPU."""
    names = {kind.__name__ for kind in type(error).__mro__}
    signs = ("cupy", "module 'numpy' has no attribute", "not compiled with CUDA", "Found no NVIDIA driver")
    return bool(names & {"KernelNeedsGpu", "CudaSupportError"}) or any(sign in message for sign in signs)


def _said(error: BaseException) -> str:
    """The first line of its text; an exception of the user's can fail even at that."""
    try:
        return str(error).strip().partition("\n")[0]
    except Exception:
        return ""


def _wrong(error: AdvisorError) -> Problem:
    return Problem(
        cause="wrong",
        error=type(error).__name__,
        message=error.message,
        next_step=error.next_step,
        detail=error.detail,
    )


def _run(job: Job, path: Path) -> Outcome:
    if job.swept:
        check_sweep(path, job.workload, job.assignments, *job.swept)
        return Checked()
    backend = open_backend(job.backend, job.gpu)
    loaded = load(path, job.workload, job.assignments)
    if job.task == "trace":
        loaded = replace(loaded, bound=loaded.bound.without_kernels())
    if job.task == "reference":
        _describe(job, loaded, backend)
    require_libraries(loaded.bound, backend)
    ranges = Ranges()
    with ranges.strategy(job.strategy), tasks.stand(job, loaded, backend, ranges) as stand:
        if job.task == "reference":
            return tasks.reference(job, loaded, backend, stand)
        if job.task == "trace":
            return tasks.trace(job, loaded, backend, stand)
        if job.task == "capture":
            return tasks.capture(job, backend, stand)
        return tasks.measure(job, loaded, backend, stand)


def _describe(job: Job, loaded: Loaded, backend: Backend) -> None:
    packages = {}
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            packages[name] = metadata.version(name)
    description = Description(
        device=backend.device(), gpu=backend.environment(), packages=packages, workload=loaded.record
    )
    (Path(job.directory) / DESCRIPTION).write_text(description.model_dump_json(), encoding="utf-8")


def die_with_parent(parent: int) -> None:
    """A killed parent leaves no child behind, and when memory is out the kernel takes the child."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent and os.getppid() != parent:  # it died while this process was still starting
        os._exit(1)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def _leave_threads_behind() -> None:
    """Ends at once where the workload left threads running, for which Python would wait for ever."""
    if any(not t.daemon for t in threading.enumerate() if t is not threading.main_thread()):
        sys.stdout.flush()
        os._exit(0)
