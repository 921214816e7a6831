"""The base of everything that is saved, and the scalar types with their bounds."""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Annotated, Any, Literal, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema

# Beyond thirty million years a time is damage, which would overflow in what is computed from it.
Seconds = Annotated[float, Field(ge=0, le=1e15)]
PositiveSeconds = Annotated[float, Field(gt=0, le=1e15)]


def _ordered(ends: tuple[float, float]) -> tuple[float, float]:
    if ends[0] > ends[1]:
        raise ValueError("its ends are in the wrong order")
    return ends


Interval = Annotated[tuple[PositiveSeconds, PositiveSeconds], AfterValidator(_ordered)]
Bytes = Annotated[int, Field(ge=0, le=2**63 - 1)]
Hertz = Annotated[int, Field(gt=0)]


def _tell_the_first(part: Any) -> None:
    """Of every list in a schema, and in what the schema is made of, the first wrong item is told alone."""
    if isinstance(part, dict):
        if part.get("type") == "tuple":
            part["fail_fast"] = True
        for inner in part.values():
            _tell_the_first(inner)
    elif isinstance(part, (list, tuple)):
        for inner in part:
            _tell_the_first(inner)


class Record(BaseModel):
    """Immutable, strict: no unknown keys, no NaN, no infinity, no silent conversion."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """With an end to what is told of a list: a damaged one may have millions of wrong items."""
        made = handler(source)
        _tell_the_first(made)
        return made


def optional(description: str, default: object = None) -> Any:
    """A field that has its default, mostly None, where nothing is known."""
    return Field(default=default, description=description)


def table(description: str) -> Any:
    """A field that is an empty dictionary where nothing is known."""
    return Field(default_factory=dict, description=description)


def cleaned(value: Any, clean: Callable[[str], str]) -> Any:
    """The same with every text cleaned, but for those that are one of a few words; shares what stays.

    Names are cleaned wherever they stand, so that parts that name one another still do.
    """
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Record):
        changed = {}
        for name, field in type(value).model_fields.items():
            old = getattr(value, name)
            if get_origin(field.annotation) is not Literal and (new := cleaned(old, clean)) is not old:
                changed[name] = new
        return value.model_copy(update=changed) if changed else value
    if isinstance(value, tuple) and value and not isinstance(value[0], (int, float)):
        parts = tuple(cleaned(part, clean) for part in value)
        return value if all(map(is_, parts, value)) else parts
    if isinstance(value, dict):
        items = {cleaned(key, clean): cleaned(part, clean) for key, part in value.items()}
        return value if all(map(is_, items.values(), value.values())) and items == value else items
    return value
