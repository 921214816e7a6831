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
    return CupyMock(), CupyxMock(), TorchOnCpu(), NumbaSimulator()


class CupyMock:
    module, words = "cupy", "a mock of CuPy"

    def provide(self) -> ModuleType:
        mocked = modules()
        cupy = mocked.pop("cupy")
        sys.modules.update(mocked)
        return cupy


class CupyxMock:
    """A script may import cupyx first."""

    module, words = "cupyx", CupyMock.words

    def provide(self) -> ModuleType:
        import_module("cupy")
        return sys.modules["cupyx"]


class TorchOnCpu:
    """Its recorder plays the GPU, once the module is there."""

    module, words = "torch", "PyTorch on the CPU"

    def provide(self) -> None: ...


class NumbaSimulator:
    module, words = "numba.cuda", "Numba's simulator"

    def provide(self) -> None:
        os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
        import_module("numba.core.config").ENABLE_CUDASIM = 1  # type: ignore[attr-defined]
