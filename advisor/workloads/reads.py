"""Where a stage is in its source, and where it reads a buffer."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType

_NO_READS = ("shape", "dtype", "size", "ndim", "nbytes", "itemsize", "strides", "fill")


def place_of(function: Callable[..., object]) -> str:
    """File and line of a function, `file.py:12`; nothing where it is not Python."""
    try:
        code = getattr(inspect.unwrap(function), "__code__", None)
    except ValueError:  # it wraps itself
        code = None
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}" if isinstance(code, CodeType) else ""


def located(stage: str, function: Callable[..., object]) -> str:
    """The stage's name with the file and line of its function, `'add' (file.py:12)`, where that is Python."""
    place = place_of(function)
    return f"{stage!r} ({place})" if place else repr(stage)


def line_reading(function: Callable[..., object], buffer: str) -> str:
    """` (file.py:12: b += a)` of the first line that reads the parameter; nothing where no source tells."""
    try:
        plain = inspect.unwrap(function)
        lines, first = inspect.getsourcelines(plain)
        tree = ast.parse(textwrap.dedent("".join(lines)))
        file = Path(inspect.getsourcefile(plain) or "").name
    except (OSError, TypeError, SyntaxError):
        return ""
    found = sorted(set(_reading(tree, buffer)))
    if not found:
        return ""
    return f" ({file}:{first + found[0] - 1}: {lines[found[0] - 1].strip()})"


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
