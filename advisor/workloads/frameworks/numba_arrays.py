"""Buffers as Numba's device arrays. On the CPU Numba takes NumPy arrays as they are."""

from __future__ import annotations

from typing import Any

from advisor.profiles.schema import Side
from advisor.strategies.backend import Backend
from advisor.workloads.definition import StageFunction
from advisor.workloads.frameworks.base import Bridge, ordered_with_default_stream
from advisor.workloads.frameworks.numba_versions import unusable


class NumbaBridge(Bridge):
    """Device arrays; kernels that name no stream run on the default one, in order with the program's."""

    library = "Numba"

    def __init__(self, backend: Backend, side: Side) -> None:
        super().__init__(backend, side)
        self._cuda: Any = None
        if self.on_gpu:
            try:
                from numba import cuda
            except Exception as problem:  # AttributeError too, where it does not fit the NumPy that is there
                raise unusable(problem) from None
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

    def around(self, function: StageFunction, *, takes_stream: bool) -> StageFunction:
        """A stage that takes the stream launches on it; for any other the default stream is put in order."""
        if not self.on_gpu or takes_stream:
            return function
        return ordered_with_default_stream(function, self.backend)
