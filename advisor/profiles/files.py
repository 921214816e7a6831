"""Files of text and of TOML: read in seconds at most, written in one step. Folders for what a run needs while
it lasts."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from advisor.errors import FileProblem, UsageError
from advisor.texts import shortened

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PACKAGE = Path(__file__).resolve().parent.parent
LARGEST = 64_000_000
"""Bytes of text: what takes about as long to read and show as a person waits. Checked by `make bench`."""


def shipped(installed: str, checkout: str, package: Path = PACKAGE) -> Path:
    """A folder that comes with advisor: inside the installed package, or at the root of a checkout."""
    inside = package / installed
    return inside if inside.is_dir() else package.parent / checkout


def read_whole(path: Path, largest: int = LARGEST) -> bytes:
    """All bytes of the text. Raises `FileProblem` for more than `largest`; `OSError`."""
    data = read_bytes(path, largest)
    if len(data) > largest:
        raise FileProblem(
            f"{path} holds more than {largest / 1e6:.0f} MB, the maximum for a report",
            next_step="Profile with fewer --rounds, fewer --max-seconds or fewer strategies.",
        )
    return data


def read_bytes(path: Path, largest: int) -> bytes:
    """At most one byte more than `largest`, so that a larger file is noticed. Raises OSError.

    Also of a FIFO or a device, without waiting for it.
    """
    with opened(path) as file:
        return file.read(largest + 1)


def opened(path: Path) -> BinaryIO:
    """Opens a regular file without waiting. Raises OSError, also for a FIFO or a device."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except ValueError as problem:  # a NUL in the name
        raise OSError(errno.EINVAL, str(problem)) from None
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "not a regular file", str(path))


def as_path(value: object) -> Path:
    """The path of a profile. Raises `UsageError` for what is neither a str nor a path."""
    if isinstance(value, (str, os.PathLike)):
        return Path(value)
    raise UsageError(f"{value!r} is not a path", next_step="Give the path of a profile.json: str or Path.")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new file beside the path, which takes its place at the end. Raises `FileProblem` when it cannot."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            os.umask(mask := os.umask(0))
            temporary.chmod(0o666 & ~mask)
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as problem:
        step = "Choose a path you can write to."
        raise FileProblem(f"{path} cannot be written: {problem.strerror}", next_step=step) from None


def write_atomically(path: Path, text: str) -> None:
    """Writes beside the target, then renames. Raises `FileProblem` when that cannot be done."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


_LARGEST_TOML = 1_000_000
"""Bytes. The largest file of the catalogue has 12,000."""
_MOST_PARTS = 30
"""Parts of one dotted key: reading takes time and memory by the square of them."""
_PART = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')"""
_LONG_KEY = re.compile(rf"(?<![\w-])(?:{_PART}[ \t]*\.[ \t]*){{{_MOST_PARTS}}}")


def read_toml(path: Path) -> dict[str, Any]:
    data = read_bytes(path, _LARGEST_TOML)
    if len(data) > _LARGEST_TOML:
        raise ValueError(f"it holds more than {_LARGEST_TOML / 1e6:g} MB")
    try:
        # Some editors put a byte order mark before UTF-8, which TOML does not know.
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        byte = problem.object[problem.start]
        raise ValueError(f"expected UTF-8, but byte {problem.start} is 0x{byte:02x}") from None
    if _LONG_KEY.search(text):
        raise ValueError(f"a key has more than {_MOST_PARTS} parts")
    return parse_toml(text)


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a text. Raises ValueError that says in a line what is wrong."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("its arrays or tables are nested too deep") from None
    except tomllib.TOMLDecodeError as problem:
        raise ValueError(f"expected TOML: {shortened(problem)}") from None
    except ValueError:  # Python's own limit
        raise ValueError("a number has too many digits") from None


# Folders of a run. Jobs in them hold the values of parameters, even of secrets. Each is locked by the process
# that made it. The kernel ends the lock however that process ends, SIGKILL included: a folder whose lock is
# free is nobody's, and whoever starts next removes it. The lock's file says which folder it was made for: no
# folder of the user's is taken for one, whatever its name and its files.

_PREFIX = "advisor-"
_LOCK = "advisor.lock"


@contextmanager
def scratch() -> Iterator[Path]:
    """An empty folder (but for its lock) for the block; a later process removes it if this one is killed."""
    remove_abandoned()
    while True:
        with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as name:
            descriptor = _locked(Path(name), os.O_CREAT, fcntl.LOCK_EX)
            try:
                if not Path(name).is_dir():  # an older advisor removed it before it was locked
                    continue
                if descriptor is not None:  # only now, locked, may it be taken for an abandoned one
                    os.write(descriptor, _identity(Path(name)))
                yield Path(name)
                return
            finally:
                if descriptor is not None:
                    os.close(descriptor)


def remove_abandoned() -> None:
    """Removes the folders of this user's processes that were killed; those of running ones stay."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if folder.is_symlink() or folder.lstat().st_uid != os.getuid():
                continue
            descriptor = _locked(folder, 0, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if descriptor is None:
                continue
            with os.fdopen(descriptor, "rb") as lock:  # closed, also where the folder goes just now
                if lock.read(1000) == _identity(folder):
                    shutil.rmtree(folder, ignore_errors=True)


def _identity(folder: Path) -> bytes:
    """Identifies the folder: a copy or a renamed one has another."""
    status = folder.stat()
    return f"{folder.name} {status.st_dev}:{status.st_ino}\n".encode()


def _locked(folder: Path, flags: int, how: int) -> int | None:
    """A descriptor that holds the folder's lock; None where there is none, or another process has it."""
    try:
        descriptor = os.open(
            folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | flags, 0o600
        )
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, how)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
