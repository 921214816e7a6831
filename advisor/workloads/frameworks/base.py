"""What makes a buffer's array into another library's, and what must be around a call that uses it.

Without a library: as an address, and as an object that any library's from_dlpack takes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from advisor.profiles.schema import Side
from advisor.strategies.backend import Backend
from advisor.workloads.definition import StageFunction


class Unsharable(Exception):
    """A library cannot use memory of that dtype or layout in place; the text says why."""


class Bridge(ABC):
    """One library on one side of one backend. Wraps an array without a copy."""

    library: str
    """What messages call it."""

    def __init__(self, backend: Backend, side: Side) -> None:
        """Loads the library. Raises `WorkloadError` where it is missing."""
        self.backend = backend
        self.on_gpu = side == "device" and backend.xp is not np

    @abstractmethod
    def wrap(self, array: Any) -> Any:
        """The same memory as the library's own array. Raises what the library raises."""

    @abstractmethod
    def address(self, wrapped: Any) -> int:
        """Where its first element lies."""

    def probe(self, dtype: np.dtype[Any]) -> None:
        """Raises `Unsharable` where the library has no such dtype; asks the library itself."""
        try:
            self.wrap_host(np.empty(1, dtype))
        except Exception as problem:
            raise Unsharable(str(problem).partition("\n")[0]) from None

    def wrap_host(self, array: Any) -> Any:
        """Like `wrap`, for an array in pageable memory."""
        return self.wrap(array)

    def stream(self) -> Any:
        """What the stage gets as its parameter `stream`."""
        return self.backend.stream

    def around(self, function: StageFunction, *, takes_stream: bool) -> StageFunction:
        """The function with what the library needs around each call of it."""
        del takes_stream
        return function

    def share(self, array: Any) -> Any:
        """Wraps, and checks that the address is the array's own. Raises `Unsharable`."""
        try:
            wrapped = self.wrap(array)
            found = self.address(wrapped)
        except Exception as problem:
            raise Unsharable(str(problem).partition("\n")[0]) from None
        if found != address_of(array):
            raise Unsharable(f"{self.library} copied it")
        return wrapped


def address_of(array: Any) -> int:
    """The first element of a NumPy or CuPy array."""
    return int(array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr)


class DefaultStreamBridge(Bridge):
    """A library that may use the default stream, unless the stage takes `stream` and launches on that."""

    def around(self, function: StageFunction, *, takes_stream: bool) -> StageFunction:
        """The default stream starts after the program's, which goes on after it; the host does not wait.

        By itself the default stream takes no notice of a non-blocking one.
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


class PointerBridge(DefaultStreamBridge):
    """The address of the first element, as int: for ctypes, TensorRT's bindings and the like."""

    library = "address"

    def wrap(self, array: Any) -> int:
        """Wraps host or device memory, by the stage's side."""
        return address_of(array)

    def address(self, wrapped: Any) -> int:
        """It is one."""
        return int(wrapped)


class Exchange:
    """An array that can be had through DLPack alone. Whoever imports it shares the memory."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, **asked: Any) -> Any:
        return self._array.__dlpack__(**asked)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Kind and number of the device that the memory is on."""
        kind, number = self._array.__dlpack_device__()
        return int(kind), int(number)


class ExchangeBridge(DefaultStreamBridge):
    """`Exchange` objects, for from_dlpack of PyTorch, JAX, CuPy, NumPy and others."""

    library = "DLPack"

    def wrap(self, array: Any) -> Exchange:
        """Exports once, to see whether it can be exported."""
        exchange = Exchange(array)
        exchange.__dlpack__()
        return exchange

    def address(self, wrapped: Exchange) -> int:
        """The address that NumPy or CuPy imports."""
        importer = self.backend.xp if self.on_gpu else np
        return address_of(importer.from_dlpack(wrapped))
