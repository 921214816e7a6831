"""Is a file a script or a workload? Told from its text: nothing of the user's runs in the parent."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

_API = {"workload", "Workload"}


def is_script(file: Path, name: str | None, arguments: Sequence[str]) -> bool:
    """A file without @workload that imports CuPy, or that is given arguments; FILE::NAME never is.

    A file that cannot be read or understood is none: loading it as a workload says why.
    """
    if name is not None:
        return False
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return False
    # Marked, or taking the API from advisor, where the mark was forgotten. A variable of the script's that is
    # named workload is neither.
    if any(_is_marked(node) or _takes_api(node) for node in ast.walk(tree)):
        return False
    return bool(arguments) or _imports_cupy(tree)


def _is_marked(node: ast.AST) -> bool:
    decorators = node.decorator_list if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else ()
    called = (d.func if isinstance(d, ast.Call) else d for d in decorators)
    return any(ast.unparse(d).rpartition(".")[2] == "workload" for d in called)


def _takes_api(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        home = (node.module or "").partition(".")[0]
        return home == "advisor" and any(alias.name in _API for alias in node.names)
    return isinstance(node, ast.Attribute) and ast.unparse(node) in {f"advisor.{name}" for name in _API}


def _imports_cupy(tree: ast.AST) -> bool:
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
    return any(name.partition(".")[0] in ("cupy", "cupyx") for name in names)
