"""The Jinja environment: escapes in every template, and stops at a name that is not there."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from advisor.report import words

_PACKAGE = Path(__file__).resolve().parent.parent


def directory(package: Path = _PACKAGE) -> Path:
    """Where the templates are: inside the installed package, or at the root of a checkout."""
    installed = package / "templates"
    return installed if installed.is_dir() else package.parent / "templates"


@cache
def environment() -> Environment:
    """One environment for all templates. Their names end in .j2, so escaping is not left to the name."""
    made = Environment(
        loader=FileSystemLoader(directory()),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["spans"] = words.spans
    return made
