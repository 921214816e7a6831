"""Checks of the environment before the program is loaded; imports next to nothing.

Variables of Python and of the shell that would change what a command does, limits under which Python itself
fails, and modules of the user's that hide Python's.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

_COMPLETE = "_ADVISOR_COMPLETE"
_SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")
_WORDS = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")
_LEAST: Mapping[int, tuple[int, str, str, str]] = {
    resource.RLIMIT_NOFILE: (32, "open files", "{}", "ulimit -n 1024"),
    resource.RLIMIT_AS: (300 << 20, "addresses", "{} bytes", "ulimit -v unlimited"),
    resource.RLIMIT_STACK: (128 << 10, "the stack", "{} bytes", "ulimit -s 8192"),
}
"""A run on the CPU fails with 16 open files, not with 24; imports crash with 64 KiB of stack, not 128,
and end in NumPy's exit code 1 or a MemoryError with 200 MB of addresses, not 300."""
_NEEDED = ("numpy", "pydantic", "pydantic_core", "typer", "jinja2", "rich", "psutil")


def prepare() -> None:
    """Removes environment variables that would change how a command begins or ends."""
    if os.environ.pop("PYTHONINSPECT", None) and sys.flags.inspect:
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # Python reads it before the program
    if not is_completion(sys.argv[1:], os.environ):
        os.environ.pop(_COMPLETE, None)


def is_completion(arguments: list[str], environment: Mapping[str, str]) -> bool:
    """Whether a shell asks for completions: without arguments, and with the words so far."""
    instruction, _, shell = environment.get(_COMPLETE, "").partition("_")
    words = instruction == "source" or (instruction == "complete" and any(w in environment for w in _WORDS))
    return not arguments and words and shell in _SHELLS


def obstacle() -> tuple[str, str]:
    """A limit too low to run under, and the next step; two empty texts if there is none."""
    for limit, (least, what, text, step) in _LEAST.items():
        soft = resource.getrlimit(limit)[0]
        if soft != resource.RLIM_INFINITY and soft < least:
            return f"the limit on {what} is {text.format(soft)}; advisor needs {least}", f"Raise it: {step}"
    return "", ""


def hidden() -> tuple[str, str]:
    """The module in PYTHONPATH that hides one of Python's or of advisor's dependencies, after a failure."""
    for folder in filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)):
        paths: list[Path] = []
        with suppress(OSError):
            paths = sorted(Path(folder).iterdir())
        for path in paths:
            name = path.name.removesuffix(".py")
            is_module = name != path.name or (path / "__init__.py").is_file()
            installed = any(each.name.lower().startswith(f"{name}-") for each in paths)  # its metadata
            if is_module and (name in sys.stdlib_module_names or (name in _NEEDED and not installed)):
                return f"{str(path)!r} in PYTHONPATH hides a module that advisor needs", "Rename it."
    return "", ""


def leave_if_hidden() -> None:
    """Exits with 2 if a hidden module explains a failure. Imports nothing, which might fail again."""
    wrong, step = hidden()
    if wrong:
        leave(wrong, step, 2)


def leave(wrong: str, step: str, code: int) -> NoReturn:
    sys.stderr.write(f"error: {wrong}\n  next: {step}\n")
    sys.exit(code)
