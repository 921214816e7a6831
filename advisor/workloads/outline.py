"""The workloads of a file and their parameters' defaults, read from its text: nothing of it is run."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from advisor.profiles.text_files import LARGEST, read_bytes
from advisor.workloads.parameters import Value

_SIMPLE = (ast.Expression, ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
_MOST_DIGITS = 40


def workloads(path: Path) -> Mapping[str, Mapping[str, Value]]:
    """Defaults by parameter, by the names of functions under @workload; nothing where it is not Python."""
    try:
        tree = ast.parse(read_bytes(path, LARGEST))
    except (OSError, ValueError, SyntaxError):
        return {}
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    return {f.name: _defaults(f) for f in functions if any(map(_marks, f.decorator_list))}


def defaults_of(target: str) -> Mapping[str, Value]:
    """The outline of FILE::NAME, or of the first workload of FILE."""
    file, _, name = target.partition("::")
    found = workloads(Path(file))
    return found.get(name, {}) if name else next(iter(found.values()), {})


def _marks(decorator: ast.expr) -> bool:
    return ast.unparse(decorator).rpartition(".")[2] == "workload"


def _defaults(function: ast.FunctionDef) -> dict[str, Value]:
    """Those that are numbers, texts, or simple arithmetic such as 1 << 24."""
    given = function.args
    positional = given.args[len(given.args) - len(given.defaults) :]
    pairs = [*zip(positional, given.defaults, strict=True)]
    pairs += [(a, d) for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True) if d is not None]
    found = {}
    for argument, default in pairs:
        whole = ast.Expression(default)
        text = ast.unparse(default)
        if len(text) <= _MOST_DIGITS and all(isinstance(node, _SIMPLE) for node in ast.walk(whole)):
            with suppress(Exception):  # 1 / 0
                value = eval(compile(whole, "<default>", "eval"), {"__builtins__": {}})
                if isinstance(value, (int, float, str)):
                    found[argument.arg] = value
    return found
