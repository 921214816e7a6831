"""The CUDA calls on managed memory that CuPy lacks or gets wrong, by cuda-bindings.

CuPy 14 on CUDA 13 passes every location as a device, so that prefetching to the host goes wrong.
CUDA 12 has calls with a location under names ending in _v2; CUDA 13 dropped the older ones and the ending.
"""

from __future__ import annotations

from typing import Any

from advisor.errors import NothingMeasured
from advisor.profiles.schema import Side
from advisor.strategies.backend import INSTALL, Hint


class ManagedCallFailed(RuntimeError):
    """A call on managed memory was refused by the runtime."""


class ManagedCalls:
    """Prefetch, advise and attach for one GPU. Raises `NothingMeasured` without cuda-bindings."""

    def __init__(self, gpu: int) -> None:
        try:
            from cuda.bindings import runtime
        except ImportError as problem:
            raise NothingMeasured(
                f"prefetch and advice on managed memory need cuda-bindings: {problem}",
                next_step=INSTALL,
            ) from None
        self._runtime: Any = runtime
        self._prefetch = getattr(runtime, "cudaMemPrefetchAsync_v2", runtime.cudaMemPrefetchAsync)
        self._advise = getattr(runtime, "cudaMemAdvise_v2", runtime.cudaMemAdvise)
        self._discard: Any = getattr(runtime, "cudaMemDiscardAndPrefetchBatchAsync", None)
        self._places = {"host": self._location("host", gpu), "device": self._location("device", gpu)}

    def prefetch(self, pointer: int, nbytes: int, side: Side, stream: int) -> None:
        """cudaMemPrefetchAsync to the host or to the GPU."""
        self._require(self._prefetch(pointer, nbytes, self._places[side], 0, stream))

    @property
    def discards(self) -> bool:
        """The bindings know the call."""
        return self._discard is not None

    def discard(self, pointer: int, nbytes: int, side: Side, stream: int) -> None:
        """cudaMemDiscardAndPrefetchBatchAsync of one range."""
        self._require(self._discard([pointer], [nbytes], 1, [self._places[side]], [0], 1, 0, stream))

    def attach(self, pointer: int, side: Side, stream: int) -> None:
        """cudaStreamAttachMemAsync of the whole allocation (length 0)."""
        runtime = self._runtime
        flag = runtime.cudaMemAttachHost if side == "host" else runtime.cudaMemAttachSingle
        self._require(runtime.cudaStreamAttachMemAsync(stream, pointer, 0, flag))

    def advise(self, pointer: int, nbytes: int, hint: Hint) -> None:
        """cudaMemAdvise; read-mostly ignores the place."""
        advice = self._runtime.cudaMemoryAdvise
        call, place = {
            "read-mostly": (advice.cudaMemAdviseSetReadMostly, "device"),
            "prefer-device": (advice.cudaMemAdviseSetPreferredLocation, "device"),
            "accessed-by-device": (advice.cudaMemAdviseSetAccessedBy, "device"),
            "accessed-by-host": (advice.cudaMemAdviseSetAccessedBy, "host"),
        }[hint]
        self._require(self._advise(pointer, nbytes, call, self._places[place]))

    def _location(self, side: Side, gpu: int) -> Any:
        kinds = self._runtime.cudaMemLocationType
        place = self._runtime.cudaMemLocation()
        place.type = kinds.cudaMemLocationTypeHost if side == "host" else kinds.cudaMemLocationTypeDevice
        place.id = 0 if side == "host" else gpu
        return place

    def _require(self, outcome: tuple[Any, ...]) -> None:
        error = outcome[0]
        if error != self._runtime.cudaError_t.cudaSuccess:
            raise ManagedCallFailed(f"{error.name} ({int(error)})")
