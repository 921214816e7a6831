"""One strategy in both profiles: the ratio of its times, and what can be said of it; what moved all together.

In each process of a final all contestants ran side by side, so that what slows the machine slows them all.
The median over strategies of a process is the common factor (robust: it takes more than half of them to move
it); what a strategy takes over that median is its own. Both are compared over the processes of the two runs
as times are (`stats.ratio_interval`), those of strategies at once (Bonferroni). A common factor is that of
the machine, or of code that every strategy runs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal, TypeGuard

import numpy as np
import numpy.typing as npt

from advisor import stats
from advisor.profiles.schema import Failed, Measured, Predicted, Skipped, WorkloadRecord
from advisor.verdicts.predicted import PERCENTILES, draw_ratios
from advisor.verdicts.scores import bytes_of, seconds_of

Outcome = Literal["slower", "faster", "same", "cannot tell"]
Figures = Measured | Predicted
AnyRow = Figures | Failed | Skipped
NOT_RUN = "it was not requested"
HOST_NOISE, HOST_NOISE_SECONDS = 0.25, 3e-6
"""Host stages timed on one CPU in different runs: 654 to 847 µs for one workload, 373 to 598 µs for
another on a busy machine, a ratio of 1.6 between two runs; 1.9 to 3.5 µs for a short one: some microseconds
beside that."""
QUIET_HOST_NOISE = 0.13
"""At least so much where the processes of a run agree: 654 to 847 µs on days when nothing else ran."""


@dataclass(frozen=True)
class Compared:
    """A strategy with figures in both profiles. `ratio` is HEAD's time of a frame, or run, over BASE's."""

    base: Figures
    head: Figures
    ratio: stats.Ratio
    outcome: Outcome

    @property
    def strategy(self) -> str:
        return self.base.strategy

    @property
    def base_seconds(self) -> float:
        return seconds_of(self.base)[0]

    @property
    def head_seconds(self) -> float:
        return seconds_of(self.head)[0]

    @property
    def base_bytes(self) -> int | None:
        return bytes_of(self.base)

    @property
    def head_bytes(self) -> int | None:
        return bytes_of(self.head)


@dataclass(frozen=True)
class Paired(Compared):
    """Two versions of the code that one run measured. The interval holds at all of its looks and for all of
    its strategies together; `trusted` unless a second copy of HEAD clearly differs from HEAD, by that factor
    at most. A strategy that the code does not use (`used`) may be open."""

    trusted: bool = True
    off: float = 1.0
    used: bool = True


@dataclass(frozen=True)
class OneSided:
    """A strategy with figures in one profile alone, and why the other has none."""

    strategy: str
    missing_in: Literal["base", "head"]
    status: Literal["failed", "skipped", "not run"]
    reason: str


def ratio_of(
    base: Figures, head: Figures, confidence: float, *, resamples: int = stats.RESAMPLES, seed: int = 0
) -> stats.Ratio:
    """HEAD's time over BASE's: bootstrap and Welch's interval if measured, percentiles if predicted.

    Predictions of one device are compared in each simulated device; without draws, as if the two ranges had
    nothing in common: wider than it need be, and only a row that is the same in both is 1 for sure.
    """
    if not isinstance(base, Predicted) and not isinstance(head, Predicted):
        interval = stats.ratio_interval(
            head.rounds, base.rounds, confidence=confidence, resamples=resamples, seed=seed
        )
        return interval.around(head.median_seconds / base.median_seconds)
    if not isinstance(base, Predicted) or not isinstance(head, Predicted):
        raise TypeError("measured and predicted times cannot be compared")
    if base == head:
        return stats.Ratio(1.0, 1.0, 1.0)
    ratios = draw_ratios(head, base)
    if ratios is not None:  # with each side's own noise of what this CPU was timed for, on days of their own
        before, now = (_timed(side, stream) for stream, side in enumerate((base, head)))
        ends = np.percentile(ratios * now / before, (50, *PERCENTILES))
        return stats.Ratio(*map(float, ends))
    return stats.Ratio(
        head.likely_seconds / base.likely_seconds,
        head.low_seconds / base.high_seconds,
        head.high_seconds / base.low_seconds,
    )


def _timed(row: Predicted, stream: int) -> npt.NDArray[np.float64]:
    """The factor by which noise of its host stages changes the row's time, in each draw."""
    ends = host_noise(row) / sum(row.terms.values())
    noise = np.random.default_rng(stream).triangular(-1.0, 0.0, 1.0, len(row.drawn))
    return np.asarray(1 + min(ends, 0.5) * noise)


def host_noise(row: Predicted) -> float:
    """Seconds by which another run on the same CPU may time the row's host stages otherwise: as far apart as
    this run's processes were, where it had some."""
    host, spread = row.host_seconds, row.host_spread
    share = HOST_NOISE if spread is None else max(spread, QUIET_HOST_NOISE)
    return min(share * host + HOST_NOISE_SECONDS, host)


def outcome(ratio: stats.Ratio) -> Outcome:
    """The outcome by the whole interval: within the equivalence margin, above 1, below 1, or none."""
    if ratio.low >= 1 / (1 + stats.EQUIVALENCE) and ratio.high <= 1 + stats.EQUIVALENCE:
        return "same"
    if ratio.low > 1:
        return "slower"
    return "faster" if ratio.high < 1 else "cannot tell"


def one_sided(base: Mapping[str, AnyRow], head: Mapping[str, AnyRow]) -> tuple[OneSided, ...]:
    """The strategies that have figures in one of the two alone, in BASE's order and then HEAD's."""
    gaps = []
    for strategy in dict.fromkeys((*base, *head)):
        here, there = base.get(strategy), head.get(strategy)
        if has_figures(here) != has_figures(there):
            side: Literal["base", "head"] = "head" if has_figures(here) else "base"
            lacking = there if has_figures(here) else here
            gap = OneSided(strategy, side, "not run", NOT_RUN)
            if isinstance(lacking, (Failed, Skipped)):
                gap = replace(gap, status=lacking.status, reason=lacking.reason)
            gaps.append(gap)
    return tuple(gaps)


def has_figures(result: AnyRow | None) -> TypeGuard[Figures]:
    return isinstance(result, Figures)


def by_strategy(rows: Sequence[AnyRow], only: Sequence[str]) -> dict[str, AnyRow]:
    return {row.strategy: row for row in rows if not only or row.strategy in only}


_Pair = tuple[dict[str, float], dict[str, float]]
FEWEST = 3
"""Fewest strategies to find one that changed alone."""
_NO_TIME = 1e-12
"""Seconds."""
_NOTABLE = 0.1
"""The share of a frame from which on a kind of part is worth comparing."""


@dataclass(frozen=True)
class Drift:
    """`common`: HEAD's time over BASE's that strategies share; `alone`: what one moved beyond it."""

    strategies: int
    common: stats.Ratio
    alone: dict[str, stats.Ratio]

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
    sides = {stage.name: stage.side for stage in workload.frame_stages()}
    parts = [
        (_parts(row.base, sides), _parts(row.head, sides))
        for row in paired
        if isinstance(row.base, Measured) and isinstance(row.head, Measured)
    ]
    alone = _alone(paired, base, head, confidence)
    for expected in _expected(parts, paired):
        again = _alone(paired, base, head - np.log(expected)[:, np.newaxis], confidence)
        alone = {name: ratio for name, ratio in alone.items() if name in again}
    if 2 * len(alone) >= len(paired):
        return None
    common = _ratio(np.median(head, axis=0), np.median(base, axis=0), confidence)
    return Drift(len(paired), common, alone)


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


def _moved(parts: Sequence[_Pair]) -> dict[str, float]:
    """Seconds by which each part that all have grew in the median strategy."""
    names = set.intersection(*(set(before) & set(now) for before, now in parts)) if parts else set()
    return {name: median(now[name] - before[name] for before, now in parts) for name in sorted(names)}


def _expected(parts: Sequence[_Pair], rows: Sequence[Compared]) -> Iterator[stats.Floats]:
    """By what each row grew if each part took so many seconds longer in all, as a slower stage does; and if
    each kind of part took this factor longer, as slower copies do. 1 where that cannot be."""
    times, shift = np.array([row.head_seconds for row in rows]), sum(_moved(parts).values())
    yield np.where(times > shift, times / np.maximum(times - shift, _NO_TIME), 1.0)
    if parts:
        factors = _factors(parts)
        grown = [sum(_sum(before, kind) * factors.get(kind, 1.0) for kind in _KINDS) for before, _ in parts]
        whole = [sum(before.values()) for before, _ in parts]
        yield np.array([now / before if before else 1.0 for now, before in zip(grown, whole, strict=True)])


_KINDS = ("host", "device", "copies")


def _parts(row: Measured, sides: Mapping[str, str]) -> dict[str, float]:
    """Seconds of each stage, as host:name or device:name, and of the copies."""
    stages = {f"{sides[name]}:{name}": s for name, s in row.stage_seconds.items() if name in sides}
    return {**stages, "copies": row.transfer_seconds + (row.host_copy_seconds or 0.0)}


def _factors(parts: Sequence[_Pair]) -> dict[str, float]:
    """The factor by which each kind of part grew in the median strategy, if a notable share of the frame."""
    factors: dict[str, float] = {}
    for kind in _KINDS:
        sums = [tuple(_sum(side, kind) for side in pair) for pair in parts]
        shares = [
            before / max(sum(pair[0].values()), _NO_TIME)
            for (before, _), pair in zip(sums, parts, strict=True)
        ]
        if median(shares) >= _NOTABLE:
            factors[kind] = median(now / before for before, now in sums if before)
    return factors


def _sum(parts: Mapping[str, float], kind: str) -> float:
    return sum(seconds for name, seconds in parts.items() if name.partition(":")[0] == kind)
