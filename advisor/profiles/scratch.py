"""Folders for what a run needs while it lasts. Jobs in them hold the values of parameters, even of secrets.

Each is locked by the process that made it. The kernel ends the lock however that process ends, SIGKILL
included, so a folder whose lock is free is nobody's, and whoever starts next removes it. The lock's file says
which folder it was made for: no folder of the user's is taken for one, whatever its name and its files.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

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
            if os.read(descriptor, 1000) == _identity(folder):
                shutil.rmtree(folder, ignore_errors=True)
            os.close(descriptor)


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
