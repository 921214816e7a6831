"""Steps of a frame written out as one Python function, as a person would write the loop.

A loop over closures adds 2 µs to a frame of six steps, as much as a tenth of a small frame on a GPU; the
function written out adds what reading the clock around host stages takes (`frame-loop-small` of
tests/benchmarks).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of Python, and what their names stand for. A `$` in a name makes it this step's own."""

    text: tuple[str, ...]
    names: Mapping[str, Any]


def written(steps: Iterable[Lines]) -> Callable[[int], None]:
    """The steps in a row as one function of the frame's index, which they know as `index`."""
    lines: list[str] = []
    names: dict[str, Any] = {}
    for number, step in enumerate(steps):
        lines += [line.replace("$", str(number)) for line in step.text]
        names |= {name.replace("$", str(number)): value for name, value in step.names.items()}
    head = f"def frame(index, {', '.join(f'{name}={name}' for name in names)}):"
    made: dict[str, Any] = dict(names)
    exec(compile("\n    ".join([head, *lines, "return"]), "<frame>", "exec"), made)
    frame: Callable[[int], None] = made["frame"]
    return frame
