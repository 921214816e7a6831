"""The frames of one GPU's work: by an NVTX range, else by what repeats; steady ones apart from warm-up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from advisor.nsys.database import UNKNOWN, Integers
from advisor.nsys.intervals import NOTHING, Intervals, length, seconds, union
from advisor.nsys.ranges import LEAST
from advisor.nsys.repeats import Sequence as Events
from advisor.nsys.repeats import idle_before, repeats
from advisor.nsys.work import Calls, GpuWork

Source = Literal["nvtx", "all work", "uploads", "kernels as often", "uploads by size", "downloads"]
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

    source: Source
    name: str
    alike: float
    begins: Integers
    ends: Integers
    first: int
    """The first steady one."""

    @property
    def steady(self) -> Intervals:
        return self.begins[self.first :], self.ends[self.first :]


def by_ranges(name: str, ranges: Intervals, work: GpuWork) -> Marked | None:
    """Frames by the ranges of one name. One that launches and does not wait ends before its work does: where
    ranges follow one another closely, a frame lasts until the next begins."""
    begins, ends = ranges
    if not len(begins):
        return None
    if len(begins) > 1:
        gaps = begins[1:] - ends[:-1]
        whole = np.median(gaps) < np.median(ends - begins)
        reached = begins[1:] if whole else np.minimum(ends[:-1], begins[1:])
        ends = np.append(reached, ends[-1])
    return Marked("nvtx", name, _alike(work, begins), begins, ends, _warm(begins, ends))


def _alike(work: GpuWork, begins: Integers) -> float:
    """The share of frames in which the same kernels and copies begin as in most."""
    totals = np.zeros(len(begins) + 1)
    for columns, names in ((work.kernels, ("name",)), (work.copies, ("bytes", "kind"))):
        if columns:
            kinds = np.zeros(len(columns["start"]), np.int64)
            for name in names:
                kinds = (kinds * _MIXING + columns[name]) * _MIXING % _PRIME
            totals += np.bincount(np.searchsorted(begins, columns["start"], side="right"), kinds, len(totals))
    _, counts = np.unique(totals[1:], return_counts=True)
    return float(counts.max() / len(begins))


def by_repeats(work: GpuWork, calls: Calls | None, uploads: Integers, downloads: Integers) -> Marked | None:
    """Frames by what repeats. `uploads`, `downloads`: positions among the copies."""
    busy = union(work.busy())
    for source, events in _sequences(work, calls, uploads, downloads):
        if (frames := repeats(events)) is None:
            continue
        begins, ends = events.begins[frames.firsts], _ends(events, frames.firsts, frames.lasts, busy)
        marked = Marked(source, source, frames.alike, begins, ends, _warm(begins, ends))
        if seconds((begins, ends), busy) >= _COVERED * length(busy):
            return marked
    return None


def _ends(events: Events, firsts: Integers, lasts: Integers, busy: Intervals) -> Integers:
    """A frame ends where the next begins, or with its last event; the last one with the work after it."""
    begins = events.begins[firsts]
    reached = np.maximum.reduceat(np.append(events.ends, 0), np.column_stack((firsts, lasts)).reshape(-1))[
        ::2
    ]
    follows = np.append(lasts[:-1] == firsts[1:], False)
    ends = np.where(follows, np.append(begins[1:], 0), reached)
    usual = int(np.median(ends[:-1] - begins[:-1]))
    # Kernels and downloads follow the uploads by which the last frame was found.
    ends[-1] = max(ends[-1], min(int(busy[1][-1]), int(begins[-1]) + usual))
    return np.maximum(ends, begins + 1)


def _warm(begins: Integers, ends: Integers) -> int:
    """How many of the first frames, a third at most, take longer than frames usually do."""
    lengths = ends - begins
    longer = lengths > _WARM * np.median(lengths)
    first = 0
    while first < len(lengths) // 3 and longer[first]:
        first += 1
    return first


def _sequences(
    work: GpuWork, calls: Calls | None, uploads: Integers, downloads: Integers
) -> Iterator[tuple[Source, Events]]:
    """All work with the host's waits, then without them; kernels that run equally often; the uploads, also by
    their size, doubled or halved; the downloads."""
    copies, kernels = work.copies, work.kernels
    sizes, kinds = (copies.get(name, NOTHING).astype(np.int64) for name in ("bytes", "kind"))
    exact = sizes * (1 << 20) + kinds % (1 << 20)
    is_upload = np.zeros(len(sizes), bool)
    is_upload[uploads] = True
    parts: list[_Part] = [(copies, 3 * exact, True, is_upload)] if copies else []
    if kernels:
        parts.append((kernels, 3 * kernels["name"].astype(np.int64) + 1, False, None))
    if calls is not None:
        waits = calls.of("waits")
        waited = {name: column[waits] for name, column in calls.columns.items()}
        yield "all work", _events([*parts, (waited, np.full(len(waits), 2), True, None)])
    if parts:
        yield "all work", _events(parts)
    orders: tuple[tuple[Source, Integers, Integers], ...] = (
        ("uploads", uploads, exact),
        ("uploads by size", uploads, np.round(np.log2(np.maximum(sizes, 1))).astype(np.int64)),
        ("downloads", downloads, exact),
    )
    for source, at, named in orders:
        if source == "uploads by size" and kernels:
            yield from _as_often(kernels)
        if len(at):
            chosen = {name: column[at] for name, column in copies.items()}
            yield source, _events([(chosen, named[at], True, is_upload[at])])


def _as_often(kernels: Mapping[str, Integers]) -> Iterator[tuple[Source, Events]]:
    """Kernels that run equally often, as those of each step do: of the counts that most of them share."""
    _, which, counts = np.unique(kernels["name"], return_inverse=True, return_counts=True)
    waited = idle_before(kernels["start"], kernels["end"])
    often, sharing = np.unique(counts[counts >= LEAST], return_counts=True)
    for count in often[np.lexsort((often, sharing))][: -_MOST_COUNTS - 1 : -1]:
        at = np.flatnonzero(counts[which.reshape(-1)] == count)
        at = at[np.argsort(kernels["start"][at], kind="stable")]
        chosen = {name: column[at] for name, column in kernels.items() if name != "call"}
        chosen["call"] = np.full(len(at), UNKNOWN)  # in the order of time, as `waited` is
        yield "kernels as often", replace(_events([(chosen, chosen["name"], False, None)]), waited=waited[at])


_Part = tuple[Mapping[str, Integers], Integers, bool, npt.NDArray[np.bool_] | None]
"""Columns, what must be equal, whether these are copies or waits, which of them are uploads."""


def _events(parts: Sequence[_Part]) -> Events:
    """Several columns as one sequence, in the order of the calls where all of them are known."""
    calls = np.concatenate([columns["call"] for columns, *_ in parts])
    begins = np.concatenate([columns["start"] for columns, *_ in parts])
    known = len(calls) and calls.min() > max(UNKNOWN, 0)
    order = np.lexsort((begins, calls)) if known else np.argsort(begins, kind="stable")
    begins = begins[order]
    del calls
    ends = np.concatenate([columns["end"] for columns, *_ in parts])[order]
    named = np.concatenate([kinds for _, kinds, *_ in parts])
    ordered = np.sort(named)
    kinds = np.searchsorted(ordered[np.append(True, ordered[1:] != ordered[:-1])], named)
    del named, ordered
    marked = np.concatenate([np.full(len(kinds), is_marked) for _, kinds, is_marked, _ in parts])[order]
    uploads = np.concatenate([np.zeros(len(k), bool) if up is None else up for _, k, _, up in parts])[order]
    waits = np.concatenate([np.full(len(k), copied and up is None) for _, k, copied, up in parts])[order]
    return Events(kinds.astype(np.int32)[order], marked, begins, ends, uploads, waits)
