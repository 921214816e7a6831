"""Rules about several GPUs: copies between them, links they share, halves that are not halves."""

from __future__ import annotations

from typing import Any

import pytest
from builders import cuda_device, profile
from every import every
from judging import figures, row, says

from advisor.profiles.schema import BufferRecord, Profile, StageRecord, WorkloadRecord
from advisor.rules.advise import advise
from advisor.rules.registry import RULES

SIZE = 4 << 20


def _stage(name: str, gpu: int | None) -> StageRecord:
    return StageRecord(name=name, side="host" if gpu is None else "device", phase="frame", gpu=gpu or 0)


def workload(stages: dict[str, int | None], **buffers: dict[str, Any]) -> WorkloadRecord:
    """Stages with their GPU, None for the host; buffers of 4 MiB with what each stage does to them."""
    made = tuple(
        BufferRecord(name=name, shape=(SIZE // 4,), dtype="float32", bytes=SIZE, access=access)
        for name, access in buffers.items()
    )
    placed = tuple(_stage(name, gpu) for name, gpu in stages.items())
    return WorkloadRecord(name="w", file="w.py", sha256="0" * 64, parameters={}, buffers=made, stages=placed)


PIPELINE = workload(
    {"produce": None, "first": 0, "second": 1, "consume": None},
    a={"produce": "out", "first": "in"},
    b={"first": "out", "second": "in"},
    c={"second": "out", "consume": "in"},
)
SPLIT = workload(
    {"produce": None, "first": 0, "second": 1, "consume": None},
    a={"produce": "out", "first": "in"},
    b={"produce": "out", "second": "in"},
    c={"first": "out", "consume": "in"},
    d={"second": "out", "consume": "in"},
)
PEERS = {"gpu0_peers": "1", "gpu1_peers": "0"}
APART = {"gpu0_peers": "", "gpu1_peers": ""}
ONE_PORT = {"gpu0_root_port": "0000:00:01.0", "gpu1_root_port": "0000:00:01.0"}
TWO_PORTS = {"gpu0_root_port": "0000:00:01.0", "gpu1_root_port": "0000:00:02.0"}
PAGEABLE = row("pageable", 0.010, kernels=0.001, copies=0.006)
PINNED = row("pinned", 0.006, kernels=0.001, copies=0.003)
PEER = row("peer", 0.004, kernels=0.001, copies=0.001)


def run(made: WorkloadRecord, gpu: dict[str, Any], *rows: Any, first: float = 0.5) -> Profile:
    """first: the part of the kernels' time that is GPU 0's."""
    shares = {"first": first * 0.001, "second": (1 - first) * 0.001, "produce": 0.001, "consume": 0.001}
    named = [e.model_copy(update={"stage_seconds": shares}) for e in rows or (PAGEABLE, PINNED, PEER)]
    told = profile(device=cuda_device("discrete"), workload=made, results=tuple(named))
    machine = told.environment.model_copy(update={"gpu": {**told.environment.gpu, **gpu}})
    return told.model_copy(update={"environment": machine})


EXAMPLES = {
    "peer-access-off": run(PIPELINE, PEERS),
    "host-staged-peer-copy": run(PIPELINE, APART),
    "one-link-for-two": run(SPLIT, ONE_PORT),
    "unbalanced-split": run(SPLIT, TWO_PORTS, row("pinned", 0.006, kernels=0.001, copies=0.0), first=0.75),
}


def test_gpus_that_reach_each_other_copy_to_each_other() -> None:
    found = says("peer-access-off", EXAMPLES["peer-access-off"])
    assert (found.outcome, found.strategy) == ("advice", "peer")
    assert figures(found)["copied between GPUs in a frame"] == SIZE
    assert found.gain.seconds_per_frame == pytest.approx(0.006)


@every(
    ("made", "gpu", "rows", "said"),
    [
        (SPLIT, PEERS, (), "No GPU reads what another one writes"),
        (PIPELINE, APART, (), "cannot access"),
        (PIPELINE, {}, (), "not known"),
    ],
)
def test_there_is_no_access_to_enable(
    made: WorkloadRecord, gpu: dict[str, Any], rows: Any, said: str
) -> None:
    found = says("peer-access-off", run(made, gpu, *rows))
    assert found.outcome == "not-applicable"
    assert said in found.detail


def test_a_peer_that_is_no_faster_is_not_advised() -> None:
    slow = row("peer", 0.012, kernels=0.001, copies=0.005)
    assert says("peer-access-off", run(PIPELINE, PEERS, PAGEABLE, slow)).outcome == "pass"


def test_gpus_that_cannot_reach_each_other() -> None:
    found = says("host-staged-peer-copy", EXAMPLES["host-staged-peer-copy"])
    assert (found.outcome, found.certainty) == ("advice", "likely")
    assert "GPU 0 and GPU 1" in found.detail
    assert says("host-staged-peer-copy", run(PIPELINE, PEERS)).outcome == "not-applicable"
    little = PEER.model_copy(update={"synchronize_seconds": 0.09})
    assert says("host-staged-peer-copy", run(PIPELINE, APART, little)).outcome == "pass"


def test_gpus_that_share_a_link_or_the_work_unevenly() -> None:
    found = says("one-link-for-two", EXAMPLES["one-link-for-two"])
    assert found.outcome == "advice"
    assert "0000:00:01.0" in found.detail
    assert found.gain.seconds_per_frame == pytest.approx(0.0005)
    assert says("one-link-for-two", run(SPLIT, TWO_PORTS)).outcome == "pass"
    assert says("one-link-for-two", run(SPLIT, {})).outcome == "not-applicable"
    found = says("unbalanced-split", EXAMPLES["unbalanced-split"])
    assert found.outcome == "advice"
    assert "GPU 0 is busy" in found.detail
    assert found.gain.seconds_per_frame == pytest.approx(0.00025)
    assert says("unbalanced-split", run(SPLIT, PEERS)).outcome == "pass"
    assert says("unbalanced-split", run(PIPELINE, PEERS, first=0.9)).outcome == "not-applicable"


def test_of_one_gpu_these_rules_say_nothing() -> None:
    of_several = {rule.id for rule in RULES if rule.text.several_gpus}
    assert of_several == set(EXAMPLES)
    assert not of_several & {advice.rule for advice in advise(profile()).advice}
