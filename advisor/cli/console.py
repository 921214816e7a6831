"""What the commands share: where messages go, which device is used, when there was nothing to show."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.errors import NothingMeasured

if TYPE_CHECKING:
    from advisor.backends import BackendName
    from advisor.profiles import Profile

INTERRUPTED = 130
BUG = 70
"""EX_SOFTWARE of sysexits.h: 1 means that a gate failed, and a bug must not be taken for that."""
_PREDICTING = ("predict", "predicts")


def say(text: str) -> None:
    print(text, file=sys.stderr)


def show(summary: str, paths: list[Path], quiet: bool) -> None:
    print(summary)
    if paths and not quiet:
        say("wrote " + "\n      ".join(str(path) for path in paths))


def require_figures(result: Profile) -> None:
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


def choose_backend(
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
        say(
            f"There is a GPU, but CuPy is not installed, so this run {without[1]}.\n"
            "  next: pip install 'gpu-memory-advisor[cuda13]' (or cuda12) to measure on it."
        )
    return "cpu"
