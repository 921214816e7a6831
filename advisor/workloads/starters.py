"""`advisor new`: a commented workload to start from, or a copy of an example."""

from __future__ import annotations

import keyword
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from advisor.errors import FileProblem, UsageError, nearest
from advisor.profiles.files import write_atomically
from advisor.profiles.outputs import is_plain

_PACKAGE = Path(__file__).resolve().parent.parent
_NAME = "starter"
_TAKEN = {"numpy", "cupy", "torch", "numba", "advisor", "parts", "cuda", "onnxruntime", "cv2"}


def examples(package: Path = _PACKAGE) -> dict[str, Path]:
    """The example workloads by name: inside the installed package, or at the root of a checkout."""
    installed = package / "examples"
    folder = installed if installed.is_dir() else package.parent / "workloads"
    return {path.stem: path for path in sorted(folder.glob("*.py"))}


def write(file: Path, *, like: str | None = None, text: str | None = None, force: bool = False) -> list[Path]:
    """Writes the workload and what it needs beside it; the paths, the workload's first.

    text: the workload itself, in place of the starter.

    Raises `UsageError` for a name that Python cannot import, an example that is not there, or a file that
    exists (unless `force`) or cannot be written.
    """
    require_name(file)
    texts = _like(file, like) if like else {file: text or _starter(file)}
    require_free(texts, force=force)
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, text)
    except OSError as problem:
        raise UsageError(
            f"{problem.filename or file} cannot be written: {problem.strerror or problem}",
            next_step="Choose a directory you can write to.",
        ) from None
    except FileProblem as problem:
        raise UsageError(problem.message, next_step="Choose a directory you can write to.") from None
    return list(texts)


def require_name(file: Path) -> None:
    """Raises `UsageError` for a name that Python cannot import."""
    if file.suffix != ".py" or not file.stem:
        raise UsageError(f"{file} does not end in .py", next_step=f"Write {file}.py, for example.")
    if file.stem in _TAKEN or file.stem in sys.stdlib_module_names:
        raise UsageError(
            f"{file.name} would hide the module {file.stem!r} from other imports",
            next_step="Choose another name.",
        )


def require_free(paths: Iterable[Path], *, force: bool) -> None:
    """Raises `UsageError` for a path that exists; with `force` for what is not a file, as a link."""
    for path in paths:
        if os.path.lexists(path) and not (force and is_plain(path)):
            raise UsageError(
                f"{path} exists" if path.exists() else f"{path} is a link to nothing",
                next_step="Choose another name"
                + (", or add --force to replace the file." if is_plain(path) else "."),
            )


def _starter(file: Path) -> str:
    installed = _PACKAGE / "templates"
    folder = installed if installed.is_dir() else _PACKAGE.parent / "templates"
    text = (folder / f"{_NAME}.py").read_text(encoding="utf-8")
    function = function_name(file)
    return text.replace(f"{_NAME}.py", file.name).replace(f"def {_NAME}(", f"def {function}(")


def function_name(file: Path) -> str:
    name = re.sub(r"\W", "_", file.stem)
    return name if name.isidentifier() and not keyword.iskeyword(name) else f"workload_{name}"


def _like(file: Path, name: str) -> dict[Path, str]:
    """The example under its new name, and the files of parts/ that it speaks of under their own."""
    known = examples()
    if name not in known:
        raise UsageError(
            f"there is no example {name!r}{nearest(name, known)}",
            next_step=f"Choose from {', '.join(known)}.",
        )
    text = known[name].read_text(encoding="utf-8")
    parts = sorted(p for p in (known[name].parent / "parts").glob("*.*") if re.search(rf"\b{p.stem}\b", text))
    used = parts if re.search(r"^from parts\b", text, re.MULTILINE) else []
    return {file: text} | {file.parent / "parts" / p.name: p.read_text(encoding="utf-8") for p in used}
