"""What setting up each strategy costs, and after how many frames that pays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from advisor import units
from advisor.profiles import Measured
from advisor.report import words
from advisor.report.tables import NOTHING, Cell


@dataclass(frozen=True)
class SetupCost:
    """One strategy beside the baseline: set-up, what it costs more, what a frame saves, when that pays."""

    strategy: str
    setup: Cell
    extra: Cell
    saved: Cell
    pays: Cell


def setup_costs(rows: Sequence[Measured], base: Measured | None) -> tuple[SetupCost, ...]:
    """In the order of the rows."""
    return tuple(_setup_cost(row, base) for row in rows)


def _setup_cost(row: Measured, base: Measured | None) -> SetupCost:
    setup, compared = row.setup_seconds, base is not None and base is not row
    return SetupCost(
        strategy=words.name(row.strategy),
        setup=Cell(units.seconds(setup), sort=setup),
        extra=_signed(setup - base.setup_seconds) if base and compared else Cell(NOTHING),
        saved=_signed(base.median_seconds - row.median_seconds) if base and compared else Cell(NOTHING),
        pays=break_even(row, base) if base and compared else Cell(NOTHING),
    )


def _signed(seconds: float) -> Cell:
    sign = "" if seconds == 0 else "+" if seconds > 0 else "\N{MINUS SIGN}"
    return Cell(f"{sign}{units.seconds(abs(seconds))}", sort=seconds)


def break_even(row: Measured, base: Measured) -> Cell:
    """After how many frames the set-up pays against the baseline; says so where the noise hides it.

    Both costs are linear: set-up + frames x median. They cross where the differences cancel.
    """
    extra = row.setup_seconds - base.setup_seconds
    apart = row.interval_seconds[1] < base.interval_seconds[0]
    behind = row.interval_seconds[0] > base.interval_seconds[1]
    if not apart and not behind:
        return Cell("frames tie with the baseline's")
    crossing = extra / (base.median_seconds - row.median_seconds)
    if apart and extra <= 0:
        return Cell("at once", sort=0)
    if apart:
        return Cell(f"after {words.count(math.ceil(crossing), 'frame')}", sort=crossing)
    return Cell("never" if crossing < 1 else f"ahead for {words.count(math.floor(crossing), 'frame')} only")
