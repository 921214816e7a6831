"""The parent: what must run first, a screening of one process per strategy in the order that the model
predicts, then the final among the best.

Of a script, and on the CPU device, rounds of one process per strategy take the final's place: interleaved and
shuffled, so that drift of clocks and temperature hits every strategy alike. A process that fails costs its
strategy and nothing else, and so does one that the time does not reach.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from advisor.measure.contest import LEAST_SECONDS, Contest
from advisor.measure.final import LEAST
from advisor.measure.iterations import uneven
from advisor.measure.jobs import LOG, STDOUT, Description, Job, Sample, ScriptSample, Task
from advisor.measure.launcher import Ended, Launcher
from advisor.measure.processes import first_lines
from advisor.measure.progress import Progress
from advisor.measure.results import failure, late_nan
from advisor.measure.sampling import MIN_FRAMES, Clock
from advisor.measure.script_subject import ScriptSubject
from advisor.measure.search import FINALISTS, Likely, Searching, no_search
from advisor.measure.settings import AnyStrategy, Settings
from advisor.measure.subjects import CPU_ROUNDS, AnySample, Row, Step, Subject, observing
from advisor.measure.workload_subject import WorkloadSubject
from advisor.profiles.blocks import Block, FinalRecord, Search
from advisor.profiles.row_figures import ScriptMeasured, ScriptRun
from advisor.profiles.schema import LATE, Failed, Measured, Result, Skipped, Trace, WorkloadRecord
from advisor.profiles.system_state import GpuState
from advisor.strategies.mixes import PREFIX, Mix, label, mix, noted
from advisor.strategies.registry import BASELINE, concerning
from advisor.strategies.schedule import frames_of_a_period, stage_uses
from advisor.strategies.spaces import Placed


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
    final: FinalRecord | None = None
    blocks: tuple[Block, ...] = ()
    windows: tuple[Block, ...] = ()
    search: Search | None = None


@dataclass(frozen=True)
class Hope:
    """What the model says of mixes on the device: their likely times, or why none can gain enough."""

    likely: Likely | None = None
    ruled_out: str = ""


Keep = Callable[[Run], None]
LEAST_RUN = 3
"""Times what a final needs at least: a shorter run is all screening."""
SEARCH_SHARE = {"auto": 0.4, "exhaustive": 0.6}
SEARCH_SECONDS = {"auto": 45.0, "exhaustive": math.inf}
"""That searching for a mix and screening what it found take of the time that is left, and at most."""
TRACE_SHARE = 0.4
"""Of the whole time, what runs under nsys have where they were asked for."""
FIRST_SECONDS = 20.0
"""A process without which there are no figures has this long, however short the time is."""
SAMPLE_SHARE = 1 / 300
"""Sampling time of a process, of the whole time: 0.2 s of 60. It screens, or times host stages on the CPU."""
CONCLUDING_SECONDS = 4.0
"""Of the time that the command may take: predicting, advising, rendering."""
KEEP_EVERY = 5.0
"""Seconds between two savings of what the final gave so far."""


def run(
    settings: Settings,
    launcher: Launcher,
    progress: Progress,
    directory: Path,
    keep: Keep,
    accept: Callable[[Description], None] = lambda _: None,
    promising: Callable[[Run, Sequence[str]], Sequence[str]] = lambda _, names: names,
    hope: Callable[[Run], Hope] = lambda _: Hope(),
    clock: Clock = time.monotonic,
) -> Run:
    """Runs everything; `keep` gets the run so far after each process, and Ctrl-C ends it with what there is.

    `accept` is shown what the workload is before anything is measured, and raises where that cannot be used.
    `promising` puts the strategies to be screened in order, so that a short time reaches the best of them.
    Raises `AdvisorError` when the workload cannot be run at all, KeyboardInterrupt before the first figures.
    """
    subject = _subject(settings, directory)
    runner = _Runner(settings, launcher, progress, directory, subject, clock)
    description = subject.describe(runner.launch)
    accept(description)
    prepared = subject.prepare(runner.launch)
    runner.samples.update({name: [sample] for name, sample in prepared.samples.items()})
    available = [s.name for s in _concerning(settings, description) if not subject.obstacle(s, description)]
    begun = Run(description, prepared.trace, (), notes=prepared.notes, script=prepared.script)
    if subject.has_final or not settings.final:
        order: tuple[tuple[str, ...], ...] = (tuple(promising(begun, available)),)
    else:
        order = _shuffled(available, settings, subject.rounds)
    begun = replace(begun, order=order)
    looks = [observing(name) for name in available if subject.observed and name not in runner.samples]
    return runner.measure([*looks, *_timed(order)], begun, keep, hope)


def _concerning(settings: Settings, description: Description) -> tuple[AnyStrategy, ...]:
    return concerning(settings.strategies, description.workload)


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
        backend="cpu" if task in ("imitate", "trace") else settings.backend,
        gpu=settings.gpu,
        gpus=settings.gpus,
        strategy=strategy,
        mixes={made.name: made.record() for made in settings.strategies if isinstance(made, Mix)},
        seconds=settings.max_seconds * SAMPLE_SHARE,
        min_frames=_min_frames(settings),
        seed=settings.seed,
        oversubscribe=settings.oversubscribe,
        numa=settings.numa,
        directory=str(directory / label),
        reference=str(directory / "results"),
        tree=settings.tree,
    )


def _min_frames(settings: Settings) -> int:
    """On the CPU the rounds have them together: its times compare no strategies, they feed predictions."""
    rounds = min(CPU_ROUNDS, settings.rounds) if settings.backend == "cpu" else 1
    return math.ceil(MIN_FRAMES / rounds)


def _shuffled(names: Sequence[str], settings: Settings, rounds: int) -> tuple[tuple[str, ...], ...]:
    generator = random.Random(settings.seed)
    return tuple(tuple(generator.sample(names, len(names))) for _ in range(rounds))


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
    clock: Clock
    samples: dict[str, list[AnySample]] = field(default_factory=dict)
    failed: dict[str, Failed] = field(default_factory=dict)
    launched: int = 0
    timed: int = 0
    longest: float = 0.0
    """Seconds of the longest process of a strategy so far."""
    contest: Contest | None = None
    late: set[str] = field(default_factory=set)
    """Strategies that the time did not reach."""
    ran_out: bool = False
    """The time ended a process."""

    def __post_init__(self) -> None:
        seconds = self.settings.max_seconds if self.settings.arguments is None else math.inf
        began, now = self.settings.began, self.clock()
        end = (now if began is None else began) + seconds
        traced = TRACE_SHARE * seconds if "nsys" in self.settings.trace and math.isfinite(seconds) else 0.0
        self.deadline = end - CONCLUDING_SECONDS - traced
        if math.isfinite(end):
            self.progress.limit(end - now)

    def launch(self, step: Step) -> Ended:
        """One process, to its end."""
        job = job_of(self.settings, step.task, step.strategy, self.directory, step.label)
        self.progress.begin(step.shown)
        left = self.deadline - self.clock()
        limits: dict[str, float | None] = {"left_seconds": None, "limit_seconds": None}
        if math.isfinite(left):
            least = 0.0 if self.timed else FIRST_SECONDS
            limits = {"left_seconds": left, "limit_seconds": max(left, least)}
        ended = self.launcher(job.model_copy(update={"timeline": step.timeline, **limits}))
        if step.task == "reference" and ended.outcome is not None:  # otherwise the error has the log
            folder = Path(job.directory)
            if lines := first_lines(folder / LOG, folder / STDOUT):
                self.progress.printed(lines)
        self.progress.end()
        self.launched += 1
        return ended

    def measure(self, steps: Sequence[Step], begun: Run, keep: Keep, hope: Callable[[Run], Hope]) -> Run:
        """All samples, one process each."""
        traced = len(begun.order[0]) if "nsys" in self.settings.trace else 0
        self.progress.start(self.launched + len(steps) + traced)
        try:
            for step in steps:
                if step.strategy in self.failed or self._is_late(step):
                    continue
                self._take(step)
                if step.task == "measure":
                    keep(self._so_far(begun))
            if self.subject.has_final:
                begun = self._search(begun, keep, hope)
                self._hold_final(begun, keep)
        except KeyboardInterrupt:
            if not self.timed:
                raise
            planned = sum(map(len, begun.order))
            return self._so_far(begun, f"Interrupted after {self.timed} of {planned} measurements.")
        return self._so_far(begun)

    def _is_late(self, step: Step) -> bool:
        """No time is left for it; the first figures are taken all the same."""
        if not self.timed and not self.ran_out:
            return False
        if self.timed and self.clock() + self.longest <= self.deadline - self._reserved():
            return False
        if step.strategy not in self.samples:
            self.late.add(step.strategy)
        return True

    def _reserved(self) -> float:
        """What the final needs at least, once there are two to compare: strategies come in the order of their
        promise, and a decision between the first is worth more than the screening of the last. Nothing of a
        run that is too short for both.
        """
        least = LEAST_SECONDS + self.longest
        enough = self.settings.max_seconds >= LEAST_RUN * least
        return least if self.subject.has_final and enough and self.timed >= LEAST else 0.0

    def _search(self, begun: Run, keep: Keep, hope: Callable[[Run], Hope]) -> Run:
        """With what searching for a mix gave; the best ones are screened as every strategy was."""
        mode, so_far = self.settings.search, self._so_far(begun)
        ran = begun.description.workload
        rows = {row.strategy: row for row in so_far.rows if isinstance(row, Measured)}
        if mode == "off" or not rows:
            return begun
        hoped = hope(so_far)
        why = no_search(ran, mode) or (hoped.ruled_out if mode == "auto" else "")
        if why:
            return replace(begun, search=Search(mode=mode, reason=why))
        self.progress.begin("searching for a mix of placements")
        searching = Searching(
            workload=ran,
            device=begun.description.device,
            base=job_of(self.settings, "measure", BASELINE, self.directory, "search"),
            mode=mode,
            screened={name: row.median_seconds for name, row in rows.items() if not row.placements},
            likely=hoped.likely,
            session=self.launcher.session,
            clock=self.clock,
            directory=self.directory,
            period=frames_of_a_period(stage_uses(ran, "frame")),
        )
        record, best = searching.run(self._search_seconds())
        self.progress.end()
        begun = replace(begun, search=self._entered(record, best, ran))
        keep(self._so_far(begun))
        return begun

    def _entered(self, record: Search, best: Sequence[Placed], ran: WorkloadRecord) -> Search:
        """The record with the names of the mixes that are in the run, which the best ones now join."""
        asked = [made for made in self.settings.strategies if isinstance(made, Mix)]
        there = [made.assigned(ran) for made in asked if not made.pipelined]
        new = [placed for placed in best if placed not in there]
        found = [mix(f"{PREFIX}{number}", placed) for number, placed in enumerate(new, start=1 + len(asked))]
        self.settings = replace(self.settings, strategies=(*self.settings.strategies, *found))
        for made in found:
            step = Step("measure", made.name, f"{made.name}-1", f"{made.name}, round 1")
            if not self._is_late(step):
                self._take(step)
        names = {label(m.assigned(ran)): m.name for m in (*asked, *found) if not m.pipelined}
        tried = (
            one.model_copy(update={"name": names.get(label(one.placements), "")}) for one in record.tried
        )
        return record.model_copy(update={"tried": tuple(tried)})

    def _search_seconds(self) -> float:
        """Its share of the time; screening what it found comes after."""
        mode, left = self.settings.search, self.deadline - self.clock()
        return min(left * SEARCH_SHARE[mode], SEARCH_SECONDS[mode]) - FINALISTS * self.longest

    def _hold_final(self, begun: Run, keep: Keep) -> None:
        rows = {row.strategy: row for row in self._so_far(begun).rows if isinstance(row, Measured)}
        base = job_of(self.settings, "measure", BASELINE, self.directory, "final")
        period = frames_of_a_period(stage_uses(begun.description.workload, "frame"))
        contest = Contest(
            self.settings,
            base,
            rows,
            self.directory,
            self.launcher.session,
            self.clock,
            period=period,
            gpus=begun.description.workload.gpus,
        )
        self.contest, told = contest, self.clock()
        if not contest.possible:
            return

        def heard(_: Block) -> None:
            nonlocal told
            if self.clock() - told > KEEP_EVERY:
                told = self.clock()
                keep(self._so_far(begun))

        contest.run(self.deadline, self.progress, heard)

    def _take(self, step: Step) -> None:
        begin = self.clock()
        ended = self.launch(step)
        self.longest = max(self.longest, self.clock() - begin)
        if isinstance(ended.outcome, (Sample, ScriptSample)):
            self.samples.setdefault(step.strategy, []).append(ended.outcome)
            self.timed += step.task == "measure"
        elif ended.how == "late":
            self.late.add(step.strategy)
            self.ran_out = True
        else:
            self.failed[step.strategy] = failure(step.strategy, ended, self.subject.next_steps)

    def _so_far(self, begun: Run, *notes: str) -> Run:
        """Every strategy that was asked for, in the order of the table; none is left out."""
        described = begun.description
        rows = [self._row(strategy, described) for strategy in _concerning(self.settings, described)]
        ran = tuple(row for row in rows if isinstance(row, ScriptMeasured))
        taken = (sample for samples in self.samples.values() for sample in samples)
        results = tuple(row for row in rows if not isinstance(row, ScriptMeasured))
        held = self.contest
        final = held.record() if held and held.held.blocks else None
        alone = self.subject.has_final and final is None
        return replace(
            begun,
            rows=held.results(results) if held else results,
            final=final,
            blocks=tuple(held.held.blocks) if held else (),
            windows=tuple(held.windows.blocks) if held else (),
            script=begun.script and begun.script.model_copy(update={"measured": ran}),
            gpu_states=tuple(sample.gpu_state for sample in taken if sample.gpu_state is not None),
            notes=(
                *notes,
                *begun.notes,
                *(held.notes if held else ()),
                *(uneven(results) if alone else ()),
                *late_nan(self.samples),
            ),
        )

    def _row(self, strategy: AnyStrategy, description: Description) -> Row:
        row = self._found(strategy, description)
        return row if isinstance(row, ScriptMeasured) else noted(row, strategy, description.workload)

    def _found(self, strategy: AnyStrategy, description: Description) -> Row:
        name = strategy.name
        if reason := self.subject.obstacle(strategy, description):
            return Skipped(strategy=name, reason=reason)
        if name in self.failed:
            return self.failed[name]
        row = self.subject.row(name, self.samples.get(name, ()))
        late = LATE if name in self.late else ""
        return row or Skipped(strategy=name, reason=late or "the run ended before it was measured")
