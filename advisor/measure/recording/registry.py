"""The GPU libraries that are recorded, and what plays the GPU for them where there is none."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from types import ModuleType

from advisor.measure.recording.cupy_calls import CupyCalls
from advisor.measure.recording.events import LibraryRecorder, StandIn
from advisor.measure.recording.numba_calls import NumbaCalls
from advisor.measure.recording.played_cupy import modules
from advisor.measure.recording.torch_calls import TorchCalls


def library_recorders() -> tuple[LibraryRecorder, ...]:
    return CupyCalls(), TorchCalls(), NumbaCalls()


def stand_ins() -> tuple[StandIn, ...]:
    """PyTorch's recorder plays the GPU itself, once the module is there."""
    return (
        StandIn("cupy", "a mock of CuPy", _mocked),
        StandIn("cupyx", "a mock of CuPy", lambda: import_module("cupy") and sys.modules["cupyx"]),
        StandIn("torch", "PyTorch on the CPU", lambda: None),
        StandIn("numba.cuda", "Numba's simulator", _simulate),
    )


def _mocked() -> ModuleType:
    mocked = modules()
    cupy = mocked.pop("cupy")
    sys.modules.update(mocked)
    return cupy


def _simulate() -> None:
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
    import_module("numba.core.config").ENABLE_CUDASIM = 1  # type: ignore[attr-defined]
