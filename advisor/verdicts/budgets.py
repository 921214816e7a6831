"""What memory rules out before time is looked at: strategies over the budget, or, where the footprint is the
objective, all but those that need the least."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from advisor import units
from advisor.profiles.conclusions import Recommendation
from advisor.profiles.preferences import Preferences
from advisor.verdicts.ties import Row, Sized, leanest, listing, memory_step, sentence


@dataclass(frozen=True)
class Ruled:
    """What was ruled out: by the budget, with the reason of each, and in words what memory decided."""

    excluded: Mapping[str, str]
    steps: tuple[str, ...]


def by_memory(rows: Sequence[Row], preferences: Preferences) -> tuple[list[Row], Ruled]:
    """The rows that time may choose from, and what was ruled out; no row where nothing fits the budget."""
    budget = preferences.memory_budget_bytes
    over = [row for row in rows if budget is not None and row.physical_bytes > budget]
    fitting = [row for row in rows if row not in over]
    steps = [_over(over, budget)] if over and budget and fitting else []
    if preferences.objective == "footprint" and len(fitting) > 1:
        steps.append(sentence(memory_step(fitting)))
        fitting = leanest(fitting)
    return fitting, Ruled({row.strategy: needs(row) for row in over}, tuple(steps))


def _over(over: Iterable[Sized], budget: int) -> str:
    names = [f"{row.strategy} ({units.size(row.physical_bytes)})" for row in over]
    return f"Over the memory budget of {units.size(budget)}: {listing(names)}."


class Booked(Protocol):
    """What needs memory: a row, or the footprint of one."""

    @property
    def physical_bytes(self) -> int:
        """The bytes."""


def needs(row: Booked) -> str:
    """How much, in words."""
    return f"needs {units.size(row.physical_bytes)}"


def nothing_fits(rows: Sequence[Sized], preferences: Preferences, ruled: Ruled) -> Recommendation:
    """No strategy is recommended where none fits the budget."""
    budget = preferences.memory_budget_bytes or 0
    least = min(rows, key=lambda row: row.physical_bytes)
    reason = (
        f"No strategy fits the memory budget of {units.size(budget)}: the smallest, {least.strategy}, "
        f"needs {units.size(least.physical_bytes)}."
    )
    return Recommendation(
        strategy=None,
        verdict="open",
        reason=reason,
        next_step="Raise --memory-budget, or make the workload's buffers smaller.",
        objective=preferences.objective,
        steps=(reason,),
        excluded=dict(ruled.excluded),
    )
