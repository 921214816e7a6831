"""One strategy in both profiles: the ratio of its times, and what can be said of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from advisor import stats
from advisor.profiles.row_figures import ScriptMeasured
from advisor.profiles.schema import Failed, Measured, Predicted, Profile, Skipped
from advisor.verdicts.predicted import PERCENTILES

Outcome = Literal["slower", "faster", "same", "cannot tell"]
Figures = Measured | Predicted | ScriptMeasured
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
        return _seconds(self.base)

    @property
    def head_seconds(self) -> float:
        return _seconds(self.head)

    @property
    def base_bytes(self) -> int | None:
        """Physical memory in BASE; of a script the most in use at once, None where nobody saw it."""
        return _bytes(self.base)

    @property
    def head_bytes(self) -> int | None:
        return _bytes(self.head)


@dataclass(frozen=True)
class Paired(Compared):
    """Two versions of the code that one run measured. The interval holds at all of its looks and for all of
    its strategies together; `trusted` unless a second copy of HEAD clearly differs from HEAD."""

    trusted: bool = True


@dataclass(frozen=True)
class OneSided:
    """A strategy with figures in one profile alone, and why the other has none."""

    strategy: str
    missing_in: Literal["base", "head"]
    status: Literal["failed", "skipped", "not run"]
    reason: str


def row(base: Figures, head: Figures, confidence: float, seed: int = 0) -> Compared:
    """The two rows of one strategy, with the interval of their ratio at that confidence."""
    ratio = ratio_of(base, head, confidence, seed=seed)
    return Compared(base, head, ratio, outcome(ratio))


def ratio_of(
    base: Figures, head: Figures, confidence: float, *, resamples: int = stats.RESAMPLES, seed: int = 0
) -> stats.Ratio:
    """HEAD's time over BASE's: bootstrap and Welch's interval if measured, percentiles if predicted.

    Predictions of one device are compared in each simulated device; without draws, as if the two ranges had
    nothing in common: wider than it need be, and only a row that is the same in both is 1 for sure.
    """
    if not isinstance(base, Predicted) and not isinstance(head, Predicted):
        found = stats.ratio_interval(
            head.rounds, base.rounds, confidence=confidence, resamples=resamples, seed=seed
        )
        return found.around(head.median_seconds / base.median_seconds)
    if not isinstance(base, Predicted) or not isinstance(head, Predicted):
        raise TypeError("measured and predicted times cannot be compared")
    if base == head:
        return stats.Ratio(1.0, 1.0, 1.0)
    if base.draws and len(base.drawn) == len(head.drawn):
        return _paired(base, head)
    return stats.Ratio(
        head.likely_seconds / base.likely_seconds,
        head.low_seconds / base.high_seconds,
        head.high_seconds / base.low_seconds,
    )


def _paired(base: Predicted, head: Predicted) -> stats.Ratio:
    """The ratio in each simulated device, with each side's own noise of what this CPU was timed for."""
    likely = head.likely_seconds / base.likely_seconds
    # Streams of their own: what was timed on two days has nothing in common.
    before, now = (_timed(side, stream) for stream, side in enumerate((base, head)))
    ratios = likely * np.divide(head.drawn, base.drawn) * now / before
    low, high = (float(x) for x in np.percentile(ratios, PERCENTILES))
    return stats.Ratio(likely, min(low, likely), max(high, likely))


def _timed(row: Predicted, stream: int) -> npt.NDArray[np.float64]:
    """By how much the noise of its host stages changes the row's time, in each draw."""
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
    found = []
    for strategy in dict.fromkeys((*base, *head)):
        here, there = base.get(strategy), head.get(strategy)
        if has_figures(here) and not has_figures(there):
            found.append(_missing(strategy, "head", there))
        elif has_figures(there) and not has_figures(here):
            found.append(_missing(strategy, "base", here))
    return tuple(found)


def has_figures(found: AnyRow | None) -> bool:
    return isinstance(found, Figures)


def rows_of(profile: Profile) -> tuple[AnyRow, ...]:
    """Every measured strategy of a workload or a script, and those without figures."""
    return (*(profile.script.measured if profile.script else ()), *profile.results)


def by_strategy(rows: Sequence[AnyRow], only: Sequence[str]) -> dict[str, AnyRow]:
    return {row.strategy: row for row in rows if not only or row.strategy in only}


def _missing(strategy: str, side: Literal["base", "head"], found: AnyRow | None) -> OneSided:
    if isinstance(found, (Failed, Skipped)):
        return OneSided(strategy, side, found.status, found.reason)
    return OneSided(strategy, side, "not run", NOT_RUN)


def _seconds(found: Figures) -> float:
    return found.likely_seconds if isinstance(found, Predicted) else found.median_seconds


def _bytes(found: Figures) -> int | None:
    if isinstance(found, ScriptMeasured):
        return found.memory.peak_bytes if found.memory else None
    return found.footprint.physical_bytes if isinstance(found, Measured) else found.physical_bytes
