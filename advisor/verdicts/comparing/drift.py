"""Two runs apart in time: what moved all strategies together, and which strategy moved beyond that.

In each process of a final all contestants ran side by side, so that what slows the machine slows them all.
The median over strategies of a process is the common factor (robust: it takes more than half of them to move
it); what a strategy takes over that median is its own. Both are compared over the processes of the two runs
as times are (`stats.ratio_interval`), those of strategies at once (Bonferroni). A factor that is common
need not be the machine's: the parts of a frame, which every strategy has, tell what it is in.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

import numpy as np

from advisor import stats
from advisor.profiles.schema import Measured, WorkloadRecord
from advisor.verdicts.comparing.rows import Compared

_Pair = tuple[dict[str, float], dict[str, float]]
Cause = Literal["machine", "stage", "host", "device", "copies", "unknown"]
"""machine: all kinds of parts moved alike. stage: one of them. host, device, copies: that kind alone."""
FEWEST = 3
"""Fewest strategies to find one that changed alone."""
_NO_TIME = 1e-12
"""Seconds."""
_MOST_OF_IT = 0.8
"""The share of a change that a part must account for to be named as its place."""
_NOTABLE = 0.1
"""The share of a frame from which on a kind of part is worth comparing."""


@dataclass(frozen=True)
class Drift:
    """`common`: HEAD's time over BASE's that the strategies share; `alone`: what a strategy moved beyond it.

    `seconds` is by how much the parts of `cause` grew, or shrank, in the middle strategy; `stage` is the one.
    """

    strategies: int
    common: stats.Ratio
    alone: dict[str, stats.Ratio]
    cause: Cause = "unknown"
    seconds: float = 0.0
    stage: str = ""

    @property
    def together(self) -> bool:
        """Whether they moved together, for sure and by more than what counts as the same."""
        return _notable(self.common)


def drift(rows: Sequence[Compared], workload: WorkloadRecord, confidence: float) -> Drift | None:
    """What most rows of one device have in common; None where too few ran side by side.

    Nor is there anything where each moved otherwise.
    """
    paired = _side_by_side(rows)
    if len(paired) < FEWEST:
        return None
    base, head = (
        np.log([[float(np.median(frames)) for frames in getattr(row, side).rounds] for row in paired])
        for side in ("base", "head")
    )
    parts = _parts_of(paired, workload)
    alone = _alone(paired, base, head, confidence)
    # A stage that takes longer takes the same time in every frame, and slower copies a share of its copies.
    for expected in (_by_time(parts, paired), _by_kind(parts, paired)):
        again = _alone(paired, base, head - np.log(expected)[:, np.newaxis], confidence)
        alone = {name: ratio for name, ratio in alone.items() if name in again}
    if 2 * len(alone) >= len(paired):
        return None
    common = _ratio(np.median(head, axis=0), np.median(base, axis=0), confidence)
    found = Drift(len(paired), common, alone)
    rest = [pair for row, pair in zip(paired, parts, strict=False) if row.strategy not in alone]
    return _explained(found, rest) if found.together and rest else found


def _alone(
    rows: Sequence[Compared], base: stats.Floats, head: stats.Floats, confidence: float
) -> dict[str, stats.Ratio]:
    """Strategies whose times changed against the median over strategies."""
    strict = 1 - (1 - confidence) / len(rows)
    own = (
        (row.strategy, _ratio(now - np.median(head, axis=0), before - np.median(base, axis=0), strict))
        for row, before, now in zip(rows, base, head, strict=True)
    )
    return {strategy: ratio for strategy, ratio in own if _notable(ratio)}


def _side_by_side(rows: Sequence[Compared]) -> list[Compared]:
    """The rows of contestants: on each side those with as many processes as most have, of two at least."""
    counts = [tuple(len(getattr(side, "rounds", ())) for side in (row.base, row.head)) for row in rows]
    usual = Counter(counts).most_common(1)
    if not usual or min(usual[0][0]) < 2:
        return []
    return [row for row, count in zip(rows, counts, strict=True) if count == usual[0][0]]


def _ratio(now: stats.Floats, before: stats.Floats, confidence: float) -> stats.Ratio:
    """Compares two sets of processes, each known by the logarithm of one time."""
    above, below = ([[float(value)] for value in np.exp(side)] for side in (now, before))
    return stats.ratio_interval(above, below, confidence=confidence)


def _notable(ratio: stats.Ratio) -> bool:
    """Whether it is off for sure, and by more than what counts as the same."""
    return (ratio.low > 1 or ratio.high < 1) and abs(math.log(ratio.value)) > math.log1p(stats.EQUIVALENCE)


def _parts_of(rows: Sequence[Compared], workload: WorkloadRecord) -> list[_Pair]:
    """The parts of a frame of each row, in BASE and in HEAD; none of scripts."""
    sides = {stage.name: stage.side for stage in workload.frame_stages()}
    return [
        (_parts(row.base, sides), _parts(row.head, sides))
        for row in rows
        if isinstance(row.base, Measured) and isinstance(row.head, Measured)
    ]


def _moved(parts: Sequence[_Pair]) -> dict[str, float]:
    """By how many seconds each part that all have grew in the middle strategy."""
    names = set.intersection(*(set(before) & set(now) for before, now in parts)) if parts else set()
    return {name: median(now[name] - before[name] for before, now in parts) for name in sorted(names)}


def _by_time(parts: Sequence[_Pair], rows: Sequence[Compared]) -> stats.Floats:
    """By what each row grew if each part took so many seconds longer in all; 1 where that cannot be."""
    times, shift = np.array([row.head_seconds for row in rows]), sum(_moved(parts).values())
    return np.where(times > shift, times / np.maximum(times - shift, _NO_TIME), 1.0)


def _by_kind(parts: Sequence[_Pair], rows: Sequence[Compared]) -> stats.Floats:
    """By what each row grew if each kind of part took this factor longer; 1 without parts."""
    if not parts:
        return np.ones(len(rows))
    factors = _factors(parts)
    grown = [sum(_sum(before, kind) * factors.get(kind, 1.0) for kind in _KINDS) for before, _ in parts]
    whole = [sum(before.values()) for before, _ in parts]
    return np.array([now / before if before else 1.0 for now, before in zip(grown, whole, strict=True)])


def _explained(found: Drift, parts: Sequence[_Pair]) -> Drift:
    """With where in a frame it is, by the parts that every strategy has."""
    moved = _moved(parts)
    whole = sum(moved.values())
    if not whole:
        return found
    largest = max(moved, key=lambda name: moved[name] / whole)
    kinds = {kind: _sum(moved, kind) for kind in _KINDS}
    cause, seconds = _cause(kinds, _factors(parts), whole, found.common)
    stage = ""
    if cause in ("host", "device") and moved[largest] / whole >= _MOST_OF_IT and len(moved) > 1:
        cause, seconds, stage = "stage", moved[largest], largest.partition(":")[2]
    return replace(found, cause=cause, seconds=seconds, stage=stage)


_KINDS: tuple[Cause, ...] = ("host", "device", "copies")


def _parts(row: Measured, sides: Mapping[str, str]) -> dict[str, float]:
    """Seconds of each stage, as host:name or device:name, and of the copies."""
    stages = {f"{sides[name]}:{name}": s for name, s in row.stage_seconds.items() if name in sides}
    return {**stages, "copies": row.transfer_seconds + (row.host_copy_seconds or 0.0)}


def _factors(parts: Sequence[_Pair]) -> dict[Cause, float]:
    """By what each kind of part grew in the middle strategy; those of a notable share of the frame."""
    found: dict[Cause, float] = {}
    for kind in _KINDS:
        sums = [tuple(_sum(side, kind) for side in pair) for pair in parts]
        shares = [
            before / max(sum(pair[0].values()), _NO_TIME)
            for (before, _), pair in zip(sums, parts, strict=True)
        ]
        if median(shares) >= _NOTABLE:
            found[kind] = median(now / before for before, now in sums if before)
    return found


def _sum(parts: Mapping[str, float], kind: str) -> float:
    return sum(seconds for name, seconds in parts.items() if name.partition(":")[0] == kind)


def _cause(
    kinds: Mapping[Cause, float], factors: Mapping[Cause, float], whole: float, common: stats.Ratio
) -> tuple[Cause, float]:
    """The machine where several kinds moved alike, in the direction of all; else the kind that most is in."""
    near = math.log1p(stats.EQUIVALENCE)
    off = [abs(math.log(factor / common.value)) for factor in factors.values()]
    if len(factors) > 1 and all(each <= min(near, abs(math.log(common.value)) / 2) for each in off):
        return "machine", whole
    kind = max(kinds, key=lambda name: kinds[name] / whole)
    return (kind, kinds[kind]) if kinds[kind] / whole >= _MOST_OF_IT else ("unknown", whole)
