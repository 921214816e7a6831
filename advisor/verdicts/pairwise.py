"""Measured strategies held against the fastest of them: what is tied, what is slower, what cannot be told.

Each is compared with the fastest by the interval of the ratio of medians. It is tied when the whole interval
lies within the equivalence margin, slower when the whole interval lies above 1, and unclear otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from advisor import stats
from advisor.profiles.preferences import Objective, begin_to_end
from advisor.strategies.registry import BASELINE
from advisor.verdicts.ties import Equal

Standing = Literal["tied", "slower", "unclear"]


@dataclass(frozen=True)
class Candidate:
    """A measured strategy as the verdict sees it: seconds by process, bytes, rank of the change."""

    strategy: str
    rounds: tuple[tuple[float, ...], ...]
    physical_bytes: int
    code_change: int
    verified: bool = True
    """Its results were compared with another run's."""
    latency: float | None = None
    """Begin to end of a frame, where frames overlap; else None, since it is the time of a frame."""

    @property
    def seconds(self) -> float:
        """Median of a frame."""
        return stats.median(self.rounds)

    @property
    def equal(self) -> Equal:
        """As ties are broken."""
        return Equal(self.strategy, self.seconds, self.physical_bytes, self.code_change)

    def scored(self, objective: Objective) -> Candidate:
        """With the times that count: begin to end of a frame, or from one finished frame to the next.

        Of frames that overlap only the median from begin to end is kept; its spread is taken to be theirs.
        """
        if self.latency is None or not begin_to_end(objective):
            return self
        longer = self.latency / self.seconds
        scaled = tuple(tuple(seconds * longer for seconds in frames) for frames in self.rounds)
        return replace(self, rounds=scaled, latency=None)


@dataclass(frozen=True)
class Contest:
    """All candidates against the fastest: each one's time over its, and what follows.

    `baseline` is what gains are told against; it need not be a candidate. None where it was not measured.
    """

    best: Candidate
    confidence: float
    against_best: dict[str, stats.Ratio]
    standing: dict[str, Standing]
    by_name: dict[str, Candidate]
    baseline: Candidate | None

    def named(self, standing: Standing) -> list[Candidate]:
        """The candidates of that standing; the fastest has none."""
        return [self.by_name[name] for name, is_ in self.standing.items() if is_ == standing]

    @property
    def rivals(self) -> list[Candidate]:
        """The fastest and all that may be as fast, for all the measurements tell."""
        return [self.best, *self.named("tied"), *self.named("unclear")]

    @property
    def rounds(self) -> int:
        """The most processes that a strategy ran in."""
        return max(len(candidate.rounds) for candidate in self.by_name.values())

    def over(self, above: Candidate, below: Candidate) -> stats.Ratio:
        """The ratio of their times; exactly 1 of one with itself."""
        if above.strategy == below.strategy:
            return stats.Ratio(1.0, 1.0, 1.0)
        return stats.ratio_interval(above.rounds, below.rounds, confidence=self.confidence)

    def speedup(self, winner: Candidate) -> stats.Ratio | None:
        """The baseline's time over the winner's."""
        return self.over(self.baseline, winner) if self.baseline else None


def contest(
    rows: Sequence[Candidate], confidence: float, compared: Sequence[Candidate], baseline: str = BASELINE
) -> Contest:
    """The contest of `rows`; the baseline is looked for among all those `compared`."""
    best = min(rows, key=lambda row: row.seconds)
    ratios = {
        row.strategy: stats.ratio_interval(row.rounds, best.rounds, confidence=confidence)
        for row in rows
        if row is not best
    }
    return Contest(
        best,
        confidence,
        ratios,
        {name: _standing(ratio) for name, ratio in ratios.items()},
        {row.strategy: row for row in rows},
        next((row for row in compared if row.strategy == baseline), None),
    )


def _standing(ratio: stats.Ratio) -> Standing:
    if ratio.high <= 1 + stats.EQUIVALENCE and ratio.low >= 1 / (1 + stats.EQUIVALENCE):
        return "tied"
    return "slower" if ratio.low > 1 else "unclear"
