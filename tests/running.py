"""Runs the program as its users do, and settings and fakes for running parts of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import pytest
from builders import cuda_device, final_block, footprint, vector_add_workload

from advisor import configuration
from advisor.cli import app
from advisor.cli.console import Around
from advisor.measure import jobs
from advisor.measure.backends import Machine
from advisor.measure.final import Session
from advisor.measure.launcher import Ended, Launcher
from advisor.measure.measurement import Measurement, Run
from advisor.measure.progress import Progress
from advisor.measure.sampling import Clock
from advisor.profiles.figures import Block, Energy
from advisor.profiles.schema import Device, Trace
from advisor.strategies.backend import BackendName
from tests.forking import launching, started

REPOSITORY = Path(__file__).resolve().parents[1]
FILES = Path(__file__).resolve().parent / "workload_files"
MISBEHAVING = FILES / "misbehaving.py"
SHORT = ("--max-seconds", "90", "--rounds", "1")
"""Screening samples for a share of the time."""
QUICK = (*SHORT, "--target", "h200")
"""Of a run without a GPU, predictions for three devices would take most of the time."""


def environment(**changes: str) -> dict[str, str]:
    """This process's variables, the checkout importable, none that changes what the program prints."""
    kept = {
        k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "GITHUB_STEP_SUMMARY", "FORCE_COLOR")
    }
    return {**kept, "PYTHONPATH": python_path(), **changes}


def python_path(*folders: str | Path) -> str:
    """PYTHONPATH with those folders and the checkout first, then what it has: packages may lie there."""
    before = os.environ.get("PYTHONPATH")
    return os.pathsep.join([*map(str, folders), str(REPOSITORY), *([before] if before else [])])


def ran(command: Sequence[str], cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command in a folder, its output captured."""
    env = environment(**variables)
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=300)


def advisor(*arguments: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """`python -m advisor ...` in a folder, its output captured: forked from an interpreter that has it
    loaded, unless a variable is one that Python reads at its start."""
    words = [*map(str, arguments)]
    if any(name.startswith("PYTHON") for name in variables):
        return ran([sys.executable, "-m", "advisor", *words], cwd, **variables)
    with TemporaryDirectory() as folder:
        output, errors = Path(folder, "output"), Path(folder, "errors")
        output.touch()
        errors.touch()
        code = started().run(
            words, cwd, environment(**variables), str(output), 300, forked=True, errors=str(errors)
        )
        return subprocess.CompletedProcess(
            words, code, *(each.read_text("utf-8") for each in (output, errors))
        )


def asked(
    target: str | Path, *, backend: BackendName = "cpu", command: str = "", **options: Any
) -> jobs.Settings:
    """The settings of a run with these options of `advisor.profile`, whatever files there are."""
    said = configuration.arguments(workload=str(target), **options)
    return configuration.make_settings((said,), backend=backend, command=command)


def cpu_settings(target: str | Path = MISBEHAVING, *assignments: str, **options: Any) -> jobs.Settings:
    """A small run on the CPU device under the two strategies it has, predicted for one device."""
    few = {"strategies": ("pageable", "zero-copy"), "targets": ("rtx-4090",)}
    given = {"rounds": 1, "max_seconds": 90.0, **few, **options}
    return asked(target, parameters=assignments, **given)


def is_gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody waited for yet has ended too."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def children(*parents: int, recursive: bool = False) -> list[psutil.Process]:
    """Of these processes, those that are still there: one may end while it is looked at."""
    found: list[psutil.Process] = []
    for pid in parents:
        with suppress(psutil.NoSuchProcess):
            found += psutil.Process(pid).children(recursive)
    return found


def kill_children(parent: int, *, recursive: bool = False) -> None:
    for child in children(parent, recursive=recursive):
        with suppress(psutil.NoSuchProcess):
            child.kill()


def eventually(holds: Callable[[], bool], seconds: float = 120) -> bool:
    """Whether it comes to hold within that time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.02)
    return False


def missing(text: str, *parts: str) -> list[str]:
    """Which of what a message has to name it does not name: values, names and commands, not its sentence."""
    return [part for part in parts if part not in text]


def sample(seconds: float = 0.001, **fields: Any) -> jobs.Sample:
    """What a process measured: three frames of that length."""
    parts: dict[str, Any] = {
        "frame_seconds": (seconds,) * 3,
        "breakdown": ({"device:add": seconds / 4},),
        "host_seconds": {"produce": seconds / 2, "consume": 0.0},
        "transfer_bytes": {"to-device": 8, "to-host": 4},
        "setup_seconds": 0.1,
        "footprint": footprint(pageable=64),
        "verified": True,
    }
    return jobs.Sample(**{**parts, **fields})


CRASHED = jobs.Problem(cause="device", message="the process was killed by SIGSEGV")


@dataclass
class FakeSession:
    """A process of the final. `seconds` of a frame by strategy; `fails`: who leaves, dies or is cut off, in
    every round or in that one of a process."""

    job: jobs.FinalJob
    seconds: Mapping[str, float] = field(default_factory=dict)
    fails: Mapping[str, str] | Mapping[tuple[int, int, str], str] = field(default_factory=dict)
    wait: Callable[[float], object] = time.sleep
    """Each block takes `each` of it, a window for energy its length too."""
    starts: bool = True
    joules: Mapping[str, float] | None = None
    """Of a frame by strategy, above 50 W while idle; without them nothing counts energy."""
    each: float = 0.005
    over: Callable[[], bool] = lambda: False
    """Whether its time is over."""
    warming: tuple[float, ...] = ()
    asked: list[jobs.FinalRound] = field(default_factory=list)
    closed: bool = False

    def ready(self) -> bool:
        return self.starts

    def round(self, request: jobs.FinalRound) -> Iterator[jobs.Message]:
        assert not self.closed
        assert set(request.order) <= self.job.contestants.keys()
        self.asked.append(request)
        failing: Mapping[Any, str] = self.fails
        for place, name in enumerate(request.order):
            self.wait(self.each + self.job.energy_seconds)
            if self.over():
                return
            how = failing.get(name) or failing.get((self.job.process, request.round, name))
            if how == "ctrl-c":
                raise KeyboardInterrupt
            if how:
                yield jobs.Left(contestant=name, problem=CRASHED, broken=how == "dies")
                if how == "dies":
                    return
                continue
            if self.job.energy_seconds and self.joules is None:
                yield jobs.Unmeasurable(reason="no counter")
                continue
            yield jobs.BlockDone(block=self._block(request, place), warming_seconds=self.warming)

    def close(self) -> None:
        self.closed = True

    def _block(self, request: jobs.FinalRound, place: int) -> Block:
        name, frames = request.order[place], self.job.frames
        noise = 1 + (request.round * 7 + place * 3 + self.job.process) % 5 / 1000
        strategy = self.job.contestants[name]
        frame = self.seconds.get(strategy, 0.001) * noise
        fields: dict[str, Any] = {"host_seconds": {"produce": frame / 2}, "cpu_seconds": frame / 4}
        if self.job.energy_seconds:
            frames = max(1, round(self.job.energy_seconds / frame))
            joules = self.joules[strategy] * noise * frames + 50 * frame * frames
            fields = {"energy": Energy(joules=joules, idle_watts=50, source="a fake")}
        else:
            fields["frame_seconds"] = (frame,) * frames
        return final_block(
            self.job.process, request.round, name, frame * frames, place=place, frames=frames, **fields
        )


def unstarted(job: jobs.FinalJob) -> FakeSession:
    """A process of the final that never gets to its first round, so that none is held."""
    return FakeSession(job, starts=False)


def measured_run(
    asked: jobs.Settings,
    launcher: Launcher,
    progress: Progress,
    directory: Path,
    save: Callable[[Run], None] = lambda _: None,
    clock: Clock = time.monotonic,
) -> Run:
    """All phases of a measurement, without a model: strategies in their own order."""
    measurement = Measurement(asked, launcher, progress, directory, save, clock)
    measurement.describe()
    measurement.prepare()
    with measurement.interruptible():
        measurement.screen(measurement.available)
        if measurement.searches:
            measurement.search(None, "")
        measurement.final()
    return measurement.run()


class FakeLauncher:
    """Answers jobs at once: the reference and the trace well, each measurement as `measure` says.

    session: makes a process of the final; without it none of them starts.
    """

    def __init__(
        self,
        measure: Callable[[jobs.Job], Ended] | None = None,
        *,
        device: Device | None = None,
        **answers: Any,
    ) -> None:
        self.jobs: list[jobs.Job] = []
        self._measure = measure or (lambda job: Ended(sample(), "finished"))
        self._device = device or cuda_device()
        self._reference: Ended = answers.get("reference", Ended(jobs.ReferenceRun(), "finished"))
        self._trace: Ended = answers.get("trace", Ended(jobs.TraceRun(trace=Trace()), "finished"))
        self._described: bool = answers.get("described", True)
        self._compiled: tuple[str, ...] = answers.get("compiled", ())
        self._session: Callable[[jobs.FinalJob], Session] = answers.get("session", unstarted)
        self.finals: list[jobs.FinalJob] = []

    def __call__(self, job: jobs.Job) -> Ended:
        self.jobs.append(job)
        if job.task == "trace":
            return self._trace
        if job.task == "measure":
            return self._measure(job)
        if self._described:
            directory = Path(job.directory)
            directory.mkdir(parents=True)
            described = jobs.Description(
                device=self._device,
                gpu={},
                packages={},
                workload=vector_add_workload(),
                compiled=self._compiled,
            )
            (directory / jobs.DESCRIPTION).write_text(described.model_dump_json(), encoding="utf-8")
        return self._reference

    def session(self, job: jobs.FinalJob) -> Session:
        self.finals.append(job)
        return self._session(job)

    @property
    def measured(self) -> list[tuple[str, str]]:
        """Round and strategy of each measurement, in order."""
        names = [Path(job.directory).name for job in self.jobs if job.task == "measure"]
        return [(name.rpartition("-")[2], name.rpartition("-")[0]) for name in names]


def having(gpus: int, *, cupy: bool = True) -> Around:
    """A machine with so many GPUs, as a command sees it."""
    return Around(machine=Machine(lambda: gpus, lambda: cupy))


@dataclass(frozen=True)
class Said:
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> list[str]:
        """The message on stderr from its `error:` line on."""
        lines = self.err.splitlines()
        return lines[next(i for i, line in enumerate(lines) if line.startswith("error: ")) :]


class Command:
    """`advisor ...` in this process, which saves its start; workers are real, and all else but `around`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys
        self.around = Around()

    def __call__(self, *arguments: str | Path) -> Said:
        self._monkeypatch.setattr(sys, "argv", ["advisor", *map(str, arguments)])
        before = [(n, signal.getsignal(n)) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
        try:
            around = replace(self.around, launching=self.around.launching or launching)
            with pytest.raises(SystemExit) as ended:
                app.main(replace(around, began=time.monotonic()))
        finally:
            for number, handler in before:
                signal.signal(number, handler)
        told = self._capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Said(ended.value.code, told.out, told.err)
