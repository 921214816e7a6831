"""The final: processes that each hold all contestants, asked for rounds of blocks until it is settled.

Every round is a random order of all contestants that are left. All processes have the same number of rounds
behind them at each look. What is measured is handed on block by block.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from advisor.measure.final_messages import BlockDone, FinalRound, Left, Message
from advisor.measure.jobs import Problem
from advisor.measure.sampling import Clock
from advisor.profiles.blocks import Block

PROCESSES = 5
LEAST_PROCESSES = 2
LOOKS = 4
"""Planned looks at the figures, each after twice the rounds of the one before; the estimate pays for them."""


class Session(Protocol):
    """A process of the final that waits for rounds."""

    def round(self, request: FinalRound) -> Sequence[Message]:
        """What the round gave; a `Left` for a contestant whose process died or hung, and then no more."""

    def close(self) -> None:
        """Ends the process."""


@dataclass(frozen=True)
class Look:
    """What a look at the blocks concluded: whether to stop, and who need not be measured any more."""

    settled: bool
    dropped: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Plan:
    """Who is in the final, and how long it may take."""

    contestants: Mapping[str, str]
    """Name to strategy."""
    deadline: float
    """On the clock: no round begins that would end after it."""
    processes: int
    seed: int


@dataclass
class Held:
    """What the final gave so far."""

    blocks: list[Block] = field(default_factory=list)
    left: dict[str, Problem] = field(default_factory=dict)
    looks: int = 0
    rounds: int = 0
    """Of each process."""
    settled: bool = False


def hold(
    plan: Plan,
    held: Held,
    start: Callable[[int, Mapping[str, str]], Session],
    clock: Clock,
    look: Callable[[Sequence[Block], int], Look],
    keep: Callable[[Block], None],
) -> None:
    """Fills `held` until a look says that it is settled or the time is up; Ctrl-C leaves what there is.

    start: makes the process of that number with those contestants. look: judges all blocks so far; its second
    argument is the number of the look, from 0. keep: hears of every block as it ends.
    """
    final = _Final(plan, start, clock, keep, held)
    try:
        for rounds in final.planned():
            complete = final.rounds(rounds)
            seen = look(held.blocks, held.looks)
            held.looks, held.settled = held.looks + 1, seen.settled
            if seen.settled or not complete or len(final.active) < 2:
                return
            final.dropped |= seen.dropped
    finally:
        final.close()


@dataclass
class _Final:
    plan: Plan
    start: Callable[[int, Mapping[str, str]], Session]
    clock: Clock
    keep: Callable[[Block], None]
    held: Held
    dropped: frozenset[str] = frozenset()
    sessions: dict[int, Session] = field(default_factory=dict)
    processes: int = 0
    slowest: float = 0.0
    """Seconds of the longest pass over all processes but the first, which starts them."""

    def planned(self) -> Iterator[int]:
        """Rounds of each process at each look: doubled each time, the last when the time is about up."""
        self.processes = self._affordable()
        self.rounds(2)
        within = (self.plan.deadline - self.clock()) / max(self.slowest, 1e-6)
        first = max(int((self.held.rounds + within) / 2 ** (LOOKS - 1)), self.held.rounds, 1)
        yield from (first * 2**look for look in range(LOOKS))

    def _affordable(self) -> int:
        """Processes that the time allows: half of it at most goes by until each has had a round."""
        begin = self.clock()
        self._round(0)
        taken = self.clock() - begin
        fitting = int((self.plan.deadline - begin) / 2 / max(taken, 1e-6))
        return min(max(fitting, LEAST_PROCESSES), self.plan.processes)

    @property
    def active(self) -> dict[str, str]:
        """Contestants that are still measured."""
        gone = self.held.left.keys() | self.dropped
        return {name: strategy for name, strategy in self.plan.contestants.items() if name not in gone}

    def rounds(self, until: int) -> bool:
        """Rounds in all processes until each has that many; False where the time is up before."""
        while self.held.rounds < until:
            begin, first = self.clock(), self.held.rounds == 0
            if begin + self.slowest > self.plan.deadline:
                return False
            for process in range(first, self.processes):  # the first process has had its first round
                self._round(process)
                if len(self.active) < 2:
                    return False
            self.held.rounds += 1
            if not first:
                self.slowest = max(self.slowest, self.clock() - begin)
        return True

    def _round(self, process: int) -> None:
        names = list(self.active)
        order = random.Random(f"{self.plan.seed}-{process}-{self.held.rounds}").sample(names, len(names))
        if process not in self.sessions:
            self.sessions[process] = self.start(process, self.active)
        for message in self.sessions[process].round(FinalRound(round=self.held.rounds, order=tuple(order))):
            if isinstance(message, BlockDone):
                self.held.blocks.append(message.block)
                self.keep(message.block)
            elif isinstance(message, Left):
                self.held.left[message.contestant] = message.problem
                if message.broken:
                    self.sessions.pop(process).close()

    def close(self) -> None:
        """Ends all processes."""
        for session in self.sessions.values():
            session.close()
