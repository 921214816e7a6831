"""The whole of `advisor devices calibrate`: read this first. `main` measures one group, in a child process.

one process per group of measurements -> figures -> catalogue entry -> TOML, and what the user is told
"""

from __future__ import annotations

import platform
import shlex
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path

from pydantic import ValidationError

from advisor.calibration import device_rates, host_memory
from advisor.calibration.bench import METHOD, Bench, largest_cache, measure_sizes
from advisor.calibration.device_rates import MEMORY
from advisor.devices.catalogue import DEFAULT_TARGETS, invalid
from advisor.devices.entries import ATTRIBUTES, FLAGS, CatalogueEntry, Figure, Figures
from advisor.devices.environment import environment
from advisor.errors import AdvisorError, FileProblem, NothingMeasured, UsageError
from advisor.measure.backends import open_backend
from advisor.measure.jobs import CalibrationJob, GroupRun, Problem, Reading
from advisor.measure.launcher import Ended, ProcessLauncher
from advisor.measure.progress import Progress
from advisor.measure.worker import run_job
from advisor.model.machines import value
from advisor.profiles import outputs
from advisor.profiles.files import scratch, write_atomically
from advisor.profiles.schema import Device
from advisor.strategies.backend import BackendName
from advisor.texts import in_a_line, toml_string
from advisor.version import __version__


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
_DIGITS = 4
"""Significant digits of a written figure: more than any repeat agrees on."""
_REPORTED = {"memory_bytes": "total_global_mem", "l2_bytes": "l2_cache_size"}
"""Figures that the device reports itself, by attribute."""


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
    """The measurements of all groups, and the reason for each figure that is missing."""

    cpu: str
    date: str
    runs: Sequence[GroupRun]
    missing: Mapping[str, str] = field(default_factory=dict)
    host_cache_bytes: int | None = None
    warnings: tuple[str, ...] = ()
    """On other programs that used the machine meanwhile."""
    entry: CatalogueEntry | None = None
    """Made of them; none without a GPU and a base."""

    @property
    def device(self) -> Device | None:
        return next((run.device for run in self.runs if run.device.kind == "cuda"), None)

    @property
    def readings(self) -> dict[str, Reading]:
        return {key: reading for run in self.runs for key, reading in run.readings.items()}

    def missing_by_reason(self) -> dict[str, list[str]]:
        keys: dict[str, list[str]] = {}
        for key, reason in self.missing.items():
            keys.setdefault(reason, []).append(key)
        return keys

    def figures(self) -> dict[str, Figure]:
        """The readings with their sources; the CPU's cache among them."""
        figures = {key: self._figure(key, reading) for key, reading in self.readings.items()}
        if self.host_cache_bytes is not None:
            source = f"Linux on {self.cpu}, read on {self.date}"
            figures["host_cache_bytes"] = Figure(value=self.host_cache_bytes, source=source)
        return figures

    def _figure(self, key: str, reading: Reading) -> Figure:
        where = self.cpu if key.startswith("host_") or not self.device else self.device.name
        return Figure(
            value=_rounded(reading.value),
            low=_rounded(reading.low),
            high=_rounded(reading.high),
            source=f"measured by advisor {__version__} on {where}, {self.date}: {reading.what}, "
            f"{reading.repeats} {'repeats' if reading.repeats > 1 else 'value'}",
        )

    def toml(self) -> str:
        """The entry's file, with comments: method, versions, missing figures."""
        assert self.entry is not None
        gpu = next((run.gpu for run in self.runs if run.device.kind == "cuda"), {})
        driver = ", ".join(f"{key} {version}" for key, version in gpu.items() if key.startswith("cuda"))
        lines = [
            f"Made by `advisor devices calibrate`, version {__version__}, on {self.date}.",
            f"CPU: {self.cpu}.{f' CUDA: {driver}.' if driver else ''}",
            "low and high: 10th and 90th percentiles of the repeats, wider for copies and re-reads.",
            f"Copies and launches: {METHOD}.",
        ]
        if self.device is not None:
            lines.append("The memory rate is measured, not the specified peak, so achievable_share is 1.")
        lines += self.warnings
        lines += (f"Missing: {', '.join(keys)}: {why}." for why, keys in self.missing_by_reason().items())
        return write(self.entry, lines)


def calibrate(
    request: Request, progress: Progress, launch: Launch | None = None, clock: Clock = time.monotonic
) -> Calibration:
    """Measures and assembles. Raises `NothingMeasured` with too few figures for an entry."""
    with scratch() as folder:
        run = launch or ProcessLauncher(TIMEOUT, worker="advisor.calibration.calibrations")
        measured = _measure(request, progress, run, folder, clock)
    if not measured.readings:
        raise NothingMeasured(
            "nothing could be measured",
            next_step="The reasons are listed below. `advisor strategies` and predictions still work.",
            detail="\n".join(measured.missing_by_reason()),
        )
    entry = None
    if request.backend == "cuda":
        if measured.device is None:
            step = "Check it with nvidia-smi, or add --host to measure only the CPU."
            raise NothingMeasured(f"the GPU could not be used: {measured.missing[MEMORY]}", next_step=step)
        entry = entry_of(measured, measured.device, request.name)
    elif request.base is not None:
        entry = merged(request.base, measured, request.name)
    return replace(measured, entry=entry)


def _measure(
    request: Request, progress: Progress, launch: Launch, directory: Path, clock: Clock
) -> Calibration:
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
    return Calibration(cpu, date, runs, missing, largest_cache(), here.warnings)


def entry_of(measured: Calibration, device: Device, name: str | None) -> CatalogueEntry:
    """The entry of a measured GPU. Raises `NothingMeasured` where what every entry needs is missing."""
    source = f"CUDA on this device, read by advisor {__version__} on {measured.date}"
    reported = {key: device.attributes.get(attribute, 0) for key, attribute in _REPORTED.items()}
    known = {key: v for key, v in reported.items() if isinstance(v, (int, float)) and v > 0}
    figures = {key: Figure(value=float(v), source=source) for key, v in known.items()} | measured.figures()
    if memory := figures.get(MEMORY):
        # 1, and the range of the measured rate: the model takes the rate itself as exact.
        low = min(_rounded((memory.low or memory.value) / memory.value), 1.0)
        share = f"of the measured rate, 1 by definition; range: {memory.source}"
        figures["achievable_share"] = Figure(value=1.0, low=low, high=1.0, source=share)
        figures[MEMORY] = memory.model_copy(update={"low": None, "high": None})
    # Those a catalogue file has; a count of 0 is one that is not known.
    attributes = {
        key: {"value": value, "source": source}
        for key, value in device.attributes.items()
        if key in ATTRIBUTES and (key in FLAGS or value not in (0, ""))
    }
    content = {
        "name": name or device.name,
        "memory_class": device.memory_class,
        "attributes": attributes,
        "figures": {key: figure.model_dump(exclude_none=True) for key, figure in figures.items()},
        "origin": "measured",
    }
    try:
        return CatalogueEntry.model_validate(content)
    except ValidationError as problem:
        reasons = "\n".join(f"{', '.join(k)}: {why}" for why, k in measured.missing_by_reason().items())
        raise NothingMeasured(
            f"too few figures were measured for a catalogue entry: {invalid(problem)}",
            next_step="The missing figures and their reasons are listed below. Fix them and run again.",
            detail=reasons,
        ) from None


def merged(base: CatalogueEntry, measured: Calibration, name: str | None) -> CatalogueEntry:
    """A device of the catalogue with the CPU measured here in place of its own. Other figures of its CPU are
    left out, unless that CPU is part of the device."""
    part_of_device = bool(base.attributes["integrated"].value)
    others = {key: each for key, each in base.figures if part_of_device or not key.startswith("host_")}
    figures = Figures(**{**others, **measured.figures()})
    return base.model_copy(update={"name": name or f"{base.name} (this host)", "figures": figures})


def write(entry: CatalogueEntry, comments: Sequence[str] = ()) -> str:
    """TOML that `advisor.devices.catalogue.load` reads as an equal entry, the comments as lines on top."""
    lines = [f"# {in_a_line(comment)}".rstrip() for comment in comments]
    lines += ["", f"name = {toml_string(entry.name)}", f"memory_class = {toml_string(entry.memory_class)}"]
    for title, parts in (("attributes", entry.attributes), ("figures", dict(entry.figures))):
        lines += ["", f"[{title}]"]
        for key, part in parts.items():
            if part is not None:
                values = part.model_dump(exclude_none=True).items()
                cells = (f"{k} = {toml_string(v) if isinstance(v, str) else repr(v)}" for k, v in values)
                lines.append(f"{key} = {{ {', '.join(cells)} }}")
    return "\n".join(lines).lstrip("\n") + "\n"


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def check(request: Request, out: Path | None, *, force: bool) -> None:
    """Raises `UsageError`, before anything is measured, for what contradicts itself or cannot be written."""
    request.check()
    if out is not None and request.backend != "cuda" and request.base is None:
        step = f"Name the card this CPU hosts (--base {_CARD}), or omit --out to print the figures."
        raise UsageError(f"--out {out}: a device entry needs a GPU, or --base CARD", next_step=step)
    require_free(out, force=force)


def require_free(out: Path | None, *, force: bool) -> None:
    """Raises `UsageError` where an entry cannot be written."""
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
    entry is in a file or there is none. Raises `FileProblem`, with the entry in its detail."""
    if calibration.entry is not None:
        text = calibration.toml()
        if out is None:
            return text.rstrip("\n")
        try:
            write_atomically(out, text)
        except FileProblem as problem:
            problem.next_step, problem.detail = "Save the entry below to a file.", text
            raise
    figures = calibration.figures()
    width = max(map(len, figures))
    return "\n".join(f"{key:<{width}}  {value(key, figure)}" for key, figure in figures.items())


def remarks(calibration: Calibration, out: Path | None) -> str:
    last = wrote(out)
    if calibration.entry is None:
        last = (
            "Use these figures as the host of any PCIe card: host stages and staged copies.\n"
            f"  next: advisor devices calibrate --host --base {_CARD} --out mine.toml"
        )
    elif out is None:
        last = "  next: save it with --out mine.toml, and predict with it: --target mine.toml"
    cautions = (f"warning: {caution}" for caution in calibration.warnings)
    missing = calibration.missing_by_reason().items()
    lost = (f"missing: {', '.join(keys)}\n    {reason}" for reason, keys in missing)
    return "\n".join([*cautions, *lost, last])


def wrote(out: Path | None) -> str:
    return f"wrote {out}\n  next: advisor profile WORKLOAD.py --target {shlex.quote(str(out))}"
