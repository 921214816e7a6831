"""Steps of a frame written out as one Python function, as a person would write the loop.

A loop over closures adds 2 µs to a frame of six steps, as much as a tenth of a small frame on a GPU; the
function written out adds what reading the clock around host stages takes (`frame-loop-small` of
tests/benchmarks).
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from advisor.strategies.backend import Backend
from advisor.strategies.parts import Bounds
from advisor.strategies.placements.base import Placed
from advisor.strategies.schedule import Step
from advisor.workloads.binding import BoundStage
from advisor.workloads.definition import Buffer, StageFunction
from advisor.workloads.stage_code import place_of

_FILE = "<frame>"
_CALLS = "calls"
Marks: TypeAlias = dict[tuple[str, int], list[Any]]
"""By name and GPU: what other streams wait for. Each is a list of one, and used again in every frame."""


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
    """File and line in the stage's file that raised."""
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
    buffers_taken = ((name, buffers[name]) for name in stage.access)
    taken_as = ", ".join(f"{name} {buffer.element} {buffer.dimensions}" for name, buffer in buffers_taken)
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


def origin(error: BaseException) -> Origin:
    """The stage that raised it; one without a call where none did."""
    frames = list(traceback.walk_tb(error.__traceback__))
    for number, (raised, line) in enumerate(frames, 1):
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


def crossing(step: Step, placed: Placed, bounds: Callable[[], Bounds]) -> Lines:
    """Brings the buffer, or a part of it, to the step's GPU from another; on the former's stream."""
    assert placed.to_peer is not None
    names = {"cross$": placed.to_peer, "bounds$": bounds}
    return Lines((f"cross$({step.source}, bounds$())",), names)


def recording(backend: Backend, marks: Marks, key: tuple[str, int], stream: Any = None) -> Lines:
    """The mark of that key stands behind the work of the stream; None is the backend's own."""
    names = {"mark$": backend.mark, "kept$": marks.setdefault(key, [None]), "stream$": stream}
    return Lines(("kept$[0] = mark$(stream$, kept$[0])",), names)


def ordering(backend: Backend, marks: Marks, key: tuple[str, int], stream: Any) -> Lines:
    """The stream goes on after the mark of that key."""
    names = {"order$": backend.order, "kept$": marks.setdefault(key, [None]), "stream$": stream}
    return Lines(("order$(stream$, kept$[0])",), names)


def waiting(backend: Backend, marks: Marks, key: tuple[str, int]) -> Lines:
    """The host goes on after the mark of that key."""
    names = {"wait$": backend.wait, "kept$": marks.setdefault(key, [None])}
    return Lines(("wait$(kept$[0])",), names)
