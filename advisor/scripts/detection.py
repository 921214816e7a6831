"""Is a file a script or a workload? Told from its text: nothing of the user's runs in the parent."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

_MARKS = {"workload", "Workload"}


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
    return not _has_workload(tree) and (bool(arguments) or _imports_cupy(tree))


def _has_workload(tree: ast.AST) -> bool:
    """Speaks of the workload API: a decorator, an import, or a name of it."""
    return any(
        (isinstance(node, ast.Name) and node.id in _MARKS)
        or (isinstance(node, ast.Attribute) and node.attr in _MARKS)
        or (isinstance(node, ast.alias) and node.name in _MARKS)
        for node in ast.walk(tree)
    )


def _imports_cupy(tree: ast.AST) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        if any(name.partition(".")[0] in ("cupy", "cupyx") for name in names):
            return True
    return False
