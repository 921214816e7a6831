"""The functions that the code to copy begins with (functions.txt), and the imports that it needs."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

_IMPORTS = {name: f"import {name}" for name in ("ctypes", "cupy", "math", "mmap", "weakref")} | {
    "np": "import numpy as np",
    "runtime": "from cuda.bindings import runtime  # CuPy cannot prefetch to the CPU",
}


def _split(text: str) -> dict[str, str]:
    """Functions by name, each behind two empty lines."""
    return {part.partition("(")[0]: f"\n\ndef {part.rstrip()}\n" for part in f"\n{text}".split("\ndef ")[1:]}


_TEXT = Path(__file__).with_name("functions.txt").read_text(encoding="utf-8")
_FUNCTIONS, _ATTACHING = map(_split, _TEXT.split("# For a GPU that cannot prefetch:\n"))


def opening(code: str, imports: Sequence[str] = (), *, attaches: bool = False) -> str:
    """These imports and the functions that the code calls, with what they call and import themselves.

    attaches: `prefetch` attaches memory to the stream, for a GPU that cannot prefetch.
    """
    functions = _FUNCTIONS | (_ATTACHING if attaches else {})
    found: set[str] = set()
    while called := {name for name in functions if name not in found and f"{name}(" in code}:
        found |= called
        code = "".join(functions[name] for name in called)
    text = "".join(functions[name] for name in functions if name in found)
    lines = {*imports, *(line for name, line in _IMPORTS.items() if re.search(rf"(?<![.\w]){name}\.", text))}
    standard = sorted(line for line in lines if line.split()[1] in sys.stdlib_module_names)
    others = sorted(lines - set(standard), key=lambda line: (line.startswith("from"), line))
    return "\n".join((*standard, *([""] if standard else []), *others, text))
