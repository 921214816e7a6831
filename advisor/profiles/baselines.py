"""Baselines by name: profiles that `advisor profile --save NAME` keeps and `advisor compare NAME` finds."""

from __future__ import annotations

import re
from pathlib import Path

from advisor.errors import UsageError

FOLDER = Path("advisor-baselines")
_NAME = re.compile(r"\w[\w.-]{0,63}", re.ASCII)


def folder(name: str) -> Path:
    """Where the profile of that name lies, from the working directory on. Raises `UsageError`."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"--save {name!r} is not the name of a baseline",
            next_step="Use letters, digits, dots and hyphens, such as --save main.",
        )
    return FOLDER / name


def is_baseline(path: Path) -> bool:
    """Whether that is the name of a baseline; a file or folder of the name comes first."""
    return bool(_NAME.fullmatch(str(path))) and not path.exists() and (FOLDER / path).is_dir()
