"""The devices that can be predicted for: one TOML file each, every figure with its source beside it.

A user's own file has the same form (`load` takes its path). What has no source is left out of a file;
the model then takes a default for the memory class and says so.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from advisor.devices import problems
from advisor.devices.entries import Attribute, CatalogueEntry, Figure, Figures, nearest
from advisor.errors import FileProblem, UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["DEFAULT_TARGETS", "Attribute", "CatalogueEntry", "Figure", "Figures", "load", "names"]

DEFAULT_TARGETS = ("orin-nano", "rtx-4090", "h200")
"""A Jetson, a desktop card and a data-centre card."""

_HOME = Path(__file__).parent
_VENDOR_WORDS = ("nvidia-", "jetson-", "geforce-", "tesla-")


def names() -> tuple[str, ...]:
    """The slugs of the devices that come with the program."""
    return tuple(sorted(path.stem for path in _HOME.glob("*.toml")))


def load(name_or_path: str) -> CatalogueEntry:
    """An entry by its slug, in any case and with or without "Jetson" and the like, or by a TOML file's path.

    Raises `UsageError` for an unknown name, `FileProblem` for a file that is missing or wrong.
    """
    if name_or_path.endswith(".toml") or "/" in name_or_path:
        return _read(Path(name_or_path), name_or_path)
    slug = _slug(name_or_path)
    if slug in names():
        return _read(_HOME / f"{slug}.toml", slug)
    raise UsageError(
        f"there is no device {name_or_path!r} in the catalogue{nearest(slug, names())}",
        next_step=f"Choose from {', '.join(names())}, or give the path of a .toml file of your own.",
    )


def _slug(name: str) -> str:
    slug = "-".join(name.lower().replace("_", " ").split())
    for word in _VENDOR_WORDS:
        slug = slug.removeprefix(word)
    return slug


def _read(path: Path, origin: str) -> CatalogueEntry:
    try:
        # Some editors put a byte order mark before UTF-8, which TOML does not know.
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise FileProblem(
            f"{path} does not exist", next_step=f"Give a file's path, or one of {', '.join(names())}."
        ) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise FileProblem(
            f"{path} cannot be read: {problems.unreadable(problem)}",
            next_step=f"It must be TOML in the form of {_HOME / DEFAULT_TARGETS[0]}.toml.",
        ) from None
    return _validate(content, path, origin)


def _validate(content: dict[str, Any], path: Path, origin: str) -> CatalogueEntry:
    if "origin" in content:
        raise _wrong(path, "origin: is not a key of a catalogue file")
    try:
        return CatalogueEntry.model_validate({**content, "origin": origin})
    except ValidationError as problem:
        raise _wrong(path, problems.invalid(problem)) from None


def _wrong(path: Path, message: str) -> FileProblem:
    return FileProblem(
        f"{path}: {message}",
        next_step=f"Compare with {_HOME / DEFAULT_TARGETS[0]}.toml; each figure is "
        '{ value = ..., source = "..." }, and what is not known is left out.',
    )
