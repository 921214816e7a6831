"""`advisor profile script.py -- ...`: whether the file is a script, and what would be run without a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from advisor.cli.console import machine
from advisor.cli.options import Grouped
from advisor.errors import NothingMeasured, UsageError

if TYPE_CHECKING:
    from advisor.measure.settings import Settings


class ProfileCommand(Grouped):
    """Tells who forgot the -- before a script's own options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses as typer does, with a hint about scripts where an option is unknown."""
        try:
            return super().parse_args(ctx, args)
        except Exception as problem:
            if type(problem).__name__ == "NoSuchOption" and hasattr(problem, "message"):
                problem.message = f"{problem.message} (Put the script's own arguments after --.)"
            raise


def is_script(target: str, arguments: Sequence[str]) -> bool:
    """Whether the file is run as a script. Raises `UsageError` for a workload that is given arguments."""
    from advisor.configuration import file_and_name
    from advisor.workloads import scripts

    file, name = file_and_name(target)
    found = scripts.is_script(file, name, arguments)
    if not found and arguments and file.exists():
        raise UsageError(
            f"{target} is a workload and takes no arguments, but {arguments[0]!r} was given",
            next_step="Set its parameters with --set NAME=VALUE.",
        )
    return found


def require_gpu(made: Settings, *, no_gpu: bool) -> None:
    """Says what would be run and why it cannot, where there is no GPU or no CuPy, or neither is wanted.

    Raises `NothingToChange` where a run would not make a difference, `NothingMeasured` otherwise.
    """
    from advisor.workloads.scripts import require_cupy

    there = machine()
    gpus = 0 if no_gpu else there.gpus()
    if gpus > 0 and there.cupy():
        return
    require_cupy(made.file)
    lacking = "--no-gpu was given" if no_gpu else "the CUDA driver reports no GPU"
    lacking = "CuPy is not installed" if gpus else lacking
    runs = len(made.strategies) * (made.rounds + 1) + 1
    print(f"{made.file} has no @workload, so it is a script. On a GPU it would run {runs} times, under:")
    for strategy in made.strategies:
        print(f"  {strategy.name}: {strategy.summary}")
    raise NothingMeasured(
        f"a script needs a GPU and CuPy and cannot be predicted: {lacking}",
        next_step="Run it on a machine with a GPU and CuPy, or write a workload, which can be "
        "predicted without them: advisor new mine.py.",
    )
