"""Facts from a stage's code: where it is, where it reads a buffer, whether it samples textures."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from advisor.workloads.kernels import Kernel

_NO_READS = ("shape", "dtype", "size", "ndim", "nbytes", "itemsize", "strides", "fill")


def place_of(function: Callable[..., object]) -> str:
    """File and line of a function, `file.py:12`; nothing where it is not Python."""
    try:
        plain = inspect.unwrap(getattr(function, "func", function))  # of functools.partial
        code = getattr(plain, "__code__", None) or getattr(type(plain).__call__, "__code__", None)
    except ValueError:  # it wraps itself
        code = None
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}" if isinstance(code, CodeType) else ""


def located(stage: str, function: Callable[..., object]) -> str:
    """The stage's name with the file and line of its function, `'add' (file.py:12)`, where that is Python."""
    place = place_of(function)
    return f"{stage!r} ({place})" if place else repr(stage)


def line_reading(function: Callable[..., object], buffer: str) -> str:
    """` (file.py:12: b += a)` of the first line that reads the parameter; empty without the source."""
    try:
        plain = inspect.unwrap(function)
        lines, first = inspect.getsourcelines(plain)
        tree = ast.parse(textwrap.dedent("".join(lines)))
        file = Path(inspect.getsourcefile(plain) or "").name
    except (OSError, TypeError, SyntaxError):
        return ""
    readings = sorted(set(_reading(tree, buffer)))
    if not readings:
        return ""
    return f" ({file}:{first + readings[0] - 1}: {lines[readings[0] - 1].strip()})"


def _reading(tree: ast.AST, buffer: str) -> Iterator[int]:
    """Lines that use the name for more than its size, as `out=`, or as what is assigned to."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AugAssign) and _is(_base(node.target), buffer):
            yield node.lineno
        for child in ast.iter_child_nodes(node):
            if not _is(child, buffer) or not isinstance(getattr(child, "ctx", None), ast.Load):
                continue
            looked = isinstance(node, ast.Attribute) and node.attr in _NO_READS
            written = isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load)
            if not looked and not written and not (isinstance(node, ast.keyword) and node.arg == "out"):
                yield child.lineno  # type: ignore[attr-defined]


def _base(node: ast.AST) -> ast.AST:
    return _base(node.value) if isinstance(node, (ast.Subscript, ast.Attribute)) else node


def _is(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


_FETCH = re.compile(r"\btex(1Dfetch|[123]D|2Dgather|Cubemap)\w*\s*[<(]")
"""A call of CUDA's texture functions in a kernel's source."""
_OBJECTS = {"TextureObject", "TextureReference"}
"""Classes of `cupy.cuda.texture`."""


def samples_textures(function: Callable[..., object]) -> bool:
    """Whether the function, or what it refers to by name, makes a texture or has a kernel that reads one."""
    return any(map(_tells, _reached(inspect.unwrap(function), set())))


def _tells(node: Any) -> bool:
    if isinstance(node, CodeType):
        return bool(_OBJECTS & set(node.co_names)) or any(map(_tells, node.co_consts))
    source = node.source if isinstance(node, Kernel) else node
    if type(node).__module__.partition(".")[0] == "cupy":
        source = getattr(node, "code", None)  # of a RawKernel or a RawModule
    return isinstance(source, str) and _FETCH.search(source) is not None


def _reached(function: Any, visited: set[int]) -> Iterator[Any]:
    """The code of the function, and the kernels, sources and functions that its names stand for."""
    if not isinstance(function, FunctionType) or id(function) in visited:
        return
    visited.add(id(function))
    yield function.__code__
    for _, value in referred_to(function):
        yield value
        yield from _reached(value, visited)


def referred_to(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Values of the names that a function uses, from its closure and globals."""
    code, known = function.__code__, function.__globals__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # not assigned yet
            yield name, cell.cell_contents
    yield from ((name, known[name]) for name in names_in(code) if name in known)


def names_in(code: CodeType) -> set[str]:
    """Names of globals, those of inner functions included."""
    inner = (names_in(const) for const in code.co_consts if isinstance(const, CodeType))
    return set(code.co_names).union(*inner)
