"""Where stages run: the CPU, or a CUDA GPU through CuPy. Only this package makes CUDA calls."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from advisor.errors import NothingMeasured, UsageError
from advisor.strategies.backend import Backend, BackendName


def open_backend(name: BackendName, gpu: int = 0) -> Backend:
    """The backend of that name on that GPU. Raises `advisor.errors.NothingMeasured` without CuPy or GPU."""
    if name == "cpu":
        from advisor.measure.backends.cpu import CpuBackend

        return CpuBackend()
    from advisor.measure.backends.cuda import CudaBackend

    return CudaBackend(gpu)


def gpu_count(library: Callable[[str], Any] = ctypes.CDLL) -> int:
    """How many GPUs the CUDA driver shows (CUDA_VISIBLE_DEVICES counts); creates no context.

    `library` opens a shared library by its name.
    """
    try:
        driver = library("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def driver_version() -> int | None:
    """The newest CUDA that the driver supports, as CUDA writes it: 13000 is 13.0. None without a driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    version = ctypes.c_int(0)
    return version.value if driver.cuDriverGetVersion(ctypes.byref(version)) == 0 else None


def has_cupy() -> bool:
    return find_spec("cupy") is not None


PREDICTING = ("predict", "predicts")


@dataclass(frozen=True)
class Machine:
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
            step = f"Check the driver with nvidia-smi, or omit --gpu to {without[0]} without a GPU."
            raise NothingMeasured(f"--gpu {gpu}: the CUDA driver reports no GPU", next_step=step)
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
