"""What the terms leave unexplained, as factors that only widen ranges: every likely value has the factor 1.

One factor is common to all strategies of a device (its kernels and host code are not the average ones), and
cancels out of their ratios. The other belongs to the way a strategy moves data, and does not.
"""

from __future__ import annotations

from functools import lru_cache

from advisor.model.monte_carlo import Values, log_triangular
from advisor.strategies.placements.base import Placement

COMMON = 1.7
"""Chosen from a grid in view of all discrete cards' published figures: the ranges then hold over 80 % on
each card; the least factor from one card alone holds 69 % of another's (docs/accuracy.md). The other classes
have too few rows of their own and take it too."""
MOVES = 1.5
"""Chosen likewise, for the published ratios of two strategies on discrete cards."""


def common(unexplained: float) -> Values:
    """Factor on every part of a frame. `unexplained`: 1 without a measurement, less with one."""
    return _factor("residual", COMMON, unexplained)


def moves(placement: Placement, unexplained: float, *, one_memory: bool) -> Values:
    """Factor on every part of the device path, alike for strategies that move data in the same way.

    On one memory, managed memory is used in place like any other.
    """
    if placement.device_kind == "device":
        way = "pinned copies" if placement.locks else "pageable copies"
    else:
        way = "managed" if placement.managed and not one_memory else "in place"
    return _factor(f"residual {way}", MOVES, unexplained)


@lru_cache(maxsize=128)
def _factor(name: str, most: float, unexplained: float) -> Values:
    spread = float(most**unexplained)
    return log_triangular(1 / spread, 1.0, spread, name)
