"""The workload's files for a worker: the file, and what it imports from its own folder. Packed as text.

An imported module beside the file travels, an imported package with everything in it, `--send` adds more.
What travels is few and small, and no link: a link could name any file of this machine.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from advisor import units
from advisor.errors import FileProblem, UsageError, WorkloadError
from advisor.strategies.syntax import last_name

LARGEST = 8_000_000
"""Bytes of all files: they travel with every task."""
MOST = 1000
_LEFT_OUT = ("__pycache__",)
_SEND_LESS = "Move data out of the package and read it from a path that exists on every machine."


@dataclass(frozen=True)
class Package:
    """Files by their path relative to the workload's folder; `file` is the workload's."""

    file: str
    files: Mapping[str, bytes]

    @property
    def digest(self) -> str:
        digest = hashlib.sha256()
        for name, data in sorted(self.files.items()):
            digest.update(f"{name}\0{len(data)}\0".encode() + data)
        return digest.hexdigest()

    @property
    def contents(self) -> str:
        """The contents in a line: `w.py, helper.py, mine/ (12 files), 34 KB`."""
        folders: dict[str, int] = {}
        for name in self.files:
            top, slash, _ = name.partition("/")
            folders[top + slash] = folders.get(top + slash, 0) + 1
        names = [f"{name} ({n} files)" if name.endswith("/") else name for name, n in folders.items()]
        return f"{', '.join(names)}, {units.size(sum(map(len, self.files.values())))}"

    def packed(self) -> dict[str, str]:
        return {name: base64.b85encode(zlib.compress(data)).decode() for name, data in self.files.items()}


def gather(file: Path, more: Sequence[Path] = ()) -> Package:
    """The file and what it imports from its folder. Raises `FileProblem`, `WorkloadError` or `UsageError`."""
    folder = file.resolve().parent if not file.is_symlink() else file.parent.absolute()
    if not file.exists():
        raise FileProblem(
            f"{file} does not exist", next_step="Give the path of a Python file with a @workload."
        )
    files: dict[str, bytes] = {}
    waiting = [folder / file.name]
    for path in waiting:  # grows
        for each in _files(path):
            name = each.relative_to(folder).as_posix()
            if name not in files:
                files[name] = _read(each, files)
                if each.suffix == ".py":
                    waiting += _imported(files[name], each, folder)
    for extra in more:
        for each in _files(extra):
            files[each.relative_to(extra.parent).as_posix()] = _read(each, files)
    return Package(file.name, files)


def unpack(files: Mapping[str, str], folder: Path) -> None:
    """Writes the files into the folder. Raises `UsageError` for a path that leads out of it, or too much."""
    total = 0
    for name, text in files.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise UsageError(f"the file {name!r} would lie outside the task's folder")
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(base64.b85decode(text), LARGEST + 1 - total)
        total += len(data)
        if total > LARGEST:
            raise UsageError(f"the files hold more than {units.size(LARGEST)}")
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


def _files(path: Path) -> Iterator[Path]:
    """The file itself, or all files of a package, without compiled ones and hidden folders."""
    if path.is_symlink():
        raise UsageError(
            f"{path} is a symbolic link; links are not sent",
            next_step="Replace it by a copy of what it points to.",
        )
    if path.is_file():
        yield path
        return
    if not path.is_dir():
        raise FileProblem(f"{path} does not exist", next_step="Give the path of a file or folder to send.")
    for inner in sorted(path.iterdir()):
        if inner.name not in _LEFT_OUT and not inner.name.startswith(".") and inner.suffix != ".pyc":
            yield from _files(inner)


def _read(path: Path, before: Mapping[str, bytes]) -> bytes:
    if len(before) >= MOST:
        raise UsageError(f"more than {MOST} files would be sent, {path} among them", next_step=_SEND_LESS)
    try:
        with path.open("rb") as file:
            room = LARGEST - sum(map(len, before.values()))
            data = file.read(room + 1)
    except OSError as problem:
        raise FileProblem(
            f"{path} cannot be read: {problem.strerror}", next_step="Check its permissions."
        ) from None
    if len(data) > room:
        raise UsageError(
            f"the files to send hold more than {units.size(LARGEST)}; {path} is one too many",
            next_step=_SEND_LESS,
        )
    return data


def _imported(source: bytes, file: Path, folder: Path) -> Iterator[Path]:
    """Modules and packages of the folder that a file of it imports, by their outermost names."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        if file.parent != folder:
            return
        raise WorkloadError(f"{file} is not valid Python: {problem}", next_step="Fix the file.") from None
    for name in dict.fromkeys(_names(tree)):
        for path in (folder / name, folder / f"{name}.py"):
            if name.isidentifier() and (path.is_file() or (path.is_dir() and any(path.rglob("*.py")))):
                yield path
                break


def _names(tree: ast.AST) -> Iterable[str]:
    """The first part of each imported name; of `from . import a, b` all names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (
                [(node.module or "").partition(".")[0]] if node.module else [a.name for a in node.names]
            )
        elif isinstance(node, ast.Call) and last_name(node.func) in ("import_module", "__import__"):
            argument = node.args[0] if node.args else None
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                yield argument.value.lstrip(".").partition(".")[0]
