"""The final: processes that each hold all contestants, asked for rounds of blocks until it is settled.

Every round is a random order of all contestants that are left. After each step (some processes, some rounds
in each) the figures are looked at, and what they say tells the next step. What is measured is handed on block
by block.

A contestant that fails beside the others goes on in separate processes, one beside each of theirs
and with as many rounds. One that fails again leaves the final.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from advisor.measure.jobs import BlockDone, FinalRound, Problem
from advisor.measure.sampling import settled
from advisor.measure.sessions import RoundResults, Session, SessionLoop
from advisor.profiles.figures import Block
from advisor.strategies.registry import BASELINE
from advisor.verdicts.final import FEWEST_PROCESSES, LOOKS, SPENDING, Pace, Step, first_step

LEAST = 2
"""Contestants: with one there is nothing to compare."""
LEAST_WARM, MOST_WARM = 0.005, 0.06
"""Seconds of frames that do not count before a block; the first round has the most, and tells how many there
must be: on an H200 the first 10 to 20 ms after placing the buffers again are up to a third slower. The frame
that ran when the buffers were placed counts as one of them."""
MOST_STARTS = 3
"""Processes in a row that may fail to start."""


@dataclass(frozen=True)
class Look:
    """What a look at the blocks concluded: whether to stop, who is not measured until the next one, what is
    next."""

    settled: bool
    dropped: frozenset[str] = frozenset()
    step: Step | None = None


@dataclass(frozen=True)
class Plan:
    contestants: Mapping[str, str]
    """Name to strategy."""
    deadline: float
    """On the clock: no round begins that would end after it."""
    processes: int
    """The least number, where the time allows them."""
    seed: int
    frame_seconds: float
    """A frame of the quickest contestant."""
    same_work: bool = True
    """All do the same work, so that their loops must run as often; versions of the code need not."""
    most_warm: float = MOST_WARM
    all_or_none: bool = False
    """The first contestant that fails ends the final."""


class ContestantFailed(Exception):
    """One failed in a final of all or none."""


@dataclass
class FinalState(RoundResults):
    alone: dict[str, Problem] = field(default_factory=dict)
    """Why contestants in separate processes failed beside the others; they are in `left` until they have
    a block."""
    looks: int = 0
    share: float = 1.0
    """What the last look spends of the error that the verdict may make: all that earlier ones left."""
    rounds: int = 0
    """In all processes."""
    settled: bool = False
    warm_frames: int | None = None
    """Frames before a block that do not count: those of the first round until contestants had settled; None
    before it ended."""
    pace: Pace | None = None


def unequal(
    blocks: Sequence[Block], process: int, number: int, contestants: Mapping[str, str]
) -> Iterator[tuple[str, Problem]]:
    """Contestants whose loops ran otherwise in that round than the baseline's (or else the first one's) over
    the same frames: another amount of work, so that times cannot be compared."""
    latest = takewhile(lambda block: block.process == process, reversed(blocks))
    of_round = [b for b in latest if b.round == number and b.contestant in contestants and not b.energy]
    here = {block.contestant: block for block in reversed(of_round)}
    name = next((n for n in here if contestants[n] == BASELINE), next(iter(here), None))
    for other, block in here.items():
        for loop, mean in block.iterations.items():
            expected = here[name].iterations.get(loop, mean) if name else mean
            if not math.isclose(mean, expected):
                message = (
                    f"{loop} ran {mean:g} iterations per frame; over the same frames {name} ran {expected:g}"
                )
                yield other, Problem(cause="differs", message=message)
                break


@dataclass(kw_only=True)
class FinalLoop(SessionLoop):
    results: FinalState
    plan: Plan
    start: Callable[[int, Mapping[str, str]], Session]
    """Makes the process of that number with those contestants."""
    keep: Callable[[Block], None] = lambda _: None
    """Hears of every block as it ends."""
    dropped: frozenset[str] = frozenset()
    beside: tuple[str, ...] = ()
    """Contestants with a separate process beside the one that runs."""
    processes: int = 0
    """Started so far; the number of the next."""
    rounds: int = 0
    """In the process that runs."""
    warming: list[Sequence[float]] = field(default_factory=list)
    """Seconds of the frames before each block of the last round."""

    def hold(self, look: Callable[[Sequence[Block]], Look]) -> None:
        """Fills the results until a look at all blocks says that it is settled or the time is up; Ctrl-C
        leaves what there is. Raises `ContestantFailed` where that ends it."""
        state = self.results
        try:
            step = self.first()
            while step is not None:
                complete = self.take(step)
                if state.pace is None or not state.blocks:
                    return
                left, goes_on = state.share, complete and state.looks + 1 < LOOKS
                state.share = SPENDING[state.looks] if goes_on else left
                conclusion = look(state.blocks)
                state.looks = state.looks + 1
                state.settled = conclusion.settled
                self.dropped = conclusion.dropped
                step = self.after(conclusion) if goes_on else None
                if step is not None:
                    state.share = left - state.share
        finally:
            self.close()

    @property
    def active(self) -> list[str]:
        gone = self.results.left.keys() | self.results.alone.keys() | self.dropped
        company = [name for name in self.plan.contestants if name not in gone]
        return company + [name for name in self.results.alone if name not in self.dropped]

    @property
    def company(self) -> list[str]:
        return [name for name in self.active if name not in self.results.alone] or self.active[:1]

    def first(self) -> Step | None:
        """One round of the first process tells what measuring costs, and so how the time is best spent."""
        if not self._open_next() or not self._round():
            return None
        assert self.results.pace is not None
        return first_step(self.plan.deadline - self.clock(), self.results.pace)

    def take(self, step: Step) -> bool:
        """Its processes and rounds; False where the time was up, or nobody was left, before."""
        for _ in range(step.processes):
            if self.session is None and not self._open_next():
                return False
            while self.rounds < step.rounds:
                if not self._round():
                    return False
            self.close()
            complete = all(self._by_itself(name, step.rounds) for name in self.beside)
            self._note_pace()
            if not complete:
                return False
        return True

    def after(self, conclusion: Look) -> Step | None:
        """The next step; one more process where it is settled with fewer than are asked for."""
        if not conclusion.settled:
            step = conclusion.step
            last = self.results.looks == LOOKS - 1
            return self._last(step) if step and last else step
        untried = self.results.alone.keys() & self.results.left.keys()
        missing = max(self.plan.processes - self.processes, FEWEST_PROCESSES if untried else 0)
        rounds = max(1, round(self.results.rounds / max(self.processes, 1)))
        return Step(missing, rounds) if missing > 0 else None

    def _last(self, step: Step) -> Step:
        """Before the last look all the time that is left is spent, in processes of that many rounds."""
        pace = self.results.pace
        assert pace is not None
        share = len(self.active) / len(self.plan.contestants)
        each = pace.process_seconds + step.rounds * pace.round_seconds * share
        return Step(max(step.processes, int((self.plan.deadline - self.clock()) / each)), step.rounds)

    def _open_next(self) -> bool:
        """The next process, ready. One that cannot start, for want of memory say, is tried again."""
        for _ in range(MOST_STARTS):
            if len(self.active) < LEAST or not self._in_time(1, self.active):
                return False
            names = self.company
            self.beside = tuple(name for name in self.active if name not in names)
            self.processes, self.rounds = self.processes + 1, 0
            if self._start(names):
                return True
        return False

    def _start(self, names: Sequence[str]) -> bool:
        contestants = {name: self.plan.contestants[name] for name in names}
        return self.open(lambda: self.start(self.processes - 1, contestants))

    def _round(self) -> bool:
        """A block of everybody who is left; False where there is no time for one, or nobody to compare."""
        names = self.company
        if len(self.active) < LEAST or not self._in_time(0, names):
            return False
        self._ask(names, self.rounds)
        if self.company != names and self.results.alone.keys() >= set(self.company):
            self.close()  # nobody is left who shares it
        if self.results.warm_frames is None:
            least = math.ceil(max(LEAST_WARM / self.plan.frame_seconds - 1, 0))
            self.results.warm_frames = max(least, settled(frames for frames in self.warming if frames))
        self.rounds, self.results.rounds = self.rounds + 1, self.results.rounds + 1
        self._note_pace()
        return not self.results.unmeasurable and (self.session is not None or self._open_next())

    def _note_pace(self) -> None:
        """What a process costs, with those beside it, and a round."""
        self.results.pace = Pace(self.starting / self.processes, self.measuring / self.results.rounds)

    def _by_itself(self, name: str, rounds: int) -> bool:
        """Rounds of one that failed beside the others; False if the time is up before."""
        if not self._in_time(1, [name]):
            return False
        if not self._start([name]):
            if self.clock() >= self.plan.deadline:
                return False
            self.leave(name, Problem(cause="device", message="its own process did not start"))
        for number in range(rounds):
            if self.session is None or name not in self.results.alone:
                break
            if not self._in_time(0, [name]):
                return False
            self._ask([name], number)
        self.close()
        return True

    def _ask(self, names: Sequence[str], number: int) -> None:
        generator = random.Random(f"{self.plan.seed}-{self.processes}-{number}")
        order, strategy_of = generator.sample(names, len(names)), self.plan.contestants
        if not self.plan.same_work:  # versions under one strategy, which are compared, follow one another
            strategies = [strategy_of[name] for name in order]
            order.sort(key=lambda name: strategies.index(strategy_of[name]))
        warm = self.results.warm_frames
        if warm is None:
            warm = math.ceil(self.plan.most_warm / self.plan.frame_seconds)
        warm = max(warm, int(self.results.kept_setup))  # the others ran since
        self.warming = []
        self.ask(FinalRound(round=number, order=tuple(order), warm_frames=warm))
        contestants = self.plan.contestants if self.plan.same_work else {}
        for name, problem in unequal(self.results.blocks, self.processes - 1, number, contestants):
            self.results.alone.pop(name, None)
            self.results.left[name] = problem

    def block(self, done: BlockDone) -> None:
        if done.block.contestant in self.results.alone:
            self.results.left.pop(done.block.contestant, None)
        super().block(done)
        self.warming.append(done.warming_seconds)
        self.keep(done.block)

    def leave(self, name: str, problem: Problem) -> None:
        """For good where it was alone, or is a second name; else its second name does so, and it goes on."""
        super().leave(name, problem)
        if self.plan.all_or_none:
            raise ContestantFailed
        if self.results.alone.pop(name, None) is None and self.plan.contestants[name] == name:
            self.results.alone[name] = problem
            others = (other for other, of in self.plan.contestants.items() if of == name != other)
            self.results.left |= dict.fromkeys(others, problem)

    def _in_time(self, starts: int, names: Sequence[str]) -> bool:
        pace = self.results.pace
        if pace is None:
            return self.clock() < self.plan.deadline
        each = pace.round_seconds * len(names) / len(self.plan.contestants)
        return self.clock() + starts * pace.process_seconds + each <= self.plan.deadline
