"""The final: rounds over processes, looks, deaths and Ctrl-C, with fake processes and a fake clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from fakes import FakeClock

from advisor.measure.final import Held, Look, Plan, hold
from advisor.measure.final_messages import BlockDone, FinalRound, Left, Message
from advisor.measure.jobs import Problem
from advisor.profiles.blocks import Block

DIED = Problem(cause="device", message="the process was killed by SIGSEGV")
SECONDS = {"pinned": 0.010, "zero-copy": 0.012, "pageable": 0.020}


def block(process: int, request: FinalRound, place: int) -> Block:
    name = request.order[place]
    return Block(
        process=process, round=request.round, place=place, contestant=name, frames=5,
        seconds=5 * SECONDS[name], frame_seconds=(SECONDS[name],) * 5,
    )  # fmt: skip


@dataclass
class FakeSession:
    """Each block takes a second of the clock; `fails` says in which process and round who leaves how."""

    process: int
    names: tuple[str, ...]
    clock: FakeClock
    fails: Mapping[tuple[int, int, str], str]
    starts: bool = True
    closed: bool = False
    asked: list[FinalRound] = field(default_factory=list)

    def ready(self) -> bool:
        return self.starts

    def round(self, request: FinalRound) -> Iterator[Message]:
        assert not self.closed
        assert set(request.order) <= set(self.names)
        self.asked.append(request)
        for place, name in enumerate(request.order):
            self.clock.now += 1.0
            how = self.fails.get((self.process, request.round, name))
            if how == "ctrl-c":
                raise KeyboardInterrupt
            if how:
                yield Left(contestant=name, problem=DIED, broken=how == "died")
                if how == "died":
                    return
                continue
            yield BlockDone(block=block(self.process, request, place))

    def close(self) -> None:
        self.closed = True


@dataclass
class Hall:
    """A final with fake processes, and all that were ever started."""

    fails: Mapping[tuple[int, int, str], str] = field(default_factory=dict)
    dead: tuple[int, ...] = ()
    settle_at: int = 99
    drops: frozenset[str] = frozenset()
    clock: FakeClock = field(default_factory=FakeClock)
    sessions: list[FakeSession] = field(default_factory=list)
    kept: list[Block] = field(default_factory=list)
    held: Held = field(default_factory=Held)

    def run(self, seconds: float, names: Sequence[str] = tuple(SECONDS), processes: int = 2) -> Held:
        plan = Plan({name: name for name in names}, self.clock.now + seconds, processes, seed=7)
        hold(plan, self.held, self._start, lambda: self.clock.now, self._look, self.kept.append)
        return self.held

    def _start(self, process: int, names: Mapping[str, str]) -> FakeSession:
        session = FakeSession(process, tuple(names), self.clock, self.fails, process not in self.dead)
        self.sessions.append(session)
        return session

    def _look(self, blocks: Sequence[Block], number: int) -> Look:
        assert blocks == self.held.blocks
        return Look(settled=number >= self.settle_at, dropped=self.drops)


def test_every_round_is_a_random_order_of_all_in_every_process() -> None:
    hall = Hall()
    held = hall.run(60)
    assert hall.kept == held.blocks
    rounds = [(s.process, request) for s in hall.sessions for request in s.asked]
    assert {(p, r.round) for p, r in rounds} == {(p, n) for p in (0, 1) for n in range(held.rounds)}
    assert all(sorted(r.order) == sorted(SECONDS) for _, r in rounds)
    assert len({r.order for _, r in rounds}) > 2, "orders differ"
    assert hall.clock.now <= 60
    assert held.rounds == 10, "six blocks a pass"
    assert all(session.closed for session in hall.sessions)


def test_looks_come_after_twice_the_rounds_of_the_one_before() -> None:
    seen: list[int] = []
    hall = Hall()
    plan = Plan({name: name for name in SECONDS}, 6 * 33, 2, seed=7)

    def look(blocks: Sequence[Block], number: int) -> Look:
        seen.append(hall.held.rounds)
        return Look(settled=False)

    hold(plan, hall.held, hall._start, lambda: hall.clock.now, look, hall.kept.append)
    assert seen == [4, 8, 16, 32]


def test_a_settled_look_ends_it_at_once() -> None:
    held = Hall(settle_at=0).run(600)
    assert (held.settled, held.looks) == (True, 1)
    assert held.rounds < 20


def test_who_is_dropped_is_not_measured_again() -> None:
    hall = Hall(drops=frozenset(("pageable",)))
    held = hall.run(300)
    last = max(b.round for b in held.blocks if b.contestant == "pageable")
    assert last < held.rounds - 1
    assert {b.contestant for b in held.blocks if b.round > last} == {"pinned", "zero-copy"}


@pytest.mark.parametrize("how", ["left", "died"])
def test_who_leaves_leaves_all_processes_and_the_final_goes_on(how: str) -> None:
    hall = Hall(fails={(1, 2, "pinned"): how})
    held = hall.run(120)
    assert held.left == {"pinned": DIED}
    assert {b.contestant for b in held.blocks if b.round > 2} == {"zero-copy", "pageable"}
    again = [s for s in hall.sessions if s.process == 1]
    assert len(again) == (2 if how == "died" else 1)
    if how == "died":
        assert again[0].closed
        assert again[1].names == ("zero-copy", "pageable")


def test_a_process_that_cannot_start_is_left_out() -> None:
    hall = Hall(dead=(1,))
    held = hall.run(120, processes=3)
    assert {b.process for b in held.blocks} == {0, 2}
    assert Hall(dead=(0,)).run(120).blocks == [], "one process is no final"


def test_ctrl_c_keeps_the_blocks_that_ended() -> None:
    hall = Hall(fails={(0, 1, "zero-copy"): "ctrl-c"})
    with pytest.raises(KeyboardInterrupt):
        hall.run(120)
    assert hall.kept == hall.held.blocks != []
    assert all(session.closed for session in hall.sessions)


def test_time_that_is_up_begins_no_round() -> None:
    hall = Hall()
    held = hall.run(11)
    assert held.rounds == 1, "a second pass would take six seconds of the five that are left"
    assert not held.settled
