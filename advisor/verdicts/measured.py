"""The verdict over measured rows: never a winner inside the noise.

Each row is compared with the fastest by the interval of the ratio of medians. It is tied when the whole
interval lies within the equivalence margin, slower when the whole interval lies above 1; anything else
cannot be told, and then nobody wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from advisor import stats, units
from advisor.profiles import Device, Recommendation
from advisor.rules.base import times
from advisor.strategies import BASELINE
from advisor.verdicts.ties import Equal, break_tie, listing

MORE_ROUNDS = 10
"""Processes to ask for when 3 cannot tell: Student's factor falls from 4.3 to 2.3, the width to a third."""

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

    @property
    def seconds(self) -> float:
        """Median of a frame."""
        return stats.median(self.rounds)


@dataclass(frozen=True)
class _Contest:
    """All candidates against the fastest: each one's time over its, and what follows."""

    best: Candidate
    confidence: float
    against_best: dict[str, stats.Ratio]
    standing: dict[str, Standing]
    by_name: dict[str, Candidate]

    def named(self, standing: Standing) -> list[Candidate]:
        return [self.by_name[name] for name, is_ in self.standing.items() if is_ == standing]

    @property
    def rounds(self) -> int:
        return max(len(candidate.rounds) for candidate in self.by_name.values())


def recommend(
    rows: Sequence[Candidate], *, confidence: float = 0.95, device: Device | None = None
) -> Recommendation | None:
    """The verdict over measured rows; None when there are none. `device` only words the next step."""
    if not rows:
        return None
    contest = _contest(rows, confidence)
    if len(rows) == 1:
        return _alone(contest)
    if contest.named("unclear"):
        return _inconclusive(contest, device)
    if contest.named("tied"):
        return _tie(contest)
    return _clear(contest)


def _contest(rows: Sequence[Candidate], confidence: float) -> _Contest:
    best = min(rows, key=lambda row: row.seconds)
    ratios = {
        row.strategy: stats.ratio_interval(row.rounds, best.rounds, confidence=confidence)
        for row in rows
        if row is not best
    }
    return _Contest(
        best,
        confidence,
        ratios,
        {name: _standing(ratio) for name, ratio in ratios.items()},
        {row.strategy: row for row in rows},
    )


def _standing(ratio: stats.Ratio) -> Standing:
    if ratio.high <= 1 + stats.EQUIVALENCE and ratio.low >= 1 / (1 + stats.EQUIVALENCE):
        return "tied"
    return "slower" if ratio.low > 1 else "unclear"


def _verdict(
    contest: _Contest,
    winner: Candidate,
    verdict: Literal["clear", "tie"],
    reason: str,
    tied: Sequence[str] = (),
) -> Recommendation:
    """A recommendation of one strategy, with its speed-up over the baseline when that ran."""
    speedup = _speedup(contest, winner)
    return Recommendation(
        strategy=winner.strategy,
        verdict=verdict,
        speedup=speedup.value if speedup else None,
        interval=(speedup.low, speedup.high) if speedup else None,
        baseline=BASELINE if speedup else None,
        tied_with=tuple(tied),
        reason=reason + _caveat(contest) + _unverified(winner),
        next_step=_adopt(winner.strategy),
    )


def _speedup(contest: _Contest, winner: Candidate) -> stats.Ratio | None:
    """The baseline's time over the winner's; exactly 1 where it is the baseline itself."""
    baseline = contest.by_name.get(BASELINE)
    if baseline is None:
        return None
    if baseline is winner:
        return stats.Ratio(1.0, 1.0, 1.0)
    return stats.ratio_interval(baseline.rounds, winner.rounds, confidence=contest.confidence)


def _adopt(strategy: str) -> str:
    return "Keep the code as it is." if strategy == BASELINE else f"Change the code to {strategy}."


def _caveat(contest: _Contest) -> str:
    if contest.rounds > 1:
        return ""
    return " Each strategy ran in one process only: differences between processes are not in the intervals."


def _unverified(winner: Candidate) -> str:
    return "" if winner.verified else f" The results of {winner.strategy} could not be compared."


def _alone(contest: _Contest) -> Recommendation:
    only = contest.best
    reason = (
        f"{only.strategy} is the only strategy with figures ({units.seconds(only.seconds)} a frame): there "
        "is nothing to compare it with."
    )
    recommendation = _verdict(contest, only, "clear", reason)
    step = "See why the other strategies have no figures, and run them too."
    return recommendation.model_copy(update={"next_step": step})


def _clear(contest: _Contest) -> Recommendation:
    best, others = contest.best, contest.against_best
    second = min(others, key=lambda name: others[name].value)
    takes = f"{best.strategy} takes {units.seconds(best.seconds)} a frame"
    level = units.percent(contest.confidence)
    if best.strategy == BASELINE:
        reason = (
            f"Nothing beats the baseline: {takes}, and the next best, {second}, {times(others[second])} that "
            f"time (with its {level} interval)."
        )
        return _verdict(contest, best, "clear", reason)
    rest = f"{second}, the next best, {times(others[second])} that time (with its {level} interval)"
    slower = f", {BASELINE} {times(others[BASELINE])}" if BASELINE in others and second != BASELINE else ""
    return _verdict(contest, best, "clear", f"{takes}; {rest}{slower}.")


def _tie(contest: _Contest) -> Recommendation:
    equals = [contest.best, *contest.named("tied")]
    winner, why = break_tie([Equal(c.strategy, c.seconds, c.physical_bytes, c.code_change) for c in equals])
    fastest = contest.best
    worst = max(contest.against_best[row.strategy].high for row in contest.named("tied"))
    reason = (
        f"{listing([row.strategy for row in equals])} are within {stats.EQUIVALENCE * 100:g} % of one "
        f"another (the fastest, {fastest.strategy}, takes {units.seconds(fastest.seconds)} a frame; the "
        f"others at most {units.ratio(worst)} that); {why}."
    )
    if winner == BASELINE:
        reason += " Nothing beats the baseline by more than that."
    tied = [row.strategy for row in equals if row.strategy != winner]
    return _verdict(contest, contest.by_name[winner], "tie", reason, tied)


def _inconclusive(contest: _Contest, device: Device | None) -> Recommendation:
    unclear = contest.named("unclear")
    rivals = [contest.best, *contest.named("tied"), *unclear]
    ranges = ", ".join(
        f"{row.strategy} takes {times(contest.against_best[row.strategy])} the time" for row in unclear
    )
    reason = (
        f"{listing([row.strategy for row in rivals])} cannot be told apart: against "
        f"{contest.best.strategy} at {units.seconds(contest.best.seconds)} a frame, {ranges}."
        f"{_certain(contest, rivals)}{_caveat(contest)}"
    )
    return Recommendation(
        strategy=None,
        verdict="inconclusive",
        baseline=BASELINE if BASELINE in contest.by_name else None,
        tied_with=tuple(row.strategy for row in rivals),
        reason=reason,
        next_step=_measure_better(contest, device),
    )


def _certain(contest: _Contest, rivals: Sequence[Candidate]) -> str:
    """What holds whichever of them is the best."""
    baseline = contest.by_name.get(BASELINE)
    if baseline is None or baseline in rivals:
        return ""
    least = min(
        stats.ratio_interval(baseline.rounds, row.rounds, confidence=contest.confidence).low for row in rivals
    )
    who = "Both" if len(rivals) == 2 else "All of them"
    if least > 1:
        return f" {who} are at least {units.ratio(least)} faster than {BASELINE}."
    return f" The fastest, {contest.best.strategy}, is faster than {BASELINE} all the same."


def _measure_better(contest: _Contest, device: Device | None) -> str:
    rounds = MORE_ROUNDS if contest.rounds < MORE_ROUNDS else 3 * contest.rounds
    integrated = device is not None and (device.memory_class or "").startswith("tegra")
    clocks = "sudo jetson_clocks" if integrated else "sudo nvidia-smi --lock-gpu-clocks=MHZ"
    return (
        f"Run again with --rounds {rounds}, with other programs closed and the clocks fixed ({clocks}); if "
        "the verdict stays, the difference is too small to matter or this machine too restless to show it."
    )
