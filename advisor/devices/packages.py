"""Which versions of Python packages are installed here."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from importlib import metadata


@cache
def installed(*names: str) -> dict[str, str]:
    """The versions of those of the named packages that are installed, by name."""
    found = {}
    for name in names:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found
