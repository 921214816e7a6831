"""The libraries whose crossings are recorded, and what plays the GPU where there is none."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from advisor.errors import AdvisorError, NothingMeasured
from advisor.measure.cupy_mock.checks import Unknowable
from advisor.measure.recording.cupy_calls import CupyCalls
from advisor.measure.recording.events import LibraryRecorder, Recorder
from advisor.measure.recording.numba_calls import NumbaCalls
from advisor.measure.recording.played_cupy import modules
from advisor.measure.recording.torch_calls import TorchCalls

PLAYED = {
    "cupy": "a mock of CuPy",
    "torch": "PyTorch on the CPU",
    "numba": "Numba's simulator",
}
"""What stands in for the GPU on a machine without one, by library."""


def recorders() -> tuple[LibraryRecorder, ...]:
    """One for each library, to install once the script has imported it."""
    kinds: tuple[Callable[[], LibraryRecorder], ...] = (CupyCalls, TorchCalls, NumbaCalls)
    return tuple(kind() for kind in kinds)


def play_gpu(recorder: Recorder) -> None:
    """Before the script, where there is no GPU: CuPy is mocked, Numba simulates.

    PyTorch is played by its recorder, once it is imported.
    """
    sys.modules.update(modules(recorder))
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"


def not_played(error: BaseException) -> AdvisorError | None:
    """What to say where a script asked for something that only a GPU can tell; None of any other error."""
    if not isinstance(error, Unknowable):
        return None
    return NothingMeasured(
        str(error) or "what CuPy does here is not known without a GPU",
        next_step="Run the script on a machine with a CUDA GPU.",
    )
