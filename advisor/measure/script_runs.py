"""Script mode's flow: read this first. Once to warm up, once per strategy observed, then the timed rounds.

Every run is a fresh process. What is observed (ranges, copies, memory) is never in a run that is timed.
"""

from __future__ import annotations

import ast
import hashlib
import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Protocol

from advisor.devices.environment import environment, finished
from advisor.errors import NothingMeasured
from advisor.measure import script_results
from advisor.measure.jobs import Problem, ScriptDescription
from advisor.measure.launcher import Ended, ProcessLauncher
from advisor.measure.progress import Progress
from advisor.measure.runner import CONFIDENCE
from advisor.measure.script_results import Reference
from advisor.profiles.redaction import anonymous, without_environment
from advisor.profiles.schema import Environment, Failed, Method, Profile, Skipped, Tool, WorkloadRecord
from advisor.profiles.scripts import ScriptCell, ScriptJob, ScriptMeasured, ScriptRun
from advisor.strategies.scripts import UNCHANGED, ScriptStrategy
from advisor.verdicts import scripts
from advisor.version import __version__

WORKER = "advisor.measure.script_worker"
_DRIVER = "Check the driver with nvidia-smi."
_DIED = "What the process said is below; `advisor doctor` looks at each part of it."


@dataclass(frozen=True)
class ScriptSettings:
    """One run of `advisor profile script.py -- arguments`."""

    file: Path
    arguments: tuple[str, ...]
    gpu: int
    strategies: tuple[ScriptStrategy, ...]
    rounds: int
    timeout: float
    """Seconds after which a process is ended."""
    seed: int
    command: str
    include_host: bool = False
    """The profile may name this host and its user."""
    no_environment: bool = False
    """The profile tells nothing of the machine and its software."""


class ScriptLauncher(Protocol):
    """Runs a job to its end; `advisor.measure.launcher.ProcessLauncher` with the worker of this room."""

    def __call__(self, job: ScriptJob) -> Ended: ...


@dataclass
class _Runs:
    """What has been run so far."""

    settings: ScriptSettings
    launch: ScriptLauncher
    progress: Progress
    directory: Path
    failed: dict[str, Failed] = field(default_factory=dict)
    observed: dict[str, ScriptCell] = field(default_factory=dict)
    timed: dict[str, list[ScriptCell]] = field(default_factory=dict)

    def describe(self) -> ScriptDescription:
        """The GPU. Raises `NothingMeasured` without one."""
        ended = self._ran("describe", UNCHANGED, "looking at the GPU", task="describe")
        if isinstance(ended.outcome, ScriptDescription):
            return ended.outcome
        told = ended.outcome if isinstance(ended.outcome, Problem) else None
        raise NothingMeasured(
            told.message if told else f"the GPU cannot be used: {ended.reason}",
            next_step=(told.next_step or _DRIVER) if told else _DIED,
            detail=told.detail if told else ended.log,
        )

    def warm_up(self) -> tuple[Reference, float]:
        """The script as it is, twice: what all others are held against, and the first run's seconds.

        Raises `WorkloadError` where the script fails by itself.
        """
        first = script_results.require_success(
            self._ran("warm-up", UNCHANGED, "warming up"), self.settings.file
        )
        again = script_results.require_success(
            self._ran(f"{UNCHANGED}-observed", UNCHANGED, f"{UNCHANGED}, observed", observe=True),
            self.settings.file,
        )
        repeats = first.stdout_sha256 == again.stdout_sha256 and first.stdout_bytes > 0
        self.observed[UNCHANGED] = again
        reference = Reference(
            self.directory / "warm-up" / script_results.RESULTS,
            first.results,
            first.stdout_sha256 if repeats else None,
        )
        return reference, first.seconds

    def once(self, strategy: str, reference: Reference, label: str, *, observe: bool = False) -> None:
        """One run of a strategy that has not failed yet."""
        if strategy in self.failed:
            return
        name = f"{strategy}-{label}"
        ended = self._ran(name, strategy, f"{strategy}, {label}", observe=observe)
        problem = script_results.failure(strategy, ended, reference, self.directory / name)
        if problem:
            self.failed[strategy] = problem
        elif isinstance(ended.outcome, ScriptCell) and observe:
            self.observed[strategy] = ended.outcome
        elif isinstance(ended.outcome, ScriptCell):
            self.timed.setdefault(strategy, []).append(ended.outcome)

    def rows(self, reference: Reference) -> tuple[ScriptMeasured, ...]:
        """The strategies that have figures, in the order of the table."""
        return tuple(
            script_results.row(name, self.observed[name], self.timed[name], reference, CONFIDENCE)
            for name in (strategy.name for strategy in self.settings.strategies)
            if name in self.timed and name in self.observed and name not in self.failed
        )

    def _ran(
        self, name: str, strategy: str, shown: str, *, observe: bool = False, task: str = "run"
    ) -> Ended:
        job = ScriptJob(
            task="describe" if task == "describe" else "run",
            file=str(self.settings.file),
            arguments=self.settings.arguments,
            strategy=strategy,
            gpu=self.settings.gpu,
            observe=observe,
            directory=str(self.directory / name),
        )
        self.progress.begin(shown)
        ended = self.launch(job)
        self.progress.end()
        return ended


@dataclass(frozen=True)
class _Known:
    """What is known before the strategies are run."""

    description: ScriptDescription
    environment: Environment
    created: str
    reference: Reference
    warm_up_seconds: float
    skipped: dict[str, str]
    order: tuple[tuple[str, ...], ...]


def profile(
    settings: ScriptSettings,
    progress: Progress,
    *,
    keep: Callable[[Profile], None],
    launcher: ScriptLauncher | None = None,
) -> Profile:
    """Runs the script under every strategy and concludes; `keep` gets the profile so far after each round.

    Raises `AdvisorError` when the script cannot be run at all. Ctrl-C ends it with what there is.
    """
    created, before = datetime.now(timezone.utc).isoformat(timespec="seconds"), environment()
    launch = launcher or ProcessLauncher(settings.timeout, WORKER)
    with tempfile.TemporaryDirectory(prefix="advisor-") as scratch:
        runs = _Runs(settings, launch, progress, Path(scratch).resolve())
        progress.start(3)
        description = runs.describe()
        reference, warm_up_seconds = runs.warm_up()
        skipped = {s.name: why for s in settings.strategies if (why := s.needs(description.device))}
        names = [s.name for s in settings.strategies if s.name not in skipped]
        order = _shuffled(names, settings)
        known = _Known(description, before, created, reference, warm_up_seconds, skipped, order)
        notes = _measure(runs, known, lambda: keep(assemble(runs, known, ())))
        return _finished(assemble(runs, known, notes), settings)


def _shuffled(names: Sequence[str], settings: ScriptSettings) -> tuple[tuple[str, ...], ...]:
    generator = random.Random(settings.seed)
    return tuple(tuple(generator.sample(names, len(names))) for _ in range(settings.rounds))


def _measure(runs: _Runs, known: _Known, keep: Callable[[], None]) -> tuple[str, ...]:
    """All runs but the first two; a note where Ctrl-C ended them."""
    others = [name for name in known.order[0] if name != UNCHANGED]
    runs.progress.start(3 + len(others) + sum(map(len, known.order)))
    try:
        for name in others:
            runs.once(name, known.reference, "observed", observe=True)
        for number, names in enumerate(known.order, start=1):
            for name in names:
                runs.once(name, known.reference, f"round {number}")
            keep()
    except KeyboardInterrupt:
        if not runs.timed:
            raise
        done = sum(map(len, runs.timed.values()))
        return (f"Interrupted after {done} of {sum(map(len, known.order))} measurements.",)
    return ()


def assemble(runs: _Runs, known: _Known, notes: tuple[str, ...]) -> Profile:
    """The profile of what has been run, with its verdict: without names of people and hosts, and secrets."""
    return anonymous(_assembled(runs, known, notes), include_host=runs.settings.include_host)


def _assembled(runs: _Runs, known: _Known, notes: tuple[str, ...]) -> Profile:
    settings, rows = runs.settings, runs.rows(known.reference)
    without = [s.name for s in settings.strategies if s.name not in {row.strategy for row in rows}]
    return Profile(
        tool=Tool(version=__version__),
        created=known.created,
        command=settings.command,
        environment=known.environment.model_copy(
            update={"packages": known.description.packages, "gpu": known.description.gpu}
        ),
        method=Method(
            rounds=settings.rounds,
            max_seconds=settings.timeout * settings.rounds,
            seed=settings.seed,
            confidence=CONFIDENCE,
            order=known.order,
        ),
        workload=_record(settings.file),
        device=known.description.device,
        results=tuple(runs.failed.get(name) or _skipped(name, known.skipped) for name in without),
        recommendation=scripts.recommend(rows, CONFIDENCE),
        notes=(*notes, *_remarks(known.reference)),
        script=ScriptRun(
            arguments=settings.arguments,
            baseline=UNCHANGED,
            warm_up_seconds=known.warm_up_seconds,
            compared=known.reference.compared,
            measured=rows,
        ),
    )


def _skipped(name: str, reasons: dict[str, str]) -> Skipped:
    return Skipped(strategy=name, reason=reasons.get(name, "the run ended before it was measured"))


def _remarks(reference: Reference) -> tuple[str, ...]:
    if reference.stdout or reference.names:
        return ()
    return (
        "The script prints nothing, or something else in each run: only its exit status could be compared. "
        "Give arrays to `advisor.result` to have results compared.",
    )


def _record(file: Path) -> WorkloadRecord:
    source = file.read_bytes()
    try:
        summary = (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]
    except (SyntaxError, ValueError):  # it was changed while it ran
        summary = ""
    try:
        shown = str(file.resolve().relative_to(Path.cwd()))
    except ValueError:
        shown = file.name
    digest = hashlib.sha256(source).hexdigest()
    return WorkloadRecord(
        name=file.stem, file=shown, sha256=digest, summary=summary, parameters={}, buffers=(), stages=()
    )


def _finished(made: Profile, settings: ScriptSettings) -> Profile:
    """With what the machine says once everything has run."""
    place = str(made.environment.gpu.get("pci_bus_id", ""))
    after = finished(made.environment, place or None, index=settings.gpu)
    complete = made.model_copy(update={"environment": after})
    return without_environment(complete) if settings.no_environment else complete
