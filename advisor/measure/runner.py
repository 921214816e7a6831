"""The parent: what must run first, then one process per strategy and round; of a workload or of a script.

Rounds are interleaved and shuffled, so that drift of clocks and temperature hits every strategy alike.
A process that fails costs its strategy and nothing else.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from advisor.measure.jobs import Description, Job, Sample, ScriptSample, Task
from advisor.measure.launcher import Ended, Launcher
from advisor.measure.progress import Progress
from advisor.measure.results import failure
from advisor.measure.sampling import MIN_FRAMES
from advisor.measure.script_subject import ScriptSubject
from advisor.measure.settings import AnyStrategy, Settings
from advisor.measure.subjects import AnySample, Row, Step, Subject, observing
from advisor.measure.workload_subject import WorkloadSubject
from advisor.profiles.schema import Failed, Result, Skipped, Trace
from advisor.profiles.scripts import ScriptMeasured, ScriptRun
from advisor.profiles.system_state import GpuState


@dataclass(frozen=True)
class Run:
    """What the processes told; everything of a profile that had to be measured."""

    description: Description
    trace: Trace | None
    order: tuple[tuple[str, ...], ...]
    rows: tuple[Result, ...] = ()
    notes: tuple[str, ...] = ()
    gpu_states: tuple[GpuState, ...] = ()
    """Read in each measuring process right after its frames."""
    script: ScriptRun | None = None
    """Of a script, its rows with figures among it."""


Keep = Callable[[Run], None]


def run(
    settings: Settings,
    launcher: Launcher,
    progress: Progress,
    directory: Path,
    keep: Keep,
    accept: Callable[[Description], None] = lambda _: None,
) -> Run:
    """Runs everything; `keep` gets the run so far after each process, and Ctrl-C ends it with what there is.

    `accept` is shown what the workload is before anything is measured, and raises where that cannot be used.
    Raises `AdvisorError` when the workload cannot be run at all, KeyboardInterrupt before the first figures.
    """
    subject = _subject(settings, directory)
    runner = _Runner(settings, launcher, progress, directory, subject)
    description = subject.describe(runner.launch)
    accept(description)
    prepared = subject.prepare(runner.launch)
    runner.samples.update({name: [sample] for name, sample in prepared.samples.items()})
    available = [s.name for s in settings.strategies if not subject.obstacle(s, description)]
    order = _shuffled(available, settings)
    begun = Run(description, prepared.trace, order, notes=prepared.notes, script=prepared.script)
    looks = [observing(name) for name in available if subject.observed and name not in runner.samples]
    return runner.measure([*looks, *_timed(order)], begun, keep)


def _subject(settings: Settings, directory: Path) -> Subject:
    return WorkloadSubject(settings, directory) if settings.arguments is None else ScriptSubject(settings)


def job_of(settings: Settings, task: Task, strategy: str, directory: Path, label: str) -> Job:
    """A worker's job; `label` names its folder in the run's directory."""
    return Job(
        task=task,
        file=str(settings.file),
        arguments=settings.arguments,
        workload=settings.workload,
        assignments=dict(settings.assignments),
        backend="cpu" if task == "trace" else settings.backend,
        gpu=settings.gpu,
        strategy=strategy,
        seconds=settings.sample_seconds,
        min_frames=_min_frames(settings),
        seed=settings.seed,
        oversubscribe=settings.oversubscribe,
        numa=settings.numa,
        directory=str(directory / label),
        reference=str(directory / "results"),
    )


def _min_frames(settings: Settings) -> int:
    """On the CPU the rounds have them together: its times compare no strategies, they feed predictions."""
    return math.ceil(MIN_FRAMES / settings.rounds) if settings.backend == "cpu" else MIN_FRAMES


def _shuffled(names: Sequence[str], settings: Settings) -> tuple[tuple[str, ...], ...]:
    generator = random.Random(settings.seed)
    return tuple(tuple(generator.sample(names, len(names))) for _ in range(settings.rounds))


def _timed(order: Sequence[Sequence[str]]) -> list[Step]:
    """Round by round; the last has the timelines."""
    return [
        Step("measure", name, f"{name}-{number}", f"{name}, round {number}", timeline=number == len(order))
        for number, names in enumerate(order, start=1)
        for name in names
    ]


@dataclass
class _Runner:
    settings: Settings
    launcher: Launcher
    progress: Progress
    directory: Path
    subject: Subject
    samples: dict[str, list[AnySample]] = field(default_factory=dict)
    failed: dict[str, Failed] = field(default_factory=dict)
    launched: int = 0
    timed: int = 0

    def launch(self, step: Step) -> Ended:
        """One process, to its end."""
        job = job_of(self.settings, step.task, step.strategy, self.directory, step.label)
        self.progress.begin(step.shown)
        ended = self.launcher(job.model_copy(update={"timeline": step.timeline}))
        self.progress.end()
        self.launched += 1
        return ended

    def measure(self, steps: Sequence[Step], begun: Run, keep: Keep) -> Run:
        """All samples, one process each."""
        traced = len(begun.order[0]) if "nsys" in self.settings.trace else 0
        self.progress.start(self.launched + len(steps) + traced)
        try:
            for step in steps:
                if step.strategy not in self.failed:
                    self._take(step)
                    if step.task == "measure":
                        keep(self._so_far(begun))
        except KeyboardInterrupt:
            if not self.timed:
                raise
            planned = sum(map(len, begun.order))
            return self._so_far(begun, f"Interrupted after {self.timed} of {planned} measurements.")
        return self._so_far(begun)

    def _take(self, step: Step) -> None:
        ended = self.launch(step)
        if isinstance(ended.outcome, (Sample, ScriptSample)):
            self.samples.setdefault(step.strategy, []).append(ended.outcome)
            self.timed += step.task == "measure"
        else:
            self.failed[step.strategy] = failure(step.strategy, ended, self.subject.next_steps)

    def _so_far(self, begun: Run, *notes: str) -> Run:
        """Every strategy that was asked for, in the order of the table; none is left out."""
        rows = [self._row(strategy, begun.description) for strategy in self.settings.strategies]
        ran = tuple(row for row in rows if isinstance(row, ScriptMeasured))
        taken = (sample for samples in self.samples.values() for sample in samples)
        return replace(
            begun,
            rows=tuple(row for row in rows if not isinstance(row, ScriptMeasured)),
            script=begun.script and begun.script.model_copy(update={"measured": ran}),
            gpu_states=tuple(sample.gpu_state for sample in taken if sample.gpu_state is not None),
            notes=(*begun.notes, *notes),
        )

    def _row(self, strategy: AnyStrategy, description: Description) -> Row:
        name = strategy.name
        if reason := self.subject.obstacle(strategy, description):
            return Skipped(strategy=name, reason=reason)
        if name in self.failed:
            return self.failed[name]
        row = self.subject.row(name, self.samples.get(name, ()))
        return row or Skipped(strategy=name, reason="the run ended before it was measured")
