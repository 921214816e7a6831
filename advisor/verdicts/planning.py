"""How many processes and rounds come next, and how many seconds more would settle it.

A look follows each doubling of the rounds: four looks share the error that may be made (`SPENDING`);
a look after every round would claim falsely in one run of seven. Own luck is averaged out by processes, noise
by rounds; the cheapest number of rounds in a process is Kalibera and Jones's, "Rigorous Benchmarking in
Reasonable Time", ISMM 2013.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from advisor.verdicts.estimate import Pairs

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


def first_step(seconds: float, pace: Pace, looks: int = LOOKS) -> Step:
    """Two processes with so few rounds that all looks fit into the time, if it allows them three rounds.

    Taken to the last look are as many processes as `next_step` starts where there is no luck.
    """
    processes = FEWEST_PROCESSES
    for _ in range(looks - 1):
        processes += math.ceil(processes / 2)
    rounds = (seconds - processes * pace.process_seconds) / pace.round_seconds / 2 ** (looks - 1)
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
    """Seconds to have `factor` times the rounds that there are."""
    step = next_step(pairs, pace)
    rounds = (factor - 1) * pairs.rounds
    return rounds * (pace.round_seconds + pace.process_seconds / step.rounds)
