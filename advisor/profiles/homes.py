"""The home directory, which stands in no profile."""

from __future__ import annotations

from pathlib import Path

NONE = "/"
"""The home of a user without one; nothing is shortened by it."""


def home() -> str:
    """The home directory, or `NONE`: in a container the user may have neither HOME nor an entry in passwd."""
    try:
        return str(Path.home())
    except RuntimeError:
        return NONE


def without_home(text: str) -> str:
    """The text with ~ for the home directory."""
    return text if (own := home()) == NONE else text.replace(own, "~")
