"""The base of everything that is saved."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from functools import cache
from operator import is_
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, ValidationError
from pydantic_core import CoreSchema


class TextKind(Enum):
    """Kinds of texts in a record, which decide what is masked."""

    WORD = "a word of advisor's, or a name that the code has to have: only tokens of a known form are masked"
    NAME = "a label of the user's, by which parts refer to one another: masked alike everywhere"
    TEXT = "free text, or a value of the user's: secrets, names and places are masked"


Word = Annotated[str, TextKind.WORD]
Name = Annotated[str, TextKind.NAME]
Text = Annotated[str, TextKind.TEXT]


def _fail_fast(part: Any) -> None:
    """Limits errors to the first wrong item of every list in a schema, and in what it is made of."""
    if isinstance(part, dict):
        if part.get("type") == "tuple":
            part["fail_fast"] = True
        for inner in part.values():
            _fail_fast(inner)
    elif isinstance(part, (list, tuple)):
        for inner in part:
            _fail_fast(inner)


class Record(BaseModel):
    """Immutable, strict: no unknown keys, no NaN, no infinity, no silent conversion."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Reports one wrong item of each list: a damaged one may have millions."""
        schema = handler(source)
        _fail_fast(schema)
        return schema


RecordType = TypeVar("RecordType", bound=Record)


def optional(description: str, default: object = None) -> Any:
    """A field with a default, mostly None, for what is unknown."""
    return Field(default=default, description=description)


def table(description: str) -> Any:
    """A dictionary, empty where nothing is known."""
    return Field(default_factory=dict, description=description)


def first_error(problem: ValidationError) -> str:
    """The first wrong key of a record, and what is wrong with it."""
    first = problem.errors(include_url=False, include_input=False)[0]
    return ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))[:500]


def cleaned(record: RecordType, clean: Callable[[str, TextKind], str]) -> RecordType:
    """The record with every text cleaned by its kind, but for those of a few words; shares what stays."""
    changed = {}
    for name, kinds in _kinds_of(type(record)).items():
        old = getattr(record, name)
        if (new := _cleaned(old, kinds, clean)) is not old:
            changed[name] = new
    return record.model_copy(update=changed) if changed else record


def _cleaned(value: Any, kinds: tuple[TextKind | None, ...], clean: Callable[[str, TextKind], str]) -> Any:
    """kinds: those of the keys of each table on the way in, and that of the values."""
    if isinstance(value, str):
        return clean(value, kinds[0]) if kinds and kinds[0] else value
    if isinstance(value, Record):
        return cleaned(value, clean)
    if isinstance(value, tuple) and value and not isinstance(value[0], (int, float)):
        parts = tuple(_cleaned(part, kinds, clean) for part in value)
        return value if all(map(is_, parts, value)) else parts
    if isinstance(value, dict):
        items = {_cleaned(key, kinds, clean): _cleaned(part, kinds[1:], clean) for key, part in value.items()}
        return value if all(map(is_, items.values(), value.values())) and items == value else items
    return value


@cache
def _kinds_of(record: type[Record]) -> dict[str, tuple[TextKind | None, ...]]:
    return {name: kinds_in(field.annotation, field.metadata) for name, field in record.model_fields.items()}


def kinds_in(form: Any, metadata: Iterable[object] = ()) -> tuple[TextKind | None, ...]:
    """The kinds of the texts in a type, in order: None for one of a few words, free text by default."""
    if kind := next((each for each in metadata if isinstance(each, TextKind)), None):
        return (kind,)
    if get_origin(form) is Literal:
        return (None,) if isinstance(get_args(form)[0], str) else ()
    if get_origin(form) is Annotated:
        inner, *own = get_args(form)
        return kinds_in(inner, own)
    if form is str:
        return (TextKind.TEXT,)
    return tuple(kind for part in get_args(form) for kind in kinds_in(part))
