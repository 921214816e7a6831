"""Two versions of the code in one run: each is checked and screened by itself, then both meet in a final."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from advisor import units
from advisor.errors import AdvisorError, NothingMeasured, NothingToCompare, UsageError, WorkloadError
from advisor.measure.contest import LEAST_FINAL, VersionFinal
from advisor.measure.jobs import Description, Settings
from advisor.measure.kept_results import compare_results
from advisor.measure.launcher import Launcher
from advisor.measure.measurement import CONCLUDING_SECONDS as RESERVED
from advisor.measure.measurement import RESULTS, Measurement, Run, job_of
from advisor.measure.processes import DIED
from advisor.measure.progress import Labelled, Progress
from advisor.measure.sampling import Clock
from advisor.profiles.schema import LATE, RAISED, Failed, Measured
from advisor.profiles.secrets import MASK
from advisor.strategies.registry import BASELINE, choose
from advisor.strategies.schedule import frames_of_a_period, stage_uses
from advisor.texts import listed
from advisor.verdicts.comparing.results import Results, changed_work
from advisor.verdicts.comparing.rows import OneSided, one_sided
from advisor.verdicts.versions import BASE, HEAD, Entry, Question, named

SCREENING = {HEAD: 0.2, BASE: 0.5}
"""Share of the time left that the screening of a version may take: HEAD's looks for the strategy to
recommend, as far as it comes, and BASE's has those alone that are compared."""
NAMED = 0.05
"""Share of the time left that each strategy named by the user may take."""
CONCLUDING_SECONDS = {"cpu": 3.0, "cuda": 1.0}
CONCLUDING_SHARE = 1 / 4
"""Predicting, advising and rendering take 1.2 s on an idle core and 2 to 3 s on one of two at a load of 4.
With a GPU nothing is predicted: 0.2 to 0.6 s on an H200's host."""
CONCLUDING_CPU_SECONDS = {"cpu": 1.5, "cuda": 0.5}
"""CPU time to reserve for these, which take 0.9 and 0.3 s. They wait for a core as the start did: 4 to 9
times that at a load of 10."""
CONCLUDING_PREDICTIONS = 30
"""Times the prediction of the order to screen in: these take 20 to 31 times as long, on two cores at loads of
5 to 7."""
_MOST_VALUES = 3
_LONGER = "Run again with a larger --max-seconds."


@dataclass(frozen=True)
class Versions:
    """What is compared. `named` are strategies that take part beside the baseline and the recommended one.
    `missing` says why there is no BASE, where only HEAD can be run."""

    base: Settings
    head: Settings
    named: tuple[str, ...]
    question: Question
    missing: str = ""
    recommendations: bool = False
    """BASE is screened under all strategies too, as a gate on recommendations needs."""


@dataclass
class VersionMeasurement:
    """HEAD's screening, BASE's, and the final of both, phase by phase.

    Raises `AdvisorError`, which names the version, where HEAD cannot be run or measured; `NothingToCompare`
    where BASE alone cannot; `NothingMeasured` where the time did not suffice for one ratio.
    """

    versions: Versions
    launcher: Launcher
    progress: Progress
    directory: Path
    clock: Clock = time.monotonic
    cpu_clock: Clock = time.process_time
    runs: dict[str, Run] = field(default_factory=dict)

    def __post_init__(self) -> None:
        head = self.versions.head
        self.began = head.began if head.began is not None else self.clock()
        self.end = self.began + head.options.max_seconds
        self.deadline = math.inf
        self._reserve(CONCLUDING_SECONDS[head.backend])
        self._reserve(CONCLUDING_CPU_SECONDS[head.backend] * (self.clock() - self.began) / self.cpu_clock())
        self.progress.limit(self.end - self.clock())

    def _reserve(self, seconds: float) -> None:
        """Leaves so much time to conclude, at most a share of all; never less than before."""
        most = CONCLUDING_SHARE * self.versions.head.options.max_seconds
        self.deadline = min(self.deadline, self.end - min(seconds, most))

    @contextmanager
    def version(self, name: str) -> Iterator[Measurement]:
        """The measurement of one version, for its screening within a share of the time. Errors name it."""
        if self.clock() >= self.deadline:  # starting the program took it all
            raise self._nothing(self.clock())
        settings = self.versions.head
        if name == BASE:
            base, every = self.versions.base, self.versions.recommendations
            settings = base if every else replace(base, strategies=choose(self.compared))
        share = min(SCREENING[BASE], SCREENING[name] + NAMED * len(self.versions.named))
        seconds = RESERVED + share * max(0.0, self.deadline - self.clock())
        options = replace(settings.options, max_seconds=seconds, rounds=1)
        settings = replace(settings, began=self.clock(), options=options, final=False)
        progress, folder, end = Labelled(self.progress, name), self.directory / name, self.deadline
        untraced = "neither was HEAD's" if name == BASE and self.runs[HEAD].trace is None else ""
        measurement = Measurement(
            settings, self.launcher, progress, folder, clock=self.clock, untraced=untraced, end=end
        )
        try:
            yield measurement
            run = self.runs[name] = measurement.run()
            _require_figures(run)
        except AdvisorError as error:
            if measurement.ran_out and not measurement.timed:
                ran = self.clock() - (settings.began or 0.0) >= LEAST_FINAL  # it is the version that took it
                raise self._nothing(self.clock(), f"{name}: {error.message}" if ran else "") from error
            error.message = f"{name}: {error.message}"
            in_time = self.deadline - self.clock() >= LEAST_FINAL
            failed = isinstance(error, (WorkloadError, UsageError))
            if name == BASE and (failed or (in_time and isinstance(error, NothingMeasured))):
                raise NothingToCompare(error.message, detail=error.detail) from error
            raise
        if name == HEAD and self.deadline - self.clock() < LEAST_FINAL:  # BASE would take more
            raise self._nothing(self.clock())

    def results(self, base: Measurement, described: Description) -> Results:
        """Compares the results of HEAD's reference run with those of BASE's. Where parameters have other
        values in HEAD, BASE runs again with these."""
        before, now, folder = described.workload, self.runs[HEAD].description.workload, base.directory
        values = {n: v for n, v in now.parameters.items() if before.parameters.get(n, v) != v}
        text = listed([f"{name}={value}" for name, value in values.items()], _MOST_VALUES)
        if MASK in text:
            return Results(absent="the value of a parameter that changed is secret")
        if values:
            folder = self.directory / f"{BASE} with HEAD's values"
            assignments = {**base.settings.assignments, **{n: str(v) for n, v in values.items()}}
            again = replace(base.settings, assignments=assignments)
            try:
                before = replace(base, settings=again, directory=folder).describe().workload
            except AdvisorError:
                return Results(absent=f"BASE does not run with {text}")
        if changed_work(before, now):
            return Results(absent="frames do different work")
        return replace(compare_results(folder / RESULTS, self.directory / HEAD / RESULTS), values=text)

    def choose(self, recommended: str | None) -> None:
        """Sets the strategies to compare: the baseline, the recommended one and those that the user names."""
        chosen = (recommended,) if recommended else ()
        self.compared = tuple(dict.fromkeys((BASELINE, *chosen, *self.versions.named)))

    def screening_order(self, predict: Callable[[], Sequence[str]]) -> list[str]:
        """The predicted order, with the baseline and the strategies that the user names first. How long it
        takes to predict it tells how long it takes to conclude on a machine as busy as this one."""
        began = self.clock()
        order = predict()
        if self.versions.head.backend == "cpu":
            self._reserve(CONCLUDING_PREDICTIONS * (self.clock() - began))
        return sorted(order, key=lambda name: name not in (BASELINE, *self.versions.named))

    def uncompared(self, final: VersionFinal) -> tuple[str, ...]:
        """What the time or a failure kept out of the final, in sentences.

        Raises `NothingMeasured` where that is every strategy, `WorkloadError` where a version failed under
        each, `NothingToCompare` where that was BASE alone.
        """
        left, versions = final.loop.left, (BASE, HEAD)
        if all(any(named(version, name) in left for version in versions) for name in final.entry.strategies):
            name, problem = min(left.items(), key=lambda each: each[0].startswith(BASE))
            raise (NothingToCompare if name.startswith(BASE) else WorkloadError)(
                f"{name} failed in the comparison: {problem.message}",
                next_step=problem.next_step,
                detail=problem.detail,
            )
        if not final.judged().ratios:
            raise self._nothing(final.began)
        late = sum(not isinstance(row, Measured) and row.reason == LATE for row in self.runs[HEAD].rows)
        unscreened = (
            f"Screening HEAD did not reach {late} strategies in its share of --max-seconds; one of them may "
            "be the one to recommend."
        )
        return (unscreened,) * bool(late) + tuple(
            f"{gap.strategy} was not compared: {gap.status} in {gap.missing_in}: {gap.reason}."
            for gap in self.gaps()
        )

    def gaps(self) -> tuple[OneSided, ...]:
        """What screening kept out of the final."""
        before, now = ({row.strategy: row for row in self.runs[v].rows} for v in (BASE, HEAD))
        return tuple(gap for gap in one_sided(before, now, self.compared) if gap.strategy in self.compared)

    def _nothing(self, now: float, at: str = "") -> NothingMeasured:
        return NothingMeasured(
            f"nothing was compared within --max-seconds {self.versions.head.options.max_seconds:g}: "
            + (at or f"checking and screening took {units.digits(now - self.began, 2)} s"),
            next_step=_LONGER,
        )

    def final(self) -> VersionFinal:
        """The final of both versions, to be run until the deadline."""
        rows = {
            version: {row.strategy: row for row in run.rows if isinstance(row, Measured)}
            for version, run in self.runs.items()
        }
        both = tuple(name for name in self.compared if all(name in measured for measured in rows.values()))
        if not both:
            every = [
                f"{row.strategy} {row.status} in {v}" for v, run in self.runs.items() for row in run.rows
            ]
            raise NothingMeasured(f"no strategy has figures in both BASE and HEAD: {', '.join(every)}")
        settings = {BASE: self.versions.base, HEAD: self.versions.head}
        shared = set.intersection(*(set(run.description.compiled) for run in self.runs.values()))
        uses = (stage_uses(run.description.workload, "frame") for run in self.runs.values())
        throughput = self.versions.head.preferences.objective == "throughput"
        return VersionFinal(
            Entry(both, apart=bool(shared)),
            self.versions.question,
            {v: job_of(s, "measure", BASELINE, self.directory / v, "final") for v, s in settings.items()},
            rows,
            self.directory,
            self.launcher.session,
            period=max(map(frames_of_a_period, uses)),
            objective="throughput" if throughput else "time",
            clock=self.clock,
            why_apart=f"both have the compiled extension {min(shared)}" if shared else "",
        )


def _require_figures(run: Run) -> None:
    """Raises `WorkloadError` where the user's code fails under every strategy, else `NothingMeasured`."""
    if any(isinstance(row, Measured) for row in run.rows):
        return
    failed = [row for row in run.rows if isinstance(row, Failed)]
    if not failed:
        raise NothingMeasured("no strategy could be measured", next_step=_LONGER)
    wrong = all(row.reason.startswith((RAISED, DIED)) for row in failed)
    raise (WorkloadError if wrong else NothingMeasured)(
        f"failed under every strategy. {failed[0].strategy}: {failed[0].reason}",
        next_step=failed[0].next_step,
        detail=failed[0].detail,
    )
