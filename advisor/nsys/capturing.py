"""Finds and runs nsys. `--trace nsys` runs each measured strategy once more under it, for a few frames.

The options of `nsys profile` differ between versions, so its help is read, and no other option is passed.
Whatever goes wrong costs the trace and nothing else: the reason stands in its place.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from advisor.errors import FileProblem
from advisor.measure.jobs import LOG, Done, Job, Problem, Settings, read_outcome
from advisor.measure.measurement import job_of
from advisor.measure.processes import MARK, WORKERS, end, python_command, write_job
from advisor.measure.progress import Progress
from advisor.nsys import exports
from advisor.profiles import files, outputs
from advisor.profiles.base import cleaned
from advisor.profiles.redaction import Masking, without_home
from advisor.profiles.schema import LATE, Device, Profile
from advisor.profiles.secrets import mask, of_process
from advisor.profiles.traces import NoTrace, NsysTrace, StrategyTrace
from advisor.strategies.mixes import Mix, strategies_of
from advisor.strategies.registry import BASELINE

PLACES = (
    "opt/nvidia/nsight-systems/*/bin/nsys",
    "opt/nvidia/nsight-systems/*/target-linux-*/nsys",
    "opt/nvidia/nsight-systems-cli/*/bin/nsys",
    "opt/nvidia/nsight-systems-cli/*/target-linux-*/nsys",
    "usr/local/cuda*/bin/nsys",
    "usr/lib/nsight-systems/bin/nsys",
)
"""Where NVIDIA's installers (also JetPack's) and Debian put it, below the root."""
GET = (
    "Install Nsight Systems (nsight-systems in Debian non-free, nsight-systems-cli from NVIDIA "
    "elsewhere, included in JetPack), or pass its path: --nsys PATH."
)
_LOOK_SECONDS = 20.0
_LOG_TAIL = 50_000
"""Bytes: its progress bars take many, and `profile --help` is long."""
_COLLISION = "sem_open"
"""Fails now and then at the start of nsys where others start too (2023.4: one of 20, four at once)."""
_PAGE_FAULTS = ("--cuda-um-cpu-page-faults", "--cuda-um-gpu-page-faults")


class NsysFailed(Exception):
    """nsys could not be used; the text says how, `detail` is the end of what it printed."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(without_home(message))  # it stands in profiles
        self.detail = detail


@dataclass(frozen=True)
class Nsys:
    path: Path
    version: tuple[int, ...]
    """Year, number and patch, as 2023, 4, 4."""

    @property
    def name(self) -> str:
        return f"nsys {'.'.join(map(str, self.version))}"

    @cached_property
    def options(self) -> frozenset[str]:
        """The long options that its `profile` has; raises `NsysFailed`."""
        return frozenset(re.findall(r"--[a-z][a-z0-9-]+", run([str(self.path), "profile", "--help"])))

    def command(self, device: Device, output: Path, program: Sequence[str]) -> list[str]:
        on_gpu = device.kind == "cuda"
        wanted = {"--sample": "none", "--cpuctxsw": "none", "--force-overwrite": "true"}
        if on_gpu:
            wanted["--cuda-memory-usage"] = "true"
        if faults_observable(device):
            wanted |= dict.fromkeys(_PAGE_FAULTS, "true")
        options = [f"{name}={value}" for name, value in wanted.items() if name in self.options]
        traces = "cuda,nvtx" if on_gpu else "nvtx"
        return [str(self.path), "profile", f"--trace={traces}", *options, f"--output={output}", *program]

    def export(self, report: Path, target: Path, seconds: float) -> None:
        """Writes a report as SQLite. Raises `NsysFailed`."""
        options = ["--type", "sqlite", "--force-overwrite", "true", "--output", str(target)]
        printed = run([str(self.path), "export", *options, str(report)], seconds)
        if not target.exists():
            raise NsysFailed(f"{self.name} exported nothing", printed)


def faults_observable(device: Device) -> bool:
    """Whether nsys can watch page faults there: not on Jetsons (its user guide), GB10 or integrated GPUs."""
    value = device.attributes.get
    return device.kind == "cuda" and bool(value("concurrent_managed_access") and not value("integrated"))


def find(given: Path | None = None, *, root: Path = Path("/")) -> Nsys:
    """The given program, else the one on PATH, else the newest in the usual places. Raises `NsysFailed`."""
    if given is not None:
        path = given / "nsys" if given.is_dir() else given
        if not path.is_file():
            raise NsysFailed(f"there is no nsys at {given}")
        return _with_version(path)
    on_path = shutil.which("nsys")
    places = (path for place in PLACES for path in root.glob(place) if path.is_file())
    candidates = [Path(on_path)] if on_path else list({path.resolve(): path for path in places}.values())
    problems, answering = [], []
    for path in candidates:
        try:
            answering.append(_with_version(path))
        except NsysFailed as problem:
            problems.append(str(problem))
    if answering:
        return max(answering, key=lambda nsys: nsys.version)
    raise NsysFailed((*problems, "nsys was not found on PATH or in its usual install directories")[0])


def _with_version(path: Path) -> Nsys:
    printed = run([str(path), "--version"])
    version = re.search(r"(20\d\d)\.(\d+)\.(\d+)", printed)
    if not version:
        raise NsysFailed(f"{path} does not report its version", printed)
    return Nsys(path, tuple(int(part) for part in version.groups()))


def run(command: Sequence[str], seconds: float = _LOOK_SECONDS) -> str:
    """Output of a command of nsys. Raises `NsysFailed` when it fails, or does not end in time. It runs in a
    session of its own; what it started ends with it. A collision is tried again once."""
    try:
        return _ran(command, seconds)
    except NsysFailed as problem:
        if _COLLISION not in problem.detail:
            raise
    return _ran(command, seconds)


def _ran(command: Sequence[str], seconds: float) -> str:
    name = f"nsys {command[1].lstrip('-')}"
    with files.scratch() as folder, (folder / LOG).open("w+b") as log:
        quiet, both, marked = subprocess.DEVNULL, subprocess.STDOUT, {**os.environ, MARK: str(folder)}
        try:
            process = subprocess.Popen(
                command, env=marked, stdin=quiet, stdout=log, stderr=both, start_new_session=True
            )
        except OSError as problem:
            raise NsysFailed(f"{command[0]} cannot be run: {problem.strerror or problem}") from None
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise NsysFailed(f"{name} did not finish within {seconds:.0f} s") from None
        finally:
            end(process, folder)
        log.seek(max(log.seek(0, os.SEEK_END) - _LOG_TAIL, 0))
        lines = log.read().decode(errors="replace").splitlines()
    # Without the progress bars that it draws over and over.
    text = "\n".join(line for line in lines if not re.search(r"\d+%\s*\]|^Processing ", line))
    if process.returncode:
        last = next((line for line in reversed(text.splitlines()) if line.strip()), "")
        raise NsysFailed(f"{name} failed with code {process.returncode}: {last}".rstrip(": "), text)
    return text


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


Captures = Callable[[Sequence[Job], Device, Progress], NsysTrace]
"""Runs jobs under a tool and reads what it recorded."""


def traced(
    complete: Profile, settings: Settings, progress: Progress, scratch: Path, captures: Captures
) -> Profile:
    """Adds what nsys recorded of every measured strategy, in separate runs after all that was timed."""
    if complete.device.kind == "cpu" and settings.options.nsys is None:
        return complete.model_copy(update={"trace": NsysTrace(reason=NO_GPU_TO_TRACE)})
    # The baseline and the fastest first, since the time may not reach all.
    measured = sorted(complete.measured().values(), key=lambda r: (r.strategy != BASELINE, r.median_seconds))
    # With the mixes that a search found: a worker knows their short names from the settings alone.
    known = {strategy.name for strategy in settings.strategies}
    mixes = (each for each in strategies_of(complete).values() if isinstance(each, Mix))
    new = tuple(mix for mix in mixes if mix.name not in known)
    settings = replace(settings, strategies=(*settings.strategies, *new))
    jobs = []
    for row in measured:
        # The set-up and a few steady frames, of long ones fewer, in what that takes without a tool.
        frames = max(2, min(MOST_FRAMES, int(FRAMES_SECONDS / row.median_seconds)))
        timed = {"frames": frames, "seconds": row.setup_seconds + 2 * frames * row.median_seconds}
        job = job_of(settings, "capture", row.strategy, scratch, f"capture-{row.strategy}")
        jobs.append(job.model_copy(update=timed))
    try:
        trace = captures(jobs, complete.device, progress)
    except KeyboardInterrupt:
        note = "Interrupted while tracing with nsys. The measurements are complete."
        trace = NsysTrace(reason="interrupted")
        return complete.model_copy(update={"trace": trace, "notes": (*complete.notes, note)})
    return complete.model_copy(update={"trace": trace})


@dataclass(frozen=True)
class NsysCaptures:
    """Runs jobs under nsys. `keep` is the folder that the reports are kept in; None keeps none."""

    path: Path | None = None
    keep: Path | None = None
    starting_seconds: float = STARTING_SECONDS
    left: Callable[[], float] = lambda: math.inf
    """Seconds of the run's time that are left."""

    def __call__(self, jobs: Sequence[Job], device: Device, progress: Progress) -> NsysTrace:
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
            progress.begin(f"nsys, {job.strategy}")
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
            progress.end()
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
        export = directory / "capture.sqlite"
        try:
            nsys.export(report, export, min(EXPORT_SECONDS, self.left()))
            trace = exports.read(export)
        finally:
            for file in (report, export):  # which are large
                with suppress(OSError):
                    file.unlink()
        if not trace.strategies:
            raise _Untraced(_TOO_NEW)
        return trace


class _Untraced(Exception):
    """One strategy could not be traced; the text says why."""


def read_report(path: Path, nsys: Path | None, scratch: Path, frame: str | None = None) -> exports.FileTrace:
    """Any .nsys-rep, .qdrep or .sqlite, without secrets in names; a report is exported into `scratch` first.

    frame: the NVTX range that is one frame. Raises `FileProblem` where it cannot be read, or no nsys can
    export it, and `UsageError` where it has no such range.
    """
    if path.suffix == ".qdstrm":
        wrong = f"{path} is not a report yet: nsys collected it and did not import it"
        raise FileProblem(wrong, next_step=f"Import it where it was recorded: QdstrmImporter -i {path.name}")
    export = path
    if path.suffix in (".nsys-rep", ".qdrep"):
        if not path.is_file():
            raise FileProblem(f"{path} does not exist", next_step="Give a .nsys-rep or a .sqlite file.")
        export = scratch / "export.sqlite"
        try:
            find(nsys).export(path, export, 10 * EXPORT_SECONDS)
        except NsysFailed as problem:
            raise FileProblem(
                f"{path} cannot be exported: {problem}",
                next_step=f"Export it where it was recorded: nsys export --type sqlite {path.name}. "
                f"Here that needs an nsys at least as new. {GET}",
                detail=problem.detail,
            ) from None
    secrets = of_process()  # anybody can have written the file
    shown: exports.FileTrace = cleaned(exports.read(export, frame), Masking(lambda text: mask(text, secrets)))
    return shown
