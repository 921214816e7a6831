"""At which value of a parameter the best strategy changes: never inside the noise.

A value speaks for the strategies that may be the best there: the recommended one and those tied with it.
Values that speak for a common strategy belong together, so a tie never makes a change; a measured value at
which the best strategies cannot be told apart speaks for none. A predicted value whose ranges overlap speaks
for the likely best one, and what is built on it is called likely.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from advisor.profiles import Recommendation


@dataclass(frozen=True)
class Standing:
    """Who may be the best at one value; `best` is empty where that is not known."""

    best: frozenset[str] = frozenset()
    chosen: str | None = None
    likely: bool = False
    rivals: tuple[str, ...] = ()
    """Strategies that time does not tell apart: tied ones, or those of a measurement that cannot tell."""


@dataclass(frozen=True)
class Stretch:
    """Neighbouring values for which `strategy` may be the best throughout.

    `first` and `last` are the indices of the values at which no neighbouring stretch's strategy may be.
    """

    strategy: str
    first: int
    last: int
    likely: bool


def standing(chosen: Recommendation | None, *, predicted: bool, complete: bool = True) -> Standing:
    """What the recommendation at one value says of its strategies; nothing where the run was cut short."""
    if chosen is None or not complete:
        return Standing()
    if chosen.strategy is None or (chosen.verdict == "inconclusive" and not predicted):
        return Standing(rivals=tuple(dict.fromkeys((*filter(None, (chosen.strategy,)), *chosen.tied_with))))
    if chosen.verdict == "inconclusive":
        return Standing(frozenset({chosen.strategy}), chosen.strategy, likely=True)
    tied = (chosen.strategy, *chosen.tied_with) if chosen.verdict == "tie" and chosen.tied_with else ()
    return Standing(frozenset({chosen.strategy, *tied}), chosen.strategy, rivals=tied)


def stretches(standings: Sequence[Standing]) -> tuple[Stretch, ...]:
    """The fewest stretches that cover all values that speak for a strategy, in the order of the values."""
    groups: list[list[int]] = []
    common: list[frozenset[str]] = []
    for index, now in enumerate(standings):
        if not now.best:
            continue
        if common and common[-1] & now.best:
            groups[-1].append(index)
            common[-1] &= now.best
        else:
            groups.append([index])
            common.append(now.best)
    names = [_name(standings, group, best) for group, best in zip(groups, common, strict=True)]
    return tuple(_stretch(standings, groups, names, i) for i in range(len(groups)))


def _name(standings: Sequence[Standing], group: Sequence[int], best: frozenset[str]) -> str:
    """The one of the common strategies that is recommended most often; the first by name among equals."""
    votes = Counter(standings[i].chosen for i in group)
    return min(best, key=lambda name: (-votes[name], name))


def _stretch(
    standings: Sequence[Standing], groups: Sequence[Sequence[int]], names: Sequence[str], index: int
) -> Stretch:
    others = {names[i] for i in (index - 1, index + 1) if 0 <= i < len(names)}
    alone = [i for i in groups[index] if not standings[i].best & (others - {names[index]})]
    certain = alone or list(groups[index])
    likely = any(standings[i].likely for i in groups[index])
    return Stretch(names[index], certain[0], certain[-1], likely)


def group(standings: Sequence[Standing]) -> dict[str, list[int]]:
    """The values at which each strategy is recommended, for values without an order."""
    found: dict[str, list[int]] = {}
    for index, now in enumerate(standings):
        if now.chosen:
            found.setdefault(now.chosen, []).append(index)
    return found
