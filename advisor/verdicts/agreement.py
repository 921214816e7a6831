"""Which strategies may be the best on every one of several devices, and what one for all of them costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from advisor import stats
from advisor.profiles.schema import Measured
from advisor.verdicts.crossings import Standing

Rows = Mapping[str, Measured]


@dataclass(frozen=True)
class Agreement:
    """Over the devices, by index, of which something is known.

    `everywhere` may be the best on each of them; `sure` says that no device is undecided; `groups` are the
    devices by the strategy they recommend, those without one under None.
    """

    everywhere: frozenset[str]
    sure: bool
    groups: dict[str | None, tuple[int, ...]]

    @property
    def unanimous(self) -> str | None:
        """The one strategy that all devices recommend; None where they do not."""
        return next(iter(self.groups)) if len(self.groups) == 1 else None


@dataclass(frozen=True)
class OneForAll:
    """A strategy on all devices: the most it takes of the best one's time, and on which device."""

    strategy: str
    cost: stats.Ratio
    device: int


def agreement(standings: Sequence[Standing]) -> Agreement | None:
    """What the devices have in common; None where nothing is known of any."""
    known = {i: s for i, s in enumerate(standings) if s.best or s.rivals}
    if not known:
        return None
    groups: dict[str | None, list[int]] = {}
    for index, told in known.items():
        groups.setdefault(told.chosen, []).append(index)
    return Agreement(
        frozenset.intersection(*(told.best | set(told.rivals) for told in known.values())),
        all(told.best and not told.likely for told in known.values()),
        {strategy: tuple(where) for strategy, where in groups.items()},
    )


def one_for_all(devices: Sequence[Rows], confidence: float) -> OneForAll | None:
    """As `least_cost`, with the intervals of what was measured on each device."""
    shared = [s for s in devices[0] if all(s in rows for rows in devices)] if len(devices) > 1 else []
    return least_cost([{s: _cost(s, rows, confidence) for s in shared} for rows in devices])


def least_cost(devices: Sequence[Mapping[str, stats.Ratio]]) -> OneForAll | None:
    """The strategy whose largest cost over all devices is the least, by its time over that of the fastest.

    None where fewer than two devices, or no strategy on all of them, were measured.
    """
    shared = [s for s in devices[0] if all(s in costs for costs in devices)] if len(devices) > 1 else []
    worst = [_worst(strategy, devices) for strategy in shared]
    return min(worst, key=lambda found: found.cost.value, default=None)


def _worst(strategy: str, devices: Sequence[Mapping[str, stats.Ratio]]) -> OneForAll:
    index = max(range(len(devices)), key=lambda i: devices[i][strategy].value)
    return OneForAll(strategy, devices[index][strategy], index)


def _cost(strategy: str, rows: Rows, confidence: float) -> stats.Ratio:
    best = min(rows.values(), key=lambda row: row.median_seconds)
    if best.strategy == strategy:
        return stats.Ratio(1.0, 1.0, 1.0)
    found = stats.ratio_interval(rows[strategy].rounds, best.rounds, confidence=confidence)
    return found.around(rows[strategy].median_seconds / best.median_seconds)
