"""Buffers without a library: as an address, and as an object that any library's from_dlpack takes."""

from __future__ import annotations

from typing import Any

import numpy as np

from advisor.workloads.definition import StageFunction
from advisor.workloads.frameworks.base import Bridge, address_of, ordered_with_default_stream


class _InOrder(Bridge):
    """A library that is not known may use the default stream, unless the stage takes `stream`."""

    def around(self, function: StageFunction, *, takes_stream: bool) -> StageFunction:
        """In order with the default stream, on the GPU."""
        if not self.on_gpu or takes_stream:
            return function
        return ordered_with_default_stream(function, self.backend)


class PointerBridge(_InOrder):
    """The address of the first element, as int: for ctypes, TensorRT's bindings and the like."""

    library = "address"

    def wrap(self, array: Any) -> int:
        """Of host or device memory, as the stage's side."""
        return address_of(array)

    def address(self, wrapped: Any) -> int:
        """It is one."""
        return int(wrapped)


class Exchange:
    """An array that can be had through DLPack alone. Whoever imports it shares the memory."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, **asked: Any) -> Any:
        """The capsule, as the array itself makes it."""
        return self._array.__dlpack__(**asked)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Kind and number of the device that the memory is on."""
        kind, number = self._array.__dlpack_device__()
        return int(kind), int(number)


class ExchangeBridge(_InOrder):
    """`Exchange` objects, for from_dlpack of PyTorch, JAX, CuPy, NumPy and others."""

    library = "DLPack"

    def wrap(self, array: Any) -> Exchange:
        """Exports once, to see whether it can be exported."""
        exchange = Exchange(array)
        exchange.__dlpack__()
        return exchange

    def address(self, wrapped: Exchange) -> int:
        """As NumPy or CuPy import it."""
        importer = self.backend.xp if self.on_gpu else np
        return address_of(importer.from_dlpack(wrapped))
