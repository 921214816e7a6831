"""Contents of FILE, FILE::NAME, a folder or -m NAME, read from the text, nothing of it run: workloads, or
a script."""

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

from advisor.errors import UsageError, WorkloadError
from advisor.profiles.files import read_bytes
from advisor.profiles.schema import WorkloadRecord
from advisor.strategies.syntax import last_name

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


def _tree(path: Path) -> ast.Module:
    """The file's syntax tree; an empty one where it cannot be read or is not Python."""
    try:
        return parsed(path)
    except (OSError, ValueError, SyntaxError):
        return ast.Module([], [])


def relative(path: Path) -> str:
    """The file's name in profiles: relative to the working directory, or its name alone."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return path.name


def imported_early(path: Path) -> list[str]:
    """Libraries that the file imports and that take seconds to import: one process does so for all workers.
    None where the file has to do with variables of the environment, which a library may read when it is
    imported, and none that lies beside the file under that name."""
    tree = _tree(path)
    names = {last_name(node) for node in ast.walk(tree) if isinstance(node, ast.expr)}
    names |= {a.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for a in node.names}
    if not names.isdisjoint(("environ", "putenv")):
        return []
    beside = {name for name in SLOW_IMPORTS for own in (name, f"{name}.py") if (path.parent / own).exists()}
    return [name for name in SLOW_IMPORTS if name in imported(tree) - beside]


def imported(tree: ast.AST) -> set[str]:
    """The first part of each imported name; of `from . import a, b` all names."""
    names = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.update([node.module.partition(".")[0]] if node.module else [a.name for a in node.names])
        elif isinstance(node, ast.Call) and last_name(node.func) in ("import_module", "__import__"):
            argument = node.args[0] if node.args else None
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                names.add(argument.value.lstrip(".").partition(".")[0])
    return names


def workloads(path: Path) -> tuple[str, ...]:
    """The names of functions under @workload; none where it is not Python."""
    functions = (node for node in _tree(path).body if isinstance(node, ast.FunctionDef))
    return tuple(f.name for f in functions if "workload" in map(last_name, f.decorator_list))


def targets(target: str) -> tuple[str, ...]:
    """FILE::NAME of each workload of FILE, or of the files in a folder; the target itself where it is one.
    Raises `WorkloadError` for a folder without any, and for more than `MOST_WORKLOADS`."""
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
    through modules and packages beside it; not FILE::NAME. A file that cannot be read or understood is none:
    loading it as a workload says why."""
    tree = _tree(file)
    if name is not None or not tree.body:
        return False
    # Marked, or taking the API from advisor, where the mark was forgotten. A variable of the script's that is
    # named workload is neither.
    if any(_is_marked(node) or _takes_api(node) for node in ast.walk(tree)):
        return False
    return bool(arguments) or _imports_library(file)


def _imports_library(file: Path) -> bool:
    names, waiting = set[str](), [file]
    while waiting:
        new = imported(_tree(waiting.pop())) - names
        names |= new
        waiting += [near for name in new if (near := file.parent / f"{name}.py").exists()]
        waiting += [near for name in new for near in islice((file.parent / name).rglob("*.py"), _MOST_FILES)]
    return bool(names & _LIBRARIES)


def script_record(file: Path, module: str = "") -> WorkloadRecord:
    """The script in the place of a workload, started by the name of a module or by its file."""
    summary = (ast.get_docstring(_tree(file)) or "").partition("\n")[0]
    name, digest = module or file.stem, hashlib.sha256(file.read_bytes()).hexdigest()
    return WorkloadRecord(
        name=name, file=relative(file), sha256=digest, summary=summary, parameters={}, buffers=(), stages=()
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
        step = "For example: workloads/vector_add.py."
        raise UsageError(f"{target!r} is not FILE or FILE::NAME", next_step=step)
    if file.endswith(".json"):
        step = f"To show a profile: advisor report {file}"
        raise UsageError(f"{file} is JSON, such as a profile, and not a workload", next_step=step)
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
        step = "Run it from the folder in which `python -m` finds it."
        raise UsageError(f"-m {name}: the module was not found or cannot be run", next_step=step)
    return Path(os.path.relpath(spec.origin))


ArrayT = TypeVar("ArrayT")


def result(array: ArrayT, name: str = "") -> ArrayT:
    """Names a result of a script and gives the array back.

    array: CuPy, NumPy, or whatever NumPy can read. name: for messages. A script that is run by itself, or
    recorded by `advisor profile`, does nothing more with it.
    """
    del name
    return array
