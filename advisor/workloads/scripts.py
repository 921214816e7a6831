"""What FILE, FILE::NAME or -m NAME runs, whether it is a script, and what a profile says of one."""

from __future__ import annotations

import ast
import hashlib
import os
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from itertools import islice
from pathlib import Path
from typing import TypeVar

from advisor.errors import UsageError
from advisor.profiles.schema import WorkloadRecord
from advisor.strategies.syntax import last_name
from advisor.workloads.loading import relative
from advisor.workloads.outline import parsed

_API = {"workload", "Workload"}
_LIBRARIES = {
    *("cupy", "cupyx", "torch", "torchvision", "numba"),
    *("cudf", "dask_cudf", "cuml", "cugraph", "cuspatial", "cucim", "cuvs", "pylibraft", "rmm", "cusignal"),
    *("spacy", "thinc", "chainer", "importlib", "runpy"),
}
"""CuPy, PyTorch and Numba, libraries that are built on them, and modules that import by name."""
_MOST_FILES = 200
"""Files of a package beside the script that are searched for them."""


def is_script(file: Path, name: str | None, arguments: Sequence[str]) -> bool:
    """A file without @workload that is given arguments, or that imports CuPy, PyTorch or Numba, by itself or
    through modules and packages beside it; not FILE::NAME.

    A file that cannot be read or understood is none: loading it as a workload says why.
    """
    if name is not None:
        return False
    try:
        tree = parsed(file)
    except (OSError, SyntaxError, ValueError):
        return False
    # Marked, or taking the API from advisor, where the mark was forgotten. A variable of the script's that is
    # named workload is neither.
    if any(_is_marked(node) or _takes_api(node) for node in ast.walk(tree)):
        return False
    return bool(arguments) or _imports_library(file)


def _imports_library(file: Path) -> bool:
    names, waiting = set[str](), [file]
    while waiting:
        try:
            new = set(_imports(parsed(waiting.pop()))) - names
        except (OSError, SyntaxError, ValueError):
            continue
        names |= new
        waiting += [near for name in new if (near := file.parent / f"{name}.py").exists()]
        waiting += [near for name in new for near in islice((file.parent / name).rglob("*.py"), _MOST_FILES)]
    return bool(names & _LIBRARIES)


def script_record(file: Path) -> WorkloadRecord:
    """The script in the place of a workload: it has neither parameters, buffers nor stages."""
    source = file.read_bytes()
    try:
        summary = (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]
    except (SyntaxError, ValueError):  # it was changed meanwhile
        summary = ""
    name, digest = relative(file), hashlib.sha256(source).hexdigest()
    return WorkloadRecord(
        name=file.stem, file=name, sha256=digest, summary=summary, parameters={}, buffers=(), stages=()
    )


def _is_marked(node: ast.AST) -> bool:
    decorators = node.decorator_list if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else ()
    return any(last_name(d.func if isinstance(d, ast.Call) else d) == "workload" for d in decorators)


def _takes_api(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        home = (node.module or "").partition(".")[0]
        return home == "advisor" and any(alias.name in _API for alias in node.names)
    if not isinstance(node, ast.Attribute) or node.attr not in _API:
        return False
    return isinstance(node.value, ast.Name) and node.value.id == "advisor"


def _imports(tree: ast.AST) -> list[str]:
    """The packages that a file imports, wherever in it."""
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
    return [name.partition(".")[0] for name in names if name]


def file_and_name(target: str) -> tuple[Path, str | None]:
    """FILE or FILE::NAME in its parts. Raises `UsageError`."""
    try:
        target.encode()
    except UnicodeEncodeError:  # bytes of a name that are not of the locale come as lone surrogates
        encoding = sys.getfilesystemencoding()
        raise UsageError(
            f"the path {target!r} is not valid {encoding.upper()} and cannot be stored in a profile",
            next_step="Rename the file or its directory."
            if encoding == "utf-8"
            else "Set PYTHONUTF8=1, or rename the file or its directory.",
        ) from None
    file, colons, name = target.partition("::")
    if not file or (colons and not name):
        raise UsageError(
            f"{target!r} is not FILE or FILE::NAME", next_step="For example: workloads/vector_add.py."
        )
    return Path(file), name or None


def module_file(name: str) -> Path:
    """The file that `python -m NAME` runs, without importing anything. Raises `UsageError`."""
    places: Sequence[str] | None = [str(Path.cwd()), *sys.path]
    spec = None
    for part in name.split("."):
        spec = PathFinder.find_spec(part, places)
        places = spec.submodule_search_locations if spec else None
        if places is None:
            break
    if places is not None:
        spec = PathFinder.find_spec("__main__", places)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise UsageError(
            f"-m {name}: the module was not found or cannot be run",
            next_step="Run it from the folder in which `python -m` finds it.",
        )
    return Path(os.path.relpath(spec.origin))


ArrayT = TypeVar("ArrayT")


def result(array: ArrayT, name: str = "") -> ArrayT:
    """Names a result of a script and gives the array back.

    array: CuPy, NumPy, or whatever NumPy can read. name: for messages. A script that is run by itself, or
    recorded by `advisor profile`, does nothing more with it.
    """
    del name
    return array
