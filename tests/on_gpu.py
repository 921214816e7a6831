"""`advisor` as a command on this GPU; strategies that it lacks and libraries that cannot use it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from advisor.profiles.reading import load
from advisor.profiles.schema import Profile
from advisor.strategies.backend import Backend
from advisor.strategies.registry import by_name

WORKLOADS = Path(__file__).parents[1] / "workloads"
CARDS = ("discrete", "discrete-hmm")
"""Memory classes of GPUs behind a link."""


def advisor(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "advisor", *map(str, arguments)]
    return subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, check=False, timeout=300
    )


def profiled(out: Path, *arguments: str | Path, code: int = 0, **variables: str) -> Profile:
    done = advisor("profile", *arguments, "--out", out, **variables)
    assert done.returncode == code, done.stderr
    return load(out / "profile.json")


def require(strategy: str, backend: Backend) -> None:
    """Skips where the GPU does not have the strategy."""
    if reason := by_name(strategy).unavailable(backend.device()):
        pytest.skip(reason)


def torch_with_cuda() -> Any:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    return torch


def numba_cuda() -> Any:
    """Numba's CUDA target, once it has compiled a kernel: with NumPy 2.5 it fails when imported, or then."""
    try:
        from numba import cuda
    except Exception as problem:
        pytest.skip(f"numba.cuda cannot be imported: {type(problem).__name__}: {problem}")
    try:
        cuda.jit("void(float32[:])")(lambda a: None)
    except (AttributeError, ImportError) as problem:
        pytest.skip(f"numba.cuda cannot compile: {type(problem).__name__}: {problem}")
    return cuda
