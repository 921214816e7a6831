"""Numba where it is installed and cannot be used: its versions do not fit one another.

numba-cuda reads `numpy.row_stack`, which NumPy 2.5 took out, when it is imported or when it compiles its
first kernel; it is in maintenance and stays with earlier NumPys (github.com/NVIDIA/numba-cuda/issues/907).
"""

from __future__ import annotations

import traceback
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from advisor.errors import WorkloadError

_PACKAGES = ("numba", "numba-cuda", "numpy")
_FOLDERS = {"numba", "numba_cuda"}
INSTALL = "pip install 'numba-cuda[cu13]' (or cu12, as your driver's CUDA)"


def is_misfit(error: BaseException) -> bool:
    """Whether Numba itself stumbled over what else is installed, in whoever's code it was asked for."""
    if isinstance(error, ModuleNotFoundError) or not isinstance(error, (ImportError, AttributeError)):
        return False
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and bool(_FOLDERS & set(Path(frames[-1].filename).parts)) and "umpy" in str(error)


def fitting() -> str:
    """The next step: what is installed, and the command for versions that go together."""
    found = []
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found.append(f"{name} {metadata.version(name)}")
    return (
        f"Installed are {', '.join(found)}; numba-cuda needs NumPy before 2.5: "
        "pip install -U numba 'numba-cuda[cu13]' 'numpy<2.5' (or cu12, as your driver's CUDA)."
    )


def unusable(problem: Exception) -> WorkloadError:
    """What a stage that asks for Numba's arrays is told where `from numba import cuda` raised that."""
    absent = isinstance(problem, ModuleNotFoundError)
    told = str(problem) if absent else f"{type(problem).__name__}: {problem}"
    return WorkloadError(
        f"a stage asks for its buffers by Numba, which cannot be imported: {told.strip()}",
        next_step=f"Install it: {INSTALL}." if absent else fitting(),
    )
