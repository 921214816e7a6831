"""A file that a fresh process can import, for whatever the caller calls a workload."""

from __future__ import annotations

import functools
import inspect
import linecache
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from advisor.errors import UsageError
from advisor.workloads import notebook_source
from advisor.workloads.definition import Definition, Workload

_GIVE = "Give a file, FILE::NAME, or the function marked with @workload."


@contextmanager
def source(workload: object) -> Iterator[str]:
    """FILE or FILE::NAME; of a function in a notebook's cell a file made of its source, while it is needed.

    Raises `UsageError` where no process but this one could run it.
    """
    if isinstance(workload, (str, Path)):
        yield str(workload)
        return
    function = _function(workload)
    file = function.__code__.co_filename
    if Path(file).is_file():
        yield f"{_relative(file)}::{function.__name__}"
    elif linecache.getlines(file):
        text = notebook_source.as_file(function)
        with tempfile.TemporaryDirectory(prefix="advisor-cell-") as folder:
            path = Path(folder) / f"{function.__name__}.py"
            path.write_text(text, encoding="utf-8")
            yield f"{path}::{function.__name__}"
    else:
        raise UsageError(
            f"{function.__name__} has no source text, so that no other process can run it",
            next_step="Write it to a file, and give that.",
        )


def _function(workload: object) -> Any:
    """The plain function behind a `Definition` at the top of a file or cell."""
    if isinstance(workload, Workload):
        raise UsageError(
            "this is a Workload; every process has to make its own",
            next_step="Give the function that returns it, marked with @workload, without calling it.",
        )
    if not isinstance(workload, Definition):
        raise UsageError(f"{workload!r} is no workload", next_step=_GIVE)
    function = inspect.unwrap(workload.function)
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isfunction(function) or "<locals>" in function.__qualname__:
        raise UsageError(
            f"{workload.name} is made inside of another function, where no other process can reach it",
            next_step="Define it at the top of a file or of a cell.",
        )
    return function


def _relative(file: str) -> str:
    """Relative to the working directory where that is possible, as on the command line."""
    path = Path(file).resolve()
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
