"""Steps of a frame written out as one Python function, with the loops that the host ends.

A loop over closures adds 2 µs to a frame of six steps, as much as a tenth of a small frame on a GPU; the
function written out adds what reading the clock around host stages takes (`frame-loop-small` of
tests/benchmarks).
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from time import perf_counter
from typing import Any

from advisor.errors import WorkloadError
from advisor.profiles.figures import Iterations
from advisor.profiles.schema import Loop
from advisor.strategies.backend import Array, Backend
from advisor.workloads.binding import BoundStage, BoundWorkload
from advisor.workloads.definition import Buffer, StageFunction
from advisor.workloads.stage_code import located, place_of

_FILE = "<frame>"
_CALLS = "calls"


@dataclass(frozen=True, slots=True)
class StageCall:
    """A stage as messages name it: its function's file and line, its buffers with dtype and shape."""

    side: str
    stage: str
    place: str
    buffers: str
    is_setup: bool = False


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of Python, and what their names stand for. A `$` in a name makes it this step's own."""

    text: tuple[str, ...]
    names: Mapping[str, Any]
    call: StageCall | None = None


@dataclass(frozen=True)
class Origin:
    call: StageCall | None = None
    frame: int = 0
    place: str = ""
    entered: bool = False
    """Python code ran in it: a call of compiled code that raises at once leaves no line of it."""
    locked: tuple[str, ...] = ()
    """Its arrays that may not be written."""

    def __str__(self) -> str:
        if self.call is None:
            return ""
        place = self.place or self.call.place
        when = "set-up" if self.call.is_setup else f"frame {self.frame}"
        return f"stage {self.call.stage!r}{f' ({place})' if place else ''}, {when}"

    def explain(self, message: str) -> str:
        if self.call is None:
            return message
        return f"{self}: {message}" + (f"; buffers: {self.call.buffers}" if self.call.buffers else "")


def call_of(stage: BoundStage, function: StageFunction, buffers: Mapping[str, Buffer]) -> StageCall:
    taken_as = ", ".join(f"{n} {buffers[n].element} {buffers[n].dimensions}" for n in stage.access)
    return StageCall(stage.side, stage.name, place_of(function), taken_as, stage.phase == "setup")


def written(steps: Iterable[Lines]) -> Callable[[int], None]:
    """The steps in a row as one function of the frame's index, which they know as `index`."""
    lines: list[str] = []
    calls: list[StageCall | None] = []
    names: dict[str, Any] = {}
    for number, step in enumerate(steps):
        lines += [line.replace("$", str(number)) for line in step.text]
        calls += [step.call] * len(step.text)
        for name, value in step.names.items():
            own = name.replace("$", str(number))
            if names.setdefault(own, value) is not value:
                raise AssertionError(f"{own} stands for two things in one function")
    head = f"def frame(index, {', '.join(f'{name}={name}' for name in names)}):"
    namespace: dict[str, Any] = {**names, _CALLS: calls}
    exec(compile("\n    ".join([head, *lines, "return"]), _FILE, "exec"), namespace)
    frame: Callable[[int], None] = namespace["frame"]
    return frame


_LOOKS = 1024
"""Iterations between two looks at the clock."""


@dataclass
class LoopCount:
    """One loop at work. `flag` reads the buffer that ends it, on the host."""

    loop: Loop
    flag: Callable[[], bool]
    now: int = 1
    """The iteration under way, from 1 on."""
    ended: bool = False
    frames: list[int] = field(default_factory=list)
    end: float = inf
    """By the clock, when the time of the whole run is over."""

    def begin(self) -> None:
        self.now = 1

    def look(self, _: int = 0) -> None:
        """An iteration has come to its end, and the host sees its flag."""
        self.ended = self.flag()

    def again(self) -> bool:
        """Whether one more iteration begins; else the frame's count is kept. Raises `WorkloadError` where the
        run's time ends within one frame."""
        if self.ended or self.now >= self.loop.at_most:
            self.frames.append(self.now)
            return False
        if self.now % _LOOKS == 0 and perf_counter() > self.end:
            raise WorkloadError(
                f"{named(self.loop)} ran {self.now} iterations in frame {len(self.frames)} and did not end "
                "within --max-seconds",
                next_step="Set its buffer in a stage, lower at_most, or use a larger --max-seconds.",
            )
        self.now += 1
        return True


def indented(lines: Lines) -> Lines:
    return replace(lines, text=tuple(f"    {text}" for text in lines.text))


def named(loop: Loop | Iterations) -> str:
    return f"the loop with until={loop.until!r}" + (f" ({loop.number + 1})" if loop.number else "")


@dataclass(frozen=True)
class Most:
    """The smallest buffer of a length, its first dimension, and the stages that write the length."""

    buffer: str
    rows: int
    writers: str


def most_rows(bound: BoundWorkload) -> dict[str, Most]:
    most_of: dict[str, Most] = {}
    for name, buffer in bound.workload.buffers.items():
        rows, length = buffer.dimensions[0], buffer.valid
        if length is not None and (length not in most_of or rows < most_of[length].rows):
            written = (stage for stage in bound.stages if length in stage.use.writes())
            writers = (located(stage.name, stage.stage.function) for stage in written)
            most_of[length] = Most(name, rows, " or ".join(writers))
    return most_of


def valid_rows(length: str, array: Array, most: Most, frame: int) -> int:
    """The length that the array holds. Raises `WorkloadError` where the buffer has not so many rows."""
    rows, limits = int(array.flat[0]), f"0 to {most.rows}"
    if 0 <= rows <= most.rows:
        return rows
    raise WorkloadError(
        f"buffer {length!r} holds {rows} in frame {frame}; as the valid length of {most.buffer!r} it must be "
        f"{limits}",
        next_step=f"Set it to a value from {limits} where it is written, in stage {most.writers}.",
    )


def origin(error: BaseException) -> Origin:
    """The stage that raised it; one without a call where none did."""
    frames = list(traceback.walk_tb(error.__traceback__))
    for number, (raised, line) in reversed(list(enumerate(frames, 1))):
        if raised.f_code.co_filename == _FILE:
            call = dict(enumerate(raised.f_globals[_CALLS], 2)).get(line)
            if call is None:
                return Origin()
            inside = frames[number][0].f_locals if number < len(frames) else {}
            flags = {name: getattr(value, "flags", None) for name, value in inside.items()}
            locked = tuple(name for name, its in flags.items() if getattr(its, "writeable", True) is False)
            named = ((Path(f.f_code.co_filename).name, line) for f, line in frames[number:])
            own = [f"{file}:{line}" for file, line in named if file == call.place.rpartition(":")[0]]
            place, index = own[-1] if own else "", raised.f_locals["index"]
            return Origin(call, index, place, number < len(frames), locked)
    return Origin()


class Marks:
    """What streams wait for, by name; each mark is recorded again in every frame."""

    def __init__(self) -> None:
        self._recorded: dict[Hashable, list[Any]] = {}

    def record(self, backend: Backend, name: Hashable, stream: Any = None) -> Lines:
        """The mark stands behind the work of the stream; None is the backend's own."""
        names = {"mark$": backend.mark, "kept$": self._of(name), "stream$": stream}
        return Lines(("kept$[0] = mark$(stream$, kept$[0])",), names)

    def order(self, backend: Backend, name: Hashable, stream: Any) -> Lines:
        """The stream goes on after the mark."""
        names = {"order$": backend.order, "kept$": self._of(name), "stream$": stream}
        return Lines(("order$(stream$, kept$[0])",), names)

    def wait(self, backend: Backend, name: Hashable) -> Lines:
        """The host goes on after the mark."""
        return Lines(("wait$(kept$[0])",), {"wait$": backend.wait, "kept$": self._of(name)})

    def _of(self, name: Hashable) -> list[Any]:
        return self._recorded.setdefault(name, [None])
