"""`--trace nsys`: each measured strategy runs once more, for a few frames, under nsys; its report is read.

Whatever goes wrong costs the trace and nothing else: the reason stands in its place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from advisor.errors import FileProblem
from advisor.measure.jobs import Done, Job, Problem, Settings, read_outcome
from advisor.measure.measurement import job_of
from advisor.measure.processes import WORKERS, python_command, write_job
from advisor.measure.progress import Progress
from advisor.nsys import exports
from advisor.nsys.program import GET, Nsys, NsysFailed, find, run
from advisor.profiles import outputs
from advisor.profiles.base import cleaned
from advisor.profiles.redaction import Masking
from advisor.profiles.schema import LATE, Device, Measured, Profile
from advisor.profiles.secrets import mask, of_process
from advisor.profiles.traces import NoTrace, NsysTrace, StrategyTrace
from advisor.strategies.mixes import Mix, strategies_of
from advisor.strategies.registry import BASELINE

MOST_FRAMES = 5
FRAMES_SECONDS = 3.0
"""The most steady frames, and the most seconds of them, but at least two frames."""
STARTING_SECONDS = 60.0
"""For nsys itself and the set-up, beside the frames; then it is taken to hang."""
EXPORT_SECONDS = 60.0
FOLDER = "traces"
NO_GPU_TO_TRACE = "nothing ran on a GPU, so nsys had nothing to record"
_PATIENCE = 5
"""Times longer under nsys than without it may what a job does take."""
_TOO_NEW = (
    "nsys recorded none of advisor's ranges. nsys up to 2023.4 only records ranges of the Python package "
    "nvtx up to 0.2.11: pip install 'nvtx<0.2.12', or use a newer nsys"
)
_NO_IMPORTER = (
    "QdstrmImporter, which converts a .qdstrm into a report, is missing; link its folder as "
    "host-linux-x64 next to the folder of nsys"
)


Captures = Callable[[Sequence[Job], Device, Callable[[str], None], Callable[[], None]], NsysTrace]
"""Runs jobs under a tool and reads what it recorded; the callables begin and end a step of the progress."""


def traced(
    complete: Profile, settings: Settings, progress: Progress, scratch: Path, captures: Captures
) -> Profile:
    """Adds what nsys recorded of every measured strategy, in separate runs after all that was timed."""
    if complete.device.kind == "cpu" and settings.options.nsys is None:
        return complete.model_copy(update={"trace": NsysTrace(reason=NO_GPU_TO_TRACE)})
    # The baseline and the fastest first, since the time may not reach all.
    frames = sorted(complete.measured().values(), key=lambda r: (r.strategy != BASELINE, r.median_seconds))
    # With the mixes that a search found: a worker knows their short names from the settings alone.
    known = {strategy.name for strategy in settings.strategies}
    mixes = (each for each in strategies_of(complete).values() if isinstance(each, Mix))
    new = tuple(mix for mix in mixes if mix.name not in known)
    settings = replace(settings, strategies=(*settings.strategies, *new))
    jobs = [_capture(settings, row, scratch) for row in frames]
    try:
        trace = captures(jobs, complete.device, progress.begin, progress.end)
    except KeyboardInterrupt:
        note = "Interrupted while tracing with nsys. The measurements are complete."
        trace = NsysTrace(reason="interrupted")
        return complete.model_copy(update={"trace": trace, "notes": (*complete.notes, note)})
    return complete.model_copy(update={"trace": trace})


def _capture(settings: Settings, row: Measured, scratch: Path) -> Job:
    """The set-up and a few frames, in what that takes without a tool."""
    job = job_of(settings, "capture", row.strategy, scratch, f"capture-{row.strategy}")
    frames = frames_to_capture(row)
    seconds = row.setup_seconds + 2 * frames * row.median_seconds
    return job.model_copy(update={"frames": frames, "seconds": seconds})


def frames_to_capture(row: Measured) -> int:
    """How many steady frames to watch: few, and of long frames fewer."""
    return max(2, min(MOST_FRAMES, int(FRAMES_SECONDS / row.median_seconds)))


@dataclass(frozen=True)
class NsysCaptures:
    """Runs jobs under nsys. `keep` is the folder that the reports are kept in; None keeps none."""

    path: Path | None = None
    keep: Path | None = None
    starting_seconds: float = STARTING_SECONDS
    left: Callable[[], float] = lambda: math.inf
    """Seconds of the run's time that are left."""

    def __call__(
        self, jobs: Sequence[Job], device: Device, begin: Callable[[str], None], end: Callable[[], None]
    ) -> NsysTrace:
        """The trace of every job; when nsys itself fails, the others are not tried."""
        try:
            nsys = find(self.path)
        except NsysFailed as problem:
            return NsysTrace(reason=f"{problem}. {GET}")
        traces: list[StrategyTrace] = []
        lost: list[NoTrace] = []
        notes: dict[str, None] = {}
        broken = ""
        for job in jobs:
            begin(f"nsys, {job.strategy}")
            try:
                if self.left() <= 0:
                    raise _Untraced(LATE)
                if broken:
                    raise _Untraced(f"not tried, since nsys failed before: {broken}")
                trace = self._capture(nsys, job, device)
                traces += [t for t in trace.strategies if t.strategy == job.strategy]
                notes.update(dict.fromkeys(trace.notes))
            except NsysFailed as problem:
                broken = str(problem) if self.left() > 0 else LATE
                lost.append(NoTrace(strategy=job.strategy, reason=broken))
            except (_Untraced, FileProblem, OSError) as problem:
                reason = problem.message if isinstance(problem, FileProblem) else str(problem)
                lost.append(NoTrace(strategy=job.strategy, reason=reason))
            end()
        reason = "" if traces else (lost[0].reason if lost else "no strategy was measured")
        return NsysTrace(
            reason=reason, tool=nsys.name, strategies=tuple(traces), missing=tuple(lost), notes=tuple(notes)
        )

    def _capture(self, nsys: Nsys, job: Job, device: Device) -> exports.FileTrace:
        """Runs one job, exports, reads. Raises what `__call__` turns into reasons."""
        directory = Path(job.directory)
        message = write_job(job, directory)
        report = directory / "capture.nsys-rep"
        command = nsys.command(device, directory / "capture", python_command(WORKERS[0], str(message), "0"))
        printed = ""
        try:
            printed = run(command, min(self.starting_seconds + _PATIENCE * job.seconds, self.left()))
        except NsysFailed:
            if not report.exists():
                raise
            # It has its report, so that this is how the program ended, which nsys passes on.
        if not report.exists():
            # nsys collects first (.qdstrm) and imports then, with a program that some installations lack.
            collected = (directory / "capture.qdstrm").exists()
            last = (printed.strip().splitlines()[-1:] or ["no output"])[0].strip()
            raise NsysFailed(f"{nsys.name} wrote no report: {_NO_IMPORTER if collected else last}", printed)
        if self.keep is not None:
            outputs.copy(report, self.keep.parent, f"{self.keep.name}/{job.strategy}{report.suffix}")
        outcome = read_outcome(directory)
        if isinstance(outcome, Problem):
            raise _Untraced(f"the workload failed under nsys: {outcome.message}")
        if not isinstance(outcome, Done):
            raise _Untraced("the process ended under nsys before its frames had run")
        seconds = min(EXPORT_SECONDS, self.left())
        return _read(nsys, report, directory / "capture.sqlite", seconds)


class _Untraced(Exception):
    """One strategy could not be traced; the text says why."""


def _read(nsys: Nsys, report: Path, export: Path, seconds: float) -> exports.FileTrace:
    """Reads a report of our own, and removes its files, which are large."""
    try:
        nsys.export(report, export, seconds)
        trace = exports.read(export)
    finally:
        for file in (report, export):
            with suppress(OSError):
                file.unlink()
    if trace.strategies:
        return trace
    raise _Untraced(_TOO_NEW)


def read_report(path: Path, nsys: Path | None, scratch: Path, frame: str | None = None) -> exports.FileTrace:
    """Any .nsys-rep, .qdrep or .sqlite; a report is exported into `scratch` first.

    frame: the NVTX range that is one frame. Raises `FileProblem` where it cannot be read, or no nsys can
    export it, and `UsageError` where it has no such range.
    """
    if path.suffix == ".qdstrm":
        raise FileProblem(
            f"{path} is not a report yet: nsys collected it and did not import it",
            next_step=f"Import it where it was recorded: QdstrmImporter -i {path.name}",
        )
    if path.suffix not in (".nsys-rep", ".qdrep"):
        return _shown(exports.read(path, frame))
    if not path.is_file():
        raise FileProblem(f"{path} does not exist", next_step="Give a .nsys-rep or a .sqlite file.")
    target = scratch / "export.sqlite"
    try:
        find(nsys).export(path, target, 10 * EXPORT_SECONDS)
    except NsysFailed as problem:
        raise FileProblem(
            f"{path} cannot be exported: {problem}",
            next_step=f"Export it where it was recorded: nsys export --type sqlite {path.name}. "
            f"Here that needs an nsys at least as new. {GET}",
            detail=problem.detail,
        ) from None
    return _shown(exports.read(target, frame))


def _shown(read: exports.FileTrace) -> exports.FileTrace:
    """Names as a report may show them, without secrets: anybody can have written the file."""
    known = of_process()
    shown: exports.FileTrace = cleaned(read, Masking(lambda text: mask(text, known)))
    return shown
