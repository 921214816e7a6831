"""`advisor profile script.py -- ...`: a script without @workload, run as it is under what can be imposed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand

from advisor.cli.console import INTERRUPTED, say, show
from advisor.errors import NothingMeasured, UsageError

if TYPE_CHECKING:
    from advisor.measure.script_runs import ScriptSettings
    from advisor.profiles.schema import Profile

_NOT_FOR_SCRIPTS = (
    *("--set", "--sweep", "--target", "--numa", "--allow-oversubscription", "--max-seconds"),
    *("--trace", "--nsys", "--keep-nsys"),
)


class ProfileCommand(TyperCommand):
    """Tells who forgot the -- before a script's own options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As typer's, with a word on scripts where an option is unknown."""
        try:
            return super().parse_args(ctx, args)
        except Exception as problem:
            if type(problem).__name__ == "NoSuchOption" and hasattr(problem, "message"):
                problem.message = f"{problem.message} (A script's own arguments go after --.)"
            raise


def profiled(
    target: str,
    arguments: Sequence[str],
    strategies: Sequence[str],
    gpu: int | None,
    no_gpu: bool,
    rounds: int,
    timeout: float,
    seed: int,
    out: Path,
    wanted: tuple[str, ...],
    quiet: bool,
    include_host: bool,
    no_environment: bool,
) -> bool:
    """Whether the file was a script; then it has been profiled. Raises `UsageError` for what does not fit."""
    from advisor import configuration
    from advisor.devices.environment import command_line
    from advisor.measure.script_runs import ScriptSettings
    from advisor.strategies import scripts as known
    from advisor.workloads.script_detection import is_script

    file, name = configuration.file_and_name(target)
    if not is_script(file, name, arguments):
        if arguments and file.exists():
            raise UsageError(
                f"{target} is a workload, which takes no arguments, but {arguments[0]!r} was given",
                next_step="Set its parameters with --set NAME=VALUE.",
            )
        return False
    _refuse_workload_options(sys.argv[1:])
    configuration.require_ranges(rounds, seed, 1.0, timeout, "local")
    made = ScriptSettings(
        file=file,
        arguments=tuple(arguments),
        gpu=gpu or 0,
        strategies=known.choose(strategies),
        rounds=rounds,
        timeout=timeout,
        seed=seed,
        command=command_line(sys.argv[1:]),
        include_host=include_host,
        no_environment=no_environment,
    )
    _require_gpu(made, no_gpu=no_gpu)
    _profile(made, out, wanted, quiet)
    return True


def _profile(made: ScriptSettings, out: Path, wanted: tuple[str, ...], quiet: bool) -> None:
    """Runs it and writes the report. Raises `NothingMeasured` where no strategy has figures."""
    from advisor import configuration, pipeline, report
    from advisor.measure import script_runs
    from advisor.measure.progress import make_progress

    with configuration.output_directory(out) as directory:
        partial = directory / pipeline.PARTIAL
        with make_progress(quiet=quiet) as progress:
            try:
                result = script_runs.profile(made, progress, keep=lambda so_far: so_far.save(partial))
            except KeyboardInterrupt:
                say("interrupted: nothing was measured")
                sys.exit(INTERRUPTED)
        directory.mkdir(parents=True, exist_ok=True)  # the script may have removed it
        page = report.page_of(result)
        paths = report.write(page, directory, wanted)
        partial.unlink(missing_ok=True)
    show(report.render(page, "txt"), paths, quiet)
    report.append_step_summary(report.render(page, "md"))
    if pipeline.was_interrupted(result):
        sys.exit(INTERRUPTED)
    _require_figures(result)


def _refuse_workload_options(given: Sequence[str]) -> None:
    """Raises `UsageError` for an option that means nothing for a script."""
    mine = given[: given.index("--")] if "--" in given else given
    for option in _NOT_FOR_SCRIPTS:
        if any(word == option or word.startswith(f"{option}=") for word in mine):
            raise UsageError(
                f"{option} is for workloads, and this file has no @workload: it is run as a script",
                next_step="Leave it out, or write a workload: advisor new mine.py.",
            )


def _require_gpu(made: ScriptSettings, *, no_gpu: bool) -> None:
    """Says what would be run and why it cannot, where there is no GPU or no CuPy, or neither is wanted."""
    from advisor.measure.backends import gpu_count, has_cupy

    gpus = 0 if no_gpu else gpu_count()
    if gpus > 0 and has_cupy():
        return
    lacking = "--no-gpu was given" if no_gpu else "the CUDA driver shows no GPU"
    lacking = "CuPy is not installed" if gpus else lacking
    runs = len(made.strategies) * (made.rounds + 1) + 1
    print(f"{made.file} has no @workload, so it is a script. On a GPU it would be run {runs} times, under:")
    for strategy in made.strategies:
        print(f"  {strategy.name}: {strategy.summary}")
    raise NothingMeasured(
        f"a script cannot be run without a GPU and CuPy, nor predicted: {lacking}",
        next_step="Run it on a machine with a GPU and CuPy, or write a workload, which is predicted without: "
        "advisor new mine.py.",
    )


def _require_figures(result: Profile) -> None:
    if result.script is not None and not result.script.measured:
        failed = next((row for row in result.results if row.status == "failed"), None)
        raise NothingMeasured(
            "the script could not be measured under any strategy"
            + (f". {failed.strategy}: {failed.reason}" if failed else ""),
            next_step="The report has what each process said.",
        )
