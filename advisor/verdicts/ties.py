"""Several strategies that time does not tell apart: the smaller footprint wins, then the smaller change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from advisor import units
from advisor.profiles import row_figures as saved
from advisor.strategies.mixes import of_row
from advisor.strategies.registry import BASELINE, STRATEGIES

SAME_MEMORY = 0.01
"""Footprints within 1 % are the same: whole pages make up that much."""
LEAST_SAVING = 2 << 20
"""Less is no reason to change code that is as fast: the granularity of CUDA's device allocations."""


class Sized(Protocol):
    """A strategy with its footprint."""

    @property
    def strategy(self) -> str:
        """Its name."""

    @property
    def physical_bytes(self) -> int:
        """Its footprint."""


Row = TypeVar("Row", bound=Sized)


@dataclass(frozen=True)
class Equal:
    """One of several that time does not tell apart. `code_change` is a rank: 0 is none."""

    strategy: str
    seconds: float
    physical_bytes: int
    code_change: int


def code_change(row: saved.Row) -> int:
    """The strategy's rank of code change; one that this version does not know counts as the largest."""
    known = of_row(row)
    return known.code_change if known else max(strategy.code_change for strategy in STRATEGIES) + 1


def worth_a_change(baseline: float, least: float) -> bool:
    """Whether the least footprint of equally fast strategies saves enough of the baseline's, in bytes."""
    return baseline > least + max(least * SAME_MEMORY, LEAST_SAVING)


def break_tie(equals: Sequence[Equal]) -> tuple[str, str]:
    """The one with the smallest footprint, then the smallest code change, then time; and why, in words.

    The baseline stays where no other saves enough memory to be worth a change of code.
    """
    smallest = min(row.physical_bytes for row in equals)
    present = next((row for row in equals if row.strategy == BASELINE), None)
    if present and not worth_a_change(present.physical_bytes, smallest):
        return BASELINE, _baseline_stays(present, smallest)
    lean = leanest(equals)
    winner = min(lean, key=lambda row: (row.code_change, row.seconds))
    steps = [memory_step(equals)]
    if len(lean) > 1:
        steps.append(_winner_step(lean, winner))
    return winner.strategy, "; ".join(steps)


def leanest(rows: Sequence[Row]) -> list[Row]:
    """Those that need the least memory, give or take what counts as the same."""
    smallest = min(row.physical_bytes for row in rows)
    return [row for row in rows if row.physical_bytes <= smallest * (1 + SAME_MEMORY)]


def _baseline_stays(present: Equal, smallest: int) -> str:
    saved = present.physical_bytes - smallest
    if saved <= 0:
        return f"none needs less memory than {BASELINE}, {units.size(present.physical_bytes)}"
    return f"saving {units.size(saved)} of memory does not justify leaving {BASELINE}"


def memory_step(rows: Sequence[Sized]) -> str:
    """What needs the least memory, in words, without the end of the sentence."""
    lean, smallest = leanest(rows), min(row.physical_bytes for row in rows)
    if len(lean) == len(rows):
        return _same_memory(smallest, max(row.physical_bytes for row in lean))
    next_least = min(row.physical_bytes for row in rows if row not in lean)
    return (
        f"{listing([row.strategy for row in lean])} {'need' if len(lean) > 1 else 'needs'} the least memory, "
        f"{units.size(smallest)} ({units.percent(smallest / next_least)} of the next smallest)"
    )


def _same_memory(least: int, most: int) -> str:
    if units.size(least) == units.size(most):
        return f"all need the same memory, {units.size(least)}"
    return (
        f"their memory, {units.size(least)} to {units.size(most)}, counts as equal within "
        f"{SAME_MEMORY * 100:g} %"
    )


def change_step(rows: Sequence[Equal]) -> str:
    """What changes the least code, in words, without the end of the sentence."""
    least = min(row.code_change for row in rows)
    names = [row.strategy for row in rows if row.code_change == least]
    return f"{listing(names)} {'need' if len(names) > 1 else 'needs'} the smallest code change"


def _winner_step(lean: Sequence[Equal], winner: Equal) -> str:
    level = [row for row in lean if row.code_change == winner.code_change]
    if len(level) == 1:
        return change_step(lean)
    names = listing([row.strategy for row in level])
    return f"{names} need equally small code changes, and {winner.strategy} is the fastest of them"


def sentence(text: str) -> str:
    """With a capital and an end; a strategy's name, or a figure, stands first as it is."""
    words = ("all ", "none ", "saving ", "their ")
    return f"{text[:1].upper() if text.startswith(words) else text[:1]}{text[1:]}."


def listing(names: Sequence[str]) -> str:
    """a; a and b; a, b and c."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
