"""The final: rounds over processes, looks, deaths and Ctrl-C, with fake processes and a fake clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from every import every
from fakes import FakeClock, job
from running import CRASHED, FakeSession

from advisor.measure.final import FinalLoop, Look
from advisor.measure.jobs import FinalJob
from advisor.profiles.figures import Block
from advisor.verdicts.final import Step

SECONDS = {"pinned": 0.010, "zero-copy": 0.012, "pageable": 0.020}
AGAIN = " (again)"


@dataclass
class Hall:
    """A final with fake processes, and all that were ever started. A start takes a second, and so does each
    block. `fails`: in which process and round who leaves how; `alone`: who does by itself."""

    fails: Mapping[tuple[int, int, str], str] = field(default_factory=dict)
    alone: Mapping[str, str] = field(default_factory=dict)
    dead: tuple[int, ...] = ()
    settle_at: int = 99
    drops: frozenset[str] = frozenset()
    steps: tuple[Step, ...] = (Step(2, 3), Step(3, 4), Step(4, 4), Step(1, 1))
    clock: FakeClock = field(default_factory=FakeClock)
    sessions: list[FakeSession] = field(default_factory=list)
    kept: list[Block] = field(default_factory=list)
    held: FinalLoop = field(init=False)
    warming: tuple[float, ...] = ()
    shares: list[float] = field(default_factory=list)

    def run(self, seconds: float, names: Sequence[str] = tuple(SECONDS), processes: int = 2) -> FinalLoop:
        self.held = FinalLoop(
            start=self._start,
            clock=lambda: self.clock.now,
            seed=7,
            contestants={name: name.removesuffix(AGAIN) for name in names},
            frame_seconds=0.01,
            least_processes=processes,
            keep=self.kept.append,
        )
        self.held.run(self.clock.now + seconds, self._look)
        assert all(session.closed for session in self.sessions)
        assert self.kept == self.held.blocks
        return self.held

    def _start(self, process: int, names: Sequence[str]) -> FakeSession:
        assert all(session.closed for session in self.sessions), "one process at a time"
        self.clock.now += 1.0
        request = FinalJob(
            base=job(), process=process, contestants={name: name.removesuffix(AGAIN) for name in names},
            frames=5, block_seconds=0.05, directory="",
        )  # fmt: skip
        session = FakeSession(
            request, SECONDS, self.alone if len(names) == 1 else self.fails, self.clock.advance,
            process not in self.dead, each=1.0, warming=self.warming,
        )  # fmt: skip
        self.sessions.append(session)
        return session

    def _look(self, blocks: Sequence[Block]) -> Look:
        assert blocks == self.held.blocks
        numbers = {session.job.process for session in self.sessions}
        assert self.held.pace.process_seconds == len(self.sessions) / len(numbers)
        self.shares.append(self.held.share)
        return Look(self.held.looks >= self.settle_at, self.drops, self.steps[self.held.looks])


def test_every_round_is_a_random_order_of_all_and_each_look_tells_the_next_step() -> None:
    """The first step comes from the time: two processes and an eighth of it. The last takes what is left."""
    hall = Hall()
    held = hall.run(1000)
    asked = [len(session.asked) for session in hall.sessions]
    assert asked[0] == asked[1] > 3
    assert asked[2:7] == [3, 3, 4, 4, 4]
    assert set(asked[7:]) == {4}
    assert 1000 - hall.clock.now < 1 + 4 * len(SECONDS), "no other process would fit"
    orders = [request.order for session in hall.sessions for request in session.asked]
    assert all(sorted(order) == sorted(SECONDS) for order in orders)
    assert len(set(orders)) > 2, "orders differ"
    assert (held.looks, held.rounds) == (4, len(orders))


def test_four_looks_share_the_error_and_the_last_has_what_is_left() -> None:
    hall = Hall()
    held = hall.run(1000)
    assert hall.shares == [1 / 8, 1 / 8, 1 / 4, 1 / 2]
    assert held.share == 1 / 2
    cut = Hall()
    assert cut.run(60).looks == 3, "the time is up in the third step"
    assert cut.shares == [1 / 8, 1 / 8, 3 / 4]
    settled = Hall(settle_at=1)
    assert settled.run(1000).share == 1 / 8


def test_the_first_round_tells_how_many_frames_do_not_count() -> None:
    hall = Hall(warming=(0.02, 0.02, 0.01, 0.01, 0.01, 0.01))
    hall.run(1000)
    frames = [request.warm_frames for session in hall.sessions for request in session.asked]
    assert frames == [6, *[2] * (len(frames) - 1)], "60 ms of frames of 10 ms, then two"


def test_who_is_dropped_is_not_measured_again() -> None:
    hall = Hall(drops=frozenset(("pageable",)))
    hall.run(1000)
    assert {name for s in hall.sessions[:2] for r in s.asked for name in r.order} == set(SECONDS)
    assert {name for s in hall.sessions[2:] for r in s.asked for name in r.order} == {"pinned", "zero-copy"}


@every("how", ["leaves", "dies"])
def test_who_breaks_alone_too_leaves_the_final_and_that_goes_on(how: str) -> None:
    hall = Hall(fails={(1, 2, "pinned"): how}, alone={"pinned": how})
    held = hall.run(1000)
    assert (held.left, held.alone) == ({"pinned": CRASHED}, {})
    assert {b.contestant for b in held.blocks if b.process > 1} == {"zero-copy", "pageable"}
    rounds = len(hall.sessions[1].asked)
    assert rounds == (3 if how == "dies" else len(hall.sessions[0].asked)), "a dead process is replaced"
    alone = [session for session in hall.sessions if [*session.job.contestants] == ["pinned"]]
    assert [len(session.asked) for session in alone] == [1], "it is not tried a third time"


@every("how", ["leaves", "dies"])
def test_who_breaks_in_company_goes_on_in_processes_of_its_own(how: str) -> None:
    hall = Hall(fails={(1, 2, "pinned"): how})
    held = hall.run(1000)
    assert (held.left, held.alone) == ({}, {"pinned": CRASHED})
    later = {b.process for b in held.blocks} - {0, 1}
    for process in later - {max(later)}:  # the time may cut the last one short
        rounds = [[r.order for r in s.asked] for s in hall.sessions if s.job.process == process]
        assert [{name for order in each for name in order} for each in rounds] == [
            {"zero-copy", "pageable"}, {"pinned"},
        ]  # fmt: skip
        assert len(rounds[0]) == len(rounds[1]), "a block for each of theirs"
    places = [(b.process, b.round, b.contestant) for b in held.blocks]
    assert len(set(places)) == len(places)


def test_what_broke_is_tried_alone_though_the_others_have_settled() -> None:
    hall = Hall(fails={(1, 1, "pinned"): "leaves"}, settle_at=0)
    held = hall.run(1000)
    assert (held.settled, held.looks, list(held.alone), held.left) == (True, 2, ["pinned"], {})
    assert {b.contestant for b in held.blocks if b.process > 1} == set(SECONDS)


def test_a_second_name_leaves_with_its_own_and_is_not_tried_alone() -> None:
    names = (*SECONDS, "pinned (again)")
    hall = Hall(fails={(0, 1, "pinned"): "leaves"})
    held = hall.run(1000, names)
    assert (list(held.left), list(held.alone)) == (["pinned (again)"], ["pinned"])
    hall = Hall(fails={(0, 1, "pinned (again)"): "dies"})
    held = hall.run(1000, names)
    assert (list(held.left), held.alone) == (["pinned (again)"], {})
    assert "pinned" in {b.contestant for b in held.blocks if b.process > 1}


def test_a_process_that_cannot_start_is_tried_again() -> None:
    hall = Hall(dead=(1,))
    held = hall.run(1000)
    assert 1 not in {b.process for b in held.blocks}
    assert held.looks == 4
    assert Hall(dead=(0, 1, 2)).run(1000).blocks == []


def test_ctrl_c_keeps_the_blocks_that_ended() -> None:
    hall = Hall(fails={(0, 1, "zero-copy"): "ctrl-c"})
    with pytest.raises(KeyboardInterrupt):
        hall.run(1000)
    assert hall.kept == hall.held.blocks != []
    assert all(session.closed for session in hall.sessions)


@every("seconds", [0.5, 3.0, 11.0, 26.0, 50.0])
def test_no_round_begins_that_would_end_too_late(seconds: float) -> None:
    """But for the first, whose time nobody knows."""
    hall = Hall()
    held = hall.run(seconds)
    assert hall.clock.now <= max(seconds, 4.0)
    assert not held.settled
