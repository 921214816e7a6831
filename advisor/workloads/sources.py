"""A file that a fresh process can import, for whatever the caller calls a workload.

A function of a notebook's cell becomes a file of its own, since a fresh process knows nothing of the
notebook. What the function uses is written into the file where that can be done truly: imports, functions and
classes of cells, numbers and texts. Anything else is in the notebook's process alone: it is refused by name.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import linecache
import os
import symtable
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from advisor.errors import UsageError
from advisor.profiles.files import scratch
from advisor.workloads.definition import Definition, Workload

_HEAD = "# Made from a notebook's cells.\nimport os\nimport sys\n\nsys.path.append(os.getcwd())\n"
_PLAIN = (int, float, str, bool, bytes, type(None), tuple, list, dict, set, frozenset)
_GIVE = "Give a file, FILE::NAME, or the function marked with @workload."


@contextmanager
def source(workload: object) -> Iterator[str]:
    """Gives FILE or FILE::NAME. For a function in a notebook's cell, the file is made of its source and
    removed afterwards. Raises `UsageError` where no process but this one could run it."""
    if isinstance(workload, (str, Path)):
        yield str(workload)
        return
    function = _function(workload)
    file = function.__code__.co_filename
    if Path(file).is_file():
        path = Path(file).resolve()
        near = path.is_relative_to(Path.cwd())  # as on the command line
        yield f"{os.path.relpath(path) if near else path}::{function.__name__}"
    elif linecache.getlines(file):
        text = _as_file(function)
        with scratch() as folder:
            path = folder / f"{function.__name__}.py"
            path.write_text(text, encoding="utf-8")
            yield f"{path}::{function.__name__}"
    else:
        wrong = f"{function.__name__} has no source text, so worker processes cannot run it"
        raise UsageError(wrong, next_step="Write it to a file and pass the file.")


def _function(workload: object) -> Any:
    """The plain function behind a `Definition` at the top of a file or cell."""
    if isinstance(workload, Workload):
        step = "Pass the function that returns it, marked with @workload, without calling it."
        raise UsageError("this is a Workload object; every process has to create its own", next_step=step)
    if not isinstance(workload, Definition):
        raise UsageError(f"{workload!r} is not a workload", next_step=_GIVE)
    function = inspect.unwrap(workload.function)
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isfunction(function) or "<locals>" in function.__qualname__:
        wrong = f"{workload.name} is defined inside another function, so worker processes cannot import it"
        raise UsageError(wrong, next_step="Define it at the top level of a file or cell.")
    return function


def _as_file(function: Any) -> str:
    """The text of a file that defines the function as the notebook does. Raises `UsageError` where it uses
    something that only the notebook's process has."""
    scope, called = function.__globals__, function.__name__
    if _source(called, function) is None:
        wrong = f"the source of {called} is not at the top level of its cell"
        raise UsageError(wrong, next_step="Define it at the top level of a cell, or write it to a file.")
    lines, blocks, lost, written = list[str](), list[str](), list[str](), set[str]()

    def write(name: str, value: Any) -> None:
        """Writes what the name stands for, after all that it uses. Python will tell of undefined names."""
        written.add(name)
        line = _import_of(name, value) or _literal(name, value)
        text = None if line else _source(name, value)
        if line:
            lines.append(line)
        elif text is None:
            lost.append(name)
        else:
            for used in sorted(scope.keys() & _globals_of(symtable.symtable(text, name, "exec"))):
                if used not in written:
                    write(used, scope[used])
            blocks.append(text)

    write(called, function)
    if lost:
        raise UsageError(
            f"{called} uses {', '.join(lost)}, which exists only in this process and cannot be passed to "
            "workers",
            next_step="Create it inside the function, or write the cell to a file (%%writefile) and "
            "pass the file.",
        )
    return "\n".join((_HEAD, *lines, "", *blocks))


def _globals_of(table: symtable.SymbolTable) -> Iterator[str]:
    """Every name that the text takes from around it."""
    top = table.get_type() == "module"
    for symbol in table.get_symbols():
        outside = symbol.is_global() or (top and not symbol.is_assigned() and not symbol.is_imported())
        if symbol.is_referenced() and outside and not hasattr(builtins, symbol.get_name()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _globals_of(child)


def _import_of(name: str, value: Any) -> str | None:
    if isinstance(value, ModuleType):
        return f"import {value.__name__} as {name}"
    module, own = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    home = sys.modules.get(module) if isinstance(module, str) and module != "__main__" else None
    if home is not None and own.isidentifier() and getattr(home, own, None) is value:
        return f"from {module} import {own} as {name}"
    return None


def _literal(name: str, value: Any) -> str | None:
    """An assignment, where the text of the value is the value."""
    try:
        same = type(value) in _PLAIN and ast.literal_eval(repr(value)) == value
    except (ValueError, SyntaxError, RecursionError):
        return None
    return f"{name} = {value!r}" if same else None


def _source(name: str, value: Any) -> str | None:
    """The text of a function or class at the top of a cell, decorators and all."""
    inner = value.function if isinstance(value, Definition) else value
    if inspect.isclass(inner):
        # A class knows its cell by the functions in it.
        codes = (getattr(part, "__code__", None) for part in vars(inner).values())
        file = next((code.co_filename for code in codes if code), "")
    else:
        code = getattr(inspect.unwrap(inner) if callable(inner) else inner, "__code__", None)
        file = code.co_filename if code else ""
    lines = linecache.getlines(file)
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:
        return None
    definitions = [n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and n.name == name]
    if not definitions:
        return None
    first = min((node.lineno for node in definitions[-1].decorator_list), default=definitions[-1].lineno)
    return "".join(lines[first - 1 : definitions[-1].end_lineno]).rstrip("\n") + "\n"
