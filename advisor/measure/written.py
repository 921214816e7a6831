"""Steps of a frame written out as one Python function, as a person would write the loop.

A loop over closures adds 2 µs to a frame of six steps, as much as a tenth of a small frame on a GPU; the
function written out adds what reading the clock around host stages takes (`frame-loop-small` of
tests/benchmarks).
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_FILE = "<frame>"
_LABELS = "labels"


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of Python, and what their names stand for. A `$` in a name makes it this step's own."""

    text: tuple[str, ...]
    names: Mapping[str, Any]
    label: str = ""
    """Of a stage: its side and name, as `host:produce`."""


@dataclass(frozen=True)
class Origin:
    """The stage that an error comes from."""

    side: str = ""
    stage: str = ""
    entered: bool = False
    """Python code ran in it: a call of compiled code that raises at once leaves no line of it."""
    locked: tuple[str, ...] = ()
    """Its arrays that may not be written."""


def written(steps: Iterable[Lines]) -> Callable[[int], None]:
    """The steps in a row as one function of the frame's index, which they know as `index`."""
    lines: list[str] = []
    labels: list[str] = []
    names: dict[str, Any] = {}
    for number, step in enumerate(steps):
        lines += [line.replace("$", str(number)) for line in step.text]
        labels += [step.label] * len(step.text)
        names |= {name.replace("$", str(number)): value for name, value in step.names.items()}
    head = f"def frame(index, {', '.join(f'{name}={name}' for name in names)}):"
    made: dict[str, Any] = {**names, _LABELS: labels}
    exec(compile("\n    ".join([head, *lines, "return"]), _FILE, "exec"), made)
    frame: Callable[[int], None] = made["frame"]
    return frame


def origin(error: BaseException) -> Origin:
    """The stage that raised it; one without a name where none did."""
    frames = list(traceback.walk_tb(error.__traceback__))
    for number, (raised, line) in enumerate(frames, 1):
        if raised.f_code.co_filename == _FILE:
            label = dict(enumerate(raised.f_globals[_LABELS], 2)).get(line, "")
            side, _, stage = label.partition(":")
            inside = frames[number][0].f_locals if number < len(frames) else {}
            flags = {name: getattr(value, "flags", None) for name, value in inside.items()}
            locked = tuple(name for name, its in flags.items() if getattr(its, "writeable", True) is False)
            return Origin(side, stage, number < len(frames), locked)
    return Origin()
