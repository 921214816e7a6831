"""Candidates, how far each may be from the best, and which of those near enough is chosen.

Memory decides before time is looked at, and among strategies that time does not tell apart: the smaller
footprint wins, then the smaller change of code. Multiple comparisons with the best: Hsu, "Constrained
simultaneous confidence intervals for multiple comparisons with the best", Annals of Statistics 12, 1984, and
"Multiple Comparisons", 1996, ch. 4, with a standard error of its own for each pair as in Edwards and Hsu,
JASA 78, 1983. Bonferroni takes the place of Hsu's joint quantile, which needs equal errors.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np

from advisor import stats
from advisor.profiles import figures as saved
from advisor.profiles.conclusions import Preferences
from advisor.stats import Floats
from advisor.strategies.mixes import of_row
from advisor.strategies.registry import BASELINE, STRATEGIES
from advisor.verdicts.estimate import Block, Pairs, paired

CONFIDENCE = 0.95
"""For all that a final claims at all of its looks together."""
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
class Contestant:
    """A strategy. `physical_bytes` as booked, `code_change` a rank: 0 is none.

    `placements`: those of a mix, by buffer; a uniform strategy near enough is preferred.
    `left`: it left the final and cannot be recommended. `dropped`: an earlier look found it clearly slower by
    more than the indifference, and later rounds went without it. `alone`: it has separate processes.
    """

    name: str
    physical_bytes: int
    code_change: int
    placements: Mapping[str, str] = field(default_factory=dict)
    left: bool = False
    dropped: bool = False
    alone: bool = False


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


def break_tie(equals: Sequence[Contestant], times: Mapping[str, float]) -> Contestant:
    """The least memory, then the smallest change of code, then the least time (and the name, for good order).

    The baseline stays where no other saves enough memory to be worth a change of code.
    """
    least = min(one.physical_bytes for one in equals)
    most = least + max(least * SAME_MEMORY, LEAST_SAVING)
    baseline = next((one for one in equals if one.name == BASELINE and one.physical_bytes <= most), None)
    return baseline or min(leanest(equals), key=lambda one: (one.code_change, times[one.name], one.name))


def certainty(share: float) -> float:
    """The level of all that a look claims which may spend this share of the error; see `final.SPENDING`."""
    return 1 - (1 - CONFIDENCE) * share


@dataclass(frozen=True)
class Standing:
    """A contestant against the best of the others: the ratio of its time to that one's, with its interval."""

    contestant: Contestant
    over_best: stats.Ratio

    @property
    def bound(self) -> float:
        """U: how much slower than the best it is at most; 0.014 is 1.4 %, 0 where every other is slower."""
        return max(0.0, self.over_best.high - 1)


@dataclass(frozen=True)
class Choice:
    chosen: Standing
    near_enough: tuple[Standing, ...]
    undecided: tuple[Standing, ...]


def competing(
    contestants: Sequence[Contestant], measured: Collection[str], preferences: Preferences
) -> tuple[list[Contestant], list[Contestant]]:
    """The contestants that may be chosen, and those over the budget: memory rules out before time does."""
    here = [one for one in contestants if not one.left]
    allowed, fitting = by_memory(here, preferences), within(here, preferences.memory_budget_bytes)
    over = [one for one in here if one.name in measured and one not in fitting]
    return [one for one in allowed if one.name in measured], over


def standings(pairs: Pairs, rows: Mapping[str, Contestant], half: Floats) -> list[Standing]:
    """All of `pairs` against the best of the others; `half` are the half widths of the pairs' intervals.

    The upper ends hold for all contestants at once where the comparisons with the one that truly is the best
    do (Hsu), and those in one end alone: Bonferroni counts rivals, not pairs. One that is clearly slower than
    another is not the best: its noise widens no other's interval. The lower ends hold for each contestant by
    itself.
    """
    if len(pairs.names) == 1:
        return [Standing(rows[pairs.names[0]], stats.Ratio(1.0, 1.0, 1.0))]
    others = ~np.eye(len(pairs.names), dtype=bool)
    low = _most(pairs.difference - half, others)
    may_be_best = (low <= 0) & ~np.array([rows[name].dropped for name in pairs.names])
    may_be_best |= not may_be_best.any()
    upper = pairs.difference + half
    rivals = others & may_be_best
    alone = np.minimum(0.0, _most(upper, others))
    high = np.maximum(low, np.where(rivals.any(axis=1), _most(upper, rivals), alone))
    value = np.clip(_most(pairs.difference, others), low, high)
    ratios = np.exp(np.clip([value, low, high], -700, 700)).T.tolist()
    return [Standing(rows[n], stats.Ratio(*ends)) for n, ends in zip(pairs.names, ratios, strict=True)]


def choose(standings: Sequence[Standing], indifference: float) -> Choice:
    """Among all with U within the indifference the tie-breakers decide; without any, the least U.

    U is over all contestants. A mix may be chosen only once every uniform strategy is clearly outside the
    indifference, however near it is itself. No rival's noise vetoes a choice that is near enough itself, and
    none makes one that is clearly outside the indifference the least.
    """
    open_to = [one for one in standings if not surely_outside(one, indifference)]
    simple = [one for one in open_to if not one.contestant.placements]
    allowed = simple or open_to or list(standings)
    near = [one for one in allowed if one.bound <= indifference]
    least = min(allowed, key=lambda one: (one.over_best.high, one.over_best.value, one.contestant.name))
    chosen = _preferred(near) if near else least
    others = (one for one in (allowed if near else open_to) if one not in near and one is not chosen)
    undecided = [one for one in others if not near or _preferred([*near, one]) is one]
    return Choice(chosen, tuple(near), tuple(undecided))


def surely_outside(one: Standing, indifference: float) -> bool:
    """Slower than another by more than the indifference, now or at an earlier look."""
    return one.contestant.dropped or one.over_best.low > 1 + indifference


def _preferred(near: Sequence[Standing]) -> Standing:
    times = {one.contestant.name: one.over_best.high for one in near}
    chosen = break_tie([one.contestant for one in near], times)
    return next(one for one in near if one.contestant is chosen)


def _most(values: Floats, where: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Floats:
    """The largest of each row, among those of `where`; minus infinity where there is none."""
    largest: Floats = np.where(where, values, -np.inf).max(axis=1)
    return largest


# How much a mix of placements may gain at most. The best uniform strategy takes at most as long as each of
# them, so what a mix gains over it is at most the least of the upper ends of its gains over all (as in Hsu's
# comparisons with the best).

MOST_GAIN = 10.0
"""A logarithm: a larger gain is one that the blocks cannot bound."""


def most_gained(blocks: Sequence[Block], contestants: Sequence[Contestant], share: float) -> dict[str, float]:
    """The most each mix of the final may gain, as a share; all hold at once."""
    finalists = {block.contestant for block in blocks}
    here = [one for one in contestants if one.name in finalists and not one.left]
    uniform, mixes = ([one.name for one in here if bool(one.placements) == mixed] for mixed in (False, True))
    if not uniform or not mixes:
        return {}
    names = [*uniform, *mixes]
    pairs = paired(blocks, names, [one.name for one in here if one.alone])
    upper = pairs.difference + pairs.half_widths(certainty(share), len(names) - 1)
    least = np.clip(upper[: len(uniform), len(uniform) :].min(axis=0), 0.0, MOST_GAIN)
    return dict(zip(mixes, np.expm1(least).tolist(), strict=True))
