"""The search for a better mix: what it tries, when it does not, what enters the final, what is claimed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from builders import cuda_device, measured, profile, recommendation, vector_add_workload
from every import every
from fakes import FakeClock, RecordingBackend, final_process, job
from running import REPOSITORY, FakeLauncher, FakeSession, asked, measured_run, sample

from advisor import pipeline
from advisor.measure import measurement
from advisor.measure.jobs import FinalJob, FinalRound, Job, Settings
from advisor.measure.launcher import Ended
from advisor.measure.measurement import Measurement
from advisor.measure.progress import Silent
from advisor.measure.search import MixSearch, no_search
from advisor.profiles import reading
from advisor.profiles.conclusions import Recommendation
from advisor.profiles.figures import Search, Tried
from advisor.profiles.schema import Profile
from advisor.report.blocks import Table
from advisor.report.mixes import buffers
from advisor.strategies.mixes import every_mix, known
from advisor.strategies.registry import STRATEGIES
from advisor.verdicts.reasons import with_mixes

Costs = Mapping[str, Mapping[str, float]]
WORKLOAD = vector_add_workload()
EVEN: Costs = {name: {"pinned": 1.0, "zero-copy": 1.01, "managed-prefetch": 1.02} for name in "abc"}
MIXED: Costs = {
    "a": {"pinned": 1.0, "zero-copy": 3.0},
    "b": {"pinned": 1.0, "zero-copy": 0.2},
    "c": {"pinned": 1.0, "zero-copy": 0.1},
}
"""Milliseconds of a frame that a buffer costs; 2 where a placement is not named."""

POOL = ("pageable", "pinned", "zero-copy", "managed-prefetch")


def seconds_of(job: Job, name: str, costs: Costs) -> float:
    strategy = known(name, job.mixes)
    placed = {s: s for s in POOL}
    uniform = placed.get(strategy.name, "other")
    assigned = getattr(strategy, "assigned", lambda _: dict.fromkeys("abc", uniform))(WORKLOAD)
    return sum(costs[buffer].get(how, 2.0) for buffer, how in assigned.items()) / 1000


def session(made: FinalJob, costs: Costs, clock: FakeClock | None = None) -> FakeSession:
    seconds = {s: seconds_of(made.base, s, costs) for s in made.contestants.values()}
    return FakeSession(made, seconds, wait=clock.advance if clock else time.sleep)


def slow(made: FinalJob, clock: FakeClock) -> FakeSession:
    """Its blocks take 0.3 s each, until its time is over."""
    end = clock.now + made.limit_seconds
    return replace(session(made, MIXED, clock), each=0.3, over=lambda: clock.now > end)


def searched(costs: Costs, seconds: float = 30.0, **options: object) -> tuple[object, list[dict[str, str]]]:
    clock = FakeClock()
    given = {
        "workload": WORKLOAD,
        "device": cuda_device(),
        "base": job(),
        "mode": "auto",
        "screened": {name: seconds_of(job(), name, costs) for name in POOL},
        "likely": None,
        "session": lambda made: session(made, costs, clock),
        "clock": clock,
        "directory": Path("/nowhere"),
        **options,
    }
    return MixSearch(**given).run(seconds)


@every(("mode", "tried"), [("auto", range(1, 60)), ("exhaustive", (60,))])
def test_it_finds_the_best_of_all_mixes_of_costs_that_add_up(mode: str, tried: Sequence[int]) -> None:
    record, best = searched(MIXED, mode=mode)
    assert best[0] == {"a": "pinned", "b": "zero-copy", "c": "zero-copy"}
    assert record.over == "pinned"
    assert record.tried[0].gain == pytest.approx(3.0 / 1.3, rel=0.02)
    assert record.tried[0].most > record.tried[0].gain
    assert record.mixes == 4**3 - 4 == len(list(every_mix(dict.fromkeys("abc", POOL))))
    assert len(record.tried) in tried


@every(("mode", "seconds"), [("auto", 3.0), ("exhaustive", 3.0), ("exhaustive", 8.0)])
def test_it_ends_within_its_time_whatever_a_block_takes(mode: str, seconds: float) -> None:
    clock = FakeClock()
    record, _ = searched(MIXED, seconds, mode=mode, clock=clock, session=lambda made: slow(made, clock))
    assert record.seconds <= seconds + 0.5, "the block that runs ends"
    assert 0 < len(record.tried) < record.mixes
    assert record.reason == "time ran out"


def test_the_models_order_comes_first_and_what_is_surely_slower_is_left_out() -> None:
    asked_first: list[tuple[str, ...]] = []

    def noted(made: FinalJob) -> FakeSession:
        asked_first.append(tuple(made.contestants))
        return session(made, MIXED, clock)

    clock = FakeClock()
    likely = lambda placed: [0.0 if each == wanted else 1.0 for each in placed]  # noqa: E731
    wanted = {"a": "pinned", "b": "pinned", "c": "zero-copy"}
    record, _ = searched(MIXED, session=noted, clock=clock, likely=likely)
    assert asked_first[0][1] == "a: pinned, b: pinned, c: zero-copy"
    rounds = {tuple(one.placements.values()): one.rounds for one in record.tried}
    assert rounds["zero-copy", "pinned", "pinned"] < max(rounds.values())


def test_a_mix_that_fails_is_not_tried_again_and_no_time_is_no_claim() -> None:
    fails = {"a: pinned, b: zero-copy, c: pinned": "leaves"}
    record, best = searched(
        MIXED, session=lambda made: FakeSession(made, session(made, MIXED).seconds, fails, lambda _: None)
    )
    assert {"a": "pinned", "b": "zero-copy", "c": "pinned"} not in [one.placements for one in record.tried]
    assert best
    record, best = searched(MIXED, seconds=2.0)
    assert (record.tried, best) == ((), [])
    assert record.reason == "2.0 s of its share of the time were left, it needs 2.5 s"


def test_where_there_is_nothing_to_search_for() -> None:
    alone = WORKLOAD.model_copy(update={"buffers": WORKLOAD.buffers[:1]})
    assert "fewer than two" in no_search(alone, "auto")
    alike = WORKLOAD.model_copy(update={"buffers": WORKLOAD.buffers[:2]})
    assert "used alike" in no_search(alike, "auto")
    assert no_search(alike, "exhaustive") == no_search(WORKLOAD, "auto") == ""


# A whole run


class Counting(Silent):
    total = done = 0

    def start(self, total: int) -> None:
        self.total = total

    def end(self) -> None:
        self.done += 1


def clocked(
    clock: FakeClock, settings: Settings, launcher: FakeLauncher, directory: Path, progress: Silent
) -> Profile:
    """A run whose time is that of this clock."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "Measurement", partial(Measurement, clock=clock))
        return pipeline.profile(replace(settings, began=0.0), progress, keep_in=directory, launcher=launcher)


def profiled(directory: Path, costs: Costs, **options: object) -> Profile:
    clock, progress = FakeClock(), Counting()
    launcher = FakeLauncher(
        lambda job: Ended(sample(seconds_of(job, job.strategy, costs)), "finished"),
        session=lambda made: session(made, costs, clock),
    )
    settings = asked("w.py", backend="cuda", **{"rounds": 2, "max_seconds": 40.0, **options})
    found = clocked(clock, settings, launcher, directory, progress)
    assert progress.done == progress.total - (not found.blocks), "without a final one fewer"
    return found


def test_a_found_mix_wins_the_final_in_processes_that_the_search_has_not_seen(tmp_path: Path) -> None:
    found = profiled(tmp_path, MIXED)
    assert found.recommendation.strategy is not None
    row = found.measured()[found.recommendation.strategy]
    assert row.placements == {"a": "pinned", "b": "zero-copy", "c": "zero-copy"}
    assert [one.name for one in found.search.tried if one.placements == row.placements] == [row.strategy]
    assert row.strategy in found.final.contestants
    found.save(tmp_path / "profile.json")
    assert reading.load(tmp_path / "profile.json") == found


_READ = {"pinned": 1.0, "zero-copy": 1.2}
SLIGHT: Costs = {"a": _READ, "b": _READ, "c": {"pinned": 1.0, "zero-copy": 0.91}}
"""A mix that gains 3 %, less than the indifference."""


@pytest.mark.parametrize(("costs", "least"), [(EVEN, 0), (SLIGHT, 3)])
def test_a_gain_below_the_indifference_is_one_line_with_its_bound(
    tmp_path: Path, costs: Costs, least: float
) -> None:
    found = profiled(tmp_path, costs)
    said = found.recommendation
    assert said.strategy in {strategy.name for strategy in STRATEGIES}
    before, _, after = said.steps[-1].partition("none is more than ")
    tried, mixes = len(found.search.tried), found.search.mixes
    assert before == f"{tried} of {mixes} mixes measured; "
    assert after.endswith(f" % faster; {mixes - tried} were not tried.")
    assert least <= float(after.partition(" %")[0]) < 9


@pytest.mark.parametrize("options", [{"search": "off"}, {"strategies": ("pinned", "zero-copy")}])
def test_without_a_search_nothing_is_claimed(tmp_path: Path, options: dict[str, object]) -> None:
    found = profiled(tmp_path, MIXED, **options)
    assert found.search is None
    assert not any("mixes measured" in step for step in found.recommendation.steps)
    assert not any(row.placements for row in found.results)


LONE: Costs = {
    "a": {"pinned": 0.1, "zero-copy": 2.0},
    "b": {"pinned": 0.1, "zero-copy": 0.1},
    "c": {"pinned": 1.0, "zero-copy": 0.1},
}
"""Pinned is alone within twice the best, and one change makes it four times as fast."""


def test_with_one_uniform_strategy_left_a_mix_is_searched_and_held_against_it(tmp_path: Path) -> None:
    found = profiled(tmp_path, LONE)
    said, rows = found.recommendation, found.measured()
    assert found.search.tried
    assert "pinned" in found.final.contestants, "though screened at four times the mix's time"
    assert said.strategy is not None
    assert said.verdict in ("fastest", "near")
    assert rows[said.strategy].placements["c"] == "zero-copy"
    assert rows["zero-copy"].outside.startswith("screened out")


def test_one_strategy_that_screening_left_alone_is_named(tmp_path: Path) -> None:
    found = profiled(tmp_path, {name: {"pinned": 0.1} for name in "abc"})
    said = found.recommendation
    assert (said.strategy, said.verdict, found.blocks) == ("pinned", "fastest", ())
    assert any(step.startswith("In screening every other took at least 20.0×") for step in said.steps)
    assert said.next_step == "Change the code to pinned."
    assert found.measured()["pinned"].outside == ""
    assert "mixes measured; none" in said.reason


def test_a_bound_that_says_nothing_is_not_told() -> None:
    tried = Tried(placements={"a": "pinned", "b": "zero-copy"}, gain=1.2, most=4.9, rounds=2)
    chosen = Recommendation(strategy="pinned", verdict="fastest", bound=0.0, reason="")
    search = Search(mode="exhaustive", reason="time ran out", tried=(tried,), mixes=60)
    made = with_mixes(chosen, {}, search)
    assert made.reason == (
        "1 of 60 mixes measured; too few blocks to bound their gain; 59 were not tried (time ran out)."
    )


# Its time, the cap of its blocks, and what is made of its figures


@pytest.mark.parametrize(("mode", "asked_for"), [("auto", {"trace": ("nsys",)}), ("exhaustive", {})])
def test_the_search_is_inside_the_time_of_the_command(
    tmp_path: Path, mode: str, asked_for: dict[str, object]
) -> None:
    """Processes of a second, blocks of 0.3 s, and mixes that gain: also where no limit was given."""
    clock = FakeClock()

    def measure(job: Job) -> Ended:
        clock.advance(1.2)
        return Ended(sample(seconds_of(job, job.strategy, MIXED)), "finished")

    launcher = FakeLauncher(measure, session=lambda made: slow(made, clock))
    settings = asked("w.py", backend="cuda", rounds=2, search=mode, **asked_for)
    found = measured_run(settings, launcher, Silent(), tmp_path, clock=clock)
    assert found.search.tried
    assert found.blocks
    reserved = 60 * measurement.TRACE_SHARE if "trace" in asked_for else 0
    reserved += measurement.CONCLUDING_SECONDS
    assert clock.now <= 60 - reserved + 0.3, "the last block may be under way"


@pytest.mark.parametrize(("capped", "frames"), [(True, (4, 6)), (False, (100, 100))])
def test_a_block_of_the_search_ends_with_its_time_whatever_frames_it_was_given(
    capped: bool, frames: tuple[int, int]
) -> None:
    """Frames of 10 ms, in blocks of 50 ms."""
    base = job(file=str(REPOSITORY / "workloads" / "vector_add.py"), assignments={"n": "64"})
    clock, given = FakeClock(step=0.01), {"frames": 100, "capped": capped}
    final = final_process(RecordingBackend(), base, {"a": "pinned"}, clock, **given)
    with final.open:
        done = final.block(FinalRound(round=0, order=("a",), warm_frames=100), 0)
    assert frames[0] <= done.block.frames <= frames[1]
    assert len(done.warming_seconds) == (2 if capped else 100)


def test_the_next_best_placement_is_the_nearest_mix_that_differs_in_that_buffer_alone() -> None:
    best = {"a": "pinned", "b": "zero-copy", "c": "zero-copy"}
    given = {
        "hybrid-1": ({}, 2.0),
        "hybrid-2": ({"a": "pageable"}, 1.5),  # in the final too: 12 ms, not what the search told
        "": ({"b": "pinned"}, 1.25),  # 16 ms
        " ": ({"b": "pageable"}, 1.6),  # 12.5 ms, nearer
        "  ": ({"a": "managed", "b": "pinned"}, 1.9),  # two differ
    }
    tried = tuple(
        Tried(placements=best | other, gain=gain, most=gain, rounds=9, name=name.strip())
        for name, (other, gain) in given.items()
    )
    told = profile(
        results=(
            measured("pinned", 0.020),
            measured("hybrid-1", 0.010, placements=best),
            measured("hybrid-2", 0.012, placements=best | {"a": "pageable"}),
        ),
        recommendation=recommendation(strategy="hybrid-1"),
        search=Search(mode="auto", over="pinned", tried=tried),
    )
    (table,) = buffers(told)
    assert isinstance(table, Table)
    assert [row.cells[-1].value for row in table.rows] == [
        "pageable: 2.00 ms more", "pageable: 2.50 ms more", "",
    ]  # fmt: skip
