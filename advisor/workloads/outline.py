"""The workloads of a file and their parameters' defaults, read from its text: nothing of it is run."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from advisor.errors import WorkloadError
from advisor.profiles.files import read_bytes
from advisor.strategies.syntax import last_name
from advisor.workloads.parameters import Value

_SIMPLE = (ast.Expression, ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
_MOST_DIGITS = 40
MOST_WORKLOADS = 100
"""Workloads that one command runs: at the default of a minute each, more than an hour and a half."""
SLOW_IMPORTS = ("torch", "numba")
LARGEST_SOURCE = 2_000_000
"""Bytes. Python takes a second to compile as much, in each process of a run."""


def parsed(path: Path) -> ast.Module:
    """The file's syntax tree. Raises OSError, ValueError, and SyntaxError for what is nested too deep too."""
    source = read_bytes(path, LARGEST_SOURCE)
    if len(source) > LARGEST_SOURCE:
        raise ValueError("the file is too large")
    try:
        return ast.parse(source)
    except (RecursionError, MemoryError):
        raise SyntaxError("an expression is nested too deep") from None


def imported_early(path: Path) -> list[str]:
    """Libraries that the file imports and that take seconds to import: one process does so for all workers.

    None where the file has to do with variables of the environment, which a library may read when it is
    imported, and none that lies beside the file under that name.
    """
    try:
        nodes = list(ast.walk(parsed(path)))
    except (OSError, ValueError, SyntaxError):
        return []
    names = {last_name(node) for node in nodes if isinstance(node, ast.expr)}
    modules = {n.module or "" for n in nodes if isinstance(n, ast.ImportFrom) and not n.level}
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            (modules if isinstance(node, ast.Import) else names).update(alias.name for alias in node.names)
    if not names.isdisjoint(("environ", "putenv")):
        return []
    tops = {module.partition(".")[0] for module in modules}
    beside = {name for name in SLOW_IMPORTS for own in (name, f"{name}.py") if (path.parent / own).exists()}
    return [name for name in SLOW_IMPORTS if name in tops - beside]


def workloads(path: Path) -> Mapping[str, Mapping[str, Value]]:
    """Defaults by parameter, by the names of functions under @workload; nothing where it is not Python."""
    try:
        tree = parsed(path)
    except (OSError, ValueError, SyntaxError):
        return {}
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    return {
        f.name: _defaults(f) for f in functions if any(last_name(d) == "workload" for d in f.decorator_list)
    }


def targets(target: str) -> tuple[str, ...]:
    """FILE::NAME of each workload of FILE, or of the files in a folder; the target itself where it is one.

    Raises `WorkloadError` for a folder without any, and for more than `MOST_WORKLOADS`.
    """
    path = Path(target)
    if not target or "::" in target or not path.exists():
        return (target,)
    files = sorted(path.glob("*.py")) if path.is_dir() else [path]
    named = tuple(f"{file}::{name}" for file in files for name in workloads(file))
    if path.is_dir() and not named:
        runs = (path / "__main__.py").exists()
        raise WorkloadError(
            f"no .py file in {path} has a function marked with @workload",
            next_step=f"To run the package by line: advisor profile -m {path.name}."
            if runs
            else "Give the folder that holds the workload files, or one file.",
        )
    if len(named) > MOST_WORKLOADS:
        raise WorkloadError(
            f"{path} has {len(named)} workloads; one command runs at most {MOST_WORKLOADS}",
            next_step=f"Name one, such as {named[0]}, or give a file or a folder with fewer.",
        )
    return named if path.is_dir() or len(named) > 1 else (target,)


def defaults_of(target: str) -> Mapping[str, Value]:
    """The outline of FILE::NAME, or of the first workload of FILE."""
    file, _, name = target.partition("::")
    defaults = workloads(Path(file))
    return defaults.get(name, {}) if name else next(iter(defaults.values()), {})


def _defaults(function: ast.FunctionDef) -> dict[str, Value]:
    """Defaults that are numbers, texts, or simple arithmetic such as 1 << 24."""
    signature = function.args
    positional = signature.args[len(signature.args) - len(signature.defaults) :]
    pairs = [*zip(positional, signature.defaults, strict=True)]
    pairs += [
        (a, d) for a, d in zip(signature.kwonlyargs, signature.kw_defaults, strict=True) if d is not None
    ]
    defaults = {}
    for argument, default in pairs:
        whole = ast.Expression(default)
        if all(isinstance(node, _SIMPLE) for node in ast.walk(whole)):
            with suppress(Exception):  # 1 / 0
                if len(ast.unparse(default)) > _MOST_DIGITS:
                    continue
                value = eval(compile(whole, "<default>", "eval"), {"__builtins__": {}})
                if isinstance(value, (int, float, str)):
                    defaults[argument.arg] = value
    return defaults
