"""`advisor profile`: one profile, or one for each value of a sweep."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from advisor.cli import options, scripting
from advisor.cli.console import INTERRUPTED, choose_backend, draws_bars, require_figures, say, show
from advisor.cli.streams import only_format, put
from advisor.errors import NothingMeasured, UsageError

if TYPE_CHECKING:
    from advisor.measure.settings import Settings
    from advisor.profiles.schema import Profile
    from advisor.report.page import Page
    from advisor.sweep import Sweep


def profile(
    workload: options.Workload,
    arguments: options.ScriptArguments = None,
    assignments: options.Set = None,
    sweep: options.Sweep = None,
    strategy: options.Strategy = None,
    target: options.Target = None,
    rule: options.Threshold = None,
    ignore: options.Ignore = None,
    objective: options.Objective = None,
    memory_budget: options.MemoryBudget = None,
    gpu: options.Gpu = None,
    no_gpu: options.NoGpu = False,
    rounds: options.Rounds = 3,
    max_seconds: options.MaxSeconds = 1.5,
    timeout: options.Timeout = 120.0,
    seed: options.Seed = 0,
    numa: options.Numa = "local",
    oversubscribe: options.Oversubscribe = False,
    trace: options.Trace = None,
    nsys: options.Nsys = None,
    keep_nsys: options.KeepNsys = False,
    include_host: options.IncludeHost = False,
    no_environment: options.NoEnvironment = False,
    out: options.Out = Path("advisor-report"),
    formats: options.Formats = "html,md,json",
    quiet: options.Quiet = False,
) -> None:
    """Run a workload under every strategy; report which to use.

    Without a GPU the workload runs on the CPU and the strategies are predicted for the target devices.
    """
    from advisor import configuration
    from advisor.devices.environment import command_line
    from advisor.sweep import parse_sweep

    wanted = configuration.parse_formats(formats)
    if scripting.profiled(
        workload,
        arguments or (),
        strategy or (),
        gpu,
        no_gpu,
        rounds,
        timeout,
        seed,
        out,
        wanted,
        quiet,
        include_host,
        no_environment,
    ):
        return
    said = configuration.command_line(rule or (), ignore or (), objective, memory_budget)
    swept, form = parse_sweep(sweep or ()), only_format(out, wanted)
    if swept and form:
        raise UsageError("--sweep writes a folder for each value", next_step="Give one: --out DIR.")
    made = configuration.make_settings(
        workload,
        backend=choose_backend(gpu, no_gpu, quiet),
        gpu=gpu or 0,
        assignments=assignments or (),
        strategies=strategy or (),
        targets=target or (),
        rounds=rounds,
        max_seconds=max_seconds,
        timeout=timeout,
        seed=seed,
        command=command_line(sys.argv[1:]),
        numa=numa,
        oversubscribe=oversubscribe,
        preferences=configuration.preferences(said),
        include_host=include_host,
        no_environment=no_environment,
        trace=trace or (),
        nsys=nsys,
        keep_reports=keep_nsys,
    )
    if made.backend == "cpu" and "nsys" in made.trace and nsys is None and not quiet:
        say("--trace nsys traces nothing: nothing runs on a GPU here")
    if swept:
        _profile_sweep(made, swept, out, wanted, quiet)
    elif form:
        _profile_to_stdout(made, form, quiet)
    else:
        _profile_once(made, out, wanted, quiet)


@contextmanager
def _telling_what_is_kept(partial: Path) -> Iterator[None]:
    """Ctrl-C before there is a report: says where the figures are, if there are any yet."""
    before = partial.stat().st_mtime_ns if partial.exists() else None
    try:
        yield
    except KeyboardInterrupt:
        if partial.exists() and partial.stat().st_mtime_ns != before:
            say(f"interrupted: {partial} keeps what was measured\n  next: advisor report {partial}")
        else:
            say("interrupted: nothing was measured")
        raise typer.Exit(INTERRUPTED) from None


def _profile_once(made: Settings, out: Path, wanted: tuple[str, ...], quiet: bool) -> None:
    """One profile and its report."""
    from advisor import configuration, pipeline, report
    from advisor.measure.progress import make_progress

    with (
        configuration.output_directory(out) as directory,
        _telling_what_is_kept(directory / pipeline.PARTIAL),
    ):
        with make_progress(quiet=quiet) as progress:
            result = pipeline.profile(made, progress, keep_in=directory)
        directory.mkdir(parents=True, exist_ok=True)  # the workload may have removed it
        page = report.page_of(result)
        paths = [*report.write(page, directory, wanted), *_written_traces(made, result, directory)]
        (directory / pipeline.PARTIAL).unlink(missing_ok=True)
    show(report.render(page, "txt", bars=draws_bars()), paths, quiet)
    _end(result, page)


def _profile_to_stdout(made: Settings, form: str, quiet: bool) -> None:
    """One form of the report on stdout. No file is left: Ctrl-C before the first figures leaves nothing."""
    from advisor import pipeline, report
    from advisor.measure.progress import make_progress

    with tempfile.TemporaryDirectory(prefix="advisor-") as scratch, make_progress(quiet=quiet) as progress:
        result = pipeline.profile(made, progress, keep_in=Path(scratch))
    page = report.page_of(result)
    put(report.render(page, form))
    _end(result, page)


def _end(result: Profile, page: Page) -> None:
    """The summary of a GitHub job, and the exit code: 130 after Ctrl-C, 4 without figures."""
    from advisor import pipeline, report

    report.append_step_summary(report.render(page, "md"))
    if pipeline.was_interrupted(result):
        sys.exit(INTERRUPTED)
    require_figures(result)


def _written_traces(made: Settings, result: Profile, directory: Path) -> list[Path]:
    """The frames for a trace viewer, where that was asked for."""
    from advisor.nsys import chrome

    return [chrome.write(result, directory)] if "chrome" in made.trace else []


def _profile_sweep(made: Settings, swept: Sweep, out: Path, wanted: tuple[str, ...], quiet: bool) -> None:
    """One profile for each value, and the page over them. All values failing is the first one's error."""
    from advisor import configuration, report
    from advisor import sweep as sweep_runs
    from advisor.measure.progress import make_progress

    asked, kept = made, list[Path]()

    def keep(made: Profile, folder: Path) -> list[Path]:
        paths = [*report.write(report.page_of(made), folder, wanted), *_written_traces(asked, made, folder)]
        kept.extend(paths)
        return paths

    try:
        with configuration.output_directory(out) as directory:
            with make_progress(quiet=quiet) as progress:
                result = sweep_runs.run(made, swept, progress, directory=directory, keep=keep)
            page = report.page_of(result.series)
            paths = report.write(page, directory, wanted)
    except KeyboardInterrupt:
        say(f"interrupted: finished values are in {out}" if kept else "interrupted: no value was finished")
        raise typer.Exit(INTERRUPTED) from None
    show(report.render(page, "txt"), paths, quiet)
    report.append_step_summary(report.render(page, "md"))
    if result.series.interrupted:
        sys.exit(INTERRUPTED)
    if not result.series.has_figures:
        raise next(iter(result.problems), NothingMeasured("no value could be measured or predicted"))
