"""How a process that advisor starts follows its parent, and its working directory."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_START: list[Path] = []
TELL_WHERE, WHERE = signal.SIGRTMAX, "where"
"""The signal has a worker write to that file of its folder where it is."""
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Processes that this one's descendants leave behind become its children."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int, by: signal.Signals = signal.SIGKILL) -> None:
    """A killed parent leaves no child behind, and when memory is out the kernel takes the child."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, by)
    if parent and os.getppid() != parent:  # it died while this process was still starting
        os._exit(1)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def tell_where_on_request(directory: Path) -> None:
    """On `TELL_WHERE` the stack goes to a file, also from within a call that does not return."""
    with suppress(OSError, ValueError, RuntimeError):
        descriptor = os.open(directory / WHERE, os.O_WRONLY | os.O_CREAT, 0o600)
        faulthandler.register(TELL_WHERE, file=descriptor, all_threads=False)


def start_here() -> None:
    """Remembers the working directory, to which the paths of a job are relative."""
    with suppress(OSError):
        _START[:] = [Path.cwd()]


@contextmanager
def beginning_in(folder: Path) -> Iterator[None]:
    """Makes a folder the working directory within, and where `back_to_start` goes."""
    start, here = list(_START), Path.cwd()
    _START[:] = [folder]
    back_to_start()
    try:
        yield
    finally:
        _START[:] = start
        os.chdir(here)


def back_to_start() -> None:
    """Goes back to it; the user's code may have gone elsewhere."""
    with suppress(OSError):
        for start in _START:
            os.chdir(start)
