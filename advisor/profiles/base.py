"""The base of everything that is saved, and the scalar types with their bounds."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Seconds = Annotated[float, Field(ge=0)]
PositiveSeconds = Annotated[float, Field(gt=0)]
Interval = tuple[PositiveSeconds, PositiveSeconds]
Bytes = Annotated[int, Field(ge=0, le=2**63 - 1)]
Hertz = Annotated[int, Field(gt=0)]


class Record(BaseModel):
    """Immutable, strict: no unknown keys, no NaN, no infinity, no silent conversion."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def optional(description: str, default: object = None) -> Any:
    """A field that has its default, mostly None, where nothing is known."""
    return Field(default=default, description=description)


def table(description: str) -> Any:
    """A field that is an empty dictionary where nothing is known."""
    return Field(default_factory=dict, description=description)
