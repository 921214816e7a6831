"""One strategy in both profiles: the ratio of its times, and what can be said of it; what moved all together.

In each process of a final all contestants ran side by side, so that what slows the machine slows them all.
The median over strategies of a process is the common factor (robust: it takes more than half of them to move
it); what a strategy takes over that median is its own. Both are compared over the processes of the two runs
as times are (`stats.ratio_interval`), those of strategies at once (Bonferroni). A common factor is that of
the machine, or of code that every strategy runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
    """A strategy with figures in both profiles. `ratio` is HEAD's time of a frame, or run, over BASE's.

    `paired`: one run measured two versions of the code, and the interval holds at all of its looks and for
    all of its strategies together. `trusted` unless a second copy of HEAD clearly differs from HEAD, by the
    factor `off` at most. A strategy that the code does not use (`used`) may be open.
    """

    base: Figures
    head: Figures
    ratio: stats.Ratio
    outcome: Outcome
    paired: bool = False
    trusted: bool = True
    off: float = 1.0
    used: bool = True

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
class OneSided:
    """A strategy with figures in one profile alone, or in neither, and why one has none."""

    strategy: str
    missing_in: str
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
    assert isinstance(base, Predicted)
    assert isinstance(head, Predicted)
    if base == head:
        return stats.Ratio(1.0, 1.0, 1.0)
    ratios = draw_ratios(head, base)
    if ratios is not None:  # with each side's own noise of what this CPU was timed for, on days of their own
        before, now = (_timed(side, stream) for stream, side in enumerate((base, head)))
        low, high = map(float, np.percentile(ratios * now / before, PERCENTILES))
    else:
        low, high = head.low_seconds / base.high_seconds, head.high_seconds / base.low_seconds
    likely = head.likely_seconds / base.likely_seconds  # so that the times beside it divide to it
    return stats.Ratio(likely, min(low, likely), max(high, likely))


def _timed(row: Predicted, stream: int) -> npt.NDArray[np.float64]:
    """The factor by which noise of its host stages changes the row's time, in each draw."""
    ends = host_noise(row) / sum(row.terms.values())
    noise = np.random.default_rng(stream).triangular(-1.0, 0.0, 1.0, len(row.drawn))
    return np.asarray((1 + ends) ** noise)


def host_noise(row: Predicted) -> float:
    """Seconds by which another run on the same CPU may time the row's host stages otherwise: as far apart as
    this run's processes were, where it had some; else by more the busier the CPU was."""
    host, spread = row.host_seconds, row.host_spread
    unknown = (1 + HOST_NOISE) * (1 + (row.cpu_busy or 0.0)) - 1
    share = unknown if spread is None else max(spread, QUIET_HOST_NOISE)
    return share * host + HOST_NOISE_SECONDS if host else 0.0


def outcome(ratio: stats.Ratio) -> Outcome:
    """The outcome by the whole interval: within the equivalence margin, above 1, below 1, or none."""
    if ratio.low >= 1 / (1 + stats.EQUIVALENCE) and ratio.high <= 1 + stats.EQUIVALENCE:
        return "same"
    if ratio.low > 1:
        return "slower"
    return "faster" if ratio.high < 1 else "cannot tell"


def one_sided(
    base: Mapping[str, AnyRow], head: Mapping[str, AnyRow], used: Sequence[str] = ()
) -> tuple[OneSided, ...]:
    """The strategies that have figures in one of the two alone, in BASE's order and then HEAD's; of those
    `used`, also in neither."""
    gaps = []
    for strategy in dict.fromkeys((*base, *head, *used)):
        rows = {"BASE": base.get(strategy), "HEAD": head.get(strategy)}
        missing = [side for side, row in rows.items() if not has_figures(row)]
        if len(missing) == 1 or (missing and strategy in used):
            lacking = rows[missing[-1]]
            gap = OneSided(strategy, " and ".join(missing), "not run", NOT_RUN)
            if isinstance(lacking, (Failed, Skipped)):
                gap = replace(gap, status=lacking.status, reason=lacking.reason)
            gaps.append(gap)
    return tuple(gaps)


def has_figures(result: AnyRow | None) -> TypeGuard[Figures]:
    return isinstance(result, Figures)


def by_strategy(rows: Sequence[AnyRow], only: Sequence[str]) -> dict[str, AnyRow]:
    return {row.strategy: row for row in rows if not only or row.strategy in only}


_COPIES = ""
"""Name of the copies among the stages."""
FEWEST = 3
"""Fewest strategies to find one that changed alone."""


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
    # Contestants: on each side those with as many processes as most have, of two at least.
    counts = [tuple(len(getattr(side, "rounds", ())) for side in (row.base, row.head)) for row in rows]
    usual = max(counts, key=counts.count, default=(0,))
    paired = [row for row, count in zip(rows, counts, strict=True) if count == usual]
    if min(usual) < 2 or len(paired) < FEWEST:
        return None
    base, head = (
        np.log([[float(np.median(frames)) for frames in getattr(row, side).rounds] for row in paired])
        for side in ("base", "head")
    )
    alone = _alone(paired, base, head, confidence)
    beyond = _alone(paired, base, head - np.log(_expected(paired, workload))[:, np.newaxis], confidence)
    alone = {name: ratio for name, ratio in alone.items() if name in beyond}
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


def _ratio(now: stats.Floats, before: stats.Floats, confidence: float) -> stats.Ratio:
    """Compares two sets of processes, each known by the logarithm of one time."""
    above, below = ([[float(value)] for value in np.exp(side)] for side in (now, before))
    return stats.ratio_interval(above, below, confidence=confidence)


def _notable(ratio: stats.Ratio) -> bool:
    """Whether it is off for sure, and by more than what counts as the same."""
    return (ratio.low > 1 or ratio.high < 1) and abs(math.log(ratio.value)) > math.log1p(stats.EQUIVALENCE)


def _expected(rows: Sequence[Compared], workload: WorkloadRecord) -> stats.Floats:
    """By what each row grew if each stage, and the copies, took the factor longer that they do in the median
    strategy: a slower stage or link, which weighs more in one strategy than in another, moves none alone."""
    stages = [stage.name for stage in workload.frame_stages()]
    pairs = [(_parts(row.base, stages), _parts(row.head, stages)) for row in rows]
    factors = {
        part: median(
            [now.get(part, 0.0) / before[part] for before, now in pairs if before.get(part)] or [1.0]
        )
        for part in (*stages, _COPIES)
    }
    grown = [sum(s * factors[part] for part, s in before.items()) for before, _ in pairs]
    whole = [sum(before.values()) for before, _ in pairs]
    return np.array(
        [now / before if now and before else 1.0 for now, before in zip(grown, whole, strict=True)]
    )


def _parts(row: Figures, stages: Sequence[str]) -> dict[str, float]:
    """Seconds of each stage, and of the copies; nothing of a prediction."""
    if not isinstance(row, Measured):
        return {}
    timed = {name: row.stage_seconds[name] for name in stages if name in row.stage_seconds}
    return {**timed, _COPIES: row.transfer_seconds + (row.host_copy_seconds or 0.0)}
