"""Folders that commands write: nothing is replaced or removed there that advisor did not write.

`advisor-files.json` in each folder names the files that advisor wrote there, with their hashes. A file that
it does not name, that has changed since, or that is reached through a link belongs to the user.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path, PurePath
from typing import Literal

from pydantic import Field, ValidationError

from advisor.errors import FileProblem, UsageError
from advisor.profiles.base import Record
from advisor.profiles.files import opened, read_bytes, replacing, write_atomically

MANIFEST = "advisor-files.json"
PREVIOUS = "previous"
SET_ASIDE = (*(f"{kind}.{form}" for kind in ("report", "sweep") for form in ("html", "md")), "profile.json")
"""Files that a run moves to `previous` before it writes its own."""
_LARGEST = 10_000_000
Hashes = tuple[str, ...]
"""SHA-256 of what is written, and of what it replaces: the file is either, even if the process is killed."""


class Manifest(Record):
    advisor: Literal["files"] = "files"
    files: dict[str, Hashes] = Field(default_factory=dict)


# What is there


def obstacle(directory: Path, name: str) -> str:
    """The reason why advisor must not write that file, with its path; "" if there is none.

    name: relative to the directory, which may be a link itself; what is below it may not.
    """
    if link := link_in(directory, name):
        return f"{link} is a link"
    path = directory / name
    for folder in (directory / parent for parent in PurePath(name).parents):
        if folder.exists() and not folder.is_dir():
            return f"{folder} is not a folder"
    if kind := _kind(path):
        return "" if kind == "absent" else f"{path} is {kind}"
    if _digest(path) not in _files(path.parent).get(path.name, ()):
        return f"{path} was not written by advisor, or has changed since"
    return ""


def link_in(directory: Path, name: str) -> Path | None:
    """The first link on the way from the directory to that file, the file included."""
    path = directory
    for part in PurePath(name).parts:
        path /= part
        if path.is_symlink():
            return path
    return None


def unused(path: Path, taken: Callable[[Path], object] = os.path.lexists) -> Path:
    """The path, or the first numbered one that is free."""
    numbered = (path.with_stem(f"{path.stem}-{n}") if n > 1 else path for n in count(1))
    return next(each for each in numbered if not taken(each))


def is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _kind(path: Path) -> str:
    """ "absent" or the kind of file there; "" for a regular one."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return "absent"
    if stat.S_ISREG(mode):
        return ""
    return "a link" if stat.S_ISLNK(mode) else "a folder" if stat.S_ISDIR(mode) else "not a regular file"


def _digest(path: Path) -> str:
    try:
        with opened(path) as file:
            digest = hashlib.sha256()
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError:
        return ""
    return digest.hexdigest()


def require_free(directory: Path, names: Iterable[str], option: str = "--out") -> None:
    """Raises `UsageError` for the first file that cannot be written without loss of the user's."""
    wanted = list(names)
    problem = "" if directory.is_dir() else f"{directory} is not a directory"
    problem = problem or f"{directory} cannot be written" * (not os.access(directory, os.W_OK))
    for name in wanted:
        problem = problem or obstacle(directory, name)
    for folder in dict.fromkeys((directory / name).parent for name in wanted):
        if not problem and folder.is_dir() and _manifest(folder) is None:
            problem = f"{folder / MANIFEST} is damaged: it should list the files that advisor wrote"
    if problem:
        raise UsageError(problem, next_step=f"Choose another {option}, or move that file away.")


def require_new(paths: Iterable[Path], *, force: bool, option: str = "") -> None:
    """Raises `UsageError` for a path that exists; with `force` for what is not a file, as a link."""
    for path in paths:
        if os.path.lexists(path) and not (force and is_plain(path)):
            what = "exists" if path.exists() else "is a broken link"
            replacing = ", or add --force to replace the file" * is_plain(path)
            raise UsageError(f"{option}{path} {what}", next_step=f"Choose another name{replacing}.")


# The list of what is advisor's


def _manifest(folder: Path) -> Manifest | None:
    """The list of a folder; None where it is damaged or not advisor's."""
    path = folder / MANIFEST
    kind = _kind(path)
    if kind == "absent":
        return Manifest()
    with suppress(OSError, ValidationError):
        if not kind:
            return Manifest.model_validate_json(read_bytes(path, _LARGEST))
    return None


def _files(folder: Path) -> Mapping[str, Hashes]:
    manifest = _manifest(folder)
    return manifest.files if manifest else {}


def _record(folder: Path, changes: Mapping[str, Hashes | None]) -> None:
    """Updates the list; None removes a file from it. A damaged list is left. Raises `FileProblem`."""
    manifest = _manifest(folder)
    if manifest is None:
        return
    files = {**manifest.files, **changes}
    remaining = {name: hashes for name, hashes in sorted(files.items()) if hashes is not None}
    if remaining:
        write_atomically(folder / MANIFEST, Manifest(files=remaining).model_dump_json(indent=1) + "\n")
    else:
        (folder / MANIFEST).unlink(missing_ok=True)


# Writing


def write(directory: Path, name: str, text: str) -> Path:
    """Writes the file; as report-2.html where report.html is the user's by now. Returns its path.

    Raises `FileProblem`.
    """
    digest = hashlib.sha256(text.encode()).hexdigest()
    return _put(directory, name, digest, lambda path: path.write_text(text, encoding="utf-8"))


def copy(source: Path, directory: Path, name: str) -> Path:
    return _put(directory, name, _digest(source), lambda path: shutil.copyfile(source, path))


def _put(directory: Path, name: str, digest: str, fill: Callable[[Path], object]) -> Path:
    try:
        path = directory / _free(directory, Path(name))
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise FileProblem(
            f"{directory / name} cannot be written: {problem.strerror or problem}",
            next_step="Choose a path you can write to.",
        ) from None
    _record(path.parent, {path.name: tuple(dict.fromkeys(filter(None, (digest, _digest(path)))))})
    with replacing(path) as part:
        fill(part)
    return path


def _free(directory: Path, name: Path) -> str:
    """The name, or the first of report-2.html or traces-2/pinned.nsys-rep, and so on, that can be written."""
    if len(name.parts) > 1:
        return f"{free_folder(directory, str(name.parent), [name.name])}/{name.name}"
    return str(unused(name, lambda each: obstacle(directory, str(each))))


def instead_of(path: Path) -> Path | None:
    """The path that `write` was given, if the user's file there made it write this one beside it."""
    wanted = path.with_stem(re.sub(r"-\d+$", "", path.stem))
    return wanted if wanted != path and wanted.exists() else None


def free_folder(directory: Path, relative: str, names: Iterable[str]) -> str:
    """The folder, or the first of that name with a number, in which all these files can be written."""
    first, *rest = PurePath(relative).parts
    wanted = list(names)
    numbered = ("/".join([f"{first}-{n}" if n > 1 else first, *rest]) for n in count(1))
    return next(f for f in numbered if not any(obstacle(directory, f"{f}/{name}") for name in wanted))


def remove(directory: Path, *names: str) -> None:
    for name in names:
        path = directory / name
        if not obstacle(directory, name) and path.name in _files(path.parent):
            path.unlink(missing_ok=True)
            _record(path.parent, {path.name: None})


def set_aside(directory: Path) -> Path | None:
    """Moves the report of an earlier run to `previous`, in place of the one before; where it is then."""
    report = _own_report(directory)
    if not report:
        return None
    previous = directory / free_folder(directory, PREVIOUS, report)
    previous.mkdir(exist_ok=True)
    remove(previous, *SET_ASIDE)
    _record(previous, {name: (_digest(directory / name),) for name in report})
    for name in report:
        (directory / name).replace(previous / name)
    _record(directory, dict.fromkeys(report))
    return previous


def _own_report(directory: Path) -> list[str]:
    """The files of an earlier run's report, without what is the user's."""
    return [n for n in SET_ASIDE if _kind(directory / n) == "" and not obstacle(directory, n)]


# One command's folder


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Two runs into one directory would mix their files; a file system without locks has none."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            step = "Choose another directory, or wait for that run to end."
            raise UsageError(f"--out {directory} is in use by another run", next_step=step) from None
        except OSError:
            pass
        yield
    finally:
        os.close(descriptor)


@contextmanager
def output_directory(directory: Path, names: Sequence[str] = (), *, aside: bool = False) -> Iterator[Path]:
    """Makes sure that the files can be written before anything is measured; removes empty folders it made.

    aside: whether the report of an earlier run is moved to `previous`. Raises `UsageError`, also where
    another run writes there.
    """
    if not str(directory).strip() or directory == Path():
        directory = Path.cwd()
    try:
        created = [folder for folder in (directory, *directory.parents) if not folder.exists()]
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as problem:
        raise UsageError(
            f"--out {directory} cannot be written: {problem.strerror or problem}",
            next_step="Choose a directory you can write to: --out DIR.",
        ) from None
    try:
        with _locked(directory):
            require_free(directory, names)
            if aside:
                require_free(directory, [f"{PREVIOUS}/{name}" for name in _own_report(directory)])
            yield directory
    finally:
        with suppress(OSError):  # a folder that holds something stays
            for folder in created:
                folder.rmdir()


# Baselines by name: profiles that `advisor profile --save NAME` keeps and `advisor compare NAME` finds


_BASELINES = Path("advisor-baselines")
_BASELINE = re.compile(r"\w[\w.-]{0,63}", re.ASCII)


def baseline_folder(name: str) -> Path:
    """Where the profile of that name lies, from the working directory on. Raises `UsageError`."""
    if not _BASELINE.fullmatch(name):
        step = "Use letters, digits, dots and hyphens, such as --save main."
        raise UsageError(f"--save {name!r} is not the name of a baseline", next_step=step)
    return _BASELINES / name


def is_baseline(path: Path) -> bool:
    """Whether that is the name of a baseline; a file or folder of the name comes first."""
    return bool(_BASELINE.fullmatch(str(path))) and not path.exists() and (_BASELINES / path).is_dir()
