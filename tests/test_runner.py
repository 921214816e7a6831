"""The order of processes, and what becomes of those that fail; with a launcher that answers at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeClock
from running import FakeLauncher, FakeSession, cpu_settings, measured_run, missing, sample

from advisor import pipeline
from advisor.errors import NothingMeasured, WorkloadError
from advisor.measure.jobs import Job, Problem, ReferenceRun, Settings
from advisor.measure.launcher import Ended
from advisor.measure.measurement import CONCLUDING_SECONDS, Run, job_of
from advisor.measure.progress import Silent
from advisor.profiles import reading, schema
from advisor.profiles.redaction import WITHHELD
from advisor.profiles.schema import Device, Failed, Measured, Skipped
from advisor.version import __version__

ALL = ("pageable", "pinned", "zero-copy", "managed")


def settings(**options: object) -> Settings:
    return cpu_settings("w.py", **{"strategies": ALL, "rounds": 3, **options})


def ran(launcher: FakeLauncher, asked: Settings, directory: Path) -> tuple[Run, list[Run]]:
    """The run, and what was kept after each process."""
    kept: list[Run] = []
    return measured_run(asked, launcher, Silent(), directory, kept.append), kept


def died(reason: str = "the process was killed by SIGBUS", log: str = "what it printed") -> Ended:
    return Ended(None, "died", reason, log)


def dies_for(strategy: str, ended: Ended) -> Callable[[Job], Ended]:
    return lambda job: ended if job.strategy == strategy else Ended(sample(), "finished")


def test_on_the_cpu_two_rounds_follow_one_another_each_with_every_strategy(tmp_path: Path) -> None:
    launcher = FakeLauncher()
    result, _ = ran(launcher, settings(), tmp_path)
    assert [number for number, _ in launcher.measured] == ["1"] * 4 + ["2"] * 4
    assert result.final is None
    for number in "12":
        assert {name for n, name in launcher.measured if n == number} == set(ALL)
    assert [name for _, name in launcher.measured] == [name for names in result.order for name in names]


def test_the_order_is_the_seeds(tmp_path: Path) -> None:
    orders = [
        ran(FakeLauncher(), settings(seed=seed), tmp_path / str(i))[0].order
        for i, seed in enumerate((1, 1, 2))
    ]
    assert orders[0] == orders[1] != orders[2]
    assert len(set(orders[0])) == 2  # the rounds are shuffled, not one order repeated


@pytest.mark.parametrize(
    ("backend", "rounds", "frames"), [("cpu", 2, 3), ("cpu", 1, 5), ("cpu", 9, 3), ("cuda", 3, 5)]
)
def test_on_the_cpu_the_rounds_share_the_least_number_of_frames(
    backend: Any, rounds: int, frames: int, tmp_path: Path
) -> None:
    asked = replace(cpu_settings(rounds=rounds), backend=backend)
    assert job_of(asked, "measure", "pageable", tmp_path, "x").min_frames == frames


def test_a_strategy_that_fails_is_not_run_again_and_the_others_are_measured(tmp_path: Path) -> None:
    launcher = FakeLauncher(dies_for("zero-copy", died()))
    result, _ = ran(launcher, settings(), tmp_path)
    assert [name for _, name in launcher.measured].count("zero-copy") == 1
    assert [row.status for row in result.rows] == ["measured", "measured", "failed", "measured"]
    row = result.rows[2]
    assert isinstance(row, Failed)
    assert "SIGBUS" in row.reason
    assert row.detail == "what it printed"
    assert "runs with python" in row.next_step
    assert len(result.rows[0].frame_seconds) == 6  # type: ignore[union-attr]


def test_what_does_not_apply_is_skipped_with_the_reason_and_never_run(tmp_path: Path) -> None:
    launcher = FakeLauncher(device=Device(name="CPU", kind="cpu"))
    result, _ = ran(launcher, settings(), tmp_path)
    assert [row.status for row in result.rows] == ["measured", "skipped", "measured", "skipped"]
    assert all(row.reason for row in result.rows if isinstance(row, Skipped))
    assert {name for _, name in launcher.measured} == {"pageable", "zero-copy"}


def test_the_run_so_far_is_kept_after_every_process(tmp_path: Path) -> None:
    _, kept = ran(FakeLauncher(), settings(rounds=1), tmp_path)
    assert [sum(row.status == "measured" for row in so_far.rows) for so_far in kept] == [1, 2, 3, 4]
    assert all(len(so_far.rows) == 4 for so_far in kept)
    waiting = [row for row in kept[0].rows if isinstance(row, Skipped)]
    assert all(row.reason for row in waiting)


def test_ctrl_c_keeps_what_was_measured_and_says_so(tmp_path: Path) -> None:
    measured: list[str] = []

    def measure(job: Job) -> Ended:
        if len(measured) == 5:
            raise KeyboardInterrupt
        measured.append(job.strategy)
        return Ended(sample(), "finished")

    result, _ = ran(FakeLauncher(measure), settings(), tmp_path)
    assert "5 of 8" in result.notes[-1]
    assert sum(len(row.rounds) for row in result.rows if isinstance(row, Measured)) == 5
    assert {row.status for row in result.rows} == {"measured"}


@pytest.mark.parametrize(
    "ended",
    [Ended(Problem(cause="raised", message="E: x", next_step="Give a twin"), "finished"), died("E: x")],
    ids=["problem", "died"],
)
def test_a_trace_that_fails_is_a_note(tmp_path: Path, ended: Ended) -> None:
    result, _ = ran(FakeLauncher(trace=ended), settings(), tmp_path)
    assert result.trace is None
    (note,) = result.notes
    assert "E: x" in note
    assert ("Give a twin" in note) == (ended.how == "finished")
    assert {row.status for row in result.rows} == {"measured"}


def test_results_that_another_run_does_not_give_again_are_noted(tmp_path: Path) -> None:
    launcher = FakeLauncher(reference=Ended(ReferenceRun(unlike={"c": 3}), "finished"))
    result, _ = ran(launcher, settings(), tmp_path)
    assert not missing(result.notes[0], "'c' from frame 3 on", "`rng`")


@pytest.mark.parametrize(
    ("problem", "error"),
    [
        (Problem(cause="wrong", error="WorkloadError", message="no buffer"), WorkloadError),
        (Problem(cause="raised", message="E: x", next_step="see", detail="Traceback"), WorkloadError),
    ],
)
def test_a_workload_that_is_wrong_ends_the_run(
    tmp_path: Path, problem: Problem, error: type[Exception]
) -> None:
    launcher = FakeLauncher(reference=Ended(problem, "finished"))
    with pytest.raises(error) as raised:
        ran(launcher, settings(), tmp_path)
    assert (raised.value.message, raised.value.detail) == (problem.message, problem.detail)  # type: ignore[attr-defined]
    assert len(launcher.jobs) == 1


def test_a_device_that_cannot_be_opened_ends_the_run(tmp_path: Path) -> None:
    problem = Problem(cause="device", message="CUDA: no device", next_step="", detail="")
    with pytest.raises(NothingMeasured, match="no device"):
        ran(FakeLauncher(reference=Ended(problem, "finished"), described=False), settings(), tmp_path)


def test_a_process_that_is_not_over_in_time_is_not_reached_rather_than_failed(tmp_path: Path) -> None:
    clock = FakeClock()

    def measure(job: Job) -> Ended:
        assert job.limit_seconds is not None
        if job.strategy != "pageable":
            clock.advance(job.limit_seconds)
            return Ended(None, "late", "did not finish")
        clock.advance(1.0)
        return Ended(sample(), "finished")

    asked = replace(settings(max_seconds=60.0), backend="cuda")
    found = measured_run(asked, FakeLauncher(measure), Silent(), tmp_path, clock=clock)
    assert [row.status for row in found.rows] == ["measured", "skipped", "skipped", "skipped"]
    assert clock.now <= 60.0 - CONCLUDING_SECONDS


@pytest.mark.parametrize(("how", "option"), [("timeout", "--timeout"), ("late", "--max-seconds")])
def test_a_check_that_hangs_is_told_with_its_line_and_the_limit_that_ended_it(
    how: Any, option: str, tmp_path: Path
) -> None:
    hangs = Ended(None, how, "did not finish within 5 s; it was in check (w.py:8)")
    with pytest.raises(WorkloadError, match=r"check \(w.py:8\)") as raised:
        ran(FakeLauncher(reference=hangs), settings(), tmp_path)
    assert option in raised.value.next_step
    assert "first frames" not in raised.value.message


def test_a_reference_that_crashes_is_noted_and_the_strategies_are_tried(tmp_path: Path) -> None:
    """It may be the baseline alone that crashes."""
    result, _ = ran(FakeLauncher(reference=died()), settings(), tmp_path)
    assert "not be compared" in result.notes[0]
    assert {row.status for row in result.rows} == {"measured"}


@pytest.mark.parametrize(("began", "left"), [(None, 60.0), (93.0, 53.0)])
def test_the_time_counts_from_where_it_began(began: float | None, left: float, tmp_path: Path) -> None:
    class Limited(Silent):
        def limit(self, seconds: float) -> None:
            said.append(seconds)

    said = list[float]()
    limits = list[float | None]()

    def measure(job: Job) -> Ended:
        limits.append(job.left_seconds)
        return Ended(sample(), "finished")

    asked = replace(settings(max_seconds=60.0), began=began)
    clock = FakeClock()
    clock.advance(100.0)
    measured_run(asked, FakeLauncher(measure), Limited(), tmp_path, clock=clock)
    assert said == [left]
    assert set(limits) == {left - CONCLUDING_SECONDS}


# The whole flow as a function: one profile out, the same data kept on the way


def profiled(launcher: FakeLauncher, directory: Path, **options: object) -> schema.Profile:
    given = {"strategies": ("pageable", "pinned"), "seed": 5, "command": "advisor profile w.py", **options}
    return pipeline.profile(settings(**given), Silent(), keep_in=directory, launcher=launcher)


def test_a_profile_says_what_was_asked_and_how_it_was_measured(tmp_path: Path) -> None:
    profile = profiled(FakeLauncher(), tmp_path)
    assert (profile.tool.version, profile.command) == (__version__, "advisor profile w.py")
    assert (profile.method.rounds, profile.method.seed, profile.method.max_seconds) == (3, 5, 90.0)
    assert profile.method.confidence == 0.95
    assert len(profile.method.order) == 2, "rounds on the CPU device, where nothing is decided"
    assert profile.created.endswith("+00:00")
    assert profile.device.kind == "cuda"


def test_it_concludes_from_what_was_measured_on_a_gpu(tmp_path: Path) -> None:
    seconds = {"pageable": 0.002, "pinned": 0.001}
    launcher = FakeLauncher(
        lambda job: Ended(sample(seconds[job.strategy]), "finished"),
        session=lambda job: FakeSession(job, seconds),
    )
    asked = replace(settings(strategies=("pageable", "pinned"), max_seconds=10.0), backend="cuda")
    profile = pipeline.profile(asked, Silent(), keep_in=tmp_path, launcher=launcher)
    assert (profile.recommendation.strategy, profile.recommendation.verdict) == ("pinned", "fastest")
    assert profile.advice
    assert profile.final.processes == 3, "as many as --rounds asks for, though two would have settled it"
    assert {block.contestant for block in profile.blocks} == {"pageable", "pinned", profile.final.alias}
    profile.save(tmp_path / "profile.json")
    assert reading.load(tmp_path / "profile.json") == profile


def test_without_a_gpu_nothing_is_recommended_but_by_prediction(tmp_path: Path) -> None:
    launcher = FakeLauncher(device=Device(name="CPU", kind="cpu"))
    profile = profiled(launcher, tmp_path, targets=("h200", "orin-nano"))
    assert profile.recommendation is None
    assert [prediction.device.name for prediction in profile.predictions] == [
        "H200 SXM",
        "Jetson Orin Nano 8GB",
    ]
    assert all(len(prediction.results) == 2 for prediction in profile.predictions)


def test_what_was_kept_on_the_way_is_a_whole_profile_without_conclusions(tmp_path: Path) -> None:
    seen: list[list[str]] = []

    def measure(job: Job) -> Ended:
        if (tmp_path / pipeline.PARTIAL).exists():
            partial = reading.load(tmp_path / pipeline.PARTIAL)
            seen.append([row.status for row in partial.results])
            assert partial.recommendation is None
        return Ended(sample(), "finished")

    profile = profiled(FakeLauncher(measure), tmp_path, rounds=1)
    assert [statuses.count("measured") for statuses in seen] == [1]
    last = reading.load(tmp_path / pipeline.PARTIAL)
    assert last.results == profile.results
    assert (last.created, last.method, last.workload) == (profile.created, profile.method, profile.workload)


def test_what_is_kept_on_the_way_tells_nothing_of_the_machine_either(tmp_path: Path) -> None:
    profiled(FakeLauncher(), tmp_path, no_environment=True)
    assert reading.load(tmp_path / pipeline.PARTIAL).environment.system == WITHHELD


def test_an_interrupted_profile_is_told_from_a_whole_one(tmp_path: Path) -> None:
    def measure(job: Job) -> Ended:
        if job.directory.endswith("-2"):
            raise KeyboardInterrupt
        return Ended(sample(), "finished")

    interrupted = profiled(FakeLauncher(measure), tmp_path)
    assert pipeline.was_interrupted(interrupted)
    assert not pipeline.was_interrupted(interrupted.model_copy(update={"notes": ()}))
    assert interrupted.measured().keys() == {"pageable", "pinned"}
