"""What setting up each strategy costs, and after how many frames that pays."""

from __future__ import annotations

import math
from collections.abc import Sequence

from advisor import stats, units
from advisor.profiles.schema import Measured
from advisor.report import words
from advisor.report.blocks import NOTHING, Row, TableCell


def setup_costs(rows: Sequence[Measured], base: Measured | None, confidence: float = 0.95) -> tuple[Row, ...]:
    """Set-up, what it costs more than the baseline's, what a frame saves, when that pays."""
    return tuple(_setup_cost(row, base, confidence) for row in rows)


def _setup_cost(row: Measured, base: Measured | None, confidence: float) -> Row:
    setup, compared = row.setup_seconds, base is not None and base is not row
    return Row(
        words.name(row.strategy),
        (
            TableCell(units.seconds(setup), sort=setup),
            _signed(setup - base.setup_seconds) if base and compared else TableCell(NOTHING),
            _signed(base.median_seconds - row.median_seconds) if base and compared else TableCell(NOTHING),
            break_even(row, base, confidence) if base and compared else TableCell(NOTHING),
        ),
    )


def _signed(seconds: float) -> TableCell:
    sign = "" if seconds == 0 else "+" if seconds > 0 else "\N{MINUS SIGN}"
    return TableCell(f"{sign}{units.seconds(abs(seconds))}", sort=seconds)


def break_even(row: Measured, base: Measured, confidence: float = 0.95) -> TableCell:
    """After how many frames the set-up pays against the baseline; says so where the noise hides it.

    Both costs are linear: set-up + frames x median. They cross where the differences cancel; the range
    beneath is that of the ratio of the medians. The set-up itself is one figure and has no interval.
    """
    extra = row.setup_seconds - base.setup_seconds
    ratio = stats.ratio_interval(base.rounds, row.rounds, confidence=confidence)
    if ratio.low <= 1 <= ratio.high:
        return TableCell("frames tie with the baseline's")
    if ratio.low > 1 and extra <= 0:
        return TableCell("at once", sort=0)
    crossing = extra / (base.median_seconds - row.median_seconds)
    ends = sorted(extra / (base.median_seconds * (1 - 1 / end)) for end in (ratio.low, ratio.high))
    if ratio.low > 1:
        between = f"{math.ceil(ends[0])} to {math.ceil(ends[1])}"
        return TableCell(f"after {words.count(math.ceil(crossing), 'frame')}", between, sort=crossing)
    if crossing < 1:
        return TableCell("never")
    between = f"{math.floor(ends[0])} to {math.floor(ends[1])}"
    return TableCell(f"ahead for {words.count(math.floor(crossing), 'frame')} only", between)
