"""Two versions of the code in one run: each is checked and screened by itself, then both meet in a final."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from advisor import units
from advisor.errors import AdvisorError, NothingMeasured, WorkloadError
from advisor.measure.jobs import Description
from advisor.measure.launcher import Launcher
from advisor.measure.progress import Progress
from advisor.measure.runner import CONCLUDING_SECONDS, Run, job_of, run
from advisor.measure.sampling import Clock
from advisor.measure.settings import Settings
from advisor.measure.version_final import LEAST_FINAL, VersionFinal
from advisor.profiles.schema import LATE, RAISED, Failed, Measured
from advisor.profiles.sweeps import was_interrupted
from advisor.strategies.registry import BASELINE, choose
from advisor.strategies.schedule import frames_of_a_period, stage_uses
from advisor.verdicts.versions import BASE, HEAD, Entry, Question, named

SCREENING = {HEAD: 0.2, BASE: 0.5}
"""Share of the time left that the screening of a version may take: HEAD's looks for the strategy to
recommend, as far as it comes, and BASE's has those alone that are compared."""
NAMED = 0.05
"""Share of the time left that each strategy named by the user may take."""


@dataclass(frozen=True)
class Both:
    """What the two gave."""

    base: Run
    head: Run
    final: VersionFinal
    notes: tuple[str, ...] = ()
    """Strategies that were not compared, and why."""


@dataclass(frozen=True)
class Versions:
    """What is compared. `named` are strategies that take part beside the baseline and the recommended one."""

    base: Settings
    head: Settings
    named: tuple[str, ...]
    question: Question


def run_versions(
    versions: Versions,
    launcher: Launcher,
    progress: Progress,
    directory: Path,
    *,
    accept: Callable[[Description, Description], None],
    promising: Callable[[Settings, Run, Sequence[str]], Sequence[str]],
    recommended: Callable[[Run], str | None],
    clock: Clock = time.monotonic,
) -> Both:
    """Measures both. accept: is shown HEAD's description and BASE's, and raises where those do not compare.

    Raises `AdvisorError`, which names the version, where one cannot be run or measured; `NothingMeasured`
    where the time did not suffice for one ratio.
    """
    head, base = versions.head, versions.base
    began = head.began if head.began is not None else clock()
    deadline = began + head.max_seconds - CONCLUDING_SECONDS
    progress.limit(deadline + CONCLUDING_SECONDS - clock())
    screening = _Screening(versions, launcher, progress, directory, promising, deadline, clock)
    of_head = screening.run(HEAD, head, lambda _: None)
    screening.require_time(began)
    chosen = recommended(of_head)
    names = tuple(dict.fromkeys((BASELINE, *((chosen,) if chosen else ()), *versions.named)))
    of_base = screening.run(
        BASE,
        replace(base, strategies=choose(names)),
        lambda description: accept(of_head.description, description),
    )
    screening.require_time(began)
    runs = {HEAD: of_head, BASE: of_base}
    final = _final(versions, runs, names, launcher, directory, clock)
    final.run(deadline, progress)
    require_both(final)
    if not final.judged().ratios:
        raise _nothing(head, final.began - began)
    return Both(of_base, of_head, final, tuple(_uncompared(names, runs)))


@dataclass(frozen=True)
class _Screening:
    """What each version is, and its strategies one by one."""

    versions: Versions
    launcher: Launcher
    progress: Progress
    directory: Path
    promising: Callable[[Settings, Run, Sequence[str]], Sequence[str]]
    deadline: float
    clock: Clock

    def run(self, version: str, settings: Settings, accept: Callable[[Description], None]) -> Run:
        """In its share of the time. Strategies that the user names come right after the baseline."""

        def in_order(so_far: Run, names: Sequence[str]) -> list[str]:
            promising = self.promising(settings, so_far, names)
            return sorted(promising, key=lambda name: name not in (BASELINE, *self.versions.named))

        share = min(SCREENING[BASE], SCREENING[version] + NAMED * len(self.versions.named))
        given = CONCLUDING_SECONDS + share * max(0.0, self.deadline - self.clock())
        with _of(version):
            found = run(
                replace(settings, began=self.clock(), max_seconds=given, final=False, rounds=1),
                self.launcher,
                _Naming(self.progress, version),
                self.directory / version,
                keep=lambda _: None,
                accept=accept,
                promising=in_order,
                clock=self.clock,
            )
            if was_interrupted(found):  # half a screening compares nothing
                raise KeyboardInterrupt
            _require_figures(found)
        return found

    def require_time(self, began: float) -> None:
        """Raises `NothingMeasured` where a final has no time left: what comes after it would take more."""
        if self.deadline - self.clock() < LEAST_FINAL:
            raise _nothing(self.versions.head, self.clock() - began)


def _nothing(head: Settings, preparing: float) -> NothingMeasured:
    return NothingMeasured(
        f"nothing was compared within --max-seconds {head.max_seconds:g}: checking and screening took "
        f"{units.digits(preparing, 2)} s",
        next_step="Raise --max-seconds.",
    )


@dataclass(frozen=True)
class _Naming:
    """Tells progress whose process it is; the number and the time left are known of the whole alone."""

    progress: Progress
    version: str

    def start(self, total: int) -> None:
        pass

    def limit(self, seconds: float) -> None:
        pass

    def begin(self, what: str) -> None:
        self.progress.begin(f"{self.version}: {what}")

    def printed(self, lines: str) -> None:
        self.progress.printed(lines)

    def end(self) -> None:
        self.progress.end()


@contextmanager
def _of(version: str) -> Iterator[None]:
    """An error within is told as that version's."""
    try:
        yield
    except AdvisorError as error:
        error.message = f"{version}: {error.message}"
        raise


def _require_figures(found: Run) -> None:
    """Raises `WorkloadError` where the user's code raised under every strategy, else `NothingMeasured`."""
    if any(isinstance(row, Measured) for row in found.rows):
        return
    failed = [row for row in found.rows if isinstance(row, Failed)]
    if not failed:
        raise NothingMeasured("no strategy could be measured", next_step="Raise --max-seconds.")
    wrong = all(row.reason.startswith(RAISED) for row in failed)
    raise (WorkloadError if wrong else NothingMeasured)(
        f"failed under every strategy. {failed[0].strategy}: {failed[0].reason}",
        next_step=failed[0].next_step,
        detail=failed[0].detail,
    )


def require_both(final: VersionFinal) -> None:
    """Raises `WorkloadError` where a version left the final under every strategy."""
    left = final.held.left
    if all(any(named(version, name) in left for version in (BASE, HEAD)) for name in final.entry.strategies):
        name, problem = next(iter(left.items()))
        raise WorkloadError(
            f"{name} failed in the comparison: {problem.message}",
            next_step=problem.next_step,
            detail=problem.detail,
        )


def _uncompared(names: Sequence[str], runs: Mapping[str, Run]) -> Iterator[str]:
    """What the time or a failure kept out of the final, in sentences."""
    late = [row.strategy for row in runs[HEAD].rows if not isinstance(row, Measured) and row.reason == LATE]
    if late:
        yield (
            f"Screening HEAD did not reach {len(late)} strategies in its share of --max-seconds; one of them "
            "may be the one to recommend."
        )
    for version, found in runs.items():
        for row in found.rows:
            if row.strategy in names and not isinstance(row, Measured):
                yield f"{row.strategy} was not compared: {row.status} in {version}: {row.reason}."


def _final(
    versions: Versions,
    runs: dict[str, Run],
    names: Sequence[str],
    launcher: Launcher,
    directory: Path,
    clock: Clock,
) -> VersionFinal:
    rows = {
        version: {row.strategy: row for row in found.rows if isinstance(row, Measured)}
        for version, found in runs.items()
    }
    both = tuple(name for name in names if all(name in of for of in rows.values()))
    if not both:
        told = ", ".join(f"{row.strategy} {row.status} in {v}" for v, f in runs.items() for row in f.rows)
        raise NothingMeasured(f"no strategy has figures in both BASE and HEAD: {told}")
    settings = {BASE: versions.base, HEAD: versions.head}
    jobs = {
        version: job_of(of, "measure", BASELINE, directory / version, "final")
        for version, of in settings.items()
    }
    shared = set.intersection(*(set(found.description.compiled) for found in runs.values()))
    return VersionFinal(
        Entry(both, apart=bool(shared)),
        versions.question,
        jobs,
        rows,
        directory,
        launcher.session,
        period=max(
            frames_of_a_period(stage_uses(found.description.workload, "frame")) for found in runs.values()
        ),
        objective="throughput" if versions.head.preferences.objective == "throughput" else "time",
        clock=clock,
        why_apart=f"both have the compiled extension {min(shared)}" if shared else "",
    )
