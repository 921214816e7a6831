"""How wide ranges must be: what the terms leave unexplained, from the figures of devices that were left out.

A figure's range has two parts: the draws of every uncertain figure of the device, and a factor for the way in which
its strategy moves data. The factor's ends are the least with which enough left-out figures lie inside, of each way
and kind of device (conformal prediction: Vovk, Gammerman, Shafer, "Algorithmic Learning in a Random World").
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from left_out import Array, Fit, Key, seconds_of, sheet, with_values
from published_cases import Case

from advisor.devices.catalogue import load
from advisor.model.machines import Defaults, Machine
from advisor.model.monte_carlo import HIGH, LOW, Values, log_triangular
from advisor.model.simulate import WAYS, way_of
from advisor.strategies.registry import by_name

MISSES = 0.06
"""Of the figures of a kind on either side of the range."""
GRID = tuple(float(x) for x in np.exp(np.arange(0.0, 2.4, 0.08)))
FEW_DEVICES = 2
"""With fewer, the factor is that of all ways of the kind, then of all devices."""
KINDS = (
    ("discrete", "discrete-hmm"),
    ("tegra", "tegra-io-coherent"),
    ("tegra-coherent", "coherent"),
)
"""Memory classes that share a factor."""


@dataclass(frozen=True)
class Score:
    """A left-out figure and its draws without any factor."""

    device: str
    source: str
    kind: tuple[str, ...]
    way: str
    published: float
    draws: Values


@dataclass
class LeftOut:
    """All cases, each predicted without its device and its source."""

    fit: Fit
    _defaults: dict[tuple[str | None, str | None], Defaults] = field(default_factory=dict)

    def machine(self, case: Case) -> Machine:
        """As the data sheet tells it, with constants and ranges from other devices and other sources."""
        key = case.device, case.source
        if key not in self._defaults:
            others = [s for s in self.scores if s.device != case.device and s.source != case.source]
            self._defaults[key] = with_values(self._fitted(case), factors(others, self.fit.among))
        return Machine(sheet(load(case.device)), self._defaults[key])

    def _fitted(self, case: Case) -> Defaults:
        return self.fit.defaults_without(case.device, case.source)

    @cached_property
    def scores(self) -> list[Score]:
        """Every figure with its draws where nothing is left unexplained."""
        return [score for case in self.fit.cases if not case.relative for score in self._scores(case)]

    def _scores(self, case: Case) -> Iterable[Score]:
        entry = sheet(load(case.device))
        plain = with_values(self._fitted(case), _every_factor(self.fit.among, 1.0, 1.0))
        kind = next(kind for kind in KINDS if entry.memory_class in kind)
        machine = Machine(entry, plain)
        seconds = seconds_of(case, machine)
        for f in case.figures:
            if f.strategy in seconds:
                way = way_of(by_name(f.strategy).placement, shares_memory=machine.shares_memory)
                yield Score(case.device, case.source, kind, way, f.published, seconds[f.strategy])


def _every_factor(among: Defaults, low: float, high: float) -> dict[Key, dict[str, float]]:
    return {
        (i, name): {"low": low, "high": high}
        for i, layer in enumerate(among.layers)
        for name in layer.figures
        if name.startswith("unexplained")
    }


def factors(scores: Sequence[Score], among: Defaults) -> dict[Key, dict[str, float]]:
    """The ends of the factors in each layer that has them: of its classes' figures, or of all where they are few."""
    found = {}
    for i, layer in enumerate(among.layers):
        for way in WAYS:
            if f"unexplained_{way}" in layer.figures:
                kind = [s for s in scores if set(s.kind) <= set(layer.memory_classes)]
                own = [s for s in (kind or scores) if s.way == way]
                chosen = next(x for x in (own, kind, scores) if _enough(x) or x is scores)
                low, high = least(chosen, way)
                found[i, f"unexplained_{way}"] = {"low": low, "high": high}
    return found


def _enough(scores: Sequence[Score]) -> bool:
    return len({s.device for s in scores}) >= FEW_DEVICES


def least(scores: Sequence[Score], way: str) -> tuple[float, float]:
    """The least factor downwards and upwards that leaves out few enough of these figures."""
    if not scores:
        return 1.0, 1.0
    draws, published = np.array([s.draws[1:] for s in scores]), np.array([s.published for s in scores])
    counts: dict[tuple[str, str], int] = {}
    for s in scores:
        counts[s.device, s.source] = counts.get((s.device, s.source), 0) + 1
    weight = np.array([counts[s.device, s.source] ** -0.5 for s in scores])
    weight /= weight.sum()
    down = up = 1
    for _ in range(2):
        down = next(
            (n for n in range(len(GRID)) if _missed(draws, published, weight, n, up, way)[0] <= MISSES),
            len(GRID) - 1,
        )
        up = next(
            (n for n in range(len(GRID)) if _missed(draws, published, weight, down, n, way)[1] <= MISSES),
            len(GRID) - 1,
        )
    return 1 / GRID[down], GRID[up]


def _missed(
    draws: Array, published: Array, weight: Array, down: int, up: int, way: str
) -> tuple[float, float]:
    """The shares of the figures below and above the range."""
    factor = log_triangular(1 / GRID[down], 1.0, GRID[up], f"unexplained_{way}")[1:]
    low, high = np.percentile(draws * factor, (LOW, HIGH), axis=1)
    return float(weight @ (published < low)), float(weight @ (published > high))
