"""Which lines are the user's, and which loops an event's stack stands in."""

from __future__ import annotations

import sysconfig
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from advisor.measure.recording.loops import Loop, Loops

_PACKAGES = ("site-packages", "dist-packages")
_OURS = str(Path(__file__).resolve().parents[2])
_PYTHON = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib")})
MOST_FRAMES = 64
"""Of the user's, from the innermost on: deeper ones of a recursion tell no more."""


@dataclass(slots=True, eq=False)
class Site:
    """A line of the user's that is running, in the loops of its callers; `codes` keeps their ids valid."""

    file: str
    line: int
    loops: tuple[Loop, ...]
    """The outermost first."""
    codes: tuple[CodeType, ...]
    at_head: bool
    """A line of it is a loop's first, which runs before the loop as well as in it."""
    asked: int = 0
    """How often something was about to cross."""
    records: dict[Any, Any] = field(default_factory=dict)
    """What was recorded of it, by what tells crossings of a line apart."""


class Lines:
    """Finds the nearest line of the user's files in the stack; each stack is looked at once."""

    def __init__(self, loops: Loops) -> None:
        self._loops = loops
        self._sites: dict[tuple[int, ...], Site] = {}
        self.bottom: CodeType | None = None
        """What runs the script: frames beyond it are none of the script's."""

    def site(self, frame: FrameType | None) -> Site | None:
        """None where no line of the user's is running, as in a thread of a library's own."""
        files, bottom, innermost = self._loops.files, self.bottom, frame
        key: list[int] = []
        while frame is not None:
            code = frame.f_code
            if code.co_filename in files:
                key += (id(code), frame.f_lasti)
                if len(key) == 2 * MOST_FRAMES:
                    break
            elif code is bottom:
                break
            frame = frame.f_back
        if not key:
            return None
        known = self._sites.get(whole := tuple(key))
        if known is None:
            known = self._sites[whole] = self._new(innermost)
        return known

    def _new(self, frame: FrameType | None) -> Site:
        lines: list[tuple[CodeType, int]] = []
        while frame is not None and len(lines) < MOST_FRAMES:
            if (code := frame.f_code).co_filename in self._loops.files:
                lines.append((code, frame.f_lineno or code.co_firstlineno))
            frame = frame.f_back
        around = [(loop, line) for code, line in reversed(lines) for loop in self._loops.around(code, line)]
        (code, line), codes = lines[0], tuple(code for code, _ in lines)
        at_head = any(line < loop.body or loop.body == loop.first for loop, line in around)
        loops = tuple(dict.fromkeys(loop for loop, _ in around))
        return Site(code.co_filename, line, loops, codes, at_head)


@dataclass(frozen=True)
class OwnFiles:
    """The script's files: below its folder or the working directory, and neither Python's nor installed."""

    roots: tuple[str, ...]
    package: str | None = None
    """The folder of a package run with -m, installed or not."""

    @classmethod
    def of(cls, file: Path, module: str) -> OwnFiles:
        """The files of a script; module: what `python -m` is given, whose folder `file` lies in."""
        package = str(file.resolve().parent) if module else None
        return cls(tuple(map(str, script_roots(file))), package)

    def __contains__(self, file: str) -> bool:
        if self.package and _below(file, self.package):
            return True
        if any(part in _PACKAGES for part in Path(file).parts) or _below(file, _OURS):
            return False
        inside = any(_below(file, root) for root in self.roots)
        return inside and not any(_below(file, folder) for folder in _PYTHON)


def own_frame(frame: FrameType | None, is_own: Callable[[str], bool]) -> FrameType | None:
    """The nearest frame of the user's files, from this one outwards."""
    while frame is not None and not is_own(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _below(file: str, folder: str) -> bool:
    return file.startswith(folder.rstrip("/") + "/")


def script_roots(file: Path) -> list[Path]:
    """The script's folder and the working directory; / holds everything, so it is left out."""
    folders = [file.resolve().parent, Path.cwd()]
    return [folder for folder in dict.fromkeys(folders) if folder != Path("/")] or [folders[0]]
