"""At which value of a parameter the best strategy changes: never inside the noise.

Neighbouring values with the same recommended strategy are a run. Where two runs meet, the best strategy
changes only if each has a value at which the other's strategy cannot be the best: a value supports the
recommended strategy and those tied with it, so a tie is no change. A measured value at which the best
strategies cannot be distinguished supports none. A predicted value whose range overlaps that of a strategy
outside the tie is only likely, and so is a change that depends on it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from advisor import stats
from advisor.profiles.conclusions import Recommendation
from advisor.profiles.schema import Measured


@dataclass(frozen=True)
class Optima:
    """The strategies that may be the best at one value; `best` is empty where that is not known."""

    best: frozenset[str] = frozenset()
    chosen: str | None = None
    likely: bool = False
    rivals: tuple[str, ...] = ()
    """Strategies that time does not tell apart: tied ones, or those of a measurement that cannot tell."""
    overlaps: bool = False
    """The predicted range of the chosen one meets that of another, tied or not."""


@dataclass(frozen=True)
class Run:
    """Neighbouring values, by their indices, that recommend the same strategy."""

    strategy: str
    values: tuple[int, ...]
    likely: bool
    tied_with: frozenset[str]
    """The strategies it is tied with at all of these values."""


@dataclass(frozen=True)
class Stretch:
    """Neighbouring values with the same best strategy, or with either of the two between which it changes."""

    strategies: tuple[str, ...]
    values: tuple[int, ...]
    likely: bool
    tied_with: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Change:
    """The best strategy changes between the values `low` and `high`, given as indices."""

    before: Run
    after: Run
    low: int
    high: int

    @property
    def likely(self) -> bool:
        """Whether one of the two is no more than likely the best."""
        return self.before.likely or self.after.likely


def optima_of(
    chosen: Recommendation | None,
    *,
    predicted: bool,
    complete: bool = True,
    overlapping: Collection[str] = (),
) -> Optima:
    """What the recommendation at one value says of its strategies; nothing where the run was cut short.

    `overlapping` are the strategies whose predicted range meets that of the recommended one.
    """
    if chosen is None or not complete:
        return Optima()
    undecided = chosen.verdict in ("open", "untrusted")
    if chosen.strategy is None or (undecided and not predicted):
        return Optima(rivals=tuple(dict.fromkeys((*filter(None, (chosen.strategy,)), *chosen.tied_with))))
    if undecided:
        return Optima(frozenset({chosen.strategy}), chosen.strategy, likely=True, overlaps=True)
    tied = (chosen.strategy, *chosen.tied_with) if chosen.tied_with else ()
    others = set(overlapping) if tied else set[str]()
    return Optima(
        frozenset({chosen.strategy, *tied}),
        chosen.strategy,
        likely=bool(others - {*tied, chosen.strategy}),
        rivals=tied,
        overlaps=bool(others - {chosen.strategy}),
    )


def runs(optima: Sequence[Optima]) -> tuple[Run, ...]:
    """All values that recommend a strategy, in their order, as runs of the same one."""
    told = [(index, now.chosen) for index, now in enumerate(optima) if now.chosen]
    return tuple(
        _run(strategy or "", [index for index, _ in members], optima)
        for strategy, members in groupby(told, key=lambda pair: pair[1])
    )


def _run(strategy: str, values: Sequence[int], optima: Sequence[Optima]) -> Run:
    tied = frozenset.intersection(*(optima[i].best for i in values)) - {strategy}
    return Run(strategy, tuple(values), any(optima[i].likely for i in values), tied)


def changes(optima: Sequence[Optima], found: Sequence[Run]) -> tuple[Change, ...]:
    """Where neighbouring runs have values that speak against one another: the nearest such two."""
    made = []
    for before, after in pairwise(found):
        low = [i for i in before.values if after.strategy not in optima[i].best]
        high = [i for i in after.values if before.strategy not in optima[i].best]
        if low and high:
            made.append(Change(before, after, low[-1], high[0]))
    return tuple(made)


def stretches(
    optima: Sequence[Optima], found: Sequence[Run], changed: Sequence[Change]
) -> tuple[Stretch, ...]:
    """The runs, cut to agree with the changes: between the two values of one, either strategy may be best.

    A run that ties with one neighbour or the other at each of its values leaves only what may be either.
    """
    low = {change.before.values: change.low for change in changed}
    high = {change.after.values: change.high for change in changed}
    made: list[Stretch] = []
    for run in found:
        first, last = high.get(run.values, run.values[0]), low.get(run.values, run.values[-1])
        kept = [i for i in run.values if first <= i <= last]
        if kept:
            cut = _run(run.strategy, kept, optima)
            made.append(Stretch((cut.strategy,), cut.values, cut.likely, cut.tied_with))
        made += [_either(change, optima) for change in changed if change.before == run]
    return tuple(stretch for stretch in made if stretch.values)


def _either(change: Change, optima: Sequence[Optima]) -> Stretch:
    of_both = (*change.before.values, *change.after.values)
    values = tuple(i for i in of_both if change.low < i < change.high)
    likely = any(optima[i].likely for i in values)
    return Stretch((change.before.strategy, change.after.strategy), values, likely)


def group(optima: Sequence[Optima]) -> dict[str, list[int]]:
    """The values at which each strategy is recommended, for values without an order."""
    found: dict[str, list[int]] = {}
    for index, now in enumerate(optima):
        if now.chosen:
            found.setdefault(now.chosen, []).append(index)
    return found


# Several devices


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


def agreement(optima: Sequence[Optima]) -> Agreement | None:
    """The strategies that devices have in common; None where nothing is known of any."""
    known = {i: s for i, s in enumerate(optima) if s.best or s.rivals}
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


def one_for_all(devices: Sequence[Mapping[str, Measured]], confidence: float) -> OneForAll | None:
    """`least_cost`, with the intervals of what was measured on each device."""
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


def _cost(strategy: str, rows: Mapping[str, Measured], confidence: float) -> stats.Ratio:
    best = min(rows.values(), key=lambda row: row.median_seconds)
    if best.strategy == strategy:
        return stats.Ratio(1.0, 1.0, 1.0)
    found = stats.ratio_interval(rows[strategy].rounds, best.rounds, confidence=confidence)
    return found.around(rows[strategy].median_seconds / best.median_seconds)
