"""Whether a stage samples through a texture, as far as its code tells."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

from advisor.workloads.kernels.calls import Kernel

_FETCH = re.compile(r"\btex(1Dfetch|[123]D|2Dgather|Cubemap)\w*\s*[<(]")
"""A call of CUDA's texture functions in a kernel's source."""
_OBJECTS = {"TextureObject", "TextureReference"}
"""Of `cupy.cuda.texture`."""


def samples_textures(function: Callable[..., object]) -> bool:
    """Whether the function, or what it refers to by name, makes a texture or has a kernel that reads one."""
    return any(map(_tells, _reached(inspect.unwrap(function), set())))


def _tells(found: Any) -> bool:
    if isinstance(found, CodeType):
        return bool(_OBJECTS & set(found.co_names)) or any(map(_tells, found.co_consts))
    source = found.source if isinstance(found, Kernel) else found
    if type(found).__module__.partition(".")[0] == "cupy":
        source = getattr(found, "code", None)  # of a RawKernel or a RawModule
    return isinstance(source, str) and _FETCH.search(source) is not None


def _reached(function: Any, seen: set[int]) -> Iterator[Any]:
    """The code of the function, and the kernels, sources and functions that its names stand for."""
    if not isinstance(function, FunctionType) or id(function) in seen:
        return
    seen.add(id(function))
    yield function.__code__
    for value in _named(function):
        yield value
        yield from _reached(value, seen)


def _named(function: FunctionType) -> Iterator[Any]:
    known, names = function.__globals__, _names(function.__code__)
    yield from (known[name] for name in names if name in known)
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            continue


def _names(code: CodeType) -> set[str]:
    """Names of globals, those of inner functions included."""
    inner = (_names(const) for const in code.co_consts if isinstance(const, CodeType))
    return set(code.co_names).union(*inner)
