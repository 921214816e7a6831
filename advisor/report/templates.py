"""The Jinja environment: escapes in every template, and stops at a name that is not there."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from advisor.report import words

_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:[nµm]?s|[KMGT]iB|B|GB/s|%)(?![\w/]))")
_PACKAGE = Path(__file__).resolve().parent.parent


def directory(package: Path = _PACKAGE) -> Path:
    """Where the templates are: inside the installed package, or at the root of a checkout."""
    installed = package / "templates"
    return installed if installed.is_dir() else package.parent / "templates"


class Verbatim(str):
    """Text of a program or for one, whose blanks must stay what they are."""

    __slots__ = ()


@cache
def page_environment() -> Environment:
    """For pages: as `environment`, but a number is not parted from its unit at the end of a line."""
    made = environment().overlay(finalize=_unparted)
    made.filters["verbatim"] = Verbatim
    made.filters["shown"] = lambda columns: [column for column in columns if "html" in column.forms]
    return made


def _unparted(value: object) -> object:
    return value if type(value) is not str else _BEFORE_UNIT.sub("\N{NO-BREAK SPACE}", value)


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
