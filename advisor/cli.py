"""The command line: options, exit codes, what goes to stdout and what to stderr. Nothing else.

Imports wait until a command needs them, so that `advisor --help` answers at once.
"""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from advisor import __version__, options
from advisor.errors import AdvisorError, NothingMeasured

if TYPE_CHECKING:
    from advisor.backends import BackendName
    from advisor.profiles import Profile
    from advisor.settings import Settings
    from advisor.sweep import Sweep

INTERRUPTED = 130
_PREDICTING = ("predict", "predicts")
_CPU_ALONE = ("measure the CPU", "measures the CPU alone")
app = typer.Typer(
    help="Which memory strategy should my code use on this device, how sure are we, and what do I change?",
    epilog="Exit codes: 0 done; 1 an error in advisor itself; 2 wrong usage; "
    "3 the workload cannot be loaded or is wrong; 4 nothing could be measured or predicted; "
    "5 a file is missing, damaged or of an unknown format; 130 interrupted.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> NoReturn:
    """The entry point: runs the command; an error of ours is one clear message and its exit code."""
    signal.signal(signal.SIGTERM, _as_interrupt)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without µ shows ?
    try:
        app(prog_name="advisor")
    except AdvisorError as error:
        _say(f"error: {error.message}")
        if error.next_step:
            _say(f"  next: {error.next_step}")
        if error.detail:
            _say(f"\n{error.detail}")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except OSError as problem:
        _say(f"error: a file or the output cannot be used: {problem}")
        _say("  next: Is the disk full, or the pipe closed? What was measured is in the output directory.")
        sys.exit(5)
    sys.exit(0)


@app.callback(invoke_without_command=True)
def _version(version: options.Version = False) -> None:
    if version:
        print(f"advisor {__version__}")
        raise typer.Exit


@app.command()
def profile(
    workload: options.Workload,
    assignments: options.Set = None,
    sweep: options.Sweep = None,
    strategy: options.Strategy = None,
    target: options.Target = None,
    gpu: options.Gpu = None,
    no_gpu: options.NoGpu = False,
    rounds: options.Rounds = 3,
    max_seconds: options.MaxSeconds = 1.5,
    timeout: options.Timeout = 120.0,
    seed: options.Seed = 0,
    numa: options.Numa = "local",
    oversubscribe: options.Oversubscribe = False,
    out: options.Out = Path("advisor-report"),
    formats: options.Formats = "html,md,json",
    quiet: options.Quiet = False,
) -> None:
    """Run a workload under every strategy; report which to use.

    Without a GPU the workload runs on the CPU and the strategies are predicted for the target devices.
    """
    from advisor import settings
    from advisor.environment import command_line
    from advisor.sweep import parse_sweep

    wanted = settings.parse_formats(formats)
    swept = parse_sweep(sweep or ())
    made = settings.make_settings(
        workload,
        backend=_backend(gpu, no_gpu, quiet),
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
    )
    if swept:
        _profile_sweep(made, swept, out, wanted, quiet)
    else:
        _profile_once(made, out, wanted, quiet)


@app.command("report")
def report_command(
    files: options.Profiles,
    out: options.OutBeside = None,
    formats: options.Formats = "html,md",
    quiet: options.Quiet = False,
) -> None:
    """Render the report of a profile again.

    Several profiles of one workload on one device that differ in one parameter give the page of a sweep.
    """
    from advisor import profiles, report, series, settings

    wanted = settings.parse_formats(formats)
    loaded = [(file, profiles.load(file)) for file in files]
    directory = out or series.common_parent(files)
    together = series.gather(loaded, directory) if len(loaded) > 1 else None
    with settings.output_directory(directory) as folder:
        if together:
            _show(report.sweep_summary(together), report.write_sweep(together, folder, wanted), quiet)
        else:
            _show(report.summary(loaded[0][1]), report.write(loaded[0][1], folder, wanted), quiet)


@app.command()
def predict(
    file: options.OneProfile,
    target: options.Target = None,
    out: options.Out = Path("advisor-prediction"),
    formats: options.Formats = "html,md,json",
    quiet: options.Quiet = False,
) -> None:
    """Predict the strategies of a profile for other devices.

    What was measured on a GPU takes the place of what the model would have to guess.
    """
    from advisor import pipeline, profiles, report, settings
    from advisor.devices.catalogue import DEFAULT_TARGETS

    wanted = settings.parse_formats(formats)
    targets = settings.load_targets(target or DEFAULT_TARGETS)
    result = pipeline.conclude(profiles.load(file), targets)
    with settings.output_directory(out) as directory:
        _show(report.summary(result), report.write(result, directory, wanted), quiet)
    _require_figures(result)


@app.command()
def strategies() -> None:
    """List the strategies, and what each is good and bad for."""
    from advisor.strategies import describe

    print(describe())


@app.command()
def rules(rule: options.Rule = None) -> None:
    """List the rules, or explain one."""
    from advisor.rules import RULES, by_id, describe

    print(describe(by_id(rule)) if rule else "\n".join(f"{each.id}: {each.title}" for each in RULES))


devices = typer.Typer(rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]})
app.add_typer(devices, name="devices")


@devices.callback(invoke_without_command=True)
def devices_command(context: typer.Context) -> None:
    """List the devices that can be predicted for."""
    from advisor.model.device_texts import describe_all

    if context.invoked_subcommand is None:
        print(describe_all())


@devices.command("show")
def devices_show(name: options.Device) -> None:
    """Tell all that is known of a device, with sources, and what the model assumes."""
    from advisor.model.device_texts import describe_one

    print(describe_one(name))


@devices.command("calibrate")
def devices_calibrate(
    out: options.EntryOut = None,
    gpu: options.Gpu = None,
    no_gpu: options.NoGpu = False,
    base: options.Base = None,
    name: options.EntryName = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure this machine in under two minutes; write a catalogue entry to predict with anywhere.

    Without a GPU the CPU alone is measured; --base puts it into the entry of a card of the catalogue.
    """
    from advisor.calibration import calibrations, output
    from advisor.devices.catalogue import load
    from advisor.progress import make_progress

    request = calibrations.Request(
        backend=_backend(gpu, no_gpu, quiet, without=_CPU_ALONE),
        gpu=gpu or 0,
        base=load(base) if base else None,
        name=name,
    )
    request.check()
    output.check(out, has_entry=request.makes_entry, force=force)
    try:
        with make_progress(quiet=quiet) as progress:
            found = calibrations.calibrate(request, progress)
    except KeyboardInterrupt:
        _say("interrupted: nothing was written")
        raise typer.Exit(INTERRUPTED) from None
    print(output.give(found, out))
    if not quiet:
        _say(output.remarks(found, out))


def _backend(
    gpu: int | None, no_gpu: bool, quiet: bool, without: tuple[str, str] = _PREDICTING
) -> BackendName:
    """A GPU where there is one and CuPy to use it; a GPU that was asked for is never replaced.

    `without` says what the command can do where there is none, and does.
    """
    from advisor.backends import gpu_count, has_cupy
    from advisor.errors import UsageError

    if no_gpu and gpu is not None:
        raise UsageError("--gpu and --no-gpu contradict one another", next_step="Leave one of them out.")
    if gpu is not None:
        if gpu_count() == 0:
            raise NothingMeasured(
                f"--gpu {gpu}: the CUDA driver shows no GPU",
                next_step="Check the driver with nvidia-smi, or leave --gpu out to "
                f"{without[0]} without a GPU.",
            )
        return "cuda"
    if no_gpu or gpu_count() == 0:
        return "cpu"
    if has_cupy():
        return "cuda"
    if not quiet:
        _say(
            f"There is a GPU, but CuPy is not installed, so this run {without[1]}.\n"
            "  next: pip install 'gpu-memory-advisor[cuda13]' (or cuda12) to measure on it."
        )
    return "cpu"


@contextmanager
def _telling_what_is_kept(partial: Path) -> Iterator[None]:
    """Ctrl-C before there is a report: says where the figures are, if there are any yet."""
    before = partial.stat().st_mtime_ns if partial.exists() else None
    try:
        yield
    except KeyboardInterrupt:
        if partial.exists() and partial.stat().st_mtime_ns != before:
            _say(f"interrupted: {partial} keeps what was measured\n  next: advisor report {partial}")
        else:
            _say("interrupted: nothing was measured")
        raise typer.Exit(INTERRUPTED) from None


def _profile_once(made: Settings, out: Path, wanted: tuple[str, ...], quiet: bool) -> None:
    """One profile and its report."""
    from advisor import pipeline, report, settings
    from advisor.progress import make_progress

    with settings.output_directory(out) as directory, _telling_what_is_kept(directory / pipeline.PARTIAL):
        with make_progress(quiet=quiet) as progress:
            result = pipeline.profile(made, progress, keep_in=directory)
        directory.mkdir(parents=True, exist_ok=True)  # the workload may have removed it
        paths = report.write(result, directory, wanted)
        (directory / pipeline.PARTIAL).unlink(missing_ok=True)
    _show(report.summary(result), paths, quiet)
    report.append_step_summary(report.render_markdown(result))
    if pipeline.was_interrupted(result):
        sys.exit(INTERRUPTED)
    _require_figures(result)


def _profile_sweep(made: Settings, swept: Sweep, out: Path, wanted: tuple[str, ...], quiet: bool) -> None:
    """One profile for each value, and the page over them. All values failing is the first one's error."""
    from advisor import report, settings, sweeping
    from advisor.progress import make_progress

    kept: list[Path] = []

    def keep(made: Profile, folder: Path) -> list[Path]:
        paths = report.write(made, folder, wanted)
        kept.extend(paths)
        return paths

    try:
        with settings.output_directory(out) as directory:
            with make_progress(quiet=quiet) as progress:
                result = sweeping.run(made, swept, progress, directory=directory, keep=keep)
            paths = report.write_sweep(result.series, directory, wanted)
    except KeyboardInterrupt:
        _say(f"interrupted: finished values are in {out}" if kept else "interrupted: no value was finished")
        raise typer.Exit(INTERRUPTED) from None
    _show(report.sweep_summary(result.series), paths, quiet)
    report.append_step_summary(report.render_sweep_markdown(result.series))
    if result.series.interrupted:
        sys.exit(INTERRUPTED)
    if not result.series.has_figures:
        raise next(iter(result.problems), NothingMeasured("no value could be measured or predicted"))


def _show(summary: str, paths: list[Path], quiet: bool) -> None:
    print(summary)
    if paths and not quiet:
        _say("wrote " + "\n      ".join(str(path) for path in paths))


def _require_figures(result: Profile) -> None:
    """Exit code 4 when the workload failed under every strategy, or nothing was measured nor predicted."""
    if result.measured():
        return
    failed = [row for row in result.results if row.status == "failed"]
    if failed:
        raise NothingMeasured(
            f"the workload failed under every strategy. {failed[0].strategy}: {failed[0].reason}",
            next_step=failed[0].next_step or "The report has what each process said.",
        )
    if not any(r.status == "predicted" for p in result.predictions for r in p.results):
        raise NothingMeasured(
            "no strategy could be measured or predicted", next_step="The report has the reason for each."
        )


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _as_interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
