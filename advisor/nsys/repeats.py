"""Frames of a program that marks none: what repeats in the order in which its work was launched.

A period is a lag at which a sequence equals itself. Whole sequences seldom do, since kernels vary with the
data, so uploads alone are tried after them. Inner loops repeat too: a period has to explain most kinds of
work, and most kinds of copies and waits, of those that occur often.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.nsys.database import Integers
from advisor.nsys.ranges import LEAST

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
_MOST_KINDS, _MOST_LAGS, _TURNS = 200, 60, 8
"""Kinds of events whose gaps are looked at, lags that are tried, and how often a kind occurs in a frame."""


@dataclass(frozen=True)
class Sequence:
    """Events in the order of their launch. `kinds`: numbers from 0 of what is equal; `marked`: copies and
    waits."""

    kinds: npt.NDArray[np.int32]
    marked: npt.NDArray[np.bool_]
    begins: Integers
    ends: Integers
    uploads: npt.NDArray[np.bool_]
    waits: npt.NDArray[np.bool_]
    """The host's, which are no work of the GPU."""
    waited: Integers | None = None
    """The GPU's idle time before each, where other work than these events keeps it busy too."""


@dataclass(frozen=True)
class Repeats:
    """Frames by the position of their first event. `alike` is the share of them with the same events."""

    firsts: Integers
    lasts: Integers
    alike: float
    period: int


def repeats(events: Sequence) -> Repeats | None:
    """The frames of a sequence; None where too little repeats."""
    kinds = events.kinds
    if not events.marked.any() and len(np.unique(kinds[:_MOST])) == 1:
        return None  # one kernel, time and again
    middle = slice(max(len(kinds) - _MOST, 0) // 2, max(len(kinds) - _MOST, 0) // 2 + _MOST)
    period = _period(kinds[middle], events.marked[middle])
    if period is None:
        return None
    firsts = _firsts(kinds, period, events)
    if len(firsts) < LEAST:
        return None
    return _whole(kinds, firsts, period)


def _period(kinds: npt.NDArray[Any], marked: npt.NDArray[np.bool_]) -> int | None:
    """The shortest lag that explains nearly as much as the best."""
    counts = np.bincount(kinds)
    often = counts >= LEAST
    if not often.any():
        return None
    marked_kinds = np.zeros(len(counts), bool)
    marked_kinds[kinds[marked]] = True
    marked_kinds &= often
    scores = {
        lag: _scores(kinds, lag, often, marked_kinds if marked_kinds.any() else often)
        for lag in _lags(kinds, counts)
    }
    best = [max((score[i] for score in scores.values()), default=0.0) for i in (0, 1)]
    enough = (
        lag
        for lag, score in scores.items()
        if min(best) > 0 and all(s >= _WHOLE * b for s, b in zip(score, best, strict=True))
    )
    return min(enough, default=None)


def _scores(
    kinds: npt.NDArray[Any], lag: int, often: npt.NDArray[np.bool_], marked_kinds: npt.NDArray[np.bool_]
) -> tuple[float, float]:
    """How much of each frequent kind recurs at the lag, on average over all kinds and over the marked."""
    size = len(often)
    equal = kinds[:-lag] == kinds[lag:]
    there = np.bincount(kinds[:-lag], minlength=size)
    share = np.bincount(kinds[:-lag][equal], minlength=size) / np.maximum(there, 1)
    return float(share[often].mean()), float(share[marked_kinds].mean())


def _lags(kinds: npt.NDArray[Any], counts: Integers) -> list[int]:
    """The gaps at which most events of some kind recur, directly or after a few of the same."""
    order = np.argsort(kinds, kind="stable")
    starts = np.concatenate(([0], np.cumsum(counts)))
    votes: dict[int, int] = {}
    frequent = np.flatnonzero(counts >= LEAST)
    # Rare kinds tell the frame, frequent ones the loops in it.
    for kind in frequent[np.argsort(counts[frequent], kind="stable")][:_MOST_KINDS]:
        at = order[starts[kind] : starts[kind + 1]]
        for turn in range(1, min(_TURNS, len(at) - 2) + 1):
            gaps, times = np.unique(at[turn:] - at[:-turn], return_counts=True)
            if times.max() >= 0.5 * times.sum() and times.max() >= LEAST - 1:
                lag = int(gaps[times.argmax()])
                votes[lag] = votes.get(lag, 0) + 1
    lags = sorted(votes, key=lambda lag: (-votes[lag], lag))[:_MOST_LAGS]
    return [lag for lag in lags if lag * (LEAST - 1) <= len(kinds)]


def _firsts(kinds: npt.NDArray[Any], period: int, events: Sequence) -> Integers:
    """The first event of each frame: of those that occur once in it, an upload where there is one, else that
    after the longest gap."""
    waited = events.waited
    if waited is None:
        waited = idle_before(events.begins, np.where(events.waits, 0, events.ends))
        waited[events.waits] = 0
    anchors = list(_anchors(kinds, period)) or list(_anchors(_pairs(kinds), period))
    if not anchors:
        return _stepped(kinds, period)
    uploads = [at for at in anchors if events.uploads[at[0]]]
    firsts = max(uploads or anchors, key=lambda at: float(np.median(waited[at])))
    every = np.flatnonzero(events.uploads)
    if uploads or 2 * len(every) < len(firsts):
        return firsts
    # The uploads of a frame are alike: it begins with the first after what ends the frame before it.
    after = np.searchsorted(every, firsts)
    return np.unique(every[after[after < len(every)]])


def idle_before(begins: Integers, ends: Integers) -> Integers:
    """The time between each begin and the last end before it; below 0 where they overlap."""
    return np.concatenate(([0], begins[1:] - np.maximum.accumulate(ends)[:-1]))


def _anchors(kinds: npt.NDArray[Any], period: int) -> Iterator[Integers]:
    """The positions of each kind that recurs once in a period."""
    order, counts = np.argsort(kinds, kind="stable"), np.bincount(kinds)
    starts = np.concatenate(([0], np.cumsum(counts)))
    expected = len(kinds) / period
    for kind in np.flatnonzero((counts >= LEAST) & (counts <= 2 * expected)):
        at = order[starts[kind] : starts[kind + 1]]
        if np.mean(np.diff(at) == period) >= _WHOLE:
            yield at


def _pairs(kinds: npt.NDArray[Any]) -> Integers:
    """Each event with the one before it, as one kind."""
    pairs = np.concatenate(([-1], kinds[:-1])) * (int(kinds.max()) + 1) + kinds
    _, which = np.unique(pairs, return_inverse=True)
    return np.asarray(which.reshape(-1), np.int64)


def _stepped(kinds: npt.NDArray[Any], period: int) -> Integers:
    """One event in each period, from the first that recurs on."""
    equal = np.flatnonzero(kinds[:-period] == kinds[period:])
    return np.arange(int(equal[0]), len(kinds) - period + 1, period) if len(equal) else equal


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
    return Repeats(firsts, lasts, alike, period)
