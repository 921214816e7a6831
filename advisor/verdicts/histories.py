"""A history as series: one workload on one device of one machine, commit by commit, and what changed where.

Times of different GPUs, CPUs or hosts are series of their own. What else changed around the code (driver,
packages) stays within a series, and is told beside every step that it may have made.

ruptures (the extra `history`) proposes change points of the mean of the logarithms: penalised least squares,
solved exactly (Killick, Fearnhead and Eckley, "Optimal Detection of Changepoints with a Linear Computational
Cost", JASA 107, 2012). Each is then kept only if Student's test of its step, with the noise of the whole
series, holds at every place in every series of the page at once (Bonferroni's inequality): pages of 4 series
of unchanged code, of 6 to 200 profiles, show a step in 2 % of simulations; where one profile in 20 is an
outlier of five deviations on average, in 1 to 11 %.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise

import numpy as np

from advisor import stats
from advisor.profiles.histories import Entry, History
from advisor.profiles.schema import Profile
from advisor.profiles.sweeps import Point, sweep_results
from advisor.verdicts.comparing.conditions import Condition, conditions, differing
from advisor.verdicts.tracks import Track, tracks

CONFIDENCE = 0.95
FEWEST = 6
"""Profiles of a series below which nothing is looked for: noise and step could not be distinguished."""
_SHORTEST = 2
"""Profiles of a stretch: one alone may be an outlier."""
_FINEST = 1e-3
"""Noise that is assumed at least, as a share: no clock and no code is steadier."""
_OUTLYING = 2.0
"""A time counts at most as this many deviations from its neighbours' median (Hampel's identifier)."""
_REACH = 2
"""Neighbours on each side."""
_GAUSSIAN = 1.4826
"""From a median absolute deviation to a standard one."""


@dataclass(frozen=True)
class Step:
    """Times after profile `at` - 1 over those before it; `first` to `last` are the places it may be at."""

    at: int
    first: int
    last: int
    ratio: stats.Ratio


def can_look() -> bool:
    return find_spec("ruptures") is not None


def steps(seconds: Sequence[float], *, series: int = 1) -> tuple[Step, ...]:
    """The steps in times in order; `series` is how many are looked at together.

    Needs the extra: ask `can_look`. Intervals are those of a step at its place, each at `CONFIDENCE`.
    """
    count = len(seconds)
    if count < FEWEST:
        return ()
    logs = np.log(np.asarray(seconds, dtype=np.float64))
    noise = max(_FINEST, _GAUSSIAN * float(np.median(np.abs(np.diff(logs)))) / math.sqrt(2))
    logs = _tamed(logs, noise)
    tail = (1 - CONFIDENCE) / 2 / (count - 1) / series
    places = _kept(logs, _proposed(logs / noise, stats.student_upper(tail, count - 2) ** 2), tail)
    return tuple(_step(logs, [0, *places, count], i) for i in range(1, len(places) + 1))


def _tamed(logs: stats.Floats, noise: float) -> stats.Floats:
    """Outliers moved to the edge of what their neighbours allow, so that one does not pass for a step."""
    near = [np.median(logs[max(0, i - _REACH) : i + _REACH + 1]) for i in range(len(logs))]
    middle = np.asarray(near)
    return np.clip(logs, middle - _OUTLYING * noise, middle + _OUTLYING * noise)


def _proposed(scaled: stats.Floats, penalty: float) -> list[int]:
    """Where ruptures cuts times in units of their noise."""
    import ruptures  # the extra, and scipy with it: only where it is needed

    found = ruptures.KernelCPD(kernel="linear", min_size=_SHORTEST).fit(scaled.reshape(-1, 1))
    return [int(place) for place in found.predict(pen=penalty)[:-1]]


def _kept(logs: stats.Floats, places: list[int], tail: float) -> list[int]:
    """The places whose steps hold, with the weakest dropped one by one."""
    while places:
        bounds = [0, *places, len(logs)]
        # By how many standard errors each step exceeds what noise would make.
        fits = [_fit(logs, bounds, i) for i in range(1, len(bounds) - 1)]
        excess = [abs(size) / error - stats.student_upper(tail, freedom) for size, error, freedom in fits]
        weakest = int(np.argmin(excess))
        if excess[weakest] > 0:
            return places
        places = [place for i, place in enumerate(places) if i != weakest]
    return []


def _noise(logs: stats.Floats, bounds: Sequence[int]) -> tuple[float, int]:
    """The deviation of times from the mean of their stretch, and its degrees of freedom."""
    stretches = np.split(logs, bounds[1:-1])
    freedom = max(1, len(logs) - len(stretches))
    return max(_FINEST, math.sqrt(sum(map(_squares, stretches)) / freedom)), freedom


def _fit(logs: stats.Floats, bounds: Sequence[int], index: int) -> tuple[float, float, int]:
    """Size, standard error and degrees of freedom of one step, with the noise of all stretches."""
    start, place, end = bounds[index - 1 : index + 2]
    deviation, freedom = _noise(logs, bounds)
    error = deviation * math.sqrt(1 / (place - start) + 1 / (end - place))
    return float(logs[place:end].mean() - logs[start:place].mean()), error, freedom


def _step(logs: stats.Floats, bounds: Sequence[int], index: int) -> Step:
    size, error, freedom = _fit(logs, bounds, index)
    likely = stats.student_upper((1 - CONFIDENCE) / 2, freedom)
    ends = (size, size - likely * error, size + likely * error)
    first, last = _where(logs, bounds, index, likely)
    return Step(bounds[index], first, last, stats.Ratio(*map(math.exp, ends)))


def _where(logs: stats.Floats, bounds: Sequence[int], index: int, likely: float) -> tuple[int, int]:
    """The first and the last place at which the step would fit hardly worse (profile likelihood)."""
    start, place, end = bounds[index - 1 : index + 2]
    allowed = (likely * _noise(logs, bounds)[0]) ** 2
    costs = {at: _squares(logs[start:at]) + _squares(logs[at:end]) for at in range(start + 1, end)}
    near = [at for at, cost in costs.items() if cost - costs[place] <= allowed]
    return min(near), max(near)


def _squares(part: stats.Floats) -> float:
    return float(((part - part.mean()) ** 2).sum())


_OF_THE_RUN = ("method",)
"""Conditions that change how sure a time is, not the time."""


@dataclass(frozen=True)
class Change:
    """Steps of several strategies at one place: before entry `at`, or anywhere from `first` to `last`.

    `around` is what else changed there; `same_code`: the commit is the same before and after.
    """

    at: int
    first: int
    last: int
    steps: dict[str, Step]
    around: tuple[Condition, ...] = ()
    same_code: bool = False


@dataclass(frozen=True)
class Series:
    """One workload with its parameters on one device, in the order of the commits.

    `around` is what changed around the code before each entry; `machine` tells series of one device apart.
    """

    entries: tuple[Entry, ...]
    track: Track
    machine: str
    changes: tuple[Change, ...]
    around: tuple[tuple[Condition, ...], ...]
    looked: bool

    @property
    def profile(self) -> Profile:
        return self.entries[-1].profile


def all_series(history: History) -> tuple[Series, ...]:
    """All of them, those of one workload together, measured before predicted."""
    found: dict[tuple[object, ...], list[Entry]] = {}
    for entry in history.entries:
        found.setdefault(_key(entry.profile), []).append(entry)
    followed = [(entries, track) for entries in found.values() for track in _tracks(entries)]
    count = sum(len(track.with_figures) for _, track in followed) or 1
    return tuple(_series(tuple(entries), track, count) for entries, track in followed)


def _key(profile: Profile) -> tuple[object, ...]:
    work, device, machine = profile.workload, profile.device, profile.environment
    parameters = tuple(sorted((name, repr(value)) for name, value in work.parameters.items()))
    host = machine.cpu_model, machine.cpu_count, machine.host_name
    return work.name, parameters, device.kind, device.name, device.memory_class, host


def _tracks(entries: Sequence[Entry]) -> tuple[Track, ...]:
    points = [Point(entry.label, entry.profile) for entry in entries]
    return tuple(t for t in tracks(sweep_results("", "commit", points)) if t.with_figures)


def _series(entries: tuple[Entry, ...], track: Track, count: int) -> Series:
    around = ((), *(tuple(_around(a.profile, b.profile)) for a, b in pairwise(entries)))
    looked = can_look() and len(entries) >= FEWEST
    found = _changes(_steps(track, count), entries, around) if looked else ()
    machine = entries[-1].profile.environment
    told = (machine.host_name, machine.cpu_model, f"{machine.cpu_count} cores" if machine.cpu_count else None)
    return Series(entries, track, ", ".join(filter(None, told)), tuple(found), around, looked)


def _around(before: Profile, now: Profile) -> Iterator[Condition]:
    found = differing(conditions(before, now), "condition")
    return (condition for condition in found if condition.what not in _OF_THE_RUN)


def _steps(track: Track, count: int) -> Iterator[tuple[str, Step]]:
    """Every step of every strategy, its places among all entries."""
    for strategy in track.with_figures:
        told = [(i, times[0]) for i, stop in enumerate(track.stops) if (times := stop.seconds(strategy))]
        places = [i for i, _ in told]
        for step in steps([seconds for _, seconds in told], series=count):
            # Anywhere after the last entry with figures before it.
            first = places[step.first - 1] + 1
            yield strategy, Step(places[step.at], first, places[step.last], step.ratio)


def _changes(
    found: Iterator[tuple[str, Step]], entries: Sequence[Entry], around: Sequence[tuple[Condition, ...]]
) -> Iterator[Change]:
    """Steps whose possible places have one in common are told as one change."""
    waiting = sorted(found, key=lambda each: each[1].at)
    while waiting:
        (_, step), first, last = waiting[0], waiting[0][1].first, waiting[0][1].last
        together: dict[str, Step] = {}
        for strategy, other in waiting:
            if strategy not in together and max(first, other.first) <= min(last, other.last):
                first, last = max(first, other.first), min(last, other.last)
                together[strategy] = other
        waiting = [each for each in waiting if each[1] not in together.values()]
        at = min(max(step.at, first), last)
        told = dict.fromkeys(condition for i in range(first, last + 1) for condition in around[i])
        commits = {entry.profile.commit for entry in entries[first - 1 : last + 1]}
        same = len(commits) == 1 and all(commit and commit.changed is False for commit in commits)
        yield Change(at, first, last, together, tuple(told), same)
