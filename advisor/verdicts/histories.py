"""A history as series: one workload on one device of one machine, commit by commit, and what changed where.

Times of different GPUs, CPUs or hosts are series of their own. What else changed around the code (driver,
packages) stays within a series, and is told beside every step that it may have made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from advisor.profiles.histories import Entry, History
from advisor.profiles.schema import Measured, Predicted, Profile
from advisor.profiles.sweeps import Point, sweep_results
from advisor.verdicts.comparing.conditions import Condition, conditions, differing
from advisor.verdicts.steps import FEWEST, Step, can_look, steps
from advisor.verdicts.tracks import Track, tracks

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
        yield Change(at, first, last, together, tuple(told), _same_code(entries, first, last))


def _same_code(entries: Sequence[Entry], first: int, last: int) -> bool:
    commits = {entry.profile.commit for entry in entries[first - 1 : last + 1]}
    return len(commits) == 1 and not any(commit is None or commit.changed is not False for commit in commits)


def physical_bytes(row: object) -> int | None:
    if isinstance(row, Measured):
        return row.footprint.physical_bytes
    return row.physical_bytes if isinstance(row, Predicted) else None
