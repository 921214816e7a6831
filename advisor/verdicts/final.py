"""The verdict of a final, as data: which contestant, how far from the fastest at most, and how sure.

docs/verdict.md has the kinds and their words.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from advisor import stats
from advisor.profiles.conclusions import Faster, Preferences, Recommendation, Verdict
from advisor.strategies.registry import BASELINE
from advisor.verdicts import choice
from advisor.verdicts.estimate import Block, Pairs, paired
from advisor.verdicts.reasons import needs

SPENDING = (1 / 8, 1 / 8, 1 / 4, 1 / 2)
"""Share of the verdict's error that each planned look may spend: that of the rounds new at it. Each
comes after twice the rounds of the one before. Lan and DeMets, "Discrete sequential boundaries for clinical
trials", Biometrika 70, 1983; the last look has what is left, also where the time is up before."""
LOOKS = len(SPENDING)
FEWEST_PROCESSES = 2
"""One process cannot tell a contestant's luck in it from its time."""
FEWEST_ROUNDS = 3
"""In the first processes, where the time allows it: fewer have no spread to speak of."""


@dataclass(frozen=True)
class Pace:
    """Costs of measuring: starting a process until its first round, and a round of all contestants."""

    process_seconds: float
    round_seconds: float


@dataclass(frozen=True)
class Step:
    """A step of measuring, until the next look: processes to start, and the rounds in each of them."""

    processes: int
    rounds: int


def first_step(seconds: float, pace: Pace) -> Step:
    """Two processes with so few rounds that all looks fit into the time, if it allows them three rounds.

    Taken to the last look are as many processes as `next_step` starts where there is no luck.
    """
    processes = FEWEST_PROCESSES
    for _ in range(LOOKS - 1):
        processes += math.ceil(processes / 2)
    rounds = (seconds - processes * pace.process_seconds) / pace.round_seconds / 2 ** (LOOKS - 1)
    affordable = (seconds - FEWEST_PROCESSES * pace.process_seconds) / pace.round_seconds / FEWEST_PROCESSES
    least = min(FEWEST_ROUNDS, max(1, int(affordable)))
    return Step(FEWEST_PROCESSES, max(least, int(rounds / FEWEST_PROCESSES)))


def next_step(pairs: Pairs, pace: Pace) -> Step:
    """Twice the rounds so far: as many again, in the number of processes that makes them worth most.

    A process has at most twice the rounds of those so far on average, so that none outweighs the others, and
    at least half, since starting processes takes the time that all of them share.
    """
    best = math.inf
    if pairs.luck > 0:
        best = pairs.noise / pairs.luck * math.sqrt(pace.process_seconds / pace.round_seconds)
    wanted = min(max(pairs.rounds / max(1.0, best), pairs.processes / 2), pairs.processes * 2)
    return Step(math.ceil(wanted), math.ceil(pairs.rounds / math.ceil(wanted)))


def seconds_for(factor: float, pairs: Pairs, pace: Pace) -> float:
    """How long it takes until there are `factor` times the rounds so far."""
    step = next_step(pairs, pace)
    rounds = (factor - 1) * pairs.rounds
    return rounds * (pace.round_seconds + pace.process_seconds / step.rounds)


TRUSTED = 0.01
"""One contestant under two names that clearly differs from itself by more: it measures something else."""
NOTHING = 10.0
"""A bound of ten times the best's time, or an interval as wide, is useless: it is not reported."""
FACTORS = tuple(2 ** (k / 2) for k in range(1, 13))
"""How many times the rounds are tried for `seconds_more`; more than 64 times is no advice."""


@dataclass(frozen=True)
class Alias:
    """The second name under which a contestant runs, as a check; it never competes."""

    name: str
    of: str


@dataclass(frozen=True)
class Decision:
    """The verdict if measuring stopped now, without its reason, and whether more of it can change the choice.

    `dropped` need not run in later rounds: they are clearly slower by more than the indifference, or an
    alias of one that is. `step` is what to measure next; None where it is settled or no pace was given.
    """

    verdict: Recommendation
    settled: bool
    dropped: frozenset[str]
    step: Step | None = None


def decide(
    blocks: Iterable[Block],
    contestants: Sequence[choice.Contestant],
    preferences: Preferences,
    share: float = 1.0,
    *,
    alias: Alias | None = None,
    pace: Pace | None = None,
) -> Decision:
    """What the blocks say at a planned look, or when the time is up. It may spend that share of the error.

    It is settled when each contestant that the tie-breakers would prefer to the chosen one is clearly outside
    the indifference, or inside. A pure function: blocks may come in any order and from a saved profile.
    """
    listed = tuple(blocks)
    finalists = {block.contestant for block in listed}
    names = [one.name for one in contestants if one.name in finalists]
    pairs = paired(listed, names, [one.name for one in contestants if one.alone])
    noise = None
    if alias and {alias.name, alias.of} <= finalists:
        noise = ratio(paired(listed, [alias.name, alias.of]), choice.certainty(share))
    return judge(pairs, contestants, preferences, share, noise=noise, alias=alias, pace=pace)


def judge(
    pairs: Pairs,
    contestants: Sequence[choice.Contestant],
    preferences: Preferences,
    share: float = 1.0,
    *,
    noise: stats.Ratio | None = None,
    alias: Alias | None = None,
    pace: Pace | None = None,
) -> Decision:
    """`decide` from differences that are known. noise: the alias's time over its own under the other name."""
    rows, over_budget = choice.competing(contestants, pairs.names, preferences)
    verdict = Recommendation(
        strategy=None,
        verdict="open",
        objective=preferences.objective,
        noise=known(noise),
        excluded={one.name: needs(one) for one in over_budget},
        reason="",
    )
    if not rows:
        return Decision(verdict, False, frozenset())
    certainty = choice.certainty(share)
    final = _Final(pairs, rows, preferences, certainty)
    kind = final.kind if noise is None or trusted(noise) else "untrusted"
    seconds_more = None
    if kind == "open" and pace:  # if the differences stay as they are
        grown = ((f, _Final(pairs.grown(f), rows, preferences, certainty)) for f in FACTORS)
        seconds_more = next((seconds_for(f, pairs, pace) for f, later in grown if later.settled), None)
    verdict = verdict.model_copy(update={**final.figures(), "verdict": kind, "seconds_more": seconds_more})
    outside = (one for one in final.standings if choice.surely_outside(one, preferences.indifference))
    slower = {one.contestant.name for one in outside}
    dropped = frozenset(slower | ({alias.name} if alias and alias.of in slower else set()))
    step = next_step(pairs, pace) if pace and not final.settled else None
    return Decision(verdict, final.settled, dropped, step)


class _Final:
    """The contestants that compete, as the differences between them rank them."""

    def __init__(
        self, pairs: Pairs, rows: Sequence[choice.Contestant], preferences: Preferences, certainty: float
    ) -> None:
        self.every, self.rows, self.preferences = pairs, rows, preferences
        self.pairs = pairs.among([one.name for one in rows])
        rivals = max(1, len(rows) - 1)
        self.half = self.pairs.half_widths(certainty, rivals)
        one_end = self.pairs.half_widths(certainty, rivals, ends=1)
        self.standings = choice.standings(self.pairs, {one.name: one for one in rows}, one_end)
        self.fastest = sorted(self.standings, key=lambda one: (one.over_best.value, one.contestant.name))
        self.choice: choice.Choice = choice.choose(self.standings, preferences.indifference)

    @property
    def settled(self) -> bool:
        near, undecided = self.choice.near_enough, self.choice.undecided
        return bool(near) and not undecided and self.pairs.processes >= FEWEST_PROCESSES

    @property
    def kind(self) -> Verdict:
        chosen, least = self.choice.chosen, self.preferences.objective == "footprint" and len(self.rows) == 1
        if not self.choice.near_enough or (self.pairs.processes < FEWEST_PROCESSES and not least):
            return "open"
        if chosen.contestant.name == BASELINE:
            return "keep"
        return "fastest" if chosen.bound == 0 and chosen is self.fastest[0] else "near"

    def figures(self) -> dict[str, object]:
        """Fields of the recommendation. `tied_with` may be near enough, and would then be chosen; without
        any, they are those that are equal to the chosen one."""
        chosen, bound = self.choice.chosen.contestant, self.choice.chosen.bound
        first, groups = self.fastest[0].contestant, self._groups()
        equal = next(group for group in groups if chosen.name in group)
        tied = tuple(one.contestant.name for one in self.choice.undecided) or equal
        figures: dict[str, object] = {
            "strategy": chosen.name,
            "bound": bound if bound < NOTHING else None,
            "groups": groups,
            "fastest": first.name,
            "tied_with": tuple(name for name in tied if name != chosen.name),
        }
        if BASELINE in self.every.names:
            speedup = ratio(self.every.among([BASELINE, chosen.name]), choice.CONFIDENCE)
            figures |= {"speedup": speedup.value, "interval": known(speedup), "baseline": BASELINE}
        if first is not chosen:
            saved = first.physical_bytes - chosen.physical_bytes
            figures |= {"saved_bytes": saved, "faster_mix": self._faster_mix(chosen, first)}
        return figures

    def _faster_mix(self, chosen: choice.Contestant, first: choice.Contestant) -> Faster | None:
        """A mix that looks faster than the chosen uniform strategy; its interval ends at the bound."""
        at = self.pairs.names.index(chosen.name), self.pairs.names.index(first.name)
        behind = _ratio(float(self.pairs.difference[at]), float(self.half[at]))
        ends = known(replace(behind, high=min(behind.high, 1 + self.choice.chosen.bound)))
        if chosen.placements or not first.placements or ends is None:
            return None
        buffers = tuple(buffer for buffer, how in first.placements.items() if how != chosen.name)
        return Faster(strategy=first.name, buffers=buffers, ratio=behind.value, interval=ends)

    def _groups(self) -> tuple[tuple[str, ...], ...]:
        """Each joins the first group whose members are all clearly within the indifference of it."""
        inside = np.abs(self.pairs.difference) + self.half <= np.log1p(self.preferences.indifference)
        place = {name: index for index, name in enumerate(self.pairs.names)}
        groups: list[list[str]] = []
        for name in (one.contestant.name for one in self.fastest):
            home = (g for g in groups if all(inside[place[name], place[other]] for other in g))
            group = next(home, None)
            if group is None:
                groups.append(group := [])
            group.append(name)
        return tuple(map(tuple, groups))


def known(ratio: stats.Ratio | None) -> tuple[float, float] | None:
    """The interval of a ratio; None where it is too wide to be useful, as after one process."""
    return (ratio.low, ratio.high) if ratio and ratio.high <= NOTHING * ratio.low else None


def ratio(both: Pairs, confidence: float) -> stats.Ratio:
    """The first one's time over the second one's."""
    return _ratio(float(both.difference[0, -1]), float(both.half_widths(confidence, 1)[0, -1]))


def _ratio(difference: float, half: float) -> stats.Ratio:
    ends = np.exp(np.clip(difference + np.array([0, -half, half]), -700, 700))
    return stats.Ratio(*ends.tolist())


def trusted(noise: stats.Ratio) -> bool:
    """One contestant does not clearly differ from itself."""
    return noise.low <= 1 + TRUSTED and noise.high >= 1 / (1 + TRUSTED)
