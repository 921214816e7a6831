"""The best mix of placements by the model: one buffer at a time is changed until no change is better.

Coordinate descent finds the best of all mixes where what the buffers cost adds up, which it does but for
waits that several share; it begins at the two best uniform strategies, so that such a wait does not end it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from advisor.devices.entries import CatalogueEntry
from advisor.model.machines import Machine
from advisor.model.measured import learned
from advisor.model.simulate import Simulated, simulate
from advisor.model.terms import Values
from advisor.profiles.figures import Instead
from advisor.profiles.schema import Profile
from advisor.strategies.mixes import PREFIX, Mix, Placed, alike, changes, choices, label, mix, uniform
from advisor.strategies.registry import Strategy, by_name, to_place

Times = Callable[[Sequence[Placed]], Sequence[float]]
STARTS = 2
SAME = 1.001
"""Times so close are the same."""
MOST_STEPS = 1000
"""Stages and buffers that are simulated, of all mixes together: 0.5 ms each, half a second a device."""


def _quickest(tried: Iterable[dict[str, str]], seconds: Times) -> tuple[dict[str, str], float]:
    """The first of the quickest and its time, infinite without any."""
    listed = list(tried)
    return min(zip(listed, seconds(listed), strict=True), key=lambda pair: pair[1], default=({}, math.inf))


def _descend(start: Placed, tried_for: Mapping[str, Sequence[str]], seconds: Times) -> dict[str, str]:
    """The best that changing one buffer at a time comes to."""
    now, (time,) = dict(start), seconds([start])
    while (step := _quickest(changes(now, tried_for), seconds))[1] < time:
        now, time = step
    return now


@dataclass(frozen=True)
class Outlook:
    """Mixes on a device, by the model."""

    seconds: Callable[[Sequence[Placed]], list[float]]
    """The likely time that the objective counts; infinite if it is unusable or there are too many."""
    best: Placed
    gain: float
    """The best uniform strategy's likely time over that of the best mix, less 1."""
    instead: Mapping[str, Instead]
    """Each buffer's next best placement in the best mix."""
    possible: float
    """The same of the mix that gains most in the 95th percentile of the simulated devices."""


def outlook(profile: Profile, target: CatalogueEntry, strategies: Sequence[Strategy]) -> Outlook | None:
    """The best mix beside these strategies on that device; None where nothing can be said of any."""
    if profile.preferences.objective == "footprint" or len(to_place(profile.workload)) < 2:
        return None
    machine, objective = Machine(target), profile.preferences.objective
    known = learned(profile, machine)
    drawn: dict[str, Values] = {}
    most = MOST_STEPS // max(1, len(profile.workload.stages) + len(profile.workload.buffers))

    def simulated(tried: Sequence[Strategy]) -> dict[str, Values]:
        outcomes = simulate(profile.workload, known.trace, machine, tried, known)
        return {n: s.counted(objective) for n, s in outcomes.items() if isinstance(s, Simulated)}

    def seconds(placed: Sequence[Placed]) -> list[float]:
        tried = [mix(label(each), each) for each in placed]
        new = [strategy for strategy in tried if strategy.name not in drawn]
        drawn.update(simulated(new[: max(0, most - len(drawn))]))
        return [float(drawn[strategy.name][0]) if strategy.name in drawn else math.inf for strategy in tried]

    others, tried_for = simulated(strategies), choices(profile.workload, target.device())
    if not others:
        return None
    likely = {name: float(values[0]) for name, values in others.items()}
    names = {name for some in tried_for.values() for name in some}
    starts = sorted((name for name in likely if name in names), key=likely.__getitem__)[:STARTS]
    if not starts:
        return None
    ends = [_descend(alike(profile.workload, name), tried_for, seconds) for name in starts]
    best, time = _simplest(*_quickest(ends, seconds), tried_for, seconds)
    fastest = others[min(likely, key=likely.__getitem__)]
    instead = {}
    for name, some in tried_for.items():
        other, after = _quickest(changes(best, {name: some}), seconds)
        if math.isfinite(after):
            instead[name] = Instead(placement=other[name], seconds=max(0.0, after - time))
    possible = math.inf  # what was not simulated may gain more
    if len(drawn) < most:
        possible = max(float(np.percentile(fastest / values, 95)) for values in drawn.values())
    return Outlook(seconds, best, min(likely.values()) / time - 1, instead, possible - 1)


def _simplest(
    best: Placed, time: float, tried_for: Mapping[str, Sequence[str]], seconds: Times
) -> tuple[dict[str, str], float]:
    """The mix with the smallest code change for each buffer that takes no longer."""
    now = dict(best)
    for buffer, names in tried_for.items():
        others = sorted(changes(now, {buffer: names}), key=lambda placed: _change(placed[buffer]))
        for other, duration in zip(others, seconds(others), strict=True):
            if duration <= time * SAME and _change(other[buffer]) < _change(now[buffer]):
                now = other
                break
    return now, seconds([now])[0]


def _change(placement: str) -> int:
    return by_name(placement).code_change


def best_mix(
    profile: Profile, target: CatalogueEntry, strategies: Sequence[Strategy]
) -> tuple[Mix, Mapping[str, Instead]] | None:
    """The mix that is likely faster than each of the strategies by more than the indifference, and each
    buffer's next best placement; None without.

    Strategies whose frames overlap count against it where they are faster.
    """
    result = outlook(profile, target, strategies)
    if result is None or uniform(result.best) or result.gain <= profile.preferences.indifference:
        return None
    return mix(PREFIX, result.best), result.instead
