"""HEAD against BASE from a final that held both: ratios, whether what was asked is answered, what comes next.

The contestants are versions of the code under a strategy; a second copy of HEAD is the check on the run.
Of the error that all claims may make together (2.5 %), each look spends its share (`choice.SPENDING`),
divided among the strategies (Bonferroni). A pure function of the blocks.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from advisor import stats
from advisor.verdicts.estimate import Block, Pairs, paired
from advisor.verdicts.final import FACTORS, TRUSTED, ratio
from advisor.verdicts.planning import FEWEST_PROCESSES, Pace, Step, next_step, seconds_for

BASE, HEAD = "BASE", "HEAD"
INDIFFERENCE = 0.02
"""Versions within this share of one another are the same, where no gate asks for another."""
CONFIDENCE = 0.975
"""Of all ratios at all looks: the same code twice is distinguished in at most 1 of 40 runs."""
PARTS_CONFIDENCE = 0.95
"""Of the differences of all parts of a frame together."""


@dataclass(frozen=True)
class Question:
    """What the final is to answer for each strategy: whether HEAD is slower by more than the `limits` of
    gates; without any whether it is slower, faster, or within the indifference."""

    limits: tuple[float, ...] = ()
    indifference: float = INDIFFERENCE

    def answered(self, found: stats.Ratio) -> bool:
        """Whether the interval leaves nothing open."""
        if self.limits:
            return all(found.low > 1 + limit or found.high <= 1 + limit for limit in self.limits)
        return found.low > 1 or found.high < 1 or self.same(found)

    def same(self, found: stats.Ratio) -> bool:
        """Whether the two are clearly within the indifference."""
        return found.low >= 1 / (1 + self.indifference) and found.high <= 1 + self.indifference


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
        """All contestants, to their strategies."""
        both = {
            named(version, strategy): strategy for strategy in self.strategies for version in (BASE, HEAD)
        }
        return both | {self.control: self.strategies[0]}


def named(version: str, strategy: str) -> str:
    """The contestant's name."""
    return f"{version} {strategy}"


@dataclass(frozen=True)
class Judged:
    """What the blocks say. `ratios` are HEAD's time over BASE's, by strategy, where both have blocks.

    `noise` is the second copy of HEAD over the first. `open` are strategies whose question is not answered.
    `wider`: of versions in processes apart, how many times as wide the interval is as inside a process.
    `growth`: how many times the rounds each of `open` takes if its ratio stays; infinite where it stays open.
    `spread`: standard deviation of a version's blocks beside the other's, as a share.
    """

    ratios: Mapping[str, stats.Ratio]
    noise: stats.Ratio | None
    open: tuple[str, ...]
    processes: int
    rounds: int
    wider: float = 1.0
    seconds_more: float | None = None
    step: Step | None = None
    growth: Mapping[str, float] = field(default_factory=dict)
    spread: float = 0.0

    def beyond(self, seconds: float, pace: Pace | None) -> tuple[str, ...]:
        """Open strategies that must not be measured on for those before them to be answered in so many
        seconds; never the first."""
        waiting, every = list(self.open), len(self.ratios)
        while len(waiting) > 1 and pace:
            each = pace.round_seconds * len(waiting) / every
            if (max(self.growth.get(s, 1.0) for s in waiting) - 1) * self.rounds * each <= seconds:
                break
            waiting.pop()
        return tuple(s for s in self.open if s not in waiting)

    @property
    def settled(self) -> bool:
        """All is answered, by processes enough."""
        return bool(self.ratios) and not self.open and self.processes >= FEWEST_PROCESSES

    @property
    def trusted(self) -> bool:
        """HEAD does not clearly differ from itself."""
        return self.noise is None or (self.noise.low <= 1 + TRUSTED and self.noise.high >= 1 / (1 + TRUSTED))


def judged(
    blocks: Iterable[Block],
    entry: Entry,
    question: Question,
    share: float,
    *,
    left: Collection[str] = (),
    pace: Pace | None = None,
) -> Judged:
    """What can be said now. left: contestants that are out of it."""
    kept = tuple(blocks)
    seen = {block.contestant for block in kept} - set(left)
    names = [name for name in entry.names if name in seen]
    pairs = _paired(_merged(kept, entry), [n for n in names if n != entry.control], entry)
    both = _paired(kept, names, entry)
    here = [s for s in entry.strategies if {named(BASE, s), named(HEAD, s)} <= seen]
    certainty = 1 - (1 - CONFIDENCE) * share / max(1, len(here))
    ratios = {strategy: _ratio(pairs, strategy, certainty) for strategy in here}
    second, first = entry.control, named(HEAD, entry.strategies[0])
    noise = ratio(both.among([second, first]), certainty) if {second, first} <= seen else None
    told = Judged(
        ratios,
        noise,
        tuple(s for s, found in ratios.items() if not question.answered(found)),
        pairs.processes,
        pairs.rounds,
        _wider(both, entry),
        spread=both.noise,
    )
    if pace is None or told.settled or not here:
        return told
    growth = {strategy: _growth(pairs, strategy, question, certainty) for strategy in told.open}
    most = max(growth.values(), default=1.0)
    more = seconds_for(most, pairs, pace) if math.isfinite(most) else None
    return replace(told, step=next_step(pairs, pace), seconds_more=more, growth=growth)


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


def _paired(blocks: Sequence[Block], names: Sequence[str], entry: Entry) -> Pairs:
    alone = [name for name in names if entry.apart and name.startswith(BASE)]
    return paired(blocks, names, alone)


def _ratio(pairs: Pairs, strategy: str, certainty: float) -> stats.Ratio:
    return ratio(pairs.among([named(HEAD, strategy), named(BASE, strategy)]), certainty)


def _wider(pairs: Pairs, entry: Entry) -> float:
    """The error of HEAD against BASE over that of HEAD against its second copy, which shares its process."""
    first, strategy = named(HEAD, entry.strategies[0]), entry.strategies[0]
    if not entry.apart or not {first, entry.control, named(BASE, strategy)} <= set(pairs.names):
        return 1.0
    across, inside = (
        pairs.among([first, name]).error[0, 1] for name in (named(BASE, strategy), entry.control)
    )
    return float(across / inside) if inside and math.isfinite(across) else 1.0


def _growth(pairs: Pairs, strategy: str, question: Question, certainty: float) -> float:
    """How many times the rounds answer it if the ratio stays as it is."""
    later = ((factor, _ratio(pairs.grown(factor), strategy, certainty)) for factor in FACTORS)
    return next((factor for factor, found in later if question.answered(found)), math.inf)


@dataclass(frozen=True)
class Change:
    """What a part of a frame takes under one strategy: HEAD's seconds less BASE's, with its interval.

    None for a side that has no such part.
    """

    part: str
    base_seconds: float | None
    head_seconds: float | None
    low: float
    high: float

    @property
    def seconds(self) -> float:
        """The difference."""
        return (self.head_seconds or 0.0) - (self.base_seconds or 0.0)

    @property
    def sure(self) -> bool:
        """Whether it is more than noise."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Steps:
    """What the steps of a frame took after one block, by label; with that block's frame they are a whole."""

    process: int
    round: int
    contestant: str
    place: int
    frame_seconds: float
    seconds: Mapping[str, float] = field(default_factory=dict)

    def parts(self) -> dict[str, float]:
        """With what is left for waiting and launching, where frames do not overlap."""
        told = {label: spent for label, spent in self.seconds.items() if label not in WAITING}
        return told | {REST: self.frame_seconds - math.fsum(told.values())}


WAITING = ("synchronize", "length")
REST = "waiting and launching"


def changes(steps: Sequence[Steps], entry: Entry, strategy: str) -> tuple[Change, ...]:
    """By part of a frame, the largest difference first. Parts go by their labels in both versions.

    Differences are taken inside rounds, as those of frames. The estimate works on logarithms; a part's share
    of BASE's mean frame takes the logarithm's place, so that differences are linear and a part may be 0.
    """
    names = [named(BASE, strategy), named(HEAD, strategy)]
    mine = [each for each in steps if each.contestant in names]
    frame = [each.frame_seconds for each in mine if each.contestant == names[0]]
    if not frame or len(frame) == len(mine):
        return ()
    whole = math.fsum(frame) / len(frame)
    told = [(each, each.parts()) for each in mine]
    parts = tuple(dict.fromkeys(chain.from_iterable(seconds for _, seconds in told)))
    found = []
    for part in parts:
        pairs = _paired(
            [_share(each, seconds.get(part, 0.0) / whole) for each, seconds in told], names, entry
        )
        half = float(pairs.half_widths(PARTS_CONFIDENCE, len(parts))[1, 0]) * whole
        middle = float(pairs.difference[1, 0]) * whole
        base, head = (_mean(told, name, part) for name in names)
        found.append(Change(part, base, head, middle - half, middle + half))
    return tuple(sorted(found, key=lambda change: -abs(change.seconds)))


def _mean(told: Sequence[tuple[Steps, Mapping[str, float]]], name: str, part: str) -> float | None:
    """Seconds of the part in that contestant's frames; None where it has none."""
    seconds = [parts[part] for each, parts in told if each.contestant == name and part in parts]
    return math.fsum(seconds) / len(seconds) if seconds else None


def _share(each: Steps, share: float) -> Block:
    return Block(
        each.process, each.round, each.contestant, each.place, math.exp(max(-50.0, min(share, 50.0)))
    )
