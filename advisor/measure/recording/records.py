"""One crossing as a library's recorder saw it, and what is kept of those of a line that are alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from time import perf_counter
from typing import Any
from weakref import ref as weakref

from advisor.measure.recording.host_memory import LineContents, Source
from advisor.measure.recording.loops import Loop, Site
from advisor.profiles.crossings import CrossingKind, HostMemory, Library

ALIKE = ("kind", "call", "memory", "staged", "asynchronous", "non_blocking")
"""What is the same in all crossings of a record."""
alike = attrgetter(*ALIKE)
Location = tuple[int, "weakref[Any] | None"]
"""Where an array's allocation on the GPU begins, and what its views keep alive."""


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
    """Duration of the call, without `kernel_seconds` where that is known. None: it was not timed."""
    kernel_seconds: float | None = None
    """Time that the call waited for earlier kernels; None if the two were not measured apart."""
    marks: tuple[Any, Any] | None = None
    """CUDA events before and after the copy on its stream, where this one is timed."""
    host: Any = None
    """The NumPy array (or tensor on the host) of the copy: its origin and its bytes are looked at."""
    device: Any = None
    """An upload's array on the GPU, which `locate` takes: finds uploads that nothing reads."""
    locate: Callable[[Any], Location | None]
    site: Any = None
    """The script's line, where it has been looked up."""
    created: float | None
    """When its recorder began with it: what is not the call's time since is overhead. None if not timed."""
    is_subtracted: bool = False
    """Its frame is timed without it: all since `created` but `kernel_seconds`."""
    is_compared: bool = False
    """Its frame is compared with such frames."""

    def __init__(self, kind: CrossingKind, call: str, library: Library, **details: Any) -> None:
        self.kind = kind
        self.call = call
        self.library = library
        self.created = perf_counter()
        if details:
            self.__dict__.update(details)


@dataclass(slots=True)
class InLoop:
    """In which iterations of a loop a line's crossings are."""

    loop: Loop
    last: int = -1
    first: int = 0
    frames: int = 0

    def cross(self, site: Site) -> None:
        loop = self.loop
        if loop.fast is not None:
            loop.slow_down()
        turn = loop.turns
        if turn == self.last and not site.at_head:
            return
        loop.quiet, loop.active = 0, True
        if turn != loop.last_crossed:
            loop.last_crossed = turn
            loop.crossed += 1
        if turn != self.last:
            self.last = turn
            self.frames += 1
            self.first = self.first or turn


@dataclass(slots=True)
class Times:
    """Seconds of calls, of those whose waits for kernels were measured apart, and of copies."""

    calls: int = 0
    seconds: float = 0.0
    apart: int = 0
    host_seconds: float = 0.0
    stream_seconds: float = 0.0
    timed: int = 0


@dataclass(slots=True, eq=False)
class Record:
    """Crossings of one line that are alike, in the same loops."""

    site: Site
    event: Event
    """The first, without what it held."""
    loops: tuple[InLoop, ...]
    count: int = 0
    bytes: int = 0
    repeats: int = 0
    """Crossings that were only counted."""
    times: tuple[Times, Times] = field(default_factory=lambda: (Times(), Times()))
    """In the first iteration of the innermost loop, which compiles and allocates, and later ones."""
    marks: list[tuple[Any, Any, Times]] = field(default_factory=list)
    contents: LineContents | None = None
    sources: Counter[Source] = field(default_factory=Counter)
    """Where the host memory came from, of those looked at."""
    fresh: int = 0
    allocated: int = 0
    """Arrays allocated since the look before, and the count of allocations at the last one."""
    held: list[weakref[Any]] = field(default_factory=list)
    kept: int = 0
    """The last two downloads looked at, and how many were still held two later."""
    varies: bool = False
    looked: int = 0
    next_look: int = 1
    """Which crossing is looked at next."""
    watched: int = 0
    unread: int = 0
    """Uploads that were watched, and those of them that nothing read."""
    holds_back: Site | None = None
    noting: float = 0.0
    noted: int = 0
    """Seconds spent on noting those that were timed, and how many these are."""
    detailed: int = 0
    overhead: float = 0.0
    """Crossings with marks, and seconds spent on noting them and on all looks."""

    @property
    def chain(self) -> list[Loop]:
        """The loops, the outermost first."""
        return [each.loop for each in self.loops]
