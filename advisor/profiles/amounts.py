"""Numbers of records, with their bounds."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

# Below a cycle of any clock, and beyond thirty million years, a time is damage: it would overflow in what is
# computed from it.
_SHORTEST, _LONGEST = 1e-12, 1e15
Seconds = Annotated[float, Field(ge=0, le=_LONGEST)]
PositiveSeconds = Annotated[float, Field(ge=_SHORTEST, le=_LONGEST)]


def _ordered(ends: tuple[float, float]) -> tuple[float, float]:
    if ends[0] > ends[1]:
        raise ValueError("its ends are in the wrong order")
    return ends


Interval = Annotated[tuple[PositiveSeconds, PositiveSeconds], AfterValidator(_ordered)]


def held(low: float, high: float) -> tuple[float, float]:
    """An interval of seconds as far as a record holds it: that of two very different processes has no end."""
    return max(low, _SHORTEST), min(high, _LONGEST)


Count = Annotated[int, Field(ge=0)]
Number = Annotated[int, Field(gt=0)]
Amount = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Bytes = Annotated[int, Field(ge=0, le=2**63 - 1)]
Hertz = Annotated[int, Field(gt=0, le=10**15)]
