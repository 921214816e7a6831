"""Conversion of a buffer's array to another library's, and the context of a call that uses it.

Without a library: as an address, and as an object that any library's from_dlpack takes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from advisor.errors import WorkloadError
from advisor.profiles.schema import ArrayForm, Side
from advisor.strategies.backend import Backend
from advisor.workloads.binding import BoundStage, BoundWorkload
from advisor.workloads.definition import StageFunction


class Bridge(ABC):
    """One library on one side of one backend. Wraps an array without a copy."""

    library: str
    """Its name in messages."""

    def __init__(self, backend: Backend, side: Side) -> None:
        """Loads the library. Raises `WorkloadError` where it is missing."""
        self.backend = backend
        self.on_gpu = side == "device" and backend.xp is not np

    @abstractmethod
    def wrap(self, array: Any) -> Any:
        """The memory as an array of the library. Raises what the library raises."""

    def address(self, wrapped: Any) -> int:
        return address_of(wrapped)

    def wrap_host(self, array: Any) -> Any:
        return self.wrap(array)

    def stream(self) -> Any:
        return self.backend.stream

    def around(self, function: StageFunction, *, takes_stream: bool) -> StageFunction:
        """The function with what the library needs around each call, which may use the default stream unless
        the stage takes `stream`: that starts after the program's, which goes on after it; the host does not
        wait. By itself the default stream takes no notice of a non-blocking one.
        """
        if not self.on_gpu or takes_stream:
            return function
        backend, default = self.backend, self.backend.default_stream()

        def call(**arguments: Any) -> object:
            backend.order(default, backend.timestamp())
            try:
                return function(**arguments)
            finally:
                backend.order(backend.stream, backend.timestamp(default))

        return call


def address_of(array: Any) -> int:
    """Where its first element lies, whichever library's array it is."""
    if isinstance(array, (int, np.ndarray)):
        return array if isinstance(array, int) else int(array.ctypes.data)
    if hasattr(array, "data_ptr"):
        return int(array.data_ptr())
    interface = getattr(array, "__cuda_array_interface__", None)
    return int(interface["data"][0] if interface else array.data.ptr)


class PointerBridge(Bridge):
    """The address of the first element, as int: for ctypes, TensorRT's bindings and the like."""

    library = "address"

    def wrap(self, array: Any) -> int:
        """Wraps host or device memory, by the stage's side."""
        return address_of(array)


class Exchange:
    """An array that can be had through DLPack alone. Whoever imports it shares the memory."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, **keywords: Any) -> Any:
        return self._array.__dlpack__(**keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, number = self._array.__dlpack_device__()
        return int(kind), int(number)


class ExchangeBridge(Bridge):
    """`Exchange` objects, for from_dlpack of PyTorch, JAX, CuPy, NumPy and others."""

    library = "DLPack"

    def wrap(self, array: Any) -> Exchange:
        """Exports once, to see whether it can be exported."""
        exchange = Exchange(array)
        exchange.__dlpack__()
        return exchange

    def address(self, wrapped: Exchange) -> int:
        importer = self.backend.xp if self.on_gpu else np
        return address_of(importer.from_dlpack(wrapped))


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
            try:
                self._torch.cuda.init()
            except Exception as problem:
                wrong = (
                    f"a device stage takes PyTorch tensors, but this PyTorch cannot use the GPU: {problem}"
                )
                step = "Install a build of PyTorch for your CUDA (pytorch.org), or profile with --no-gpu."
                raise WorkloadError(wrong, next_step=step) from None
            self._device = torch.device("cuda", torch.cuda.current_device())
            self._stream = self._torch.cuda.ExternalStream(backend.stream.ptr, device=self._device)

    def wrap(self, array: Any) -> Any:
        """from_numpy; on the GPU as_tensor, which asks CUDA where the memory is. CUDA knows nothing of
        pageable memory that a coherent GPU reaches, so that as_tensor refuses it; DLPack takes CuPy's word
        for it."""
        if not self.on_gpu:
            return self.wrap_host(array)
        try:
            return self._torch.as_tensor(array, device=self._device)
        except RuntimeError:
            return self._torch.from_dlpack(array)

    def wrap_host(self, array: Any) -> Any:
        return self._torch.from_numpy(array)

    def stream(self) -> Any:
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
                raise WorkloadError(
                    f"a stage takes Numba arrays, but Numba cannot be imported: {type(problem).__name__}: "
                    f"{problem}".strip(),
                    next_step="Install compatible versions: pip install -U numba 'numba-cuda[cu13]' "
                    "numpy (or cu12, matching your driver).",
                ) from None
            self._cuda = cuda

    def wrap(self, array: Any) -> Any:
        """numba.cuda.as_cuda_array; the streams are put in order around the stage, not here."""
        return self._cuda.as_cuda_array(array, sync=False) if self.on_gpu else array

    def wrap_host(self, array: Any) -> Any:
        if array.dtype.kind not in "biufcV":
            raise TypeError(f"Numba does not support arrays of {array.dtype}")
        return array

    def stream(self) -> Any:
        return self._cuda.external_stream(self.backend.stream.ptr) if self.on_gpu else self.backend.stream


_BRIDGES: dict[ArrayForm, type[Bridge]] = {
    "torch": TorchBridge,
    "numba": NumbaBridge,
    "pointer": PointerBridge,
    "dlpack": ExchangeBridge,
}


class StageBridges:
    """The bridges of one stage on one backend; none where it takes plain arrays."""

    def __init__(self, stage: BoundStage, backend: Backend) -> None:
        """Loads what the stage asks for. Raises `WorkloadError` where a library is missing."""
        self._stage = stage
        self.forms: Mapping[str, ArrayForm] = stage.implementation(cpu=backend.xp is np)[1].forms
        wanted = dict.fromkeys(self.forms.values())
        self._bridges = {form: _BRIDGES[form](backend, stage.side) for form in wanted}

    def probe(self, dtypes: Mapping[str, np.dtype[Any]]) -> None:
        """Asks each library for its dtypes. Raises `WorkloadError` for one that it does not have."""
        for buffer, form in self.forms.items():
            try:
                self._bridges[form].wrap_host(np.empty(1, dtypes[buffer]))
            except Exception as problem:
                raise self._refused(buffer, dtypes[buffer], problem) from None

    def shared(self, buffer: str, array: Any) -> Any:
        """The array in the form that the stage asks for. Raises `WorkloadError` where it would be a copy."""
        form = self.forms.get(buffer)
        if form is None:
            return array
        bridge = self._bridges[form]
        try:
            wrapped = bridge.wrap(array)
            address = bridge.address(wrapped)
        except Exception as problem:
            raise self._refused(buffer, array.dtype, problem) from None
        if address != address_of(array):
            raise self._refused(buffer, array.dtype, f"{bridge.library} copied it")
        return wrapped

    def stream(self, plain: Any) -> Any:
        return next((bridge.stream() for bridge in self._bridges.values()), plain)

    def around(self, function: StageFunction, *, takes_stream: bool) -> StageFunction:
        """The function in all that its libraries need around it; itself where they need nothing."""
        for bridge in self._bridges.values():
            function = bridge.around(function, takes_stream=takes_stream)
        return function

    def _refused(self, buffer: str, dtype: np.dtype[Any], problem: object) -> WorkloadError:
        library, why = self._bridges[self.forms[buffer]].library, str(problem).partition("\n")[0]
        return WorkloadError(
            f"stage {self._stage.name!r} asks for buffer {buffer!r} ({dtype}) as {library}, "
            f"which cannot share its memory: {why}",
            next_step="Use a dtype the library supports, or take the buffer as a NumPy or CuPy array.",
        )


def require_libraries(bound: BoundWorkload, backend: Backend) -> None:
    """Loads every library that a stage asks for and asks it for its dtypes, before anything is placed. So
    that the time to import it is no strategy's set-up. Raises `WorkloadError`."""
    dtypes = {name: buffer.element for name, buffer in bound.workload.buffers.items()}
    for stage in bound.stages:
        StageBridges(stage, backend).probe(dtypes)
