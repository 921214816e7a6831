"""Stages that run in some frames only: schedule, frames, blocks, prediction and code to copy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import profile, vector_add_trace
from every import every
from fakes import attempted
from field import profiled
from mixing import device_, host_
from running import FILES
from test_schedule import ASYNC, spelled

from advisor.devices import catalogue
from advisor.measure.jobs import Sample
from advisor.model import steady_frame
from advisor.model.predict import predict
from advisor.profiles.schema import Measured
from advisor.report import machine
from advisor.strategies.planning import plan
from advisor.strategies.registry import by_name
from advisor.strategies.schedule import StageUse, doubled, obstacle

FILE = FILES / "some_frames.py"
FRESH = [host_("produce", a="out"), device_("k", a="in", b="out")]
LOOK = StageUse("look", "host", {"b": "in"}, every=3)


def test_what_a_stage_needs_is_moved_in_its_frames_alone() -> None:
    planned = plan([], [*FRESH, LOOK], dict.fromkeys("ab", ASYNC))
    whole, part = "produce >a k <b | look", "produce >a k |"
    assert [spelled(steps) for steps in planned.period] == [whole, part, part]
    assert spelled(planned.first) == spelled(planned.steady) == whole
    assert ["host" in planned.current(index)["b"] for index in range(4)] == [True, False, False, True]
    assert all("device" in planned.current(index)["b"] for index in range(4))


WEIGHTS = [device_("read", w="in", t="out"), host_("see", w="in")]
CARRIED = "host stage {!r} uses buffer {!r}, which carries data between frames, so frames cannot overlap"


@every(
    ("frame", "reason", "two_of"),
    [
        ([*FRESH, LOOK], None, {"a", "b"}),
        ([*FRESH, *WEIGHTS], None, {"a"}),
        ([replace(FRESH[0], every=2), FRESH[1]], CARRIED.format("produce", "a"), set()),
        ([FRESH[0], replace(FRESH[1], every=2), LOOK], "no device stage runs in every frame", {"a"}),
        (FRESH[:1], "no stage runs on the device", {"a"}),
        ([host_("h", x="inout"), device_("k", x="in")], CARRIED.format("h", "x"), set()),
        ([device_("k", x="inout"), host_("h", x="in")], CARRIED.format("h", "x"), set()),
        ([host_("h", x="in"), device_("k", x="out")], CARRIED.format("h", "x"), set()),
        ([*FRESH, host_("h", s="inout")], CARRIED.format("h", "s"), {"a"}),
    ],
)
def test_frames_overlap_where_buffers_are_renewed_whenever_they_are_used(
    frame: list[StageUse], reason: str | None, two_of: set[str]
) -> None:
    assert (obstacle(frame), set(doubled(frame))) == (reason, two_of)


def outcome(strategy: str, directory: Path, weigh_every: int, **changes: Any) -> Any:
    return attempted(FILE, strategy, directory, assignments={"weigh_every": str(weigh_every)}, **changes)


def test_a_sample_is_the_mean_over_a_period(tmp_path: Path) -> None:
    """Copies of 512 bytes: a in every frame, w in every second, shown in every fifth."""
    outcome("pageable", tmp_path, 2, task="reference", seconds=0.01)
    sample = outcome("pinned", tmp_path, 2, seconds=0.01, timeline=True)
    assert isinstance(sample, Sample)
    assert "host:look" in {span.label for span in sample.timeline.spans}, "a frame with all stages"
    assert sample.transfer_bytes == {"to-device": 768, "to-host": 102}
    assert {"host:look", "device:publish", "to-host"} <= set(sample.breakdown[0])
    assert len(sample.frame_seconds) >= 5


def test_a_profile_charges_a_stage_its_share() -> None:
    counts = ("look_every=1", "look_every=5")
    always, seldom = (profiled(FILE, "n=100000", count, targets=("h200",)) for count in counts)
    for made in (always, seldom):
        assert all(isinstance(row, Measured) and row.verified for row in made.results), made.results
        assert not [note for note in made.notes if "never read" not in note]
    assert [stage.every for stage in seldom.workload.frame_stages()] == [1, 1, 1, 5, 5]

    def downloads(made: Any) -> float:
        row = next(row for row in made.predictions[0].results if row.strategy == "pageable")
        return float(row.terms["to-host"])

    assert downloads(seldom) == pytest.approx(downloads(always) / 5, rel=1e-6)
    frame = next(fact.value for fact in machine.workload(seldom) if fact.label == "Frame")
    assert "look (host, every 5 frames)" in str(frame)
    moved = [made.measured()["pageable"].transfer_bytes["to-host"] for made in (always, seldom)]
    assert moved == [800_000, 160_000]


def test_a_period_costs_no_more_than_its_different_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host stage of each of a thousand frames is computed a few times."""
    computed: list[str] = []
    real = steady_frame.host_seconds

    def counted(at: Any, stage: str) -> Any:
        computed.append(stage)
        return real(at, stage)

    monkeypatch.setattr(steady_frame, "host_seconds", counted)
    made = profile(traffic=vector_add_trace())
    often = [s.model_copy(update={"every": 1000 if s.side == "device" else 1}) for s in made.workload.stages]
    made = made.model_copy(update={"workload": made.workload.model_copy(update={"stages": tuple(often)})})
    predict(made, catalogue.load("h200"), [by_name("managed")])
    assert 0 < len(computed) < 40
