"""The parent: what must run first, a screening of one process per strategy in the order that the model
predicts, then the final among the best.

On the CPU device, rounds of one process per strategy take the final's place: interleaved and shuffled, so
that drift of clocks and temperature hits every strategy alike. A process that fails costs its
strategy and nothing else, and so does one that the time does not reach.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from advisor.measure.contest import LEAST_SECONDS, Contest
from advisor.measure.final import LEAST
from advisor.measure.jobs import LOG, Description, Job, Sample, Settings, Task
from advisor.measure.launcher import Ended, Launcher
from advisor.measure.processes import first_lines
from advisor.measure.progress import Progress
from advisor.measure.results import CONFIDENCE, Preparation, combine, failure, late_nan, uneven
from advisor.measure.sampling import MIN_FRAMES, Clock
from advisor.measure.search import FINALISTS, Likely, MixSearch, no_search
from advisor.profiles.figures import Block, FinalRecord, Search
from advisor.profiles.schema import LATE, Failed, Measured, Result, Skipped, Trace, WorkloadRecord
from advisor.profiles.system_state import GpuState
from advisor.strategies.mixes import PREFIX, Mix, Placed, label, mix, noted
from advisor.strategies.registry import BASELINE, Strategy, concerning
from advisor.strategies.schedule import frames_of_a_period, stage_uses


@dataclass(frozen=True)
class Run:
    """The results of all processes: everything in a profile that has to be measured."""

    description: Description
    trace: Trace | None
    order: tuple[tuple[str, ...], ...]
    rows: tuple[Result, ...] = ()
    notes: tuple[str, ...] = ()
    gpu_states: tuple[GpuState, ...] = ()
    """Read in each measuring process right after its frames."""
    final: FinalRecord | None = None
    blocks: tuple[Block, ...] = ()
    windows: tuple[Block, ...] = ()
    search: Search | None = None


LEAST_RUN = 3
"""Times what a final needs at least: a shorter run is all screening."""
SEARCH_SHARE = {"auto": 0.3, "exhaustive": 0.6}
SEARCH_SECONDS = {"auto": 45.0, "exhaustive": math.inf}
"""Share of the remaining time for searching for a mix and screening the best ones, and its upper limit."""
TRACE_SHARE = 0.4
"""Share of the whole time that is reserved for runs under nsys."""
FIRST_SECONDS = 20.0
"""The least time for a process without which there are no figures, however short the run is."""
SAMPLE_SHARE = 1 / 300
"""Share of the whole time that a process spends on samples: 0.2 s of 60."""
CONCLUDING_SECONDS = 4.0
"""Part of the command's time that is reserved for predicting, advising and rendering."""
RESULTS = "results"
"""Folder of a run's directory with the results of its reference run."""
SAVE_EVERY = 5.0
"""Seconds between two savings of what the final gave so far."""
CPU_ROUNDS = 2
"""On the CPU device host stages are timed in two processes; nothing is decided there."""


@dataclass(frozen=True)
class Step:
    """One process to come. `label` names its folder, `shown` is what progress says of it."""

    task: Task
    strategy: str
    label: str
    shown: str
    timeline: bool = False


REFERENCE = Step("reference", BASELINE, "reference", "checking the workload")
TRACE = Step("trace", "zero-copy", "trace", "tracing the workload")


def rounds_of(settings: Settings) -> int:
    """Processes of each strategy: one screens, on the CPU device two time the host's stages."""
    return min(CPU_ROUNDS, settings.options.rounds) if settings.backend == "cpu" else 1


def job_of(settings: Settings, task: Task, strategy: str, directory: Path, label: str) -> Job:
    """A worker's job; `label` names its folder in the run's directory."""
    return Job(
        task=task,
        file=str(settings.file),
        workload=settings.workload,
        assignments=dict(settings.assignments),
        backend="cpu" if task == "trace" else settings.backend,
        gpu=settings.gpu,
        gpus=settings.gpus,
        strategy=strategy,
        mixes={each.name: each.record() for each in settings.strategies if isinstance(each, Mix)},
        seconds=settings.options.max_seconds * SAMPLE_SHARE,
        min_frames=math.ceil(MIN_FRAMES / rounds_of(settings)),  # together: there times compare no strategies
        seed=settings.options.seed,
        oversubscribe=settings.options.allow_oversubscription,
        numa=settings.options.numa,
        directory=str(directory / label),
        reference=str(directory / RESULTS),
        tree=settings.tree,
    )


def _timed(order: Sequence[Sequence[str]], *, timeline: bool = True) -> list[Step]:
    """Round by round; the last has the timelines."""
    last = len(order) if timeline else 0
    return [
        Step("measure", name, f"{name}-{number}", f"{name}, round {number}", timeline=number == last)
        for number, names in enumerate(order, start=1)
        for name in names
    ]


@dataclass
class Measurement:
    """The processes of one run, phase by phase: describe, prepare, screen, search, final. `save` gets the run
    so far after each process, and every few seconds of the final."""

    settings: Settings
    launcher: Launcher
    progress: Progress
    directory: Path
    save: Callable[[Run], None] = lambda _: None
    clock: Clock = time.monotonic
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    failed: dict[str, Failed] = field(default_factory=dict)
    planned: int = 2
    """What progress counts: the reference, the trace, further processes, the search and the final."""
    timed: int = 0
    longest: float = 0.0
    """Seconds of the longest process of a strategy so far."""
    contest: Contest | None = None
    late: set[str] = field(default_factory=set)
    """Strategies that the time did not reach."""
    ran_out: bool = False
    preparation: Preparation = field(default_factory=Preparation)
    untraced: str = ""
    """Why the workload is not traced; empty where it is."""
    end: float = math.inf
    """On the clock: no process runs on after it, not even one without which there are no figures."""

    def __post_init__(self) -> None:
        settings = self.settings
        seconds = settings.options.max_seconds
        now = self.clock()
        end = (now if settings.began is None else settings.began) + seconds
        traced = TRACE_SHARE * seconds if "nsys" in settings.options.trace else 0.0
        self.deadline = end - CONCLUDING_SECONDS - traced
        self.progress.limit(end - now)

    def describe(self) -> Description:
        """What the workload is. Raises `AdvisorError` where it cannot be run at all."""
        ended = self._launch(REFERENCE)
        described = self.preparation.describe(ended, self.directory / REFERENCE.label)
        self._run = Run(described, None, ())
        return described

    def prepare(self) -> None:
        """Traces the workload on the CPU; raises as `describe` does. Of a version of the code tracing may not
        take the time of the first figures."""
        most = math.inf if self.settings.final else self.deadline - self.clock()
        untraced = self.untraced or LATE * (most <= 0)
        ended = Ended(None, "late", untraced) if untraced else self._launch(TRACE, most)
        trace = self.preparation.trace(ended, on_cpu=self.settings.backend == "cpu")
        self._run = replace(self._run, trace=trace, notes=tuple(self.preparation.notes))

    @property
    def available(self) -> list[str]:
        return [strategy.name for strategy in self._strategies() if not self._obstacle(strategy)]

    @property
    def has_final(self) -> bool:
        """The best strategies meet in processes that hold all; the CPU device has nothing to decide."""
        return self.settings.final and self.settings.backend != "cpu"

    @property
    def screens(self) -> bool:
        """Each strategy has one process, in an order of choice; else several rounds in random order."""
        return self.has_final or not self.settings.final

    @property
    def searches(self) -> bool:
        return self.has_final and self.settings.search != "off" and bool(self._measured())

    def screen(self, order: Sequence[str]) -> None:
        """Each available strategy in a separate process. A short time reaches the first in `order` only."""
        rounds: tuple[tuple[str, ...], ...] = (tuple(order),)
        if not self.screens:
            generator = random.Random(self.settings.options.seed)
            count = rounds_of(self.settings)
            rounds = tuple(tuple(generator.sample(order, len(order))) for _ in range(count))
        self._run = replace(self._run, order=rounds)
        steps = _timed(rounds)
        self._plan(len(steps) + self.has_final, traced=len(rounds[0]))
        for step in steps:
            if step.strategy in self.failed or self._is_late(step):
                continue
            self._take(step)
            self.save(self.run())

    def search(self, likely: Likely | None, ruled_out: str) -> None:
        """likely: the model's times of mixes. ruled_out: why none can gain enough, where it knows."""
        mode, workload = self.settings.search, self._run.description.workload
        why = no_search(workload, mode) or (ruled_out if mode == "auto" else "")
        if why:
            self._run = replace(self._run, search=Search(mode=mode, reason=why))
            return
        self._plan(1)
        self.progress.begin("searching for a mix of placements")
        rows = self._measured()
        search = MixSearch(
            workload=workload,
            device=self._run.description.device,
            base=job_of(self.settings, "measure", BASELINE, self.directory, "search"),
            mode=mode,
            screened={name: row.median_seconds for name, row in rows.items() if not row.placements},
            likely=likely,
            session=self.launcher.session,
            clock=self.clock,
            directory=self.directory,
            period=frames_of_a_period(stage_uses(workload, "frame")),
        )
        share = min((self.deadline - self.clock()) * SEARCH_SHARE[mode], SEARCH_SECONDS[mode])
        record, best = search.run(share - FINALISTS * self.longest)
        self.progress.end()
        self._run = replace(self._run, search=self._entered(record, best, workload))
        self.save(self.run())

    def final(self) -> None:
        if not self.has_final:
            return
        workload, saved = self._run.description.workload, self.clock()
        self.contest = Contest(
            self.settings,
            job_of(self.settings, "measure", BASELINE, self.directory, "final"),
            self._measured(),
            self.directory,
            self.launcher.session,
            self.clock,
            period=frames_of_a_period(stage_uses(workload, "frame")),
            gpus=workload.gpus,
        )

        def keep(_: Block) -> None:
            nonlocal saved
            if self.clock() - saved > SAVE_EVERY:
                saved = self.clock()
                self.save(self.run())

        if self.contest.possible:
            self.contest.run(self.deadline, self.progress, keep)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Ctrl-C within ends the phases and leaves what there is, which a note says. Raises KeyboardInterrupt
        before the first figures."""
        try:
            yield
        except KeyboardInterrupt:
            if not self.timed:
                raise
            planned = sum(map(len, self._run.order))
            note = f"Interrupted after {self.timed} of {planned} measurements."
            self._run = replace(self._run, notes=(note, *self._run.notes))

    def run(self) -> Run:
        """What there is so far: every strategy that was asked for, in the order of the table."""
        results = tuple(self._row(strategy) for strategy in self._strategies())
        contest = self.contest
        final = contest.record() if contest and contest.loop.blocks else None
        samples = (sample for samples in self.samples.values() for sample in samples)
        return replace(
            self._run,
            rows=contest.results(results) if contest else results,
            final=final,
            blocks=tuple(contest.loop.blocks) if contest else (),
            windows=tuple(contest.windows.blocks) if contest else (),
            gpu_states=tuple(sample.gpu_state for sample in samples if sample.gpu_state is not None),
            notes=(
                *self._run.notes,
                *(contest.notes if contest else ()),
                *(uneven(results) if self.has_final and final is None else ()),
                *late_nan(self.samples),
            ),
        )

    def _strategies(self) -> tuple[Strategy, ...]:
        return concerning(self.settings.strategies, self._run.description.workload)

    def _measured(self) -> dict[str, Measured]:
        return {row.strategy: row for row in self.run().rows if isinstance(row, Measured)}

    def _plan(self, more: int, *, traced: int = 0) -> None:
        """So many more to count, and so many strategies more that nsys traces at the end."""
        self.planned += more + traced * ("nsys" in self.settings.options.trace)
        self.progress.start(self.planned)

    def _launch(self, step: Step, most: float = math.inf) -> Ended:
        """most: seconds after which it is ended, though time may be left for others."""
        job = job_of(self.settings, step.task, step.strategy, self.directory, step.label)
        self.progress.begin(step.shown)
        left = self.deadline - self.clock()
        least = 0.0 if self.timed else min(FIRST_SECONDS, self.end - self.clock())
        limits = {"left_seconds": left, "limit_seconds": min(max(left, least), most)}
        ended = self.launcher(job.model_copy(update={"timeline": step.timeline, **limits}))
        printed = step.task == "reference" and ended.outcome is not None  # otherwise the error has the log
        if printed and (lines := first_lines(Path(job.directory) / LOG)):
            self.progress.printed(lines)
        self.progress.end()
        self.ran_out |= ended.how == "late" and math.isinf(most)
        return ended

    def _take(self, step: Step) -> None:
        begin = self.clock()
        ended = self._launch(step)
        self.longest = max(self.longest, self.clock() - begin)
        if isinstance(ended.outcome, Sample):
            self.samples.setdefault(step.strategy, []).append(ended.outcome)
            self.timed += step.task == "measure"
        elif ended.how == "late":
            self.late.add(step.strategy)
        else:
            self.failed[step.strategy] = failure(step.strategy, ended)

    def _is_late(self, step: Step) -> bool:
        """No time is left for it; the first figures are taken all the same.

        Once there are two to compare, the least time of a final is reserved: strategies come in screening
        order, and a decision between the first is worth more than the screening of the last. A run that is
        too short for both reserves nothing.
        """
        if not self.timed and not self.ran_out:
            return False
        least = LEAST_SECONDS + self.longest
        enough = self.has_final and self.settings.options.max_seconds >= LEAST_RUN * least
        reserved = least if enough and self.timed >= LEAST else 0.0
        if self.timed and self.clock() + self.longest <= self.deadline - reserved:
            return False
        if step.strategy not in self.samples:
            self.late.add(step.strategy)
        return True

    def _entered(self, record: Search, best: Sequence[Placed], workload: WorkloadRecord) -> Search:
        """The record with the names of the mixes that are in the run, which the best ones now join."""
        mixes = [strategy for strategy in self.settings.strategies if isinstance(strategy, Mix)]
        there = [each.assigned(workload) for each in mixes if not each.pipelined]
        new = [placed for placed in best if placed not in there]
        added = [mix(f"{PREFIX}{number}", placed) for number, placed in enumerate(new, start=1 + len(mixes))]
        self.settings = replace(self.settings, strategies=(*self.settings.strategies, *added))
        self._plan(len(added), traced=len(added))
        for step in _timed([[each.name for each in added]], timeline=False):
            if not self._is_late(step):
                self._take(step)
        names = {label(m.assigned(workload)): m.name for m in (*mixes, *added) if not m.pipelined}
        tried = (t.model_copy(update={"name": names.get(label(t.placements), "")}) for t in record.tried)
        return record.model_copy(update={"tried": tuple(tried)})

    def _row(self, strategy: Strategy) -> Result:
        name, workload = strategy.name, self._run.description.workload
        samples, row = self.samples.get(name, ()), self.failed.get(name)
        if reason := self._obstacle(strategy):
            return noted(Skipped(strategy=name, reason=reason), strategy, workload)
        if row is None and samples:
            return noted(combine(name, samples, workload, confidence=CONFIDENCE), strategy, workload)
        reason = LATE if name in self.late else "the run ended before it was measured"
        return noted(row or Skipped(strategy=name, reason=reason), strategy, workload)

    def _obstacle(self, strategy: Strategy) -> str | None:
        if self.preparation.kernels_only:
            return "a device stage cannot run without a GPU and has no CPU twin"
        described = self._run.description
        return strategy.unavailable(described.device) or strategy.unsuited(described.workload)
