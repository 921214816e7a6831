"""The whole flow as a function: one profile out, the same data kept on the way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from running import FakeLauncher, FakeSession, cpu_settings, sample

from advisor import pipeline
from advisor.measure.jobs import Job, Settings
from advisor.measure.launcher import Ended
from advisor.measure.progress import Silent
from advisor.profiles import reading, schema
from advisor.profiles.redaction import WITHHELD
from advisor.profiles.schema import Device
from advisor.version import __version__


def settings(**options: object) -> Settings:
    given = {"strategies": ("pageable", "pinned"), "rounds": 3, "seed": 5, "command": "advisor profile w.py"}
    return cpu_settings("w.py", **{**given, **options})


def profiled(launcher: FakeLauncher, directory: Path, **options: object) -> schema.Profile:
    return pipeline.profile(settings(**options), Silent(), keep_in=directory, launcher=launcher)


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
    asked = replace(settings(max_seconds=10.0), backend="cuda")
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
