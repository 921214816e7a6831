"""Processes of many contestants, driven round after round: the search for a mix, the final, energy windows.

The final asks processes that each hold all contestants for rounds of blocks until it is settled. Every round
is a random order of all contestants that are left. After each step (some processes, some rounds in each) the
figures are evaluated, and the next step is chosen.

A contestant that fails beside the others goes on in separate processes, one beside each of theirs
and with as many rounds. One that fails again leaves the final.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Protocol

from advisor.measure.jobs import BlockDone, FinalRound, Left, Message, Problem
from advisor.measure.sampling import Clock, settled
from advisor.profiles.figures import Block
from advisor.strategies.registry import BASELINE
from advisor.verdicts.final import FEWEST_PROCESSES, LOOKS, SPENDING, Pace, Step, first_step

LEAST_FRAMES = 2
"""Frames of a block. More do not average out how newly placed buffers differ (4 % on an H200, frames 2 %)."""
LEAST = 2
"""Contestants: with one there is nothing to compare."""
LEAST_WARM, MOST_WARM = 0.005, 0.06
"""Seconds of frames that do not count before a block; the first round has the most, and shows how many are
needed: on an H200 the first 10 to 20 ms after placing the buffers again are up to a third slower. The frame
that ran when the buffers were placed counts as one of them."""
MOST_STARTS = 3
"""Processes in a row that may fail to start."""


class Session(Protocol):
    """A process of the final, which runs the rounds it is sent."""

    def ready(self) -> bool:
        """Waits until it can take rounds; False where it ended before."""

    def round(self, request: FinalRound) -> Iterable[Message]:
        """The answers of a round; a `Left` for a contestant whose process died or hung is the last."""

    def close(self) -> None: ...


@dataclass(kw_only=True)
class SessionLoop:
    """Drives one process at a time and collects its results; Ctrl-C leaves them as they are."""

    start: Callable[[int, Sequence[str]], Session]
    """Makes the process of that number with those contestants."""
    clock: Clock
    seed: int
    session: Session | None = None
    processes: int = 0
    round: int = 0
    """Rounds in the current process."""
    blocks: list[Block] = field(default_factory=list)
    left: dict[str, Problem] = field(default_factory=dict)
    kept_setup: bool = False
    """Function and set-up ran once for each contestant and process, since they take longer than a block."""
    unmeasurable: str = ""
    """Why energy could not be measured, where each block was to be a window for it."""
    steps: list[Block] = field(default_factory=list)
    """Versions only: blocks with what each step of a frame took after them, in place of their host stages."""
    broken_by: str = ""
    """The contestant with which the last process ended."""
    starting: float = 0.0
    """Seconds that starting processes took."""
    measuring: float = 0.0
    """Seconds that rounds took."""

    def open(self, names: Sequence[str], *, beside: bool = False) -> bool:
        """The next process, or one more of the same number; False where it did not start."""
        self.processes += not beside
        self.round, begin = 0, self.clock()
        self.session = self.start(self.processes - 1, names)
        ready = self.session.ready()
        self.starting += self.clock() - begin
        if not ready:
            self.close()
        return ready

    def in_random_order(self, names: Sequence[str]) -> list[str]:
        return random.Random(f"{self.seed}-{self.processes}-{self.round}").sample(names, len(names))

    def ask(self, order: Sequence[str], warm_frames: int) -> bool:
        """The next round, a block of each; False where the process cannot go on."""
        assert self.session is not None
        request = FinalRound(round=self.round, order=tuple(order), warm_frames=warm_frames)
        begin = self.clock()
        for message in self.session.round(request):
            if isinstance(message, BlockDone):
                self.block(message)
            elif isinstance(message, Left):
                self.leave(message.contestant, message.problem)
                if message.broken:
                    self.broken_by = message.contestant
                    self.close()
                    break
            else:
                self.unmeasurable = message.reason
                break
        self.measuring += self.clock() - begin
        self.round += 1
        return self.session is not None and not self.unmeasurable

    def close(self) -> None:
        if self.session is not None:
            self.session.close()
            self.session = None

    def block(self, done: BlockDone) -> None:
        self.kept_setup |= done.kept_setup
        self.blocks.append(done.block)
        if done.steps:
            self.steps.append(done.block.model_copy(update={"host_seconds": done.steps}))

    def leave(self, name: str, problem: Problem) -> None:
        self.left[name] = problem


@dataclass
class Alternating:
    """Versions of the code that cannot share a process: a process each, whose blocks alternate. sessions: by
    version, with which the names of its contestants begin."""

    sessions: Mapping[str, Session]

    def ready(self) -> bool:
        return all(session.ready() for session in self.sessions.values())

    def round(self, request: FinalRound) -> Iterator[Message]:
        """See `Session`: each block is a request of its own to the process that has the contestant."""
        for place, name in enumerate(request.order):
            single = request.model_copy(update={"order": (name,)})
            for message in self.sessions[name.partition(" ")[0]].round(single):
                if isinstance(message, BlockDone):
                    block = message.block.model_copy(update={"place": place})
                    message = message.model_copy(update={"block": block})
                yield message
                if isinstance(message, Left) and message.broken:
                    return

    def close(self) -> None:
        for session in self.sessions.values():
            session.close()


def frames_of_block(quickest: float, seconds: float, period: int, least: int = LEAST_FRAMES) -> int:
    """Frames in whole periods, for which the fastest contestant needs that many seconds."""
    return math.ceil(max(least, math.ceil(seconds / quickest)) / period) * period


@dataclass(frozen=True)
class Look:
    """Conclusion from the blocks so far: whether to stop, which contestants are not measured until the next
    look, and the next step."""

    settled: bool
    dropped: frozenset[str] = frozenset()
    step: Step | None = None


class ContestantFailed(Exception):
    """One failed in a final of all or none."""


def unequal(
    blocks: Sequence[Block], process: int, number: int, contestants: Mapping[str, str]
) -> Iterator[tuple[str, Problem]]:
    """Contestants whose loops ran more or fewer iterations in that round than the baseline's (or else the
    first one's) over the same frames: another amount of work, so that times cannot be compared."""
    latest = takewhile(lambda block: block.process == process, reversed(blocks))
    of_round = [b for b in latest if b.round == number and b.contestant in contestants and not b.energy]
    here = {block.contestant: block.iterations for block in reversed(of_round)}
    first = min(here, key=lambda name: contestants[name] != BASELINE, default="")
    for other, iterations in here.items():
        for loop, mean in iterations.items():
            expected = here[first].get(loop, mean)
            if not math.isclose(mean, expected):
                ran = f"{loop} ran {mean:g} iterations per frame"
                message = f"{ran}; over the same frames {first} ran {expected:g}"
                yield other, Problem(cause="differs", message=message)
                break


@dataclass(kw_only=True)
class FinalLoop(SessionLoop):
    contestants: Mapping[str, str]
    """Name to strategy."""
    frame_seconds: float
    """Time of a frame of the quickest contestant."""
    least_processes: int
    """Fewest processes, if the time allows them."""
    same_work: bool = True
    """All do the same work, so that their loops must run as often; versions of the code need not."""
    most_warm: float = MOST_WARM
    all_or_none: bool = False
    """The first contestant that fails ends the final."""
    deadline: float = 0.0
    """Clock time: no round begins that would end later."""
    keep: Callable[[Block], None] = lambda _: None
    """Called with every block as it ends."""
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
    dropped: frozenset[str] = frozenset()
    beside: tuple[str, ...] = ()
    """Contestants with a separate process beside the one that runs."""
    warming: list[Sequence[float]] = field(default_factory=list)
    """Seconds of the frames before each block of the last round."""

    def run(self, deadline: float, look: Callable[[Sequence[Block]], Look]) -> None:
        """Takes blocks until a look at all of them says that it is settled or the time is up; Ctrl-C leaves
        what there is. The first step follows from one round of the first process, which shows what measuring
        costs. Raises `ContestantFailed` where that ends it."""
        self.deadline = deadline
        try:
            step = None
            if self._open_next() and self._round() and self.pace:
                step = first_step(self.deadline - self.clock(), self.pace)
            while step is not None:
                complete = self._take(step)
                if self.pace is None or not self.blocks:
                    return
                left, goes_on = self.share, complete and self.looks + 1 < LOOKS
                self.share = SPENDING[self.looks] if goes_on else left
                conclusion = look(self.blocks)
                self.looks += 1
                self.settled, self.dropped = conclusion.settled, conclusion.dropped
                step = self._after(conclusion, self.pace) if goes_on else None
                if step is not None:
                    self.share = left - self.share
        finally:
            self.close()

    @property
    def measured_alone(self) -> dict[str, Problem]:
        return {name: problem for name, problem in self.alone.items() if name not in self.left}

    @property
    def active(self) -> list[str]:
        """Contestants still measured; those in separate processes last."""
        gone = self.left.keys() | self.alone.keys() | self.dropped
        company = [name for name in self.contestants if name not in gone]
        return company + [name for name in self.alone if name not in self.dropped]

    @property
    def company(self) -> list[str]:
        """Contestants of the next process: all that can share one, else a single one."""
        return [name for name in self.active if name not in self.alone] or self.active[:1]

    def _take(self, step: Step) -> bool:
        """Runs the processes and rounds of a step; False if the time was up, or nobody was left, before."""
        for _ in range(step.processes):
            if self.session is None and not self._open_next():
                return False
            while self.round < step.rounds:
                if not self._round():
                    return False
            self.close()
            complete = all(self._by_itself(name, step.rounds) for name in self.beside)
            self._note_pace()
            if not complete:
                return False
        return True

    def _after(self, conclusion: Look, pace: Pace) -> Step | None:
        """The next step; one more process where it is settled with fewer than are asked for."""
        step = conclusion.step
        if not conclusion.settled:
            if step and self.looks == LOOKS - 1:  # all the time that is left is spent
                share = len(self.active) / len(self.contestants)
                each = pace.process_seconds + step.rounds * pace.round_seconds * share
                return Step(max(step.processes, int((self.deadline - self.clock()) / each)), step.rounds)
            return step
        untried = self.alone.keys() & self.left.keys()
        missing = max(self.least_processes - self.processes, FEWEST_PROCESSES if untried else 0)
        return Step(missing, max(1, round(self.rounds / self.processes))) if missing > 0 else None

    def _open_next(self) -> bool:
        """The next process, ready. One that cannot start, for want of memory say, is tried again."""
        for _ in range(MOST_STARTS):
            if len(self.active) < LEAST or not self._in_time(1, self.active):
                return False
            names = self.company
            self.beside = tuple(name for name in self.active if name not in names)
            if self.open(names):
                return True
        return False

    def _round(self) -> bool:
        """A block of each contestant left; False if there is no time for it, or nothing to compare."""
        names = self.company
        if len(self.active) < LEAST or not self._in_time(0, names):
            return False
        self._ask(names)
        if self.company != names and self.alone.keys() >= set(self.company):
            self.close()  # nobody is left who shares it
        if self.warm_frames is None:
            least = math.ceil(max(LEAST_WARM / self.frame_seconds - 1, 0))
            self.warm_frames = max(least, settled(frames for frames in self.warming if frames))
        self.rounds += 1
        self._note_pace()
        return not self.unmeasurable and (self.session is not None or self._open_next())

    def _note_pace(self) -> None:
        """What a process costs, with those beside it, and a round."""
        self.pace = Pace(self.starting / self.processes, self.measuring / self.rounds)

    def _by_itself(self, name: str, rounds: int) -> bool:
        """Rounds of one that failed beside the others; False if the time is up before."""
        if not self._in_time(1, [name]):
            return False
        if not self.open([name], beside=True):
            if self.clock() >= self.deadline:
                return False
            self.leave(name, Problem(cause="device", message="its own process did not start"))
        while self.session is not None and name in self.alone and self.round < rounds:
            if not self._in_time(0, [name]):
                return False
            self._ask([name])
        self.close()
        return True

    def _ask(self, names: Sequence[str]) -> None:
        order = self.in_random_order(names)
        if not self.same_work:  # versions under one strategy, which are compared, follow one another
            strategies = [self.contestants[name] for name in order]
            order.sort(key=lambda name: strategies.index(self.contestants[name]))
        warm = self.warm_frames
        if warm is None:
            warm = math.ceil(self.most_warm / self.frame_seconds)
        self.warming = []
        self.ask(order, max(warm, int(self.kept_setup)))  # the others ran since
        if self.same_work:
            found = unequal(self.blocks, self.processes - 1, self.round - 1, self.contestants)
            for name, problem in found:
                self.alone.pop(name, None)
                self.left[name] = problem

    def block(self, done: BlockDone) -> None:
        if done.block.contestant in self.alone:
            self.left.pop(done.block.contestant, None)
        super().block(done)
        self.warming.append(done.warming_seconds)
        self.keep(done.block)

    def leave(self, name: str, problem: Problem) -> None:
        """Removes it for good if it had a separate process or is a second name. Otherwise it goes on in a
        separate process, and its second name is removed."""
        super().leave(name, problem)
        if self.all_or_none:
            raise ContestantFailed
        if self.alone.pop(name, None) is None and self.contestants[name] == name:
            self.alone[name] = problem
            others = (other for other, of in self.contestants.items() if of == name != other)
            self.left |= dict.fromkeys(others, problem)

    def _in_time(self, starts: int, names: Sequence[str]) -> bool:
        if self.pace is None:
            return self.clock() < self.deadline
        each = self.pace.round_seconds * len(names) / len(self.contestants)
        return self.clock() + starts * self.pace.process_seconds + each <= self.deadline
