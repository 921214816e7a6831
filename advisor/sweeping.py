"""Runs a sweep: the values are read first, then each is profiled by itself; one that fails costs its row."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor import pipeline
from advisor.errors import AdvisorError, WorkloadError
from advisor.jobs import Checked, Job, Problem
from advisor.launcher import Launcher, ProcessLauncher
from advisor.profiles import Profile
from advisor.runner import Progress
from advisor.series import Point, Series, link, series, was_interrupted
from advisor.settings import Settings, output_directory
from advisor.strategies import BASELINE
from advisor.sweep import Step, Sweep

LABEL_LENGTH = 18
Keep = Callable[[Profile, Path], Sequence[Path]]


@dataclass(frozen=True)
class Swept:
    """All values of a sweep, and the errors of those that could not be profiled."""

    series: Series
    problems: tuple[AdvisorError, ...]


def run(
    settings: Settings,
    swept: Sweep,
    progress: Progress,
    *,
    directory: Path,
    keep: Keep,
    launcher: Launcher | None = None,
) -> Swept:
    """A profile at each value, handed to `keep` with a folder in `directory` as soon as it is there.

    `keep` returns the files it wrote. Ctrl-C ends the sweep with what there is. Raises `AdvisorError` before
    anything runs where the workload or a value cannot be read, KeyboardInterrupt before the first profile.
    """
    runner = _Runner(
        SweepProgress(progress, len(swept.values)),
        directory,
        keep,
        launcher or ProcessLauncher(settings.timeout),
    )
    steps = tuple(swept.steps(settings))
    runner.require_readable(swept, settings)
    points, problems = runner.points(steps)
    names = [point.profile.workload.name for point in points if point.profile]
    name = names[0] if names else settings.workload or settings.file.stem
    notes = _left_over(directory, {s.directory for s, p in zip(steps, points, strict=True) if p.profile})
    return Swept(series(name, swept.parameter, points, settings.command, notes), tuple(problems))


def _left_over(directory: Path, fresh: Collection[str]) -> list[str]:
    """A note on the folders of values that an earlier run left there."""
    reports = {
        file.parent.name
        for name in ("profile.json", "report.html", "report.md")
        for file in directory.glob(f"*=*/{name}")
    }
    left = sorted(reports - set(fresh))
    if not left:
        return []
    shown = ", ".join(left[:4]) + (f" and {len(left) - 4} more" if len(left) > 4 else "")
    return [f"Left in {directory} by an earlier run, and no part of this sweep: {shown}."]


class SweepProgress:
    """Shows which value is at work, and counts on over the values, each as long as the one at work."""

    def __init__(self, progress: Progress, values: int) -> None:
        self._progress = progress
        self._left = values
        self._done = self._before = 0
        self._label = ""

    def value(self, label: str) -> None:
        """The next value begins."""
        self._left -= bool(self._label)
        self._before = self._done
        self._label = label if len(label) <= LABEL_LENGTH else label[: LABEL_LENGTH - 1] + "…"

    def start(self, total: int) -> None:
        """So many processes for the value at work."""
        self._progress.start(self._before + total * self._left)

    def begin(self, what: str) -> None:
        """One of them starts."""
        self._progress.begin(f"{self._label}: {what}" if self._label else what)

    def end(self) -> None:
        """It has ended."""
        self._done += 1
        self._progress.end()


@dataclass(frozen=True)
class _Runner:
    progress: SweepProgress
    directory: Path
    keep: Keep
    launcher: Launcher

    def require_readable(self, swept: Sweep, settings: Settings) -> None:
        """Has a process import the file and read every value, so that nothing runs where one is wrong."""
        self.progress.begin("checking the values")
        with tempfile.TemporaryDirectory(prefix="advisor-") as scratch:
            ended = self.launcher(_job(swept, settings, Path(scratch) / "values"))
        self.progress.end()
        if isinstance(ended.outcome, Problem):
            raise ended.outcome.as_error()
        if not isinstance(ended.outcome, Checked):
            raise WorkloadError(
                f"the workload could not be loaded: {ended.reason}",
                next_step="Does the file run by itself with python?",
                detail=ended.log,
            )

    def points(self, steps: Sequence[Step]) -> tuple[list[Point], list[AdvisorError]]:
        """A point for every value, those that Ctrl-C left out among them."""
        points: list[Point] = []
        problems: list[AdvisorError] = []
        try:
            for step in steps:
                self.progress.value(step.label)
                points.append(self._point(step, problems))
                if points[-1].profile and was_interrupted(points[-1].profile):
                    break
        except KeyboardInterrupt:
            if not any(point.profile for point in points):
                raise
        rest = [
            Point(s.value, status="not run", reason="the sweep was interrupted") for s in steps[len(points) :]
        ]
        return points + rest, problems

    def _point(self, step: Step, problems: list[AdvisorError]) -> Point:
        try:
            with output_directory(self.directory / step.directory) as folder:
                made = pipeline.profile(step.settings, self.progress, keep_in=folder, launcher=self.launcher)
                written = self.keep(made, folder)
                (folder / pipeline.PARTIAL).unlink(missing_ok=True)
        except AdvisorError as error:
            problems.append(error)
            return Point(step.value, status="failed", reason=error.message, detail=error.detail)
        page = folder / "report.html"
        href = link(f"{step.directory}/{page.name}") if page in written else ""
        return Point(made.workload.parameters[step.parameter], made, href=href)


def _job(swept: Sweep, settings: Settings, directory: Path) -> Job:
    return Job(
        task="parameters",
        file=str(settings.file),
        workload=settings.workload,
        assignments=dict(settings.assignments),
        backend="cpu",
        gpu=settings.gpu,
        strategy=BASELINE,
        seconds=settings.cell_seconds,
        seed=settings.seed,
        directory=str(directory),
        reference=str(directory),
        swept=(swept.parameter, swept.values),
    )
