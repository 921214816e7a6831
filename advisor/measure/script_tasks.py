"""The jobs of a worker on a script: the GPU told, and the script run once under one strategy.

The first run of the unchanged script keeps what the others are compared with. What is observed (ranges,
copies, memory) is never in a run that is timed.
"""

from __future__ import annotations

import ast
import hashlib
import os
import runpy
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.devices.energy import metering
from advisor.errors import WorkloadError
from advisor.measure.backends import open_backend
from advisor.measure.energy import of_run
from advisor.measure.jobs import STDOUT, Captured, Description, Job, ScriptSample
from advisor.measure.kept_results import differences
from advisor.measure.nvtx_ranges import Ranges, RangeWatch
from advisor.measure.sampling import SCRIPT_COUNTERS, Spending
from advisor.measure.tasks import ResultsDiffer, described, loaded_gpu
from advisor.profiles.schema import WorkloadRecord
from advisor.strategies.scripts import UNCHANGED
from advisor.workloads.loading import relative
from advisor.workloads.scripts import Results, digest, imported, stdout_into

if TYPE_CHECKING:
    from advisor.measure.backends.imposing import Script

_USAGE = 2
"""What argparse exits with."""


class AllocatorChanged(BaseException):
    """The script sets CuPy's allocator itself; no `except Exception` of its own may hold this up."""


def describe(job: Job) -> Description:
    """The GPU, in a separate process: a backend brings a stream that the script must not have."""
    return described(open_backend("cuda", job.gpu), _record(Path(job.file)))


def _record(file: Path) -> WorkloadRecord:
    source = file.read_bytes()
    try:
        summary = (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]
    except (SyntaxError, ValueError):  # it was changed meanwhile
        summary = ""
    name, digest = relative(file), hashlib.sha256(source).hexdigest()
    return WorkloadRecord(
        name=file.stem, file=name, sha256=digest, summary=summary, parameters={}, buffers=(), stages=()
    )


def run(job: Job) -> ScriptSample | Captured:
    """The script once. Raises `WorkloadError` where it fails, `ResultsDiffer` where its results are wrong."""
    from advisor.measure.backends.imposing import Script

    directory, kept = Path(job.directory).resolve(), Path(job.reference).resolve()
    begin = perf_counter()
    script = Script(job.gpu)
    script.impose(job.strategy)
    script.synchronize()
    setup_seconds = perf_counter() - begin
    results = Results(kept if job.task == "reference" else directory / "results")
    observe = job.task in ("observe", "reference")
    if observe:
        ranges = RangeWatch(script)
        script.listen_to_ranges(ranges)
        ranges.listen_to_nvtx()
        copies, memory = script.watch_copies(), script.watch_memory()
        results.unobserved = copies.paused
    before = imported()
    ended = _timed(job, script, results, directory / STDOUT)
    state = loaded_gpu(script.pci_bus_id, job.gpu)
    _require_success(job, ended)
    if job.task == "capture":
        return Captured(frames=1)
    return ScriptSample(
        seconds=max(ended.seconds, 1e-9),
        setup_seconds=setup_seconds,
        compared=tuple(_compared(job, results, directory, kept)),
        notes=tuple(_notes(ended)),
        libraries=tuple(sorted(imported() - before)),
        **ended.spent,
        gpu_state=state,
        ranges=ranges.ranges() if observe else (),
        copies=copies.copies() if observe else None,
        memory=memory.memory() if observe else None,
    )


@dataclass
class _Run:
    """How the script came to its end. `allocator`: where it sets CuPy's allocator itself."""

    seconds: float = 0.0
    code: int = 0
    error: str = ""
    allocator: str = ""
    forks: list[int] = field(default_factory=list)
    spent: dict[str, Any] = field(default_factory=dict)
    """CPU seconds and energy of a timed run: fields of `ScriptSample`."""


def _timed(job: Job, script: Script, results: Results, stdout: Path) -> _Run:
    """Runs it as one frame, until the GPU has done everything; a timed one with its CPU time and energy."""
    run, ranges = _Run(), Ranges()

    def once() -> None:
        ranges.push_frame(0)
        spending, begin = Spending(SCRIPT_COUNTERS), perf_counter()
        run.code, run.error = _execute(Path(job.file), job.arguments or ())
        script.synchronize()
        run.seconds = perf_counter() - begin - results.seconds
        run.spent |= spending.per_frame()
        ranges.pop()

    script.guard(lambda: _allocator_changed(run, job.strategy))
    with (
        _counting_forks(run.forks),
        results.listening(),
        stdout_into(stdout),
        ranges.strategy(job.strategy),
    ):
        if job.task == "measure":
            energy = of_run(once, metering(script.pci_bus_id, job.gpu))
            run.spent["unmetered" if isinstance(energy, str) else "energy"] = energy
        else:
            once()
    return run


def _allocator_changed(run: _Run, strategy: str) -> None:
    """Notes where the script sets the allocator; ends it where that would undo the strategy."""
    caller: FrameType | None = sys._getframe(3)
    if caller is not None:
        run.allocator = f"{Path(caller.f_code.co_filename).name}, line {caller.f_lineno}"
    if strategy != UNCHANGED:
        raise AllocatorChanged(run.allocator)


def _execute(file: Path, arguments: tuple[str, ...]) -> tuple[int, str]:
    """Runs the file as `python file arguments` would. Its exit code, and the exception that ended it."""
    process = os.getpid()
    sys.argv = [str(file), *arguments]
    sys.path.insert(0, str(file.resolve().parent))
    code, error = 0, ""
    try:
        runpy.run_path(str(file), run_name="__main__")
    except SystemExit as ending:
        code = _code(ending.code)
    except AllocatorChanged:
        pass
    except BaseException as problem:
        kind = traceback.format_exception_only(type(problem), problem)
        code, error = 1, kind[-1].strip()
        frames = traceback.extract_tb(problem.__traceback__)  # to the log, from the script's first line on
        own = next((i for i, frame in enumerate(frames) if Path(frame.filename) == file), 0)
        lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames[own:]), *kind]
        print("".join(lines), end="", file=sys.stderr)
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


@contextmanager
def _counting_forks(forks: list[int]) -> Iterator[None]:
    open_ = [True]
    os.register_at_fork(before=lambda: forks.append(1) if open_ else None)
    yield
    open_.clear()


def _require_success(job: Job, ended: _Run) -> None:
    """Raises `WorkloadError` where the run counts for nothing, whatever it printed."""
    if ended.allocator and job.strategy != UNCHANGED:
        raise WorkloadError(
            f"the script sets CuPy's allocator itself ({ended.allocator}), which overrides the strategy",
            next_step="Remove that call, or write a @workload.",
        )
    if ended.code:
        step = "Check that it runs with python. Its output is below."
        if job.strategy != UNCHANGED:
            step = "Its own message is in the report."
        elif ended.code == _USAGE or ended.error.startswith("IndexError"):  # it took sys.argv[1]
            step = f"Put the script's own arguments after --: advisor profile {job.file} -- --epochs 1."
        error = f": {ended.error}" if ended.error else ""
        raise WorkloadError(f"the script ended with exit code {ended.code}{error}", next_step=step)


def _compared(job: Job, results: Results, directory: Path, kept: Path) -> Iterator[str]:
    """What was compared with the unchanged script's first run, in words.

    What that prints counts where its second run, the observed one, prints the same.
    Raises `ResultsDiffer`, or `WorkloadError` where there is nothing to compare with.
    """
    stdout, digest_file = directory / STDOUT, kept / f"{STDOUT}.sha256"
    printed = digest(stdout) if stdout.stat().st_size else ""
    if job.task == "reference":
        kept.mkdir(exist_ok=True)
        digest_file.write_text(printed, encoding="utf-8")
    expected = digest_file.read_text(encoding="utf-8")
    if job.task == "observe" and job.strategy == UNCHANGED:
        expected = expected if printed == expected else ""
        digest_file.write_text(expected, encoding="utf-8")
    elif job.task != "reference":
        _compare(results, directory, kept, same_text=expected in ("", printed))
    if results.names:
        yield f"{len(results.names)} arrays given to advisor.result"
    if expected:
        yield "its printed output"
    yield "its exit status"


def _compare(results: Results, directory: Path, kept: Path, *, same_text: bool) -> None:
    if {file.stem for file in kept.glob("*.npy")} != set(results.names):
        raise WorkloadError("it passed other arrays to advisor.result than the unchanged script")
    sentences = [
        sentence
        for name in results.names
        for _, sentence in differences({name: np.load(directory / "results" / f"{name}.npy")}, kept)
    ]
    if sentences:
        raise ResultsDiffer("; ".join(sentences))
    if not same_text:
        raise WorkloadError(
            "its output differs from that of the unchanged script",
            next_step="If the difference is rounding, print fewer digits, or compare arrays with "
            "advisor.result.",
        )


def _notes(ended: _Run) -> Iterator[str]:
    if ended.allocator:
        yield f"The script sets CuPy's allocator itself ({ended.allocator}); figures include it."
    if ended.forks:
        yield (
            f"The script forked {len(ended.forks)} times. CUDA does not work in a forked child, and "
            "allocations and copies of children are not recorded."
        )
