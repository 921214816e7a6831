"""What a process of ours does about its parent."""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress
from pathlib import Path

try:
    _HERE = Path.cwd()
except OSError:  # it was removed: there is nothing to go back to
    _HERE = Path("/")
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
    """The directory in which this process began, to which the paths it was given are relative."""
    with suppress(OSError):
        os.chdir(_HERE)
