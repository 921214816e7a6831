"""`advisor profile` of several: a sweep's values, or workloads; a folder for each, and their page."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from advisor.cli.console import (
    launcher,
    make_room,
    read_back,
    require_figures,
    say,
    say_written,
    summarize,
    text,
)
from advisor.errors import INTERRUPTED, AdvisorError, NothingMeasured

if TYPE_CHECKING:
    from advisor.measure.options import Options
    from advisor.measure.progress import Progress
    from advisor.measure.settings import Settings
    from advisor.profiles.schema import Profile
    from advisor.profiles.sweeps import SweepResults
    from advisor.sweep import Keep, Sweep

    Run = Callable[[Progress, Path, Keep], tuple[SweepResults, Sequence[AdvisorError]]]


@dataclass(frozen=True)
class Several:
    """What is written: of each run the files `inside` its folder, and in `out` the page of that kind."""

    kind: str
    noun: str
    inside: Sequence[str]
    wanted: tuple[str, ...]
    merged: Options

    def profiled(self, folders: Iterable[str], run: Run) -> tuple[SweepResults, Sequence[AdvisorError]]:
        """Runs all of them, writes and prints their page. Exit code 130 where Ctrl-C ended it."""
        from advisor.measure.progress import make_progress
        from advisor.profiles import outputs
        from advisor.report import pages

        names = [*pages.names(self.kind, self.wanted), *(f"{f}/{n}" for f in folders for n in self.inside)]
        kept = list[Path]()

        def keep(one: Profile, folder: Path) -> list[Path]:
            make_room(folder, quiet=True)
            paths = pages.write(pages.page_of(one), folder, self.wanted)
            kept.extend(paths)
            read_back(paths)
            return paths

        quiet = self.merged.quiet
        try:
            with outputs.output_directory(self.merged.out, names, aside=True) as directory:
                with make_progress(quiet=quiet) as progress:
                    results, problems = run(progress, directory, keep)
                page = pages.page_of(results)
                make_room(directory, quiet)
                paths = pages.write(page, directory, self.wanted)
        except KeyboardInterrupt:
            done = (
                f"finished {self.noun}s are in {self.merged.out}" if kept else f"no {self.noun} was finished"
            )
            say(f"interrupted: {done}", written=True)
            raise typer.Exit(INTERRUPTED) from None
        print(text(page, quiet=quiet, details=self.merged.details))
        say_written(paths, quiet=quiet)
        summarize(page)
        if results.interrupted:
            sys.exit(INTERRUPTED)
        return results, problems


def profile_sweep(
    settings: Settings, swept: Sweep, inside: Sequence[str], wanted: tuple[str, ...], merged: Options
) -> None:
    """One profile for each value. If all values fail, the first one's error is raised."""
    from advisor import sweep

    def run(progress: Progress, directory: Path, keep: Keep) -> tuple[SweepResults, Sequence[AdvisorError]]:
        made = sweep.run(
            settings, swept, progress, directory=directory, keep=keep, launcher=launcher(settings)
        )
        return made.results, made.problems

    folders = [step.directory for step in swept.steps(settings)]
    results, problems = Several("sweep", "value", inside, wanted, merged).profiled(folders, run)
    if not results.has_figures:
        raise next(iter(problems), NothingMeasured("no value could be measured or predicted"))


def profile_workloads(
    settings: Settings,
    targets: Sequence[str],
    inside: Sequence[str],
    wanted: tuple[str, ...],
    merged: Options,
) -> None:
    """One profile for each workload, FILE::NAME. The exit code is the highest of all."""
    from advisor import sweep
    from advisor.profiles.sweeps import WorkloadResults

    split = [(Path(file), name) for file, _, name in (target.partition("::") for target in targets)]
    names = [name for _, name in split]
    runs = [
        (
            name if names.count(name) == 1 else f"{file.stem}.{name}",
            replace(settings, file=file, workload=name),
        )
        for file, name in split
    ]

    def run(progress: Progress, directory: Path, keep: Keep) -> tuple[SweepResults, Sequence[AdvisorError]]:
        points, problems = sweep.run_each(
            runs, progress, directory=directory, keep=keep, launcher=launcher(settings)
        )
        return WorkloadResults("", "workload", points, settings.command), problems

    labels = [label for label, _ in runs]
    results, problems = Several("workloads", "workload", inside, wanted, merged).profiled(labels, run)
    sys.exit(max((error.exit_code for error in (*problems, *_without_figures(results))), default=0))


def _without_figures(results: SweepResults) -> Iterable[AdvisorError]:
    for profile in results.profiles:
        try:
            require_figures(profile)
        except AdvisorError as error:
            yield error
