"""Buffers as PyTorch tensors: on the CPU by torch.from_numpy, on the GPU from CuPy's array."""

from __future__ import annotations

from typing import Any

from advisor.errors import WorkloadError
from advisor.profiles.schema import Side
from advisor.strategies.backend import Backend
from advisor.workloads.definition import StageFunction
from advisor.workloads.frameworks.base import Bridge


class TorchBridge(Bridge):
    """Tensors; on the GPU the program's stream is PyTorch's current one while a stage runs."""

    library = "PyTorch"

    def __init__(self, backend: Backend, side: Side) -> None:
        super().__init__(backend, side)
        try:
            import torch
        except ImportError as problem:
            raise WorkloadError(
                f"a stage asks for its buffers by PyTorch, which cannot be imported: {problem}",
                next_step="Install it: pip install 'gpu-memory-advisor[torch]', on a GPU see pytorch.org.",
            ) from None
        self._torch: Any = torch
        self._device = self._stream = None
        if self.on_gpu:
            _require_cuda(torch)
            self._device = torch.device("cuda", torch.cuda.current_device())
            self._stream = self._torch.cuda.ExternalStream(backend.stream.ptr, device=self._device)

    def wrap(self, array: Any) -> Any:
        """from_numpy; on the GPU as_tensor, which asks CUDA where the memory is.

        CUDA knows nothing of ordinary memory that a coherent GPU reaches, so that as_tensor refuses it;
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
            f"a device stage asks for tensors, but this PyTorch cannot use the GPU: {problem}",
            next_step="Install a build of PyTorch for your CUDA (pytorch.org), or profile with --no-gpu.",
        ) from None
