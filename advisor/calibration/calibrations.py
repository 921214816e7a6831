"""The whole of `advisor devices calibrate`: read this first. `main` measures one group, in a child process.

one process per group of measurements -> findings -> catalogue entry -> TOML, and what the user is told
"""

from __future__ import annotations

import platform
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from advisor.calibration import device_rates, host_memory
from advisor.calibration.assembling import Findings, Machine, comments, entry_of, merged, write
from advisor.calibration.bench import Bench, largest_cache, measure_sizes
from advisor.calibration.device_rates import MEMORY
from advisor.devices.catalogue import DEFAULT_TARGETS
from advisor.devices.entries import CatalogueEntry
from advisor.devices.environment import environment
from advisor.errors import AdvisorError, FileProblem, NothingMeasured, UsageError
from advisor.measure.backends import open_backend
from advisor.measure.jobs import CalibrationJob, GroupRun, Problem
from advisor.measure.launcher import Ended, ProcessLauncher
from advisor.measure.progress import Progress
from advisor.measure.worker import run_job
from advisor.model.machines import value
from advisor.profiles import outputs
from advisor.profiles.files import scratch, write_atomically
from advisor.strategies.backend import BackendName


@dataclass(frozen=True)
class Group:
    name: str
    title: str
    keys: tuple[str, ...]
    """The figures it should find."""
    measure: Callable[[Bench], None]
    needs_gpu: bool = True


GROUPS = (
    Group("host", "CPU memory", host_memory.keys("host"), host_memory.measure_plain, needs_gpu=False),
    Group("page-locked", "page-locked memory", host_memory.PAGE_LOCKED_KEYS, host_memory.measure_page_locked),
    Group("transfers", "copies", host_memory.COPY_KEYS, host_memory.measure_copies),
    Group("zero-copy", "mapped memory", device_rates.ZERO_COPY, device_rates.measure_zero_copy),
    Group("device", "device memory", device_rates.ON_DEVICE, device_rates.measure_on_device),
    Group("latencies", "launches", device_rates.LATENCIES, device_rates.measure_latencies),
    Group("re-reads", "re-reads of mapped memory", device_rates.REREADS, device_rates.measure_rereads),
    Group("managed", "managed memory", host_memory.MANAGED_KEYS, host_memory.measure_managed),
)
"""Host measurements first; managed memory, which has hung GPUs, last."""


def by_name(name: str) -> Group:
    return next(group for group in GROUPS if group.name == name)


def main(arguments: list[str]) -> None:
    """In the child process; arguments JOB.json and PARENT_PID: measures one group, writes one outcome."""
    run_job(arguments, CalibrationJob, _attempt)


def _attempt(job: CalibrationJob) -> GroupRun | Problem:
    try:
        backend = open_backend(job.backend, job.gpu)
        bench = Bench(backend, measure_sizes(backend.device(), backend.free_memory()))
        by_name(job.group).measure(bench)
        return bench.result()
    except AdvisorError as error:
        return Problem.of(error)
    except Exception as error:  # a driver that fails at its first call, say
        return Problem(cause="device", message=str(error) or repr(error), detail=traceback.format_exc())


TIMEOUT = 30.0
"""Seconds for one group. Each measures for a few; the rest is for a slow start of CUDA and its compiler."""
BUDGET = 90.0
"""Seconds after which no further group is started, so that all of it takes two minutes at most."""

_CARD = DEFAULT_TARGETS[1]
Launch = Callable[[CalibrationJob], Ended]
Clock = Callable[[], float]


@dataclass(frozen=True)
class Request:
    """A GPU with its host, or the host alone: in place of the host of `base`, if given."""

    backend: BackendName
    gpu: int = 0
    base: CatalogueEntry | None = None
    name: str | None = None

    def check(self, machine: str = platform.machine()) -> None:
        """Raises `UsageError` for what contradicts itself."""
        if self.name is not None and not self.name.strip():
            raise UsageError("--name is empty", next_step="Omit it to use the device's own name.")
        if self.base is None:
            return
        if self.backend == "cuda":
            step = "Omit --base, or add --host to measure only the CPU."
            raise UsageError("--base is for machines without a GPU, and this machine has one", next_step=step)
        if self.base.attributes["integrated"].value and machine != "aarch64":
            raise UsageError(
                f"{self.base.name} has its own integrated CPU, which this CPU cannot replace",
                next_step="Run the command on that device, or name a PCIe card.",
            )


@dataclass(frozen=True)
class Calibration:
    """The findings and the catalogue entry made of them; none without a GPU and a base."""

    findings: Findings
    entry: CatalogueEntry | None

    def toml(self) -> str:
        assert self.entry is not None
        return write(self.entry, comments(self.findings))


def calibrate(
    request: Request, progress: Progress, launch: Launch | None = None, clock: Clock = time.monotonic
) -> Calibration:
    """Measures and assembles. Raises `UsageError`; `NothingMeasured` with too few figures for an entry."""
    request.check()
    with scratch() as folder:
        run = launch or ProcessLauncher(TIMEOUT, worker="advisor.calibration.calibrations")
        findings = _measure(request, progress, run, folder, clock)
    if not findings.readings:
        raise NothingMeasured(
            "nothing could be measured",
            next_step="The reasons are listed below. `advisor strategies` and predictions still work.",
            detail="\n".join(findings.missing_by_reason()),
        )
    entry = None
    if request.backend == "cuda":
        if findings.device is None:
            step = "Check it with nvidia-smi, or add --host to measure only the CPU."
            raise NothingMeasured(f"the GPU could not be used: {findings.missing[MEMORY]}", next_step=step)
        entry = entry_of(findings, findings.device, request.name)
    elif request.base is not None:
        entry = merged(request.base, findings, request.name)
    return Calibration(findings, entry)


def _measure(request: Request, progress: Progress, launch: Launch, directory: Path, clock: Clock) -> Findings:
    here = environment()
    groups = [group for group in GROUPS if request.backend == "cuda" or not group.needs_gpu]
    progress.start(len(groups))
    runs: list[GroupRun] = []
    missing: dict[str, str] = {}
    end = clock() + BUDGET
    for group in groups:
        if clock() > end:
            late = f"the time limit of {BUDGET:.0f} s for all groups was reached"
            missing.update(dict.fromkeys(group.keys, late))
            continue
        progress.begin(group.title)
        job = CalibrationJob(
            group=group.name,
            backend=request.backend if group.needs_gpu else "cpu",
            gpu=request.gpu,
            directory=str(directory / group.name),
        )
        ended = launch(job)
        progress.end()
        if isinstance(ended.outcome, Problem) and ended.outcome.cause == "wrong":
            raise ended.outcome.as_error()  # no such GPU, no CuPy: every further process would say the same
        if isinstance(ended.outcome, GroupRun):
            runs.append(ended.outcome)
            missing.update(ended.outcome.absent)
        else:
            why = ended.outcome.message if isinstance(ended.outcome, Problem) else ended.reason
            missing.update(dict.fromkeys(group.keys, why))
    cpu, date = here.cpu_model or f"an {here.machine} CPU", datetime.now(timezone.utc).date().isoformat()
    return Findings(Machine(cpu, date, largest_cache(), here.warnings), runs, missing)


def check(request: Request, out: Path | None, *, force: bool) -> None:
    """Makes sure, before anything is measured, that it makes sense and the file can be written.

    Raises `UsageError`.
    """
    request.check()
    if out is not None and request.backend != "cuda" and request.base is None:
        step = f"Name the card this CPU hosts (--base {_CARD}), or omit --out to print the figures."
        raise UsageError(f"--out {out}: a device entry needs a GPU, or --base CARD", next_step=step)
    require_free(out, force=force)


def require_free(out: Path | None, *, force: bool) -> None:
    """Makes sure that an entry can be written there. Raises `UsageError`."""
    if out is None:
        return
    if out.suffix != ".toml":
        wrong = f"--out {out} does not end in .toml; --target recognizes a file by that suffix"
        raise UsageError(wrong, next_step=f"Write --out {out}.toml.")
    outputs.require_new([out], force=force, option="--out ")
    try:
        with tempfile.TemporaryFile(dir=out.parent):
            pass
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        step = "Choose a directory you can write to."
        raise UsageError(f"--out {out} cannot be written: {reason}", next_step=step) from None


def give(calibration: Calibration, out: Path | None) -> str:
    """Writes the file, if one is wanted; the text for stdout: the entry, or the figures in words where the
    entry is in a file or there is none. Raises `FileProblem`, with the entry's text in its detail."""
    if calibration.entry is None:
        return _figures(calibration)
    text = calibration.toml()
    if out is None:
        return text.rstrip("\n")
    try:
        write_atomically(out, text)
    except FileProblem as problem:
        raise FileProblem(
            problem.message, next_step="Save the entry below to a file yourself.", detail=text
        ) from None
    return _figures(calibration)


def remarks(calibration: Calibration, out: Path | None) -> str:
    missing = calibration.findings.missing_by_reason().items()
    last = wrote(out)
    if calibration.entry is None:
        last = (
            "Use these figures as the host of any PCIe card: host stages and staged copies.\n"
            f"  next: advisor devices calibrate --host --base {_CARD} --out mine.toml"
        )
    elif out is None:
        last = "  next: save it with --out mine.toml, and predict with it: --target mine.toml"
    cautions = (f"warning: {caution}" for caution in calibration.findings.machine.warnings)
    lost = (f"missing: {', '.join(keys)}\n    {reason}" for reason, keys in missing)
    return "\n".join([*cautions, *lost, last])


def wrote(out: Path | None) -> str:
    return f"wrote {out}\n  next: advisor profile WORKLOAD.py --target {out}"


def _figures(calibration: Calibration) -> str:
    figures = calibration.findings.figures()
    width = max(map(len, figures))
    return "\n".join(f"{key:<{width}}  {value(key, figure)}" for key, figure in figures.items())
