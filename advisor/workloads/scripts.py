"""Whether a file is a script, told from its text; what one puts out, so that strategies can be compared."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import numpy as np

from advisor.errors import NothingToChange
from advisor.workloads.outline import last_name, parsed

_API = {"workload", "Workload"}
_CUPY = {"cupy", "cupyx"}
_OTHERS = {"torch": "PyTorch", "numba": "Numba"}
_MAY_BRING_CUPY = {
    *_CUPY,
    *("cudf", "dask_cudf", "cuml", "cugraph", "cuspatial", "cucim", "cuvs", "pylibraft", "rmm", "cusignal"),
    *("spacy", "thinc", "chainer", "importlib", "runpy"),
}
"""CuPy, libraries that are built on it, and modules that import by name."""


def is_script(file: Path, name: str | None, arguments: Sequence[str]) -> bool:
    """A file without @workload that is given arguments or imports CuPy, PyTorch or Numba; not FILE::NAME.

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
    return bool(arguments) or bool(set(_imports(tree)) & {*_CUPY, *_OTHERS})


def require_cupy(file: Path) -> None:
    """Raises `NothingToChange` where neither the file nor a neighbour of it that is imported imports CuPy, a
    library that brings it, or anything by a name that it computes."""
    found, waiting = set[str](), [file]
    while waiting:
        try:
            names = set(_imports(parsed(waiting.pop()))) - found
        except (OSError, SyntaxError, ValueError):
            return
        found |= names
        waiting += [near for name in names if (near := file.parent / f"{name}.py").exists()]
    if not found & _MAY_BRING_CUPY:
        libraries = sorted(_OTHERS[name] for name in found & {*_OTHERS})
        raise nothing_to_change(file, libraries, "imports" if libraries else "does not import CuPy")


def nothing_to_change(file: Path, libraries: Sequence[str], does: str = "") -> NothingToChange:
    """The answer for a script in which CuPy's allocators serve nothing."""
    if libraries:
        uses = f"{does or 'uses'} {' and '.join(libraries)}, not CuPy"
    else:
        uses = does or "makes no array with CuPy"
    guide = f"docs/frameworks/{libraries[0].lower()}.md" if libraries else "docs/tutorial.md"
    return NothingToChange(
        f"{file.name} {uses}: CuPy's allocators change nothing in it, so there is nothing to compare",
        next_step=f"To compare memory strategies, write a workload: {guide}.",
    )


def imported() -> set[str]:
    """The GPU libraries beside CuPy that this process has imported."""
    return {name for module, name in _OTHERS.items() if module in sys.modules}


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


ArrayT = TypeVar("ArrayT")
Keep = Callable[[Any, str], None]
_keep: Keep | None = None


def result(array: ArrayT, name: str = "") -> ArrayT:
    """Gives the array back; under `advisor profile` also keeps it, to be compared between strategies.

    array: CuPy, NumPy, or whatever NumPy can read. name: for messages; a number without. Where the script is
    run by itself it does nothing. Its time is not counted.
    """
    if _keep is not None:
        _keep(array, name)
    return array


class Results:
    """Keeps what `advisor.result` is given as .npy files. `seconds` is the time that took."""

    def __init__(self, directory: Path) -> None:
        self.names: list[str] = []
        self.seconds = 0.0
        self.unobserved: Callable[[], AbstractContextManager[object]] = nullcontext
        """In which its own copies are made, so that nobody counts them as the script's."""
        self._directory = directory

    @contextmanager
    def listening(self) -> Iterator[None]:
        global _keep
        _keep = self.keep
        try:
            yield
        finally:
            _keep = None

    def keep(self, array: Any, name: str) -> None:
        begin = perf_counter()
        with self.unobserved():
            plain = _on_host(array)
        plain_name = re.sub(r"[^\w-]", "_", name)[:60]
        label = f"{len(self.names)}-{plain_name}" if name else str(len(self.names))
        self._directory.mkdir(parents=True, exist_ok=True)
        np.save(self._directory / f"{label}.npy", plain, allow_pickle=False)
        self.names.append(label)
        self.seconds += perf_counter() - begin


def _on_host(array: Any) -> Any:
    """CuPy's arrays have get, PyTorch's cpu, Numba's copy_to_host; anything else NumPy reads itself."""
    if hasattr(array, "detach"):
        array = array.detach().cpu()
    for method in ("get", "copy_to_host"):
        if hasattr(array, method):
            return np.asarray(getattr(array, method)())
    return np.asarray(array)


@contextmanager
def stdout_into(path: Path) -> Iterator[None]:
    """Descriptor 1 goes into a file, so that what C libraries and child processes print is there too."""
    sys.stdout.flush()
    before = os.dup(1)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 1)
        try:
            yield
        finally:
            sys.stdout.flush()
            os.dup2(before, 1)
            os.close(before)


def digest(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()
