"""From screening to the final and back: who enters, the rows of blocks, and why a row stayed outside."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from builders import cuda_device, measured
from fakes import FakeClock, job
from running import FakeLauncher, FakeSession, asked, measured_run, sample

from advisor.measure.contest import Contest
from advisor.measure.final import Session
from advisor.measure.jobs import FinalJob, Job, Settings
from advisor.measure.launcher import Ended
from advisor.measure.measurement import Run
from advisor.measure.progress import Silent
from advisor.profiles.schema import Measured, Skipped
from advisor.verdicts.measured import decided

SECONDS = {"pageable": 0.030, "pinned": 0.010, "zero-copy": 0.014, "managed": 0.050}


def settings(**options: Any) -> Settings:
    given = {"strategies": tuple(SECONDS), "rounds": 2, "max_seconds": 40.0, "seed": 3}
    return asked("w.py", backend="cuda", **{**given, **options})


def contest(
    directory: Path,
    seconds: dict[str, float],
    make: Callable[[FinalJob], Session] | None = None,
    clock: FakeClock | None = None,
    **options: Any,
) -> Contest:
    """Of rows with these medians; its clock stands still unless one is given."""
    clock = clock or FakeClock()
    rows = {name: measured(name, median, rounds=1) for name, median in seconds.items()}
    make = make or (lambda made: FakeSession(made, seconds, wait=clock.advance))
    return Contest(settings(**options), job(), rows, directory, make, clock)


def held(made: Contest) -> dict[str, Measured]:
    """The rows after a final of 30 seconds."""
    made.run(made.clock() + 30.0, Silent(), lambda _: None)
    return {row.strategy: row for row in made.results(tuple(made.rows.values()))}


@pytest.mark.parametrize(
    ("seconds", "names"),
    [
        ({"pinned": 1.0, "zero-copy": 2.0, "managed": 2.1}, {"pinned", "zero-copy"}),
        ({"pinned": 1.0, "pageable": 4.0, "managed": 4.0}, {"pinned", "pageable"}),
        ({"pinned": 1.0, "pageable": 4.1}, {"pinned"}),
        ({"pageable": 1.0, "pinned": 3.0}, {"pageable"}),
        ({}, set()),
    ],
)
def test_who_is_within_twice_the_best_enters_and_the_baseline_within_four_times(
    seconds: dict[str, float], names: set[str], tmp_path: Path
) -> None:
    made = contest(tmp_path, seconds)
    assert {row.strategy for row in made.entered} == names
    assert made.possible == (len(names) > 1)


def test_rows_have_the_times_of_their_blocks(tmp_path: Path) -> None:
    made = contest(tmp_path, SECONDS)
    rows = held(made)
    row = rows["zero-copy"]
    blocks = [block for block in made.loop.blocks if block.contestant == "zero-copy"]
    assert (row.samples, row.outside) == ("blocks", "")
    assert row.frame_seconds == tuple(block.period_seconds for block in blocks)
    assert sum(row.frames_per_round) == len(blocks)
    assert len(row.frames_per_round) == len({block.process for block in blocks}) >= 2
    assert row.median_seconds == pytest.approx(0.014, rel=0.01)
    low, high = row.interval_seconds
    assert low < row.median_seconds == pytest.approx(math.sqrt(low * high))
    assert row.stage_seconds["produce"] == pytest.approx(0.007, rel=0.01)
    assert row.footprint == made.rows["zero-copy"].footprint, "of the screening"
    assert rows["managed"].outside == "screened out: 5.00 times the best time in screening"
    assert (rows["managed"].samples, rows["managed"].median_seconds) == ("frames", 0.050)
    assert rows["pinned"].outside == ""


@pytest.mark.parametrize("how", ["leaves", "dies"])
def test_who_breaks_in_company_alone_is_measured_alone_and_can_be_chosen(how: str, tmp_path: Path) -> None:
    clock, jobs = FakeClock(), list[FinalJob]()
    seconds = {"pageable": 0.030, "pinned": 0.012, "zero-copy": 0.010}

    def session(made: FinalJob) -> Session:
        jobs.append(made)
        return FakeSession(
            made, seconds, {"zero-copy": how} if len(made.contestants) > 1 else {}, clock.advance
        )

    made = contest(tmp_path, seconds, session, clock)
    row, record = held(made)["zero-copy"], made.record()
    assert (row.samples, row.outside, record.alone) == ("blocks", "", ("zero-copy",))
    assert list(record.left) == [made.alias], "its second name left with it"
    assert len({job.directory for job in jobs}) == len(jobs)
    assert all(job.compare for job in jobs if len(job.contestants) == 1)
    (note,) = made.notes
    assert "SIGSEGV" in note
    found = decided(made.loop.blocks, made.entered, made.settings.preferences, record).verdict
    assert found.strategy == "zero-copy"
    assert found.interval[1] / found.interval[0] > 1.1, "by what processes of their own differ"


# The whole run, with a launcher that answers at once


def ran(
    launcher: FakeLauncher, directory: Path, clock: FakeClock | None = None, max_seconds: float = 11.0
) -> tuple[Run, dict[str, str]]:
    """The run, and what the samples of each measured row are."""
    run = measured_run(
        settings(max_seconds=max_seconds), launcher, Silent(), directory, clock=clock or FakeClock()
    )
    return run, {row.strategy: row.samples for row in run.rows if isinstance(row, Measured)}


def screened(job: Job) -> Ended:
    return Ended(sample(SECONDS[job.strategy]), "finished")


def test_screening_then_the_final(tmp_path: Path) -> None:
    clock = FakeClock()
    session = partial(FakeSession, seconds=SECONDS, wait=clock.advance)
    launcher = FakeLauncher(screened, device=cuda_device(managed_memory=1), session=session)
    result, samples = ran(launcher, tmp_path, clock)
    assert sorted(launcher.measured) == sorted(("1", name) for name in SECONDS), "one process each"
    assert samples == {**dict.fromkeys(SECONDS, "blocks"), "managed": "frames"}
    assert [row.strategy for row in result.rows] == list(SECONDS), "in the order of the table"
    timed = [made for made in launcher.finals if not made.energy_seconds]
    assert result.final.processes == len(timed) >= 2
    assert [made.process for made in launcher.finals] == list(range(len(launcher.finals)))
    assert launcher.finals[len(timed) :] == launcher.finals[-1:], "one more for energy, after all others"
    assert {block.contestant for block in result.blocks} == set(result.final.contestants)


def test_a_final_whose_processes_do_not_start_leaves_the_screening(tmp_path: Path) -> None:
    launcher = FakeLauncher(screened)
    result, samples = ran(launcher, tmp_path)
    assert len(launcher.finals) == 3, "tried again, and not for ever"
    assert (result.final, result.blocks, {*samples.values()}) == (None, (), {"frames"})


def test_strategies_that_the_time_does_not_reach_are_skipped(tmp_path: Path) -> None:
    clock = FakeClock()

    def measure(job: Job) -> Ended:
        clock.advance(4.0)
        return screened(job)

    launcher = FakeLauncher(measure)
    result, samples = ran(launcher, tmp_path, clock, max_seconds=13.0)
    assert len(launcher.measured) == len(samples) == 2, "a third would end after 9 s"
    reasons = [row.reason for row in result.rows if isinstance(row, Skipped)]
    assert ["--max-seconds" in reason for reason in reasons] == [True] * 2
    assert launcher.finals == []


@pytest.mark.parametrize("how", ["leaves", "dies"])
def test_a_final_that_all_leave_has_no_blocks(how: str, tmp_path: Path) -> None:
    clock, fails = FakeClock(), dict.fromkeys((*SECONDS, "pinned (again)"), how)
    launcher = FakeLauncher(screened, session=lambda made: FakeSession(made, SECONDS, fails, clock.advance))
    result, samples = ran(launcher, tmp_path, clock, max_seconds=40.0)
    assert (result.final, result.blocks, {*samples.values()}) == (None, (), {"frames"})
    left = [row.outside for row in result.rows if isinstance(row, Measured) and row.strategy != "managed"]
    assert len(left) == 3
    assert all(why.startswith("left the final: ") for why in left)
