"""The commit that a file was at, asked of git; nothing where git is not there or does not know it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path

from advisor.profiles.schema import Commit

Git = Callable[[Sequence[str]], str]
"""What git prints for these arguments. Raises OSError or `subprocess.SubprocessError`."""
_SECONDS = 5.0
"""A file system that hangs must not hold up a run."""


def git(arguments: Sequence[str]) -> str:
    """Runs git, which reads only: it takes no lock and starts no program that the repository names."""
    quiet = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    command = ["git", "-c", "core.fsmonitor=false", *arguments]
    done = subprocess.run(
        command,
        env=quiet,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=_SECONDS,
    )
    return done.stdout


def commit_of(file: Path, ask: Git = git) -> Commit | None:
    """The commit checked out where the file is, if the file is one of its; and whether anything differs."""
    folder, name = str(file.parent), file.name
    try:
        if not ask(["-C", folder, "ls-files", "--", f":(literal){name}"]).strip():
            return None
        revision, _, seconds = ask(["-C", folder, "log", "-1", "--format=%H %ct"]).strip().partition(" ")
        changed = bool(ask(["-C", folder, "status", "--porcelain", "--untracked-files=no"]).strip())
        time = datetime.fromtimestamp(int(seconds), timezone.utc)
        return Commit(revision=revision, committed=time.isoformat(), changed=changed)
    except (OSError, ValueError, OverflowError, subprocess.SubprocessError):
        return None
