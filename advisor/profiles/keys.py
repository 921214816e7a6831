"""The keys of a saved record, looked through before its values are.

pydantic tells every key that is missing or unknown, each with the whole table that it stands in: of a file of
12 MB that takes half a minute and 2 GB. Here the first one is enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from advisor.profiles.base import Record
from advisor.texts import shortened

MOST = 20_000
"""Keys of a table with free keys, and items of a list, except frames and blocks: a report shows each."""
_NUMBERS = {float, int, type(None), ...}


def first_problem(value: object, record: type[Record], where: str = "") -> str | None:
    """The first key of the record, or of those in it, that is missing or unknown, and which of the two."""
    if not isinstance(value, dict):
        return None
    required, known, shown = _keys(record)
    if missing := [key for key in required if key not in value]:
        return f"{where}{missing[0]}: Field required"
    if unknown := value.keys() - known.keys():
        return f"{where}{shortened(min(unknown))}: Extra inputs are not permitted"
    for key in shown & value.keys():
        if isinstance(value[key], (dict, list)) and len(value[key]) > MOST:
            return f"{where}{key}: there should be at most {MOST} in it, but there are {len(value[key])}"
    for key, form in known.items():
        if form is not None and key in value:
            for place, inner, kind in _within(value[key], form, f"{where}{key}"):
                if found := first_problem(inner, kind, f"{place}."):
                    return found
    return None


@cache
def _keys(record: type[Record]) -> tuple[tuple[str, ...], dict[str, Any], frozenset[str]]:
    """Keys that have to be there; all, each with its form where records lie in it; those of what is shown."""
    fields = record.model_fields
    required = tuple(name for name, field in fields.items() if field.is_required())
    forms = {name: field.annotation if _records(field.annotation) else None for name, field in fields.items()}
    shown = frozenset(name for name, field in fields.items() if not _leaves(field.annotation) <= _NUMBERS)
    return required, forms, shown - {"blocks", "windows"}


def _leaves(form: Any) -> set[Any]:
    """The types that a value of this form is made of in the end."""
    parts = get_args(form) if get_origin(form) is not Annotated else get_args(form)[:1]
    return {leaf for part in parts for leaf in _leaves(part)} if parts else {form}


def _records(form: Any) -> list[type[Record]]:
    """The records that a value of this form may be or hold."""
    if isinstance(form, type) and not get_args(form):
        return [form] if issubclass(form, Record) else []
    return [record for part in get_args(form) for record in _records(part)]


def _within(value: object, form: Any, where: str) -> Iterator[tuple[str, object, type[Record]]]:
    """Each record in a value of this form, with its place and its type."""
    origin, parts = get_origin(form), get_args(form)
    if origin is Annotated:
        yield from _within(value, parts[0], where)
    elif origin is tuple and isinstance(value, list):
        for number, item in enumerate(value):
            yield from _within(item, parts[0], f"{where}.{number}")
    elif origin is dict and isinstance(value, dict):
        for key, item in value.items():
            yield from _within(item, parts[1], f"{where}.{key}")
    elif origin in (Union, UnionType):
        yield from _in_one_of(value, form, where)
    elif isinstance(value, dict) and form in _records(form):
        yield where, value, form


def _in_one_of(value: object, form: Any, where: str) -> Iterator[tuple[str, object, type[Record]]]:
    """The same where a value may have one of several forms."""
    kinds = len(_records(form))
    for part in get_args(form):
        if get_args(part) or not _records(part):
            yield from _within(value, part, where)
        elif kinds == 1:
            yield where, value, part
        elif isinstance(value, dict) and value.get("status") == part.model_fields["status"].default:
            # Records of several kinds in one place differ in their status; pydantic's places name it too.
            yield f"{where}.{value['status']}", value, part
