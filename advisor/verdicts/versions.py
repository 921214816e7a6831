"""HEAD against BASE from a final that held both: ratios, whether what was asked is answered, what comes next.

The contestants are versions of the code under a strategy; a second copy of HEAD is the check on the run.
Of the error that all claims may make together (1 %), each look spends its share (`final.SPENDING`),
divided among the strategies (Bonferroni). A pure function of the blocks.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from advisor import stats
from advisor.profiles.figures import Block as FrameBlock
from advisor.verdicts.estimate import FEWEST_FOR_NOISE, SUPPOSED_NOISE, Block, Pairs, paired, without_outliers
from advisor.verdicts.final import (
    FACTORS,
    FEWEST_PROCESSES,
    FEWEST_ROUNDS,
    Pace,
    Step,
    next_step,
    ratio,
    seconds_for,
    trusted,
)

BASE, HEAD = "BASE", "HEAD"
INDIFFERENCE = 0.02
"""Where no gate asks for another, measuring ends once an interval is within this share."""
NEARLY = stats.EQUIVALENCE
"""Versions are the same too if the interval is within this share when the time is up. Of identical code on
two idle cores, 45 s leave intervals of 1.5 to 4.1 % either way."""
CONFIDENCE = 0.99
"""For all ratios at all looks: 2 of 1140 simulated runs tell the same code apart; at 0.975, 8 of 960."""
NOISE_OF_ONE_ROUND = 0.4
"""Standard deviation of a block, as a logarithm, where no other round tells it: the interval reaches to 14
times and a 14th. On two cores at loads of 8 to 9, where the threads of a frame wait for one another, single
rounds of the same code were off by factors of up to 9."""
_MERGED = math.sqrt(3 / 4)
"""Error of BASE against the mean of HEAD's two copies, over that of one copy against the other."""
PARTS_CONFIDENCE = 0.95
"""For the differences of all parts of a frame together."""


@dataclass(frozen=True)
class Question:
    """What the final is to answer: whether HEAD is slower by more than the `limits` of gates; without any
    whether it is slower, faster, or within the indifference. `nearly`: the indifference once the time is up.
    `strategies`: those that the code uses. Others may stay open; all count where none of these has a ratio.
    """

    limits: tuple[float, ...] = ()
    indifference: float = INDIFFERENCE
    nearly: float = NEARLY
    strategies: tuple[str, ...] = ()

    def answered(self, ratio: stats.Ratio) -> bool:
        """Whether the interval leaves nothing open."""
        if self.limits:
            return all(ratio.low > 1 + limit or ratio.high <= 1 + limit for limit in self.limits)
        return ratio.low > 1 or ratio.high < 1 or _within(ratio, self.indifference)

    def same_within(self, ratio: stats.Ratio) -> float | None:
        """The least share that the interval is within; None where it is beyond both."""
        shares = self.indifference, min((self.nearly, *self.limits))
        return next((share for share in shares if _within(ratio, share)), None)

    def undecided(self, ratio: stats.Ratio) -> bool:
        """Whether it has no answer if measuring ends here."""
        return not self.answered(ratio) and (bool(self.limits) or self.same_within(ratio) is None)


def _within(ratio: stats.Ratio, share: float) -> bool:
    return ratio.low >= 1 / (1 + share) and ratio.high <= 1 + share


@dataclass(frozen=True)
class Entry:
    """The contestants' names: strategy to that of each version, and the second copy of HEAD.

    `apart`: versions have separate processes, whose luck is in the ratios.
    """

    strategies: tuple[str, ...]
    apart: bool = False

    @property
    def control(self) -> str:
        """HEAD's second copy, under the first strategy."""
        return f"{named(HEAD, self.strategies[0])} (again)"

    @property
    def names(self) -> dict[str, str]:
        both = {named(version, name): name for name in self.strategies for version in (BASE, HEAD)}
        return both | {self.control: self.strategies[0]}


def named(version: str, strategy: str) -> str:
    return f"{version} {strategy}"


@dataclass(frozen=True)
class Judged:
    """What the blocks say. `ratios` are HEAD's time over BASE's, by strategy, where both have blocks.

    `seconds` are the times of BASE and of HEAD with that ratio: geometric means of the rounds of both.
    `noise` is the second copy of HEAD over the first. `open` are strategies whose question is not answered,
    `undecided` those of them that the code uses (`used`) and that have no answer if measuring ends here.
    `spread`: standard deviation of a version's blocks beside the other's, as a share; `supposed` where rounds
    are few.
    """

    ratios: Mapping[str, stats.Ratio]
    noise: stats.Ratio | None
    open: tuple[str, ...]
    processes: int
    rounds: int
    seconds_more: float | None = None
    step: Step | None = None
    spread: float = 0.0
    seconds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    supposed: float = SUPPOSED_NOISE
    used: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()
    gains: Mapping[str, stats.Ratio] = field(default_factory=dict)
    """BASE's time under the first strategy over HEAD's under each."""

    @property
    def next(self) -> tuple[str, ...]:
        """Strategies to measure on: those without an answer if it ends here, else all that are open."""
        return self.undecided or self.open

    @property
    def settled(self) -> bool:
        """All is answered, by processes enough."""
        return bool(self.ratios) and not self.open and self.processes >= FEWEST_PROCESSES

    @property
    def decided(self) -> bool:
        """All have an answer if measuring ends here, by processes enough."""
        return bool(self.ratios) and not self.undecided and self.processes >= FEWEST_PROCESSES

    @property
    def complete(self) -> bool:
        """Settled, in rounds enough to say which part of a frame differs."""
        return self.settled and self.rounds >= FEWEST_ROUNDS

    @property
    def trusted(self) -> bool:
        return self.noise is None or trusted(self.noise)


def judged(
    blocks: Iterable[Block],
    entry: Entry,
    question: Question,
    share: float,
    *,
    withdrawn: Collection[str] = (),
    pace: Pace | None = None,
) -> Judged:
    """The judgement of the blocks so far. withdrawn: contestants that are out of it."""
    listed = list(blocks)
    for strategy in entry.strategies:  # blocks of different ones are not compared with one another
        listed = without_outliers(listed, [n for n, under in entry.names.items() if under == strategy])
    finalists = {block.contestant for block in listed} - set(withdrawn)
    names = [name for name in entry.names if name in finalists]
    noise = SUPPOSED_NOISE if len({(b.process, b.round) for b in listed}) > 1 else NOISE_OF_ONE_ROUND
    merged = _merged(listed, entry)
    pairs = _paired(merged, [n for n in names if n != entry.control], entry, noise)
    both = _paired(listed, names, entry, noise)
    here = [s for s in entry.strategies if {named(BASE, s), named(HEAD, s)} <= finalists]
    certainty = 1 - (1 - CONFIDENCE) * share / max(1, len(here))
    here = [s for s in here if math.isfinite(pairs.among([named(HEAD, s), named(BASE, s)]).error[0, 1])]
    second, first = entry.control, named(HEAD, entry.strategies[0])
    control = both.among([second, first]) if {second, first} <= finalists else None
    pairs = replace(pairs, error=pairs.error * _calibration(control, pairs))
    ratios = {strategy: _ratio(pairs, strategy, certainty) for strategy in here}
    used = tuple(s for s in ratios if s in question.strategies) or tuple(ratios)
    result = Judged(
        ratios,
        ratio(control, certainty) if control else None,
        tuple(s for s, interval in ratios.items() if not question.answered(interval)),
        pairs.processes,
        pairs.rounds,
        spread=both.noise,
        supposed=noise,
        used=used,
        undecided=tuple(s for s in used if question.undecided(ratios[s])),
        seconds={strategy: _seconds(merged, strategy) for strategy in here},
        gains={s: ratio(pairs.among([named(BASE, here[0]), named(HEAD, s)]), certainty) for s in here},
    )
    if pace is None or result.complete or not here:
        return result
    most = max((_growth(pairs, strategy, question, certainty) for strategy in result.next), default=1.0)
    more = seconds_for(most, pairs, pace) if math.isfinite(most) else None
    return replace(result, step=next_step(pairs, pace), seconds_more=more)


def _calibration(control: Pairs | None, pairs: Pairs) -> float:
    """How many times as large this run's errors are as its rounds tell, at least once.

    HEAD's second copy differs from the first by so many of its standard errors. That is one draw, a variance
    of one degree of freedom, weighed against the supposition that errors are right. Where rounds are few, no
    pair is taken to be less noisy than those copies are.
    """
    error = float(control.error[0, 1]) if control else 0.0
    if control is None or not error or not math.isfinite(error):
        return 1.0
    beyond = float(control.difference[0, 1]) / error
    least = float(pairs.error[np.isfinite(pairs.error) & (pairs.error > 0)].min(initial=math.inf))
    noisier = _MERGED * error / least if pairs.rounds < FEWEST_FOR_NOISE else 1.0
    return max(1.0, math.sqrt((stats.SUPPOSED_WEIGHT + beyond**2) / (stats.SUPPOSED_WEIGHT + 1)), noisier)


def _merged(blocks: Sequence[Block], entry: Entry) -> list[Block]:
    """HEAD's two copies as one: the geometric mean of their blocks in a round."""
    again = {(b.process, b.round): b.seconds for b in blocks if b.contestant == entry.control}
    first = named(HEAD, entry.strategies[0])
    return [
        replace(b, seconds=math.sqrt(b.seconds * again[b.process, b.round]))
        if b.contestant == first and (b.process, b.round) in again
        else b
        for b in blocks
    ]


def _seconds(blocks: Sequence[Block], strategy: str) -> tuple[float, float]:
    """BASE's and HEAD's times in the rounds of both: their ratio is the mean of the logarithms of theirs."""
    names = [named(version, strategy) for version in (BASE, HEAD)]
    logs = [{(b.process, b.round): math.log(b.seconds) for b in blocks if b.contestant == n} for n in names]
    common = logs[0].keys() & logs[1].keys()
    base, head = (math.exp(math.fsum(each[at] for at in common) / len(common)) for each in logs)
    return base, head


def _paired(
    blocks: Sequence[Block], names: Sequence[str], entry: Entry, noise: float = SUPPOSED_NOISE
) -> Pairs:
    alone = [name for name in names if entry.apart and name.startswith(BASE)]
    return paired(blocks, names, alone, noise)


def _ratio(pairs: Pairs, strategy: str, certainty: float) -> stats.Ratio:
    return ratio(pairs.among([named(HEAD, strategy), named(BASE, strategy)]), certainty)


def _growth(pairs: Pairs, strategy: str, question: Question, certainty: float) -> float:
    """How many times the rounds answer it if the ratio stays; first as it may stand where measuring ends."""
    now = question.undecided(_ratio(pairs, strategy, certainty))
    later = ((factor, _ratio(pairs.grown(factor), strategy, certainty)) for factor in FACTORS)
    answers = (f for f, r in later if (not question.undecided(r) if now else question.answered(r)))
    return next(answers, math.inf)


@dataclass(frozen=True)
class Change:
    """What a part of a frame takes under one strategy: HEAD's seconds less BASE's, with its interval.

    None for a side that has no such part, and for the ends of an interval of too few rounds.
    """

    part: str
    base_seconds: float | None
    head_seconds: float | None
    low: float | None
    high: float | None

    @property
    def seconds(self) -> float:
        return (self.head_seconds or 0.0) - (self.base_seconds or 0.0)

    @property
    def sure(self) -> bool:
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


WAITING = ("synchronize", "length")
REST = "waiting and launching"


def frame_parts(steps: FrameBlock) -> dict[str, float]:
    """Seconds of each step in the block's frame, with what is left for waiting and launching.

    Steps are timed in frames of their own. Where those took longer than the block's, a step has its share of
    the block's frame. Frames that overlap have steps that take longer together than one frame to the next.
    """
    parts = {label: spent for label, spent in steps.host_seconds.items() if label not in WAITING}
    if steps.latency_seconds is not None:
        return parts
    frame = steps.period_seconds
    whole = max(math.fsum(parts.values()), frame)
    shares = {label: spent * frame / whole for label, spent in parts.items()}
    return shares | {REST: max(0.0, frame - math.fsum(shares.values()))}


def changes(
    steps: Sequence[FrameBlock], entry: Entry, strategy: str, seconds: tuple[float, float] | None = None
) -> tuple[Change, ...]:
    """By part of a frame, the largest difference first. Parts go by their labels in both versions.

    seconds: of a frame of BASE and of HEAD (`Judged.seconds`), the sum of their parts where frames do not
    overlap. Differences are taken inside rounds, as those of frames. The estimate works on logarithms; a
    part's share of BASE's mean frame takes the logarithm's place, so that differences are linear and a part
    may be 0.
    """
    names = [named(BASE, strategy), named(HEAD, strategy)]
    mine = [each for each in steps if each.contestant in names]
    frames = [[each.period_seconds for each in mine if each.contestant == name] for name in names]
    if not all(frames):
        return ()
    means = [math.fsum(of) / len(of) for of in frames]
    overlap = any(each.latency_seconds is not None for each in mine)
    scale: list[float] = [1, 1]
    if seconds and not overlap:
        scale = [parted / mean for parted, mean in zip(seconds, means, strict=True)]
    parted = [(each, frame_parts(each)) for each in mine]
    parts = tuple(dict.fromkeys(chain.from_iterable(each for _, each in parted)))
    result = []
    for part in parts:
        shares = [
            Block(each.process, each.round, each.contestant, math.exp(min(share, 50.0)))
            for each, share in ((each, of.get(part, 0.0) / means[0]) for each, of in parted)
        ]
        pairs = _paired(shares, names, entry, 0.0)
        half = float(pairs.half_widths(PARTS_CONFIDENCE, len(parts))[1, 0]) * means[0]
        times = ([of.get(part) for each, of in parted if each.contestant == name] for name in names)
        base, head = (
            by * math.fsum(each or 0.0 for each in of) / len(of) if set(of) != {None} else None
            for of, by in zip(times, scale, strict=True)
        )
        change = Change(part, base, head, None, None)
        if math.isfinite(half) and pairs.rounds >= FEWEST_ROUNDS:
            change = replace(change, low=change.seconds - half, high=change.seconds + half)
        result.append(change)
    return tuple(sorted(result, key=lambda change: -abs(change.seconds)))
