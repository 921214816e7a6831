"""Runs a command that may run code of a pull request, and takes back what that code left for later steps.

`python3 -I contained.py COMMAND...`. The command gets none of the files by which a step sets variables, paths
and outputs. Everything it started is ended before those files are restored: a process cannot hide from its
subreaper (prctl(2), PR_SET_CHILD_SUBREAPER), and none is left that could write later.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

_FILES = ("GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STATE")
_SUBREAPER = 36
_PATIENCE = 10.0
"""Seconds for processes that were killed to be gone."""


class Kept:
    """One of the files, as it was before the command ran."""

    def __init__(self, path: Path) -> None:
        self._path = path
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            self._place = _place(os.fstat(descriptor))
            self._content = file.read()

    def restore(self) -> None:
        """Its content again; a link, a folder or another file in its place is removed, not followed."""
        flags = os.O_TRUNC
        try:
            same = _place(os.lstat(self._path)) == self._place
        except OSError:
            same = False
        if not same:
            flags = os.O_CREAT | os.O_EXCL
            if self._path.is_dir() and not self._path.is_symlink():
                shutil.rmtree(self._path, ignore_errors=True)
            with suppress(OSError):
                self._path.unlink()
        descriptor = os.open(self._path, os.O_WRONLY | os.O_NOFOLLOW | flags, 0o644)
        with os.fdopen(descriptor, "wb") as file:
            file.write(self._content)


def _place(status: os.stat_result) -> tuple[int, int, bool]:
    return status.st_dev, status.st_ino, stat.S_ISREG(status.st_mode)


def main(command: list[str]) -> int:
    """Runs it; its exit code."""
    named = {name: Path(path) for name in _FILES if (path := os.environ.get(name, ""))}
    kept = [Kept(path) for path in named.values() if path.is_file() and not path.is_symlink()]
    ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0)
    variables = {name: value for name, value in os.environ.items() if name not in named}
    early: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: early.append(number))
    process = subprocess.Popen(command, env=variables)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: _pass_on(process, number))
    for number in early:
        _pass_on(process, number)
    try:
        code = _wait(process)
    finally:
        _end_all()
        for file in kept:
            file.restore()
    return code if code >= 0 else 128 - code


def _pass_on(process: subprocess.Popen[bytes], number: int) -> None:
    """Leaves it unreaped, unlike `Popen.send_signal`: its exit code is for `_wait`."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Its exit code. Orphans are reaped meanwhile: the command may wait for them to be gone."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == process.pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode


def _end_all() -> None:
    """Kills what is left of the command's processes, whose orphans are this one's children."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        for pid in _children():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.01)


def _children() -> list[int]:
    children = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if int(fields[1]) == os.getpid():
                children.append(int(path.parent.name))
    return children


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
