"""CuPy's API by version: names, parameters, and functions that wait for the GPU.

`tests/cupy_coverage.py` writes the files from an installed CuPy; each has the command in it.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np

from advisor.devices.host import installed
from advisor.errors import WorkloadError, nearest

PACKAGES = ("cupy-cuda13x", "cupy-cuda12x", "cupy")
COMPARISON = "https://docs.cupy.dev/en/stable/reference/comparison.html"
"""CuPy's own table of what NumPy has and CuPy lacks."""


@dataclass(frozen=True)
class Coverage:
    """One version of CuPy. A callable has the names of its parameters, None where they cannot be read."""

    version: str
    names: Mapping[str, str | None]
    """Functions, ufuncs, types and constants, those of submodules as `linalg.norm`."""
    ndarray: Mapping[str, str | None]
    waits: frozenset[str]
    """Functions whose documentation says that they may synchronize."""

    def refused(self, parameters: str | None, count: int, keywords: Mapping[str, object]) -> str:
        """The part of a call that they do not take: `where=`, or "6 arguments by position"; else empty."""
        if parameters is None:
            return ""
        words = parameters.split()
        positional = words[: words.index("*")] if "*" in words else words
        known = {word.lstrip("*") for word in words}
        unknown = [name for name in keywords if name not in known]
        if unknown and "**" not in words:
            return f"{unknown[0]}="
        open_ended = any(word.startswith("*") and len(word) > 1 for word in words)
        return f"{count} arguments by position" if count > len(positional) and not open_ended else ""


@cache
def coverage(version: str | None = None) -> Coverage:
    """Coverage of that CuPy version; by default of the installed CuPy, else of the newest known.

    The newest version known that is not above it counts for it, else the oldest.
    """
    known = {_number(path.stem.partition("-")[2]): path for path in Path(__file__).parent.glob("cupy-*.json")}
    wanted = _number(version or next(iter(installed(*PACKAGES).values()), "999"))
    fitting = [number for number in known if number <= wanted]
    data = json.loads(known[max(fitting, default=min(known))].read_text(encoding="utf-8"))
    counted = ".".join(data["cupy"].split(".")[:2])
    return Coverage(counted, data["names"], data["ndarray"], frozenset(data["waits"]))


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def of_cupy_alone(error: BaseException) -> bool:
    """Whether NumPy was asked for what CuPy has: `xp.RawKernel`, `a.get()`."""
    missing = _missing_name(error)
    return missing is not None and (missing[0] in missing[1])


def unknown_name(error: BaseException) -> WorkloadError | None:
    """The error of a name that neither NumPy nor CuPy has, with one that is like it."""
    missing = _missing_name(error)
    if missing is None or missing[0] in missing[1]:
        return None
    name, known = missing
    owner, last = name.rpartition(".")[0], name.rpartition(".")[2]
    have = {
        *(k.rpartition(".")[2] for k in known if k.rpartition(".")[0] == owner),
        *dir(getattr(error, "obj", None)),
    }
    return WorkloadError(
        f"{_line(error)}neither NumPy nor CuPy has {name!r}{nearest(last, have)}",
        next_step="Correct the name.",
    )


def _line(error: BaseException) -> str:
    """ "pipeline.py:23, in compute: "; nothing where no line is the user's."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [each for each in frames if not each.filename.startswith(str(Path(np.__file__).parent))]
    return f"{Path(theirs[-1].filename).name}:{theirs[-1].lineno}, in {theirs[-1].name}: " if theirs else ""


def _missing_name(error: BaseException) -> tuple[str, dict[str, str | None]] | None:
    """The name that NumPy lacks, as CuPy would have it, and CuPy's names of its kind."""
    if not isinstance(error, AttributeError) or not error.name:
        return None
    owner = getattr(error, "obj", None)
    if isinstance(owner, ModuleType) and owner.__name__.partition(".")[0] == "numpy":
        prefix = owner.__name__.partition(".")[2]
        return (f"{prefix}.{error.name}" if prefix else error.name), dict(coverage().names)
    if isinstance(owner, np.ndarray) and hasattr(type(owner), "__array_ufunc__"):
        return error.name, dict(coverage().ndarray)
    return None
