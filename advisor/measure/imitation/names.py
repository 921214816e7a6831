"""A name that NumPy does not have: one of CuPy's alone, or one that neither has."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import ModuleType

import numpy as np

from advisor.errors import WorkloadError, nearest
from advisor.measure.imitation.coverage import coverage


def of_cupy_alone(error: BaseException) -> bool:
    """Whether NumPy was asked for what CuPy has: `xp.RawKernel`, `a.get()`."""
    asked = _asked(error)
    return asked is not None and (asked[0] in asked[1])


def unknown(error: BaseException) -> WorkloadError | None:
    """The error of a name that neither NumPy nor CuPy has, with one that is like it."""
    asked = _asked(error)
    if asked is None or asked[0] in asked[1]:
        return None
    name, known = asked
    owner, last = name.rpartition(".")[0], name.rpartition(".")[2]
    have = {*(k.rpartition(".")[2] for k in known if k.rpartition(".")[0] == owner), *dir(_of(error))}
    return WorkloadError(
        f"{_line(error)}neither NumPy nor CuPy has {name!r}{nearest(last, have)}",
        next_step="Correct the name.",
    )


def _line(error: BaseException) -> str:
    """ "pipeline.py:23, in compute: "; nothing where no line is the user's."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [each for each in frames if not each.filename.startswith(str(Path(np.__file__).parent))]
    return f"{Path(theirs[-1].filename).name}:{theirs[-1].lineno}, in {theirs[-1].name}: " if theirs else ""


def _of(error: BaseException) -> object:
    return getattr(error, "obj", None)


def _asked(error: BaseException) -> tuple[str, dict[str, str | None]] | None:
    """The name that NumPy lacks, as CuPy would have it, and CuPy's names of its kind."""
    if not isinstance(error, AttributeError) or not error.name:
        return None
    owner = _of(error)
    if isinstance(owner, ModuleType) and owner.__name__.partition(".")[0] == "numpy":
        prefix = owner.__name__.partition(".")[2]
        return (f"{prefix}.{error.name}" if prefix else error.name), dict(coverage().names)
    if isinstance(owner, np.ndarray) and hasattr(type(owner), "__array_ufunc__"):
        return error.name, dict(coverage().ndarray)
    return None
