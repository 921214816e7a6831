"""What many profiles leave behind: a few here; `make soak` makes 500."""

from __future__ import annotations

import mmap
import subprocess
import sys
import tempfile
from pathlib import Path

from soak import MOST_GROWTH, WARM, soak


def test_a_few_profiles_leave_nothing(tmp_path: Path) -> None:
    assert soak(WARM + 1, tmp_path) == []


def test_what_is_left_is_found(tmp_path: Path) -> None:
    kept = []

    def careless(folder: Path) -> None:
        kept.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))
        kept.append(mmap.mmap(-1, MOST_GROWTH))  # not where what others freed lies
        kept[-1].write(b"x" * MOST_GROWTH)
        tempfile.mkdtemp()
        (folder / ".profile.json.part").touch()

    found = soak(WARM + 2, tmp_path, careless, lambda backend, strategy: backend.host_alloc(64))
    for process in kept[::2]:
        with process:
            process.kill()
    for sign in ("a process", "a temporary file", "a part of a file", "MB more", "zero-copy leaves pinned"):
        assert any(sign in what for what in found), sign
