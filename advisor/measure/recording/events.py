"""What the recorders of CuPy, PyTorch and Numba tell, and to whom.

A library's recorder wraps that library's entry points once the script has imported it, and calls the
`ScriptRecorder` for each crossing. It knows no lines, loops or origins: those are the recorder's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter
from typing import Any, Protocol
from weakref import ref as weakref

from advisor.profiles.crossings import CrossingKind, HostMemory, Library

Location = tuple[int, "weakref[Any] | None"]
"""Where an array's allocation on the GPU begins, and what its views keep alive."""
LAUNCH_SAMPLE = 31
"""A prime number, so that loops of so many launches are not missed."""


class Event:
    """One crossing, as a library's recorder saw it. Times in seconds.

    A plain class whose defaults are its own attributes: thousands are made in a second.
    """

    bytes: int = 0
    memory: HostMemory = "unknown"
    staged: bool = False
    asynchronous: bool | None = None
    non_blocking: bool = False
    """The call asked for an asynchronous copy: non_blocking=True, a stream."""
    host_seconds: float | None = None
    """Of the call, without `kernel_seconds`; with it where that is None. None: it was not timed."""
    kernel_seconds: float | None = None
    """What the call waited for earlier kernels; None where the two were not measured apart."""
    marks: tuple[Any, Any] | None = None
    """CUDA events before and after the copy on its stream, where this one is timed."""
    faults: int = 0
    """Page faults in a call that is timed by marks."""
    host: Any = None
    """The NumPy array (or tensor on the host) of the copy: its origin and its bytes are looked at."""
    device: Any = None
    """An upload's array on the GPU, which `locate` takes: uploads that nothing reads are told by it."""
    locate: Callable[[Any], Location | None]
    site: Any = None
    """The script's line, where it has been looked up."""
    created: float | None
    """When its recorder began with it: what is not the call's time since is overhead. None if not timed."""

    def __init__(self, kind: CrossingKind, call: str, library: Library, **details: Any) -> None:
        self.kind, self.call, self.library, self.created = kind, call, library, perf_counter()
        if details:
            self.__dict__.update(details)


class Depth(threading.local):
    """How many recorded calls each thread is inside of. `with` it, calls are not the script's own."""

    value = 0

    def __enter__(self) -> None:
        self.value += 1

    def __exit__(self, *_: object) -> None:
        self.value -= 1


class LibraryRecorder(Protocol):
    """The recorder of one library: `install` is called once the module is imported by the script."""

    module: str
    library: Library

    def install(self, module: Any, recorder: Any) -> None: ...

    def finish(self) -> None:
        """At the end of the script: waits for the GPU, so that marks can be read."""

    def seconds_between(self, begin: Any, end: Any) -> float: ...
