"""Says what is wrong with a catalogue file: which key, what was expected and what is there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

from pydantic import ValidationError

from advisor.devices.entries import ATTRIBUTES, Attribute, CatalogueEntry, Figure, Figures, nearest
from advisor.profiles.schema import MemoryClass


def unreadable(problem: Exception) -> str:
    """Why a file could not be read at all."""
    if isinstance(problem, OSError):
        return (problem.strerror or str(problem)).lower()
    if isinstance(problem, UnicodeDecodeError):
        return f"expected UTF-8, but byte {problem.start} is 0x{problem.object[problem.start]:02x}"
    return f"expected TOML: {problem}"


def invalid(problem: ValidationError) -> str:
    """The first thing that is wrong, with its key, and how much more there is."""
    errors = problem.errors()
    # A key that is misspelt is missing too: the misspelling says more.
    first = min(errors, key=lambda error: error["type"] != "extra_forbidden")
    where = ".".join(str(part) for part in first["loc"] if part not in ("int", "str"))
    more = len({error["loc"][:2] for error in errors}) - 1
    rest = f" (and {more} more to put right)" if more else ""
    return f"{where + ': ' if where else ''}{_expected(first)}{rest}"


def _expected(error: Any) -> str:
    kind, found = error["type"], error["input"]
    if kind == "value_error":
        return f"expected {error['ctx']['error']}"
    if kind == "extra_forbidden":
        return f"is not a key of a catalogue file{_meant(str(error['loc'][-1]), error['loc'])}"
    if kind == "missing":
        return "is missing"
    if kind == "literal_error":
        return f"expected one of {', '.join(get_args(MemoryClass))}, but it is {found!r}"
    if kind in ("model_type", "dict_type"):
        return f"expected a table{_like(error['loc'])}, but it is {found!r}"
    if kind in ("int_type", "string_type") and error["loc"][0] == "attributes" and len(error["loc"]) > 2:
        return f"expected a whole number or a text, but it is {found!r}"
    return f"expected {error['msg'].removeprefix('Input should be ')}, but it is {found!r}"


def _meant(key: str, loc: tuple[int | str, ...]) -> str:
    """Where an unknown key belongs, or the known ones that are like it."""
    table = "figures" if key in Figures.model_fields else "attributes" if key in ATTRIBUTES else None
    if table and table != loc[0]:
        return f"; it belongs under [{table}]" if len(loc) < 3 else ""
    return nearest(key, _keys(loc))


def _keys(loc: tuple[int | str, ...]) -> Iterable[str]:
    """The keys there are where an unknown one was found."""
    if len(loc) == 1:
        return (key for key in CatalogueEntry.model_fields if key != "origin")
    if loc[0] == "attributes":
        return Attribute.model_fields
    return Figures.model_fields if len(loc) == 2 else Figure.model_fields


def _like(loc: tuple[int | str, ...]) -> str:
    return ' as in { value = 68e9, source = "data sheet" }' if len(loc) > 1 else ""
