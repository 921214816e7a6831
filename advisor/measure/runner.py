"""The parent: one reference run, one traced run, then one process per strategy and round.

Rounds are interleaved and shuffled, so that drift of clocks and temperature hits every strategy alike.
A process that fails costs its strategy and nothing else.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from advisor.errors import NothingMeasured, WorkloadError
from advisor.measure.jobs import DESCRIPTION, Cell, Description, Job, Problem, ReferenceRun, TraceRun
from advisor.measure.launcher import Ended, Launcher
from advisor.measure.progress import Progress
from advisor.measure.results import combine, failure
from advisor.measure.sampling import MIN_FRAMES
from advisor.measure.settings import Settings
from advisor.profiles.schema import Failed, Result, Skipped, Trace
from advisor.profiles.system_state import GpuState
from advisor.strategies.registry import BASELINE, Strategy

CONFIDENCE = 0.95


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
    runner = _Runner(settings, launcher, progress, directory)
    description, notes = runner.reference()
    accept(description)
    trace, trace_notes = runner.trace()
    available = [s for s in settings.strategies if not runner.obstacle(s, description)]
    order = _shuffled(available, settings.rounds, settings.seed)
    traced = len(available) if "nsys" in settings.trace else 0
    progress.start(2 + sum(len(round_) for round_ in order) + traced)
    begun = Run(description, trace, order, notes=(*notes, *trace_notes))
    return runner.measure(begun, keep)


def job_of(
    settings: Settings,
    task: Literal["reference", "trace", "measure", "capture"],
    strategy: str,
    directory: Path,
    label: str,
) -> Job:
    """A worker's job; `label` names its folder in the run's directory."""
    return Job(
        task=task,
        file=str(settings.file),
        workload=settings.workload,
        assignments=dict(settings.assignments),
        backend="cpu" if task == "trace" else settings.backend,
        gpu=settings.gpu,
        strategy=strategy,
        seconds=settings.cell_seconds,
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


def _shuffled(strategies: Sequence[Strategy], rounds: int, seed: int) -> tuple[tuple[str, ...], ...]:
    names = [strategy.name for strategy in strategies]
    generator = random.Random(seed)
    return tuple(tuple(generator.sample(names, len(names))) for _ in range(rounds))


@dataclass
class _Runner:
    settings: Settings
    launcher: Launcher
    progress: Progress
    directory: Path
    cells: dict[str, list[Cell]] = field(default_factory=dict)
    failed: dict[str, Failed] = field(default_factory=dict)
    kernels_only: Problem | None = None
    """Why the workload cannot run on the CPU, where a kernel has no twin there."""

    def reference(self) -> tuple[Description, list[str]]:
        """What the workload is, and that its annotations hold."""
        ended = self._launch("reference", "reference", BASELINE)
        problem = ended.outcome if isinstance(ended.outcome, Problem) else None
        if problem and problem.cause in ("wrong", "raised", "bug"):
            raise problem.as_error()
        try:
            text = (self.directory / "reference" / DESCRIPTION).read_text(encoding="utf-8")
        except OSError:
            raise self._hopeless(ended) from None
        if ended.how == "timeout":
            raise WorkloadError(
                f"the workload's first frames did not finish: {ended.reason}",
                next_step="Give more time with --timeout SECONDS, or smaller parameters with --set.",
                detail=ended.log,
            )
        notes = []
        if problem and problem.cause == "twin":
            self.kernels_only = problem
            notes.append(f"Nothing was run on the CPU: {problem.message}. {problem.next_step}")
        elif isinstance(ended.outcome, ReferenceRun):
            if not ended.outcome.repeatable:
                notes.append(
                    "A frame's results are not repeatable: they depend on earlier frames, or on chance. "
                    "Results were compared after the first frames only."
                )
        else:
            reason = problem.message if problem else ended.reason
            notes.append(f"The reference run failed ({reason}), so results could not be compared.")
        return Description.model_validate_json(text), notes

    def trace(self) -> tuple[Trace | None, list[str]]:
        """What each stage reads and writes, from a run on the CPU; absent where that is not possible."""
        ended = self._launch("trace", "trace", "zero-copy")
        if isinstance(ended.outcome, TraceRun):
            return ended.outcome.trace, []
        if self.kernels_only and self.settings.backend == "cpu":
            raise self.kernels_only.as_error()
        reason = ended.outcome.message if isinstance(ended.outcome, Problem) else ended.reason
        step = ended.outcome.next_step if isinstance(ended.outcome, Problem) else ""
        return None, [f"Traffic could not be traced on the CPU: {reason}. {step}".strip()]

    def obstacle(self, strategy: Strategy, description: Description) -> str | None:
        """Why a strategy is not run: device or workload do not allow it, or a kernel has no twin."""
        if self.kernels_only:
            return "a device stage cannot run without a GPU and has no CPU twin"
        return strategy.unavailable(description.device) or strategy.unsuited(description.workload)

    def measure(self, begun: Run, keep: Keep) -> Run:
        """All cells, round by round."""
        try:
            for number, names in enumerate(begun.order, start=1):
                for name in names:
                    if name not in self.failed:
                        self._cell(name, number)
                        keep(self._so_far(begun))
        except KeyboardInterrupt:
            done = sum(len(cells) for cells in self.cells.values())
            if not done:
                raise
            return self._so_far(
                begun, f"Interrupted after {done} of {sum(map(len, begun.order))} measurements."
            )
        return self._so_far(begun)

    def _so_far(self, begun: Run, *notes: str) -> Run:
        rows, states = self._rows(begun), self._gpu_states()
        return replace(begun, rows=rows, gpu_states=states, notes=(*begun.notes, *notes))

    def _cell(self, name: str, number: int) -> None:
        last = number == self.settings.rounds
        shown = f"{name}, round {number}"
        ended = self._launch("measure", f"{name}-{number}", name, shown, timeline=last)
        if isinstance(ended.outcome, Cell):
            self.cells.setdefault(name, []).append(ended.outcome)
        else:
            self.failed[name] = failure(name, ended)

    def _gpu_states(self) -> tuple[GpuState, ...]:
        cells = [cell for cells in self.cells.values() for cell in cells]
        return tuple(cell.gpu_state for cell in cells if cell.gpu_state is not None)

    def _rows(self, begun: Run) -> tuple[Result, ...]:
        """Every strategy that was asked for, in the order of the table; none is left out."""
        return tuple(self._row(strategy, begun) for strategy in self.settings.strategies)

    def _row(self, strategy: Strategy, begun: Run) -> Result:
        reason = self.obstacle(strategy, begun.description)
        if reason:
            return Skipped(strategy=strategy.name, reason=reason)
        if strategy.name in self.failed:
            return self.failed[strategy.name]
        cells = self.cells.get(strategy.name)
        if not cells:
            return Skipped(strategy=strategy.name, reason="the run ended before it was measured")
        return combine(strategy.name, cells, begun.description.workload, confidence=CONFIDENCE)

    def _launch(
        self,
        task: Literal["reference", "trace", "measure"],
        label: str,
        strategy: str,
        shown: str = "",
        *,
        timeline: bool = False,
    ) -> Ended:
        job = job_of(self.settings, task, strategy, self.directory, label)
        if timeline:
            job = job.model_copy(update={"timeline": True})
        self.progress.begin(shown or {"reference": "checking the workload", "trace": "tracing it"}[task])
        ended = self.launcher(job)
        self.progress.end()
        return ended

    @staticmethod
    def _hopeless(ended: Ended) -> Exception:
        if isinstance(ended.outcome, Problem):
            return NothingMeasured(
                ended.outcome.message, next_step=ended.outcome.next_step, detail=ended.outcome.detail
            )
        return WorkloadError(
            f"the workload could not be loaded: {ended.reason}",
            next_step="Does the file run by itself with python?",
            detail=ended.log,
        )
