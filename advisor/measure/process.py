"""What a process of ours does about its parent."""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress
from pathlib import Path

_START: list[Path] = []
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


def back_to_start() -> None:
    """Where this process was when it first asked, before any code of the user: paths are relative to it."""
    with suppress(OSError):
        if not _START:
            _START.append(Path.cwd())
        os.chdir(_START[0])
