"""The base of everything that is saved, and the scalar types with their bounds."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema

Seconds = Annotated[float, Field(ge=0)]
PositiveSeconds = Annotated[float, Field(gt=0)]
Interval = tuple[PositiveSeconds, PositiveSeconds]
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
