"""The frames of one GPU's work: by an NVTX range, else by what repeats; steady ones apart from warm-up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.nsys.database import UNKNOWN, Integers
from advisor.nsys.ranges import LEAST, NOTHING, Intervals, length, seconds, union
from advisor.nsys.work import Calls, GpuWork
from advisor.profiles.programs import FrameSource

_WARM = 1.25
"""Times the median that a first frame of a warm-up takes at least: the noise of a frame is below it."""
_COVERED = 1 / 3
"""The least share of the GPU's busy time in frames: a choice. Less is not the program's loop."""
_MOST_COUNTS = 4
_MIXING, _PRIME = 1_000_003, (1 << 31) - 1
"""Turn what is equal into numbers whose sums seldom are: a frame's work in any order is one number."""


@dataclass(frozen=True)
class Marked:
    """The frames of a program: begins and ends in ns, of all and of the steady ones."""

    source: FrameSource
    name: str
    alike: float
    begins: Integers
    ends: Integers

    @cached_property
    def first(self) -> int:
        """The first steady one: of the first third, those longer than frames usually are warm up."""
        lengths = self.ends - self.begins
        usual = lengths <= _WARM * np.median(lengths)
        return int(np.argmax(np.append(usual[: len(lengths) // 3], True)))

    @property
    def steady(self) -> Intervals:
        return self.begins[self.first :], self.ends[self.first :]


def by_ranges(name: str, ranges: Intervals, work: GpuWork) -> Marked:
    """Frames by the ranges of one name. One that launches and does not wait ends before its work does: where
    ranges follow one another closely, a frame lasts until the next begins."""
    begins, ends = ranges
    if len(begins) > 1:
        gaps = begins[1:] - ends[:-1]
        whole = np.median(gaps) < np.median(ends - begins)
        reached = begins[1:] if whole else np.minimum(ends[:-1], begins[1:])
        ends = np.append(reached, ends[-1])
    totals = np.zeros(len(begins) + 1)  # of each frame, by the kernels and copies that begin in it
    for columns, keys in ((work.kernels, ("name",)), (work.copies, ("bytes", "kind"))):
        if columns:
            kinds = np.zeros(len(columns["start"]), np.int64)
            for key in keys:
                kinds = (kinds * _MIXING + columns[key]) * _MIXING % _PRIME
            totals += np.bincount(np.searchsorted(begins, columns["start"], side="right"), kinds, len(totals))
    _, counts = np.unique(totals[1:], return_counts=True)
    return Marked("nvtx", name, float(counts.max() / len(begins)), begins, ends)


def by_repeats(work: GpuWork, calls: Calls | None, uploads: Integers, downloads: Integers) -> Marked | None:
    """Frames by what repeats. `uploads`, `downloads`: positions among the copies."""
    busy = union(work.busy())
    for source, events in _sequences(work, calls, uploads, downloads):
        if (frames := repeats(events)) is None:
            continue
        firsts, lasts, alike = frames
        # A frame ends where the next begins, or with its last event; the last one with the work after it.
        begins, pairs = events.begins[firsts], np.column_stack((firsts, lasts)).ravel()
        reached = np.maximum.reduceat(np.append(events.ends, 0), pairs)[::2]
        follows = np.append(lasts[:-1] == firsts[1:], False)
        ends = np.where(follows, np.append(begins[1:], 0), reached)
        usual = int(np.median(ends[:-1] - begins[:-1]))
        # Kernels and downloads follow the uploads by which the last frame was found.
        ends[-1] = max(ends[-1], min(int(busy[1][-1]), int(begins[-1]) + usual))
        ends = np.maximum(ends, begins + 1)
        if seconds((begins, ends), busy) >= _COVERED * length(busy):
            return Marked(source, source, alike, begins, ends)
    return None


def _sequences(
    work: GpuWork, calls: Calls | None, uploads: Integers, downloads: Integers
) -> Iterator[tuple[FrameSource, Events]]:
    """All work with the host's waits, then without them; kernels that run equally often; the uploads, also by
    their size, doubled or halved; the downloads."""
    copies, kernels = work.copies, work.kernels
    sizes, kinds = (copies.get(name, NOTHING).astype(np.int64) for name in ("bytes", "kind"))
    exact = sizes * (1 << 20) + kinds % (1 << 20)
    what = np.full(len(sizes), COPY)
    what[uploads] = UPLOAD
    parts: list[_Part] = [(copies, 3 * exact, what)] if copies else []
    if kernels:
        parts.append((kernels, 3 * kernels["name"].astype(np.int64) + 1, KERNEL))
    if calls is not None:
        waits = calls.of("waits")
        waited = {name: column[waits] for name, column in calls.columns.items()}
        yield "all work", _events([*parts, (waited, np.full(int(waits.sum()), 2), WAIT)])
    if parts:
        yield "all work", _events(parts)
    orders: tuple[tuple[FrameSource, Integers, Integers], ...] = (
        ("uploads", uploads, exact),
        ("uploads by size", uploads, np.round(np.log2(np.maximum(sizes, 1))).astype(np.int64)),
        ("downloads", downloads, exact),
    )
    for source, at, named in orders:
        if source == "uploads by size" and kernels:
            yield from _as_often(kernels)
        if len(at):
            chosen = {name: column[at] for name, column in copies.items()}
            yield source, _events([(chosen, named[at], what[at])])


def _as_often(kernels: Mapping[str, Integers]) -> Iterator[tuple[FrameSource, Events]]:
    """Kernels that run equally often, as those of each step do: of the counts that most of them share."""
    _, which, counts = np.unique(kernels["name"], return_inverse=True, return_counts=True)
    waited = idle_before(kernels["start"], kernels["end"])
    often, sharing = np.unique(counts[counts >= LEAST], return_counts=True)
    for count in often[np.lexsort((often, sharing))][: -_MOST_COUNTS - 1 : -1]:
        at = np.flatnonzero(counts[which.reshape(-1)] == count)
        at = at[np.argsort(kernels["start"][at], kind="stable")]
        chosen = {name: column[at] for name, column in kernels.items() if name != "call"}
        chosen["call"] = np.full(len(at), UNKNOWN)  # in the order of time, as `waited` is
        yield "kernels as often", replace(_events([(chosen, chosen["name"], KERNEL)]), waited=waited[at])


KERNEL, COPY, UPLOAD, WAIT = np.arange(4, dtype=np.int8)
_Part = tuple[Mapping[str, Integers], Integers, Any]
"""Columns, what must be equal, and what each row is: `KERNEL`, `COPY`, `UPLOAD` or `WAIT`."""


def _events(parts: Sequence[_Part]) -> Events:
    """Several columns as one sequence, in the order of the calls where all of them are known."""
    calls = np.concatenate([columns["call"] for columns, *_ in parts])
    begins = np.concatenate([columns["start"] for columns, *_ in parts])
    known = len(calls) and calls.min() > max(UNKNOWN, 0)
    order = np.lexsort((begins, calls)) if known else np.argsort(begins, kind="stable")
    begins = begins[order]
    del calls
    ends = np.concatenate([columns["end"] for columns, *_ in parts])[order]
    _, kinds = numbered(np.concatenate([kinds for _, kinds, _ in parts]))
    what = np.concatenate([np.broadcast_to(what, len(kinds)) for _, kinds, what in parts])[order]
    return Events(kinds.astype(np.int32)[order], what, begins, ends)


def numbered(values: Integers) -> tuple[Integers, Integers]:
    """The distinct values in order, and the position among them of each: faster than np.unique's inverse."""
    ordered = np.sort(values)
    distinct = np.concatenate((ordered[:1], ordered[1:][ordered[1:] != ordered[:-1]]))
    return distinct, np.searchsorted(distinct, values)


# What repeats in the order in which work was launched, for a program that marks no frames. A period is a lag
# at which a sequence equals itself. Whole sequences seldom do, since kernels vary with the data, so uploads
# alone are tried after them. Inner loops repeat too: a period has to explain most kinds of work, and most
# kinds of copies and waits, of those that occur often.

_WHOLE = 0.55
"""The least part of the best lag's score that a shorter lag needs: a choice. A loop within a frame that has
one other call scores 0.5, since it explains one kind of two; a frame within an epoch that has one copy of its
own scores 0.6 or more."""
_ALIKE = 0.6
"""The least share of frames that have the same work: a choice. A real report of two H100 has 0.95."""
_MOSTLY = 0.75
"""The least part of the usual events in a last frame that has them of all kinds: a choice."""
_MOST = 200_000
"""Events that a period is looked for in."""
_MOST_LAGS = 60


@dataclass(frozen=True)
class Events:
    """Work and the host's waits in order of launch. `kinds`: from 0, of what is equal."""

    kinds: npt.NDArray[np.int32]
    what: npt.NDArray[np.int8]
    begins: Integers
    ends: Integers
    waited: Integers | None = None
    """The GPU's idle time before each, where other work than these events keeps it busy too."""


Repeats = tuple[Integers, Integers, float]
"""Positions of each frame's first event and of the one after its last, and the share of frames alike."""


def repeats(events: Events) -> Repeats | None:
    """The frames of a sequence; None where too little repeats."""
    kinds, marked = events.kinds, events.what != KERNEL
    if not marked.any() and len(np.unique(kinds[:_MOST])) < 2:
        return None  # one kernel, time and again
    begin = max(len(kinds) - _MOST, 0) // 2
    middle = kinds[begin : begin + _MOST]
    distances = {**_anchors(_pairs(middle)), **_anchors(middle)}
    often = sorted(distances, key=lambda lag: -len(distances[lag]))[:_MOST_LAGS]
    period = _period(middle, marked[begin : begin + _MOST], sorted(often))
    if period is None:
        return None
    anchors = _anchors(kinds).get(period) or _anchors(_pairs(kinds)).get(period)
    firsts = _firsts(anchors, events) if anchors else NOTHING
    return _whole(kinds, firsts, period) if len(firsts) >= LEAST else None


def _period(kinds: npt.NDArray[Any], marked: npt.NDArray[np.bool_], lags: Sequence[int]) -> int | None:
    """The shortest lag that explains nearly as much as the best: on average over all kinds that occur often,
    and over the marked ones, the share of events that recur at it."""
    counts = np.bincount(kinds)
    often = counts >= LEAST
    of_marked = often & (np.bincount(kinds[marked], minlength=len(counts)) > 0)
    scores = np.zeros((len(lags), 2))
    for at, lag in enumerate(lags):
        before = kinds[:-lag]
        recurring = np.bincount(before[before == kinds[lag:]], minlength=len(counts))
        shares = recurring / np.maximum(np.bincount(before, minlength=len(counts)), 1)
        scores[at] = [shares[some].mean() for some in (often, of_marked if of_marked.any() else often)]
    best = scores.max(axis=0, initial=0)
    enough = np.flatnonzero((scores >= _WHOLE * best).all(axis=1))
    return lags[enough[0]] if best.min() > 0 and len(enough) else None


def _firsts(anchors: Sequence[Integers], events: Events) -> Integers:
    """The first event of each frame: of those that occur once in it, an upload where there is one, else that
    after the longest gap."""
    waited = events.waited
    if waited is None:
        is_wait = events.what == WAIT  # which is no work of the GPU
        waited = idle_before(events.begins, np.where(is_wait, 0, events.ends))
        waited[is_wait] = 0
    uploads = [at for at in anchors if events.what[at[0]] == UPLOAD]
    firsts = max(uploads or anchors, key=lambda at: float(np.median(waited[at])))
    every = np.flatnonzero(events.what == UPLOAD)
    if uploads or 2 * len(every) < len(firsts):
        return firsts
    # The uploads of a frame are alike: it begins with the first after what ends the frame before it.
    after = np.searchsorted(every, firsts)
    return np.unique(every[after[after < len(every)]])


def idle_before(begins: Integers, ends: Integers) -> Integers:
    """The time between each begin and the last end before it; below 0 where they overlap."""
    return np.concatenate(([0], begins[1:] - np.maximum.accumulate(ends)[:-1]))


def _anchors(kinds: npt.NDArray[Any]) -> dict[int, list[Integers]]:
    """The positions of each kind whose events mostly are as far apart, by that distance."""
    anchors: defaultdict[int, list[Integers]] = defaultdict(list)
    order, counts = np.argsort(kinds, kind="stable"), np.bincount(kinds)
    ends = np.cumsum(counts)
    for kind in np.flatnonzero(counts >= LEAST):
        at = order[ends[kind] - counts[kind] : ends[kind]]
        gaps = np.diff(at)
        usual = int(np.median(gaps))
        if np.mean(gaps == usual) >= _WHOLE:
            anchors[usual].append(at)
    return anchors


def _pairs(kinds: npt.NDArray[Any]) -> Integers:
    """Each event with the one before it, as one kind."""
    pairs = np.concatenate(([-1], kinds[:-1])) * (int(kinds.max()) + 1) + kinds
    _, which = np.unique(pairs, return_inverse=True)
    return np.asarray(which.reshape(-1), np.int64)


def _whole(kinds: npt.NDArray[Any], firsts: Integers, period: int) -> Repeats | None:
    """The frames that have the usual number of events, near enough; the last may lack a wait or two."""
    # A frame's events in any order, as one number: the sum of a random number for each kind.
    numbers = np.random.default_rng(0).integers(1, 1 << 40, int(kinds.max()) + 1)
    totals = np.concatenate(([0], np.cumsum(numbers[kinds])))
    begin = int(firsts[0])
    if begin >= period and totals[begin] - totals[begin - period] == totals[firsts[1]] - totals[begin]:
        firsts = np.concatenate(([begin - period], firsts))
    lengths = np.diff(np.append(firsts, len(kinds)))
    usual = lengths <= 1.5 * period
    lasts = firsts + np.where(usual, lengths, np.minimum(period, lengths))
    last, before = (set(kinds[a:b].tolist()) for a, b in zip(firsts[-1:-3:-1], lasts[-1:-3:-1], strict=True))
    if lengths[-1] < _MOSTLY * period or (lengths[-1] < period and last < before):
        firsts, lasts = firsts[:-1], lasts[:-1]
    _, counts = np.unique(totals[lasts] - totals[firsts], return_counts=True)
    alike = float(counts.max() / len(firsts)) if len(firsts) else 0.0
    if len(firsts) < LEAST or alike < _ALIKE:
        return None
    return firsts, lasts, alike
