"""How wide ranges must be: what the terms leave unexplained, from the figures of devices that were left out.

A figure's range has two parts: the draws of every uncertain figure of the device, and a factor for the way in
which its strategy moves data. Its ends are the least with which enough left-out figures lie inside, of each
way and kind of device (conformal prediction: Vovk, Gammerman, Shafer, "Algorithmic Learning in a Random
World").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import get_args

import numpy as np
from left_out import Array, Fit, Key, family_of, seconds_of, sheet, with_values
from published_cases import Case

from advisor.model.machines import Defaults, Machine
from advisor.model.simulate import Way, way_of
from advisor.model.terms import HIGH, LOW, Values, log_triangular
from advisor.strategies.registry import by_name

MISSES = 0.1
"""Of the figures of a kind on either side of the range; where few devices tell, that widens it again."""
GRID = tuple(float(x) for x in np.exp(np.arange(0.16, 2.4, 0.08)))


@dataclass(frozen=True)
class Score:
    """A left-out figure and its draws without any factor."""

    case: Case
    way: str
    published: float
    draws: Values


@dataclass
class LeftOut:
    """All cases, each predicted without its family and its source."""

    fit: Fit

    def __post_init__(self) -> None:
        self._defaults = cache(self._defaults)

    def machine(self, case: Case) -> Machine:
        """As the data sheet tells it, with constants and ranges from other families and other sources."""
        return Machine(sheet(case.entry), self._defaults(family_of(case.entry), case.source))

    def _defaults(self, family: str | None, source: str | None) -> Defaults:
        elsewhere = (s for s in self.scores if s.case.source != source)
        others = [s for s in elsewhere if family_of(s.case.entry) != family]
        return with_values(self.fit.defaults_without(family, source), factors(others, self.fit.among))

    @cached_property
    def scores(self) -> list[Score]:
        """Every figure with its draws where nothing is left unexplained."""
        # All that is calibrated without effect: not the factor of every device, which is a choice.
        without_effect = {
            (i, name): {"low": 1.0, "high": 1.0}
            for i, layer in enumerate(self.fit.among.layers)
            for name in layer.figures
            if name.startswith("unexplained") and (i, name) != (0, "unexplained")
        }
        scores = []
        for case in self.fit.cases:
            family, entry = family_of(case.entry), sheet(case.entry)
            if case.relative or family in self.fit.gone:
                continue
            fitted = self.fit.defaults_without(family, case.source)
            seconds = seconds_of(case, Machine(entry, with_values(fitted, without_effect)))
            for f in (f for f in case.figures if f.strategy in seconds):
                way = way_of(by_name(f.strategy).placement, entry)
                scores.append(Score(case, way, f.published, seconds[f.strategy]))
        return scores


def factors(scores: Sequence[Score], among: Defaults) -> dict[Key, dict[str, float]]:
    """The ends of the factors of each layer that has them.

    Of each way to move data by itself where enough devices tell; on top of those, of all strategies alike for
    the classes of which few do.
    """
    ends: dict[Key, dict[str, float]] = {}
    for i, layer in enumerate(among.layers):
        own = [s for s in scores if s.case.entry.memory_class in layer.memory_classes]
        for way in get_args(Way):
            if f"unexplained_{way}" in layer.figures:
                its = [s for s in own if s.way == way]
                ends[i, f"unexplained_{way}"] = least(its, f"unexplained_{way}")
        if i and "unexplained" in layer.figures:
            known = {w: _factor(f"unexplained_{w}", **ends[0, f"unexplained_{w}"]) for w in get_args(Way)}
            spread = [replace(s, draws=s.draws * known[s.way]) for s in own]
            ends[i, "unexplained"] = least(spread, "unexplained")
    return ends


def _factor(name: str, low: float, high: float) -> Values:
    return log_triangular(low, 1.0, high, name)


def least(scores: Sequence[Score], name: str) -> dict[str, float]:
    """The least factor downwards and upwards that leaves out few enough of these figures."""
    if not scores:
        return {"low": 1.0, "high": 1.0}
    draws, published = np.array([s.draws[1:] for s in scores]), np.array([s.published for s in scores])
    counts = Counter((s.case.device, s.case.source) for s in scores)
    weight = np.array([counts[s.case.device, s.case.source] ** -0.5 for s in scores])
    weight /= weight.sum()

    def first(side: int, other: int) -> int:
        ends = ((n, other) if side == 0 else (other, n) for n in range(len(GRID)))
        enough = (x[side] for x in ends if _missed(draws, published, weight, *x, name)[side] <= MISSES)
        return next(enough, len(GRID) - 1)

    down, up = 1, 1
    for _ in range(2):
        down = first(0, up)
        up = first(1, down)
    devices = len({s.case.device for s in scores})
    # Another device differs from the mean of these as they do, and the mean is known no better than that.
    more = (1 + 1 / devices) ** 0.5
    return {"low": GRID[down] ** -more, "high": GRID[up] ** more}


def _missed(
    draws: Array, published: Array, weight: Array, down: int, up: int, name: str
) -> tuple[float, float]:
    """The shares of the figures below and above the range."""
    factor = _factor(name, 1 / GRID[down], GRID[up])[1:]
    low, high = np.percentile(draws * factor, (LOW, HIGH), axis=1)
    return float(weight @ (published < low)), float(weight @ (published > high))
