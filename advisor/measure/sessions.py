"""Processes of many contestants, driven round after round: screening's search, the final, energy windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from advisor.measure.jobs import BlockDone, FinalRound, Left, Message, Problem, RoundDone, Unmeasurable
from advisor.measure.sampling import Clock
from advisor.profiles.figures import Block

LEAST_FRAMES = 2
"""Frames of a block. More do not average out how newly placed buffers differ (4 % on an H200, frames 2 %)."""


class Session(Protocol):
    """A process that waits for rounds."""

    def ready(self) -> bool:
        """Waits until it can take rounds; False where it ended before."""

    def round(self, request: FinalRound) -> Iterable[Message]:
        """The round's messages; a `Left` for a contestant whose process died or hung is the last."""

    def close(self) -> None:
        """Ends the process."""


@dataclass
class RoundResults:
    """The results of the rounds so far; Ctrl-C leaves them as they are."""

    blocks: list[Block] = field(default_factory=list)
    left: dict[str, Problem] = field(default_factory=dict)
    kept_setup: bool = False
    """Function and set-up ran once for each contestant and process, since they take longer than a block."""
    unmeasurable: str = ""
    """Why energy could not be measured, where each block was to be a window for it."""
    steps: list[Block] = field(default_factory=list)
    """Versions only: blocks with what each step of a frame took after them, in place of their host stages."""


@dataclass
class SessionLoop:
    """Drives one process at a time and collects its results."""

    results: RoundResults
    clock: Clock
    deadline: float = math.inf
    """A round that still runs then is abandoned."""
    session: Session | None = None
    broken_by: str = ""
    """The contestant with which the last process ended."""
    starting: float = 0.0
    """Seconds that starting processes took."""
    measuring: float = 0.0
    """Seconds that rounds took."""

    def run(self, start: Callable[[], Session], requests: Iterable[FinalRound]) -> bool:
        """One process, from its start over these rounds to its end; False where it did not start. requests:
        each is asked for when the round before it has ended, so that it may depend on it."""
        try:
            ready = self.open(start)
            for request in requests if ready else ():
                if not self.ask(request):
                    break
            return ready
        finally:
            self.close()

    def open(self, start: Callable[[], Session]) -> bool:
        begin = self.clock()
        self.session = start()
        ready = self.session.ready()
        self.starting += self.clock() - begin
        if not ready:
            self.close()
        return ready

    def ask(self, request: FinalRound) -> bool:
        assert self.session is not None
        begin = self.clock()
        going = all(self._receive(message) for message in self.session.round(request))
        self.measuring += self.clock() - begin
        return going

    def close(self) -> None:
        if self.session is not None:
            self.session.close()
            self.session = None

    def block(self, done: BlockDone) -> None:
        self.results.blocks.append(done.block)
        if done.steps:
            self.results.steps.append(done.block.model_copy(update={"host_seconds": done.steps}))

    def leave(self, name: str, problem: Problem) -> None:
        self.results.left[name] = problem

    def _receive(self, message: Message) -> bool:
        if isinstance(message, BlockDone):
            self.block(message)
            return self.clock() <= self.deadline
        if isinstance(message, RoundDone):
            self.results.kept_setup |= message.kept_setup
        elif isinstance(message, Unmeasurable):
            self.results.unmeasurable = message.reason
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
        complete = False
        for place, name in enumerate(request.order):
            single = request.model_copy(update={"order": (name,)})
            for message in self.sessions[name].round(single):
                if isinstance(message, RoundDone):
                    complete |= message.kept_setup
                    continue
                if isinstance(message, BlockDone):
                    block = message.block.model_copy(update={"place": place})
                    message = message.model_copy(update={"block": block})
                yield message
                if isinstance(message, Left) and message.broken:
                    return
        yield RoundDone(round=request.round, kept_setup=complete)

    def close(self) -> None:
        for session in self._each:
            session.close()

    @property
    def _each(self) -> list[Session]:
        return list({id(session): session for session in self.sessions.values()}.values())


def frames_of_block(quickest: float, seconds: float, period: int, least: int = LEAST_FRAMES) -> int:
    """Whole periods, so that the quickest contestant's take that many seconds."""
    return math.ceil(max(least, math.ceil(seconds / quickest)) / period) * period
