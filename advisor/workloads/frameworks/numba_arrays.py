"""Buffers as Numba's device arrays. On the CPU Numba takes NumPy arrays as they are.

Numba may be installed and yet unusable: numba-cuda reads `numpy.row_stack`, which NumPy 2.5 took out, when it
is imported or when it compiles its first kernel; it is in maintenance and stays with earlier NumPys
(github.com/NVIDIA/numba-cuda/issues/907).
"""

from __future__ import annotations

import traceback
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from advisor.errors import WorkloadError
from advisor.profiles.schema import Side
from advisor.strategies.backend import Backend
from advisor.workloads.frameworks.base import DefaultStreamBridge

_PACKAGES = ("numba", "numba-cuda", "numpy")
_FOLDERS = {"numba", "numba_cuda"}
_INSTALL = "pip install 'numba-cuda[cu13]' (or cu12, as your driver's CUDA)"


class NumbaBridge(DefaultStreamBridge):
    """Device arrays; kernels that name no stream run on the default one, in order with the program's."""

    library = "Numba"

    def __init__(self, backend: Backend, side: Side) -> None:
        super().__init__(backend, side)
        self._cuda: Any = None
        if self.on_gpu:
            try:
                from numba import cuda
            except Exception as problem:  # AttributeError too, where it does not fit the NumPy that is there
                raise _unusable(problem) from None
            self._cuda = cuda

    def wrap(self, array: Any) -> Any:
        """numba.cuda.as_cuda_array; the streams are put in order around the stage, not here."""
        return self._cuda.as_cuda_array(array, sync=False) if self.on_gpu else array

    def wrap_host(self, array: Any) -> Any:
        """The array itself. Raises TypeError for a dtype that Numba has no type for."""
        if array.dtype.kind not in "biufcV":
            raise TypeError(f"Numba has no arrays of {array.dtype}")
        return array

    def address(self, wrapped: Any) -> int:
        """From __cuda_array_interface__, or NumPy's."""
        name = "__cuda_array_interface__" if self.on_gpu else "__array_interface__"
        return int(getattr(wrapped, name)["data"][0])

    def stream(self) -> Any:
        """A stream that `kernel[blocks, threads, stream]` takes."""
        return self._cuda.external_stream(self.backend.stream.ptr) if self.on_gpu else self.backend.stream


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


def _unusable(problem: Exception) -> WorkloadError:
    """What a stage that asks for Numba's arrays is told where `from numba import cuda` raised that."""
    absent = isinstance(problem, ModuleNotFoundError)
    told = str(problem) if absent else f"{type(problem).__name__}: {problem}"
    return WorkloadError(
        f"a stage asks for its buffers by Numba, which cannot be imported: {told.strip()}",
        next_step=f"Install it: {_INSTALL}." if absent else fitting(),
    )
