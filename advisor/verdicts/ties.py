"""What memory decides: before time is looked at, and among strategies that time does not tell apart, of which
the smaller footprint wins, then the smaller change of code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from advisor.profiles import row_figures as saved
from advisor.profiles.conclusions import Preferences
from advisor.strategies.mixes import of_row
from advisor.strategies.registry import BASELINE, STRATEGIES

SAME_MEMORY = 0.01
"""Footprints within 1 % are the same: whole pages make up that much."""
LEAST_SAVING = 2 << 20
"""Less is no reason to change code that is as fast: the granularity of CUDA's device allocations."""


class Sized(Protocol):
    """A row, or its footprint."""

    @property
    def physical_bytes(self) -> int: ...


Row = TypeVar("Row", bound=Sized)


@dataclass(frozen=True)
class Candidate:
    """A strategy or a version of code. `physical_bytes` as booked, `code_change` a rank: 0 is none."""

    name: str
    physical_bytes: int
    code_change: int


Among = TypeVar("Among", bound=Candidate)


def code_change(row: saved.Row) -> int:
    """The strategy's rank of code change; one that this version does not know counts as the largest."""
    known = of_row(row)
    return known.code_change if known else max(strategy.code_change for strategy in STRATEGIES) + 1


def by_memory(rows: Sequence[Row], preferences: Preferences) -> list[Row]:
    """The rows that time may choose from; none where nothing fits the budget."""
    fitting = within(rows, preferences.memory_budget_bytes)
    return leanest(fitting) if preferences.objective == "footprint" else fitting


def within(rows: Sequence[Row], budget: int | None) -> list[Row]:
    return [row for row in rows if budget is None or row.physical_bytes <= budget]


def leanest(rows: Sequence[Row]) -> list[Row]:
    """The rows that need the least memory, give or take what counts as the same."""
    least = min((row.physical_bytes for row in rows), default=0)
    return [row for row in rows if row.physical_bytes <= least * (1 + SAME_MEMORY)]


def break_tie(equals: Sequence[Among], times: Mapping[str, float], baseline: str = BASELINE) -> Among:
    """The least memory, then the smallest change of code, then the least time (and the name, for good order).

    The baseline stays where no other saves enough memory to be worth a change of code.
    """
    least = min(one.physical_bytes for one in equals)
    present = next((one for one in equals if one.name == baseline), None)
    if present and not worth_a_change(present.physical_bytes, least):
        return present
    return min(leanest(equals), key=lambda one: (one.code_change, times[one.name], one.name))


def worth_a_change(baseline: float, least: float) -> bool:
    """Whether the least footprint of equally fast strategies saves enough of the baseline's, in bytes."""
    return baseline > least + max(least * SAME_MEMORY, LEAST_SAVING)
