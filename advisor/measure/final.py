"""The final: processes that each hold all contestants, asked for rounds of blocks until it is settled.

Every round is a random order of all contestants that are left. All processes have the same number of rounds
behind them at each look. What is measured is handed on block by block.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from advisor.measure.final_messages import BlockDone, FinalRound, Left, Message, RoundDone
from advisor.measure.jobs import Problem
from advisor.measure.sampling import Clock
from advisor.profiles.blocks import Block

PROCESSES = 5
LEAST = 2
"""Of processes, and of contestants: with fewer there is nothing to compare."""
LOOKS = 4
"""Planned looks at the figures, each after twice the rounds of the one before; the estimate pays for them."""


class Session(Protocol):
    """A process of the final that waits for rounds."""

    def ready(self) -> bool:
        """Waits until it can take rounds; False where it ended before."""

    def round(self, request: FinalRound) -> Iterable[Message]:
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
    kept_setup: bool = False
    """Function and set-up ran once for each contestant and process, since they take longer than a block."""


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
        final.begin()
        for rounds in final.planned():
            complete = final.rounds(rounds)
            seen = look(held.blocks, held.looks)
            held.looks, held.settled = held.looks + 1, seen.settled
            if seen.settled or not complete or len(final.active) < LEAST:
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
    begun: float = 0.0
    """On the clock: when the first round began."""

    def begin(self) -> None:
        """Starts all processes at once; nothing is timed until each is ready."""
        for process in range(self.plan.processes):
            self.sessions[process] = self.start(process, self.active)
        for process in list(self.sessions):
            self._require_ready(process)
        self.begun = self.clock()

    def planned(self) -> Iterator[int]:
        """Rounds of each process at each look: doubled each time, the last when the time is about up."""
        self.rounds(1)
        within = (self.plan.deadline - self.clock()) / max(self.clock() - self.begun, 1e-6)
        first = max(int((1 + within) / 2 ** (LOOKS - 1)), 2)
        yield from (first * 2**look for look in range(LOOKS))

    @property
    def active(self) -> dict[str, str]:
        """Contestants that are still measured."""
        gone = self.held.left.keys() | self.dropped
        return {name: strategy for name, strategy in self.plan.contestants.items() if name not in gone}

    def rounds(self, until: int) -> bool:
        """Rounds in all processes until each has that many; False where the time is up before."""
        while self.held.rounds < until:
            for process in list(self.sessions):
                if len(self.active) < LEAST or len(self.sessions) < LEAST or not self._in_time():
                    return False
                self._round(process)
            if not self.sessions:
                return False
            self.held.rounds += 1
        return True

    def _in_time(self) -> bool:
        """A round of all that are left would end before the deadline, to judge by the blocks so far."""
        blocks = len(self.held.blocks)
        each = (self.clock() - self.begun) / blocks if blocks else 0.0
        return self.clock() + each * len(self.active) <= self.plan.deadline

    def _round(self, process: int) -> None:
        names = list(self.active)
        order = random.Random(f"{self.plan.seed}-{process}-{self.held.rounds}").sample(names, len(names))
        request = FinalRound(round=self.held.rounds, order=tuple(order))
        for message in self.sessions[process].round(request):
            if isinstance(message, BlockDone):
                self.held.blocks.append(message.block)
                self.keep(message.block)
            elif isinstance(message, RoundDone):
                self.held.kept_setup |= message.kept_setup
            elif isinstance(message, Left):
                self.held.left[message.contestant] = message.problem
                if message.broken:
                    self._restart(process)

    def _restart(self, process: int) -> None:
        """Another process in its place, with those that are left."""
        self.sessions[process].close()
        self.sessions[process] = self.start(process, self.active)
        self._require_ready(process)

    def _require_ready(self, process: int) -> None:
        """A process that cannot start, for want of memory say, is left out; the others go on."""
        if not self.sessions[process].ready():
            self.sessions.pop(process).close()

    def close(self) -> None:
        """Ends all processes."""
        for session in self.sessions.values():
            session.close()
