"""Writes what an installed CuPy has: its names, their parameters, and which functions wait for the GPU.

Needs CuPy and no GPU: python tests/cupy_coverage.py advisor/measure/cupy_mock
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import cupy

MODULES = ("", "linalg", "fft", "random", "testing", "polynomial", "lib", "lib.stride_tricks")
UFUNC = "x1 x2 x3 out * casting dtype"
"""What `cupy._core._kernel.ufunc.__call__` takes; numbers of inputs are NumPy's."""


def parameters(function: Any) -> str | None:
    """Names of parameters; * ends those that can go without their name. None where they cannot be read."""
    if isinstance(function, cupy.ufunc):
        return UFUNC
    try:
        given = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return of_docstring(function)
    words = []
    for one in given:
        if one.kind is one.KEYWORD_ONLY and "*" not in words:
            words.append("*")
        words.append({one.VAR_POSITIONAL: "*args", one.VAR_KEYWORD: "**"}.get(one.kind, one.name))
    return " ".join(words)


def of_docstring(function: Any) -> str | None:
    """The same of a function in C, whose docstring begins with its signature."""
    name = getattr(function, "__name__", "")
    found = re.match(rf"(?:[\w.]+\.)?{re.escape(name)}\((.*)\)", (function.__doc__ or "").partition("\n")[0])
    if not name or not found:
        return None
    words = (
        part.partition("=")[0].split()[-1:]
        for part in found[1].split(",")
        if part.strip() not in ("", "self", "/")
    )
    return " ".join("**" if word[0].startswith("**") else word[0] for word in words if word)


def members(where: Any, prefix: str) -> dict[str, Any]:
    return {prefix + name: getattr(where, name, None) for name in dir(where) if not name.startswith("_")}


def main(folder: Path) -> None:
    found: dict[str, Any] = {}
    for module in MODULES:
        where = cupy
        for part in filter(None, module.split(".")):
            where = getattr(where, part, None)
        if isinstance(where, ModuleType):
            found |= members(where, f"{module}." if module else "")
    methods = members(cupy.ndarray, "")
    version = ".".join(cupy.__version__.split(".")[:2])
    data = {
        "cupy": cupy.__version__,
        "source": "introspection; the comparison table of its documentation lists the same names: "
        "https://docs.cupy.dev/en/stable/reference/comparison.html",
        "command": "python tests/cupy_coverage.py advisor/measure/cupy_mock",
        "names": {name: parameters(one) if callable(one) else None for name, one in sorted(found.items())},
        "ndarray": {
            name: parameters(one) if callable(one) else None for name, one in sorted(methods.items())
        },
        "waits": sorted(
            name for name, one in found.items() if "may synchronize" in " ".join(str(one.__doc__).split())
        ),
    }
    path = folder / f"cupy-{version}.json"
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
