"""A history as series: one workload on one device of one machine, commit by commit, and what changed where.

Times of different GPUs, CPUs or hosts are series of their own. What else changed around the code (driver,
packages) stays within a series, and is told beside every step that it may have made.

Predicted series hold kernels and copies alone: host stages were timed on a CPU that other programs use, which
moves a prediction for the same code by several times. What is left follows from the code, so that every
difference is a step. The CPU's own series shows the host stages, with their noise.

ruptures (the extra `history`) proposes change points of the mean of the logarithms: penalised least squares,
solved exactly (Killick, Fearnhead and Eckley, "Optimal Detection of Changepoints with a Linear Computational
Cost", JASA 107, 2012). Each is then kept only if Student's test of its step, with the noise of the whole
series, holds at every place in every series of the page at once (Bonferroni's inequality): pages of 4 series
of unchanged code, of 6 to 200 profiles, show a step in 1 to 4 % of simulations; where one profile in 20 is
an outlier of five deviations on average, in 1 to 11 %.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import groupby, pairwise

import numpy as np

from advisor import stats
from advisor.profiles.histories import Entry, History
from advisor.profiles.schema import Predicted, Profile, WorkloadRecord
from advisor.profiles.sweeps import Point
from advisor.strategies.mixes import numbered_alike, of_row
from advisor.strategies.registry import BASELINE
from advisor.verdicts.comparing.conditions import Condition, conditions, differing
from advisor.verdicts.tracks import AnyResult, Stop, Track, tracks

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
_LEAST_PATH = 0.01
"""Kernels and copies that differ by less are the same."""


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
    import ruptures  # the extra, and scipy with it: only where it is needed

    logs = np.log(np.asarray(seconds, dtype=np.float64))
    noise = max(_FINEST, stats.robust_deviation(np.diff(logs)) / math.sqrt(2))
    # One outlier does not pass for a step: it is moved to the edge of what its neighbours allow.
    near = np.asarray([np.median(logs[max(0, i - _REACH) : i + _REACH + 1]) for i in range(count)])
    logs = np.clip(logs, near - _OUTLYING * noise, near + _OUTLYING * noise)
    tail = (1 - CONFIDENCE) / 2 / (count - 1) / series
    cuts = ruptures.KernelCPD(kernel="linear", min_size=_SHORTEST).fit((logs / noise).reshape(-1, 1))
    proposed = cuts.predict(pen=stats.student_upper(tail, count - 2) ** 2)[:-1]
    places = _kept(logs, list(map(int, proposed)), tail)
    sizes, errors, deviation, freedom = _fit(logs, places)
    likely = stats.student_upper((1 - CONFIDENCE) / 2, freedom)
    confirmed = []
    for i, (place, size, error) in enumerate(zip(places, sizes, errors, strict=True)):
        start, end = [0, *places][i], [*places, count][i + 1]
        # By profile likelihood, the step may also be where it fits hardly worse.
        costs = {at: _squares(logs[start:at]) + _squares(logs[at:end]) for at in range(start + 1, end)}
        alike = [at for at, cost in costs.items() if cost - costs[place] <= (likely * deviation) ** 2]
        ratio = stats.Ratio(*map(math.exp, (size, size - likely * error, size + likely * error)))
        confirmed.append(Step(place, min(alike), max(alike), ratio))
    return tuple(confirmed)


def _kept(logs: stats.Floats, places: list[int], tail: float) -> list[int]:
    """The places whose steps hold, with the weakest dropped one by one."""
    while places:
        sizes, errors, _, freedom = _fit(logs, places)
        excess = np.abs(sizes) / errors
        weakest = int(np.argmin(excess))
        if excess[weakest] > stats.student_upper(tail, freedom):
            break
        places = [place for i, place in enumerate(places) if i != weakest]
    return places


def _fit(logs: stats.Floats, places: Sequence[int]) -> tuple[stats.Floats, stats.Floats, float, int]:
    """Sizes and standard errors of the steps at these places; the deviation of times from the mean of their
    stretch, and its degrees of freedom."""
    stretches = np.split(logs, places)
    freedom = max(1, len(logs) - len(stretches))
    deviation = max(_FINEST, math.sqrt(sum(map(_squares, stretches)) / freedom))
    parts = np.asarray([1 / len(stretch) for stretch in stretches])
    sizes = np.diff([stretch.mean() for stretch in stretches])
    return sizes, deviation * np.sqrt(parts[:-1] + parts[1:]), deviation, freedom


def _squares(part: stats.Floats) -> float:
    return float(((part - part.mean()) ** 2).sum())


def newest(seconds: Sequence[float], *, series: int = 1) -> stats.Ratio | None:
    """The last time over the mean of those before it, where it lies outside their prediction interval; None
    where it does not, or too few are before it. One profile may be an outlier: this is no step yet."""
    count = len(seconds) - 1
    if count < FEWEST - 1:
        return None
    logs = np.log(np.asarray(seconds, dtype=np.float64))
    before = logs[:-1]
    error = max(_FINEST, float(before.std(ddof=1))) * math.sqrt(1 + 1 / count)
    half = stats.student_upper((1 - CONFIDENCE) / 2 / series, count - 1) * error
    size = float(logs[-1] - before.mean())
    notable = abs(size) > max(half, math.log1p(stats.EQUIVALENCE))
    return stats.Ratio(*map(math.exp, (size, size - half, size + half))) if notable else None


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
    `newest`: strategies whose last time alone differs from those since the last change.
    """

    entries: tuple[Entry, ...]
    track: Track
    machine: str
    changes: tuple[Change, ...]
    around: tuple[tuple[Condition, ...], ...]
    looked: bool
    newest: Mapping[str, stats.Ratio] = field(default_factory=dict)

    @property
    def profile(self) -> Profile:
        return self.entries[-1].profile


def all_series(history: History) -> tuple[Series, ...]:
    """All of them, those of one workload together, measured before predicted."""
    series: dict[tuple[object, ...], list[Entry]] = {}
    for entry in history.entries:
        series.setdefault(_key(entry.profile), []).append(entry)
    followed = []
    for entries in series.values():
        points = [Point(entry.label, entry.profile) for entry in entries]
        tracked = (_comparable(track, entries[-1].profile.workload) for track in tracks(points))
        followed += [(entries, track) for track in tracked if track.with_figures]
    count = sum(len(track.with_figures) for _, track in followed if track.basis != "predicted") or 1
    return tuple(_series(tuple(entries), track, count) for entries, track in followed)


def with_mixes_numbered(history: History) -> History:
    """The history with one number for each mix in all of its profiles: alone, each numbers its own."""
    profiles = numbered_alike([entry.profile for entry in history.entries])
    pairs = zip(history.entries, profiles, strict=True)
    return replace(history, entries=tuple(replace(entry, profile=profile) for entry, profile in pairs))


def _key(profile: Profile) -> tuple[object, ...]:
    work, device, machine = profile.workload, profile.device, profile.environment
    parameters = tuple(sorted((name, repr(value)) for name, value in work.parameters.items()))
    host = machine.cpu_model, machine.cpu_count, machine.host_name
    return work.name, parameters, device.kind, device.name, device.memory_class, host


def _comparable(track: Track, workload: WorkloadRecord) -> Track:
    """A prediction's kernels and copies; of a CPU the baseline, since on one memory all strategies do
    the same work. Neighbours that are alike in these have the recommendation that most of them have."""
    if track.basis == "cpu":
        rows = ({BASELINE: s.results[BASELINE]} if BASELINE in s.results else s.results for s in track.stops)
        stops = (replace(s, results=each) for s, each in zip(track.stops, rows, strict=True))
        return replace(track, stops=tuple(stops))
    if track.basis == "measured":
        return track
    rows_by_name = {name: row for stop in track.stops for name, row in stop.results.items()}
    strategies = {name: strategy for name, row in rows_by_name.items() if (strategy := of_row(row))}
    migrating = {
        name
        for name, strategy in strategies.items()
        for placement in strategy.placements(workload).values()
        if placement.movement(track.device.memory_class) == "migrated"
    }
    followed: list[Stop] = []
    alone = [replace(stop, results=_path_results(stop.results, migrating)) for stop in track.stops]
    for _, group in groupby(alone, key=lambda stop: {name: stop.seconds(name) for name in stop.results}):
        alike = list(group)
        usual = Counter(stop.optima for stop in alike).most_common(1)[0][0]
        followed += [replace(stop, optima=usual) for stop in alike]
    return replace(track, stops=tuple(followed))


def _path_results(results: Mapping[str, AnyResult], migrating: Collection[str]) -> dict[str, AnyResult]:
    """Rows with what is left of their time without host stages; none where frames overlap, which wait for
    these, or pages migrate: how many do depends on how long a frame takes (steady_frame.py)."""
    rows: dict[str, AnyResult] = {}
    for name, row in results.items():
        if isinstance(row, Predicted) and row.latency_seconds is None and name not in migrating:
            seconds = math.fsum(s for term, s in row.terms.items() if not term.startswith("host:"))
            if seconds > 0:
                same = dict.fromkeys(("likely_seconds", "low_seconds", "high_seconds"), seconds)
                rows[name] = row.model_copy(update=same)
    return rows


def _series(entries: tuple[Entry, ...], track: Track, count: int) -> Series:
    around: list[tuple[Condition, ...]] = [()]
    for before, now in pairwise(entry.profile for entry in entries):
        apart = differing(conditions(before, now), "condition")
        # The method changes how sure a time is, not the time.
        around.append(tuple(condition for condition in apart if condition.what != "method"))
    predicted = track.basis == "predicted"
    looked = len(entries) > 1 if predicted else can_look() and len(entries) >= FEWEST
    changes = tuple(_changes(_steps(track, count), entries, around)) if looked else ()
    machine = entries[-1].profile.environment
    names = machine.host_name, machine.cpu_model, f"{machine.cpu_count} cores" if machine.cpu_count else None
    last = {} if predicted else dict(_newest(track, changes, count))
    return Series(entries, track, ", ".join(filter(None, names)), changes, tuple(around), looked, last)


def _times(track: Track, strategy: str) -> dict[int, float]:
    return {i: times[0] for i, stop in enumerate(track.stops) if (times := stop.seconds(strategy))}


def _newest(track: Track, changes: Sequence[Change], count: int) -> Iterator[tuple[str, stats.Ratio]]:
    """Strategies whose last time differs from those since their last change."""
    for strategy in track.with_figures:
        since = max((change.at for change in changes if strategy in change.steps), default=0)
        times = _times(track, strategy)
        seconds = [time for at, time in times.items() if at >= since]
        if len(track.stops) - 1 in times and (ratio := newest(seconds, series=count)):
            yield strategy, ratio


def _steps(track: Track, count: int) -> Iterator[tuple[str, Step]]:
    """Steps of measured times; of predictions every difference, which only what is profiled can make."""
    for strategy in track.with_figures:
        times = _times(track, strategy)
        if track.basis == "predicted":
            for (before, old), (at, new) in pairwise(times.items()):
                if abs(math.log(new / old)) > math.log1p(_LEAST_PATH):
                    yield strategy, Step(at, before + 1, at, stats.Ratio(new / old, new / old, new / old))
            continue
        places = list(times)
        for step in steps([*times.values()], series=count):
            # Anywhere after the last entry with figures before it.
            first = places[step.first - 1] + 1
            yield strategy, Step(places[step.at], first, places[step.last], step.ratio)


def _edited(files: Sequence[str], first: int, last: int) -> list[int]:
    """Entries from the first to the last whose file is not that of the one before."""
    return [i for i in range(max(first, 1), min(last + 1, len(files))) if files[i] != files[i - 1]]


def _changes(
    steps: Iterator[tuple[str, Step]], entries: Sequence[Entry], around: Sequence[tuple[Condition, ...]]
) -> Iterator[Change]:
    """Steps whose possible places have one in common are reported as one change: where the workload's file
    changed, if it did at one of them."""
    files = [entry.profile.workload.sha256 for entry in entries]
    waiting = sorted(steps, key=lambda each: each[1].at)
    while waiting:
        (_, step), first, last = waiting[0], waiting[0][1].first, waiting[0][1].last
        together: dict[str, Step] = {}
        for strategy, other in waiting:
            if strategy not in together and max(first, other.first) <= min(last, other.last):
                first, last = max(first, other.first), min(last, other.last)
                together[strategy] = other
        waiting = [each for each in waiting if each[1] not in together.values()]
        at = min(max(step.at, first), last)
        edited = _edited(files, first, last) or _edited(files, first - 1, last + 1)  # one may be an outlier
        at = min(edited, key=lambda i: abs(i - at), default=at)
        first, last = min(first, at), max(last, at)
        conditions = dict.fromkeys(condition for i in range(first, last + 1) for condition in around[i])
        commits = {entry.profile.commit for entry in entries[first - 1 : last + 1]}
        same = len(commits) == 1 and all(commit and commit.changed is False for commit in commits)
        yield Change(at, first, last, together, tuple(conditions), same)
