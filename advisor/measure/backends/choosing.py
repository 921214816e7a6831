"""A GPU where there is one and CuPy to use it; a GPU that was asked for is never replaced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from advisor.errors import NothingMeasured, UsageError
from advisor.measure.backends import gpu_count, has_cupy
from advisor.strategies.backend import BackendName

PREDICTING = ("predict", "predicts")


@dataclass(frozen=True)
class Machine:
    """What there is to measure on, looked for when it is asked."""

    gpus: Callable[[], int] = gpu_count
    cupy: Callable[[], bool] = has_cupy


def choose_backend(
    gpu: int | None,
    no_gpu: bool,
    tell: Callable[[str], None],
    without: tuple[str, str] = PREDICTING,
    machine: Machine | None = None,
) -> BackendName:
    """The backend for what was asked; `tell` hears of a GPU that cannot be used.

    `without` says what can be done where there is none, and is. Raises `UsageError` or `NothingMeasured`.
    """
    there = machine or Machine()
    if no_gpu and gpu is not None:
        raise UsageError("--gpu and --no-gpu contradict each other", next_step="Omit one of them.")
    if gpu is not None:
        if there.gpus() == 0:
            raise NothingMeasured(
                f"--gpu {gpu}: the CUDA driver reports no GPU",
                next_step=f"Check the driver with nvidia-smi, or omit --gpu to {without[0]} without a GPU.",
            )
        return "cuda"
    if no_gpu or there.gpus() == 0:
        return "cpu"
    if there.cupy():
        return "cuda"
    tell(
        f"There is a GPU but CuPy is not installed, so this run {without[1]}.\n"
        "  next: pip install 'gpu-memory-advisor[cuda13]' (or cuda12) to measure on it."
    )
    return "cpu"
