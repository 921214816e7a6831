"""Buffers as PyTorch tensors and as Numba's device arrays.

Numba may be installed and yet unusable: numba-cuda reads `numpy.row_stack`, which NumPy 2.5 took out, when it
is imported or when it compiles its first kernel; it is in maintenance and stays with earlier NumPys
(github.com/NVIDIA/numba-cuda/issues/907).
"""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

from advisor.devices.host import installed
from advisor.errors import WorkloadError
from advisor.profiles.schema import Side
from advisor.strategies.backend import Backend
from advisor.workloads.definition import StageFunction
from advisor.workloads.frameworks.base import Bridge, DefaultStreamBridge


class TorchBridge(Bridge):
    """Tensors; on the GPU the program's stream is PyTorch's current one while a stage runs."""

    library = "PyTorch"

    def __init__(self, backend: Backend, side: Side) -> None:
        super().__init__(backend, side)
        try:
            import torch
        except ImportError as problem:
            raise WorkloadError(
                f"a stage takes PyTorch tensors, but PyTorch cannot be imported: {problem}",
                next_step="Install it: pip install 'gpu-memory-advisor[torch]'; for a GPU see pytorch.org.",
            ) from None
        self._torch: Any = torch
        self._device = self._stream = None
        if self.on_gpu:
            _require_cuda(torch)
            self._device = torch.device("cuda", torch.cuda.current_device())
            self._stream = self._torch.cuda.ExternalStream(backend.stream.ptr, device=self._device)

    def wrap(self, array: Any) -> Any:
        """from_numpy; on the GPU as_tensor, which asks CUDA where the memory is.

        CUDA knows nothing of pageable memory that a coherent GPU reaches, so that as_tensor refuses it;
        DLPack takes CuPy's word for it.
        """
        if not self.on_gpu:
            return self.wrap_host(array)
        try:
            return self._torch.as_tensor(array, device=self._device)
        except RuntimeError:
            return self._torch.from_dlpack(array)

    def wrap_host(self, array: Any) -> Any:
        """A CPU tensor."""
        return self._torch.from_numpy(array)

    def address(self, wrapped: Any) -> int:
        """data_ptr."""
        return int(wrapped.data_ptr())

    def stream(self) -> Any:
        """A torch.cuda.ExternalStream on the GPU."""
        return self._stream or self.backend.stream

    def around(self, function: StageFunction, *, takes_stream: bool) -> StageFunction:
        """On the GPU `with torch.cuda.stream(...)`; PyTorch's current stream is another one by itself."""
        del takes_stream
        if self._stream is None:
            return function
        within, stream = self._torch.cuda.stream, self._stream

        def call(**arguments: Any) -> object:
            with within(stream):
                return function(**arguments)

        return call


def _require_cuda(torch: Any) -> None:
    """Raises `WorkloadError` where this PyTorch cannot use the GPU that CuPy uses."""
    try:
        torch.cuda.init()
    except Exception as problem:
        raise WorkloadError(
            f"a device stage takes PyTorch tensors, but this PyTorch cannot use the GPU: {problem}",
            next_step="Install a build of PyTorch for your CUDA (pytorch.org), or profile with --no-gpu.",
        ) from None


_PACKAGES = ("numba", "numba-cuda", "numpy")
_FOLDERS = {"numba", "numba_cuda"}
_INSTALL = "pip install 'numba-cuda[cu13]' (or cu12, matching your driver)"


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
                absent = isinstance(problem, ModuleNotFoundError)
                told = str(problem) if absent else f"{type(problem).__name__}: {problem}"
                raise WorkloadError(
                    f"a stage takes Numba arrays, but Numba cannot be imported: {told.strip()}",
                    next_step=f"Install it: {_INSTALL}." if absent else numba_that_fits(),
                ) from None
            self._cuda = cuda

    def wrap(self, array: Any) -> Any:
        """numba.cuda.as_cuda_array; the streams are put in order around the stage, not here."""
        return self._cuda.as_cuda_array(array, sync=False) if self.on_gpu else array

    def wrap_host(self, array: Any) -> Any:
        """The array itself. Raises TypeError for a dtype that Numba has no type for."""
        if array.dtype.kind not in "biufcV":
            raise TypeError(f"Numba does not support arrays of {array.dtype}")
        return array

    def address(self, wrapped: Any) -> int:
        """From __cuda_array_interface__, or NumPy's."""
        name = "__cuda_array_interface__" if self.on_gpu else "__array_interface__"
        return int(getattr(wrapped, name)["data"][0])

    def stream(self) -> Any:
        """A stream that `kernel[blocks, threads, stream]` takes."""
        return self._cuda.external_stream(self.backend.stream.ptr) if self.on_gpu else self.backend.stream


def is_numba_misfit(error: BaseException) -> bool:
    """Whether Numba itself stumbled over what else is installed, in whoever's code it was asked for."""
    if isinstance(error, ModuleNotFoundError) or not isinstance(error, (ImportError, AttributeError)):
        return False
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and bool(_FOLDERS & set(Path(frames[-1].filename).parts)) and "umpy" in str(error)


def numba_that_fits() -> str:
    """The next step: what is installed, and the command for versions that go together."""
    found = (f"{name} {version}" for name, version in installed(*_PACKAGES).items())
    return (
        f"Installed are {', '.join(found)}; numba-cuda needs NumPy before 2.5: "
        "pip install -U numba 'numba-cuda[cu13]' 'numpy<2.5' (or cu12, matching your driver)."
    )
