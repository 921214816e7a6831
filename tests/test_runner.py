"""The order of processes, and what becomes of those that fail; with a launcher that answers at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeClock
from rendering import Accepted, refusals
from running import FakeLauncher, cpu_settings, measured_run, sample

from advisor import pipeline
from advisor.errors import WorkloadError
from advisor.measure.jobs import Job, Problem, ReferenceRun, Settings
from advisor.measure.launcher import Ended
from advisor.measure.measurement import CONCLUDING_SECONDS, Run, job_of
from advisor.measure.progress import Silent
from advisor.profiles import reading, schema
from advisor.profiles.redaction import WITHHELD
from advisor.profiles.schema import Device, Skipped
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


def test_on_the_cpu_two_rounds_follow_one_another_each_in_an_order_of_the_seeds(tmp_path: Path) -> None:
    orders = []
    for run, seed in enumerate((1, 1, 2)):
        launcher = FakeLauncher()
        result, _ = ran(launcher, settings(seed=seed), tmp_path / str(run))
        assert launcher.measured == [
            (str(n), name) for n, names in enumerate(result.order, 1) for name in names
        ]
        assert [set(names) for names in result.order] == [set(ALL)] * 2
        assert result.final is None
        orders.append(result.order)
    assert orders[0] == orders[1] != orders[2]
    assert len(set(orders[0])) == 2, "the rounds are shuffled, not one order repeated"


@pytest.mark.parametrize(
    ("backend", "rounds", "frames"), [("cpu", 2, 3), ("cpu", 1, 5), ("cpu", 9, 3), ("cuda", 3, 5)]
)
def test_on_the_cpu_the_rounds_share_the_least_number_of_frames(
    backend: Any, rounds: int, frames: int, tmp_path: Path
) -> None:
    asked = replace(cpu_settings(rounds=rounds), backend=backend)
    assert job_of(asked, "measure", "pageable", tmp_path, "x").min_frames == frames


def test_a_strategy_that_fails_is_not_run_again_and_the_others_are_measured(tmp_path: Path) -> None:
    launcher = FakeLauncher(
        lambda job: died() if job.strategy == "zero-copy" else Ended(sample(), "finished")
    )
    result, _ = ran(launcher, settings(), tmp_path)
    assert [name for _, name in launcher.measured].count("zero-copy") == 1
    assert [row.status for row in result.rows] == ["measured", "measured", "failed", "measured"]
    assert len(result.rows[0].frame_seconds) == 6  # type: ignore[union-attr]


def test_what_does_not_apply_is_skipped_with_the_reason_and_never_run(tmp_path: Path) -> None:
    launcher = FakeLauncher(device=Device(name="CPU", kind="cpu"))
    result, _ = ran(launcher, settings(), tmp_path)
    assert [row.status for row in result.rows] == ["measured", "skipped", "measured", "skipped"]
    assert all(row.reason for row in result.rows if isinstance(row, Skipped))
    assert {name for _, name in launcher.measured} == {"pageable", "zero-copy"}


NOTED: dict[str, dict[str, Ended]] = {
    "a stage without a twin": {
        "trace": Ended(Problem(cause="raised", message="E: x", next_step="Give a twin"), "finished")
    },
    "a trace that dies": {"trace": died("E: x")},
    "results that differ": {"reference": Ended(ReferenceRun(unlike={"c": 3}), "finished")},
    "a loop that its limit ends": {"reference": Ended(ReferenceRun(capped={"the loop": 4}), "finished")},
    "NaN": {"reference": Ended(ReferenceRun(nan={"c": 0}), "finished")},
    "a baseline that crashes, perhaps alone": {"reference": died()},
}


def test_what_fails_before_the_strategies_is_noted_and_they_are_tried(
    accepted: Accepted, tmp_path: Path
) -> None:
    told = ""
    for name, answer in NOTED.items():
        result, _ = ran(FakeLauncher(**answer), settings(), tmp_path / name)
        assert (result.trace is None) == ("trace" in answer)
        assert {row.status for row in result.rows} == {"measured"}
        told += f"{name}: {' '.join(result.notes)}\n"
    accepted(told, "notes-before.txt")


HANGS = "did not finish within 5 s; it was in check (w.py:8)"
ENDS = {
    "wrong": Problem(cause="wrong", error="UsageError", message="no buffer"),
    "raised": Problem(cause="raised", message="E: x", next_step="see", detail="x"),
    "a device before anything is described": Problem(cause="device", message="CUDA: no device"),
    **{how: Ended(None, how, HANGS) for how in ("timeout", "late")},
}


def test_what_the_reference_run_ends_with_ends_the_run(accepted: Accepted, tmp_path: Path) -> None:
    calls: dict[str, Callable[[], object]] = {}
    launchers = []
    for name, end in ENDS.items():
        ended = end if isinstance(end, Ended) else Ended(end, "finished")
        launchers.append(FakeLauncher(reference=ended, described="described" not in name))
        calls[name] = partial(ran, launchers[-1], settings(), tmp_path / name)
    accepted(refusals(calls), "reference-refused.txt")
    assert [len(launcher.jobs) for launcher in launchers] == [1] * len(ENDS)
    with pytest.raises(WorkloadError) as raised:
        ran(launchers[1], settings(), tmp_path)
    assert raised.value.detail == "x"


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


def test_what_was_kept_on_the_way_is_a_whole_profile_without_conclusions(tmp_path: Path) -> None:
    seen: list[list[str]] = []

    def measure(job: Job) -> Ended:
        if (tmp_path / pipeline.PARTIAL).exists():
            partial = reading.load(tmp_path / pipeline.PARTIAL)
            seen.append([row.status for row in partial.results])
            assert partial.recommendation is None
        return Ended(sample(), "finished")

    profile = profiled(FakeLauncher(measure), tmp_path, rounds=1, no_environment=True)
    assert [statuses.count("measured") for statuses in seen] == [1]
    last = reading.load(tmp_path / pipeline.PARTIAL)
    assert last.results == profile.results
    assert (last.created, last.method, last.workload) == (profile.created, profile.method, profile.workload)
    assert last.environment.system == WITHHELD
    assert (profile.tool.version, profile.command) == (__version__, "advisor profile w.py")
    method = profile.method
    assert (method.rounds, method.seed, method.max_seconds, method.confidence) == (1, 5, 90.0, 0.95)
    assert len(method.order) == 1, "rounds on the CPU device, where nothing is decided"
    assert (profile.created.endswith("+00:00"), profile.device.kind) == (True, "cuda")


def test_ctrl_c_keeps_what_was_measured_and_says_so(tmp_path: Path) -> None:
    measured: list[str] = []

    def measure(job: Job) -> Ended:
        if len(measured) == 5:
            raise KeyboardInterrupt
        measured.append(job.strategy)
        return Ended(sample(), "finished")

    interrupted = profiled(FakeLauncher(measure), tmp_path, strategies=ALL)
    assert pipeline.was_interrupted(interrupted)
    assert "5 of 8" in interrupted.notes[0]
    assert not pipeline.was_interrupted(interrupted.model_copy(update={"notes": ()}))
    assert sum(len(row.rounds) for row in interrupted.measured().values()) == 5
    assert interrupted.measured().keys() == {*ALL}
