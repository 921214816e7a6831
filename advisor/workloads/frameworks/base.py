"""What makes a buffer's array into another library's, and what must be around a call that uses it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from advisor.errors import WorkloadError
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
        """As `wrap`, of an array in ordinary memory."""
        return self.wrap(array)

    def stream(self) -> Any:
        """What the stage gets as its parameter `stream`."""
        return self.backend.stream

    def around(self, function: StageFunction, *, takes_stream: bool) -> StageFunction:
        """The function with what the library needs around each call of it."""
        del takes_stream
        return function

    def share(self, array: Any) -> Any:
        """Wraps, and holds the address against the array's own. Raises `Unsharable`."""
        try:
            wrapped = self.wrap(array)
            found = self.address(wrapped)
        except Exception as problem:
            raise Unsharable(str(problem).partition("\n")[0]) from None
        if found != address_of(array):
            raise Unsharable(f"{self.library} made a copy of it")
        return wrapped


def address_of(array: Any) -> int:
    """The first element of a NumPy or CuPy array."""
    return int(array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr)


def missing(library: str, problem: ImportError, command: str) -> WorkloadError:
    """The library that a stage asks for is not there."""
    return WorkloadError(
        f"a stage asks for its buffers by {library}, which cannot be imported: {problem}",
        next_step=f"Install it: {command}",
    )


def ordered_with_default_stream(function: StageFunction, backend: Backend) -> StageFunction:
    """The default stream starts after the program's, which goes on after it; the host does not wait.

    For libraries that use the default stream: it takes no notice of a non-blocking stream by itself.
    """
    default = backend.default_stream()

    def call(**arguments: Any) -> object:
        backend.order(default, backend.timestamp())
        try:
            return function(**arguments)
        finally:
            backend.order(backend.stream, backend.timestamp(default))

    return call
