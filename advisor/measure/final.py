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

from advisor.measure.jobs import BlockDone, FinalRound, Left, Message, Problem, Unmeasurable
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

    def open(self, names: Sequence[str]) -> bool:
        """The next process; False where it did not start."""
        self.processes += 1
        return self.open_beside(names)

    def open_beside(self, names: Sequence[str]) -> bool:
        """One more process of the same number."""
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
        going = all(self._receive(message) for message in self.session.round(request))
        self.measuring += self.clock() - begin
        self.round += 1
        return going

    def close(self) -> None:
        if self.session is not None:
            self.session.close()
            self.session = None

    def block(self, done: BlockDone) -> None:
        self.blocks.append(done.block)
        if done.steps:
            self.steps.append(done.block.model_copy(update={"host_seconds": done.steps}))

    def leave(self, name: str, problem: Problem) -> None:
        self.left[name] = problem

    def _receive(self, message: Message) -> bool:
        if isinstance(message, BlockDone):
            self.kept_setup |= message.kept_setup
            self.block(message)
        elif isinstance(message, Unmeasurable):
            self.unmeasurable = message.reason
            return False
        elif isinstance(message, Left):
            self.leave(message.contestant, message.problem)
            if message.broken:
                self.broken_by = message.contestant
                self.close()
                return False
        return True


@dataclass
class Alternating:
    """Versions of the code that cannot share a process: a process each, whose blocks alternate. sessions:
    each contestant's."""

    sessions: Mapping[str, Session]

    def ready(self) -> bool:
        return all(session.ready() for session in self._each)

    def round(self, request: FinalRound) -> Iterator[Message]:
        """See `Session`: each block is a request of its own to the process that has the contestant."""
        for place, name in enumerate(request.order):
            single = request.model_copy(update={"order": (name,)})
            for message in self.sessions[name].round(single):
                if isinstance(message, BlockDone):
                    block = message.block.model_copy(update={"place": place})
                    message = message.model_copy(update={"block": block})
                yield message
                if isinstance(message, Left) and message.broken:
                    return

    def close(self) -> None:
        for session in self._each:
            session.close()

    @property
    def _each(self) -> list[Session]:
        return list({id(session): session for session in self.sessions.values()}.values())


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
        what there is. Raises `ContestantFailed` where that ends it."""
        self.deadline = deadline
        try:
            step = self.first()
            while step is not None:
                complete = self.take(step)
                if self.pace is None or not self.blocks:
                    return
                left, goes_on = self.share, complete and self.looks + 1 < LOOKS
                self.share = SPENDING[self.looks] if goes_on else left
                conclusion = look(self.blocks)
                self.looks += 1
                self.settled, self.dropped = conclusion.settled, conclusion.dropped
                step = self.after(conclusion) if goes_on else None
                if step is not None:
                    self.share = left - self.share
        finally:
            self.close()

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

    def first(self) -> Step | None:
        """The first step: one round of the first process shows what measuring costs."""
        if not self._open_next() or not self._round():
            return None
        assert self.pace is not None
        return first_step(self.deadline - self.clock(), self.pace)

    def take(self, step: Step) -> bool:
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

    def after(self, conclusion: Look) -> Step | None:
        """The next step; one more process where it is settled with fewer than are asked for."""
        step, pace = conclusion.step, self.pace
        if not conclusion.settled:
            if step and pace and self.looks == LOOKS - 1:  # all the time that is left is spent
                share = len(self.active) / len(self.contestants)
                each = pace.process_seconds + step.rounds * pace.round_seconds * share
                return Step(max(step.processes, int((self.deadline - self.clock()) / each)), step.rounds)
            return step
        untried = self.alone.keys() & self.left.keys()
        missing = max(self.least_processes - self.processes, FEWEST_PROCESSES if untried else 0)
        rounds = max(1, round(self.rounds / max(self.processes, 1)))
        return Step(missing, rounds) if missing > 0 else None

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
        if not self.open_beside([name]):
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
        warm = max(warm, int(self.kept_setup))  # the others ran since
        self.warming = []
        self.ask(order, warm)
        contestants = self.contestants if self.same_work else {}
        for name, problem in unequal(self.blocks, self.processes - 1, self.round - 1, contestants):
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
        pace = self.pace
        if pace is None:
            return self.clock() < self.deadline
        each = pace.round_seconds * len(names) / len(self.contestants)
        return self.clock() + starts * pace.process_seconds + each <= self.deadline
