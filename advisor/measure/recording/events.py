"""What the recorders of CuPy, PyTorch and Numba tell, and to whom.

A library's recorder wraps that library's entry points once the script has imported it, and calls the
`Recorder` for each crossing. It knows no lines, loops or origins: those are the recorder's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple, Protocol
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
    host: Any = None
    """The NumPy array (or tensor on the host) of the copy: its origin and its bytes are looked at."""
    device: Any = None
    """An upload's array on the GPU, which `locate` takes: uploads that nothing reads are told by it."""
    locate: Callable[[Any], Location | None]
    site: Any = None
    """The script's line, where it has been looked up."""
    created: float | None = None
    """Of a timed call: when its recorder began with it. What is not the call's time since is overhead."""

    def __init__(self, kind: CrossingKind, call: str, library: Library, **details: Any) -> None:
        self.kind, self.call, self.library = kind, call, library
        if details:
            self.__dict__.update(details)


class Depth(threading.local):
    """How many recorded calls each thread is inside of. `with` it, calls are not the script's own."""

    value = 0

    def __enter__(self) -> None:
        self.value += 1

    def __exit__(self, *_: object) -> None:
        self.value -= 1


class Recorder(Protocol):
    """What a library's recorder is given."""

    has_gpu: bool
    recording: bool
    depth: Depth
    """A call is the script's own where this is 0: not inside another that is being recorded."""
    listens: bool
    """Whether it has to know of every launch and read; else one launch in `LAUNCH_SAMPLE` is enough."""

    def is_sampled(self, event: Event) -> bool:
        """Whether to measure this one in detail: the first of each line, then a sample.

        Where it is to be timed, the event gets `created`.
        """

    def crossed(self, event: Event) -> None:
        """Takes note of a crossing on the script's line that is running."""

    def launched(self, reads: tuple[int, ...] = ()) -> None:
        """The GPU was given work by the script's line that is running; `reads`: see `read`."""

    def read(self, *devices: int) -> None:
        """Allocations on the GPU that may be read from now on, by their address: views, other libraries."""

    def not_seen(self, what: str) -> None:
        """Something that cannot be recorded, in words for the report's list."""


class LibraryRecorder(Protocol):
    """The recorder of one library: `install` is called once the module is imported by the script."""

    module: str
    library: Library

    def install(self, module: Any, recorder: Recorder) -> None: ...

    def finish(self) -> None:
        """At the end of the script: waits for the GPU, so that marks can be read."""

    def seconds_between(self, begin: Any, end: Any) -> float: ...

    def copies(self) -> tuple[Callable[[], Any], ...]:
        """Small copies like a script's own: recording them tells what recording costs."""


class StandIn(NamedTuple):
    """What plays the GPU for a library where there is none. `words` name it: `a mock of CuPy`."""

    module: str
    words: str
    provide: Callable[[], ModuleType | None]
    """Called when the script imports the library: a module in its place, or None for the library itself.

    Raises `AdvisorError` where neither can run the script.
    """
