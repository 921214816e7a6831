"""Rules about several GPUs: copies between them, links they share, halves that are not halves."""

from __future__ import annotations

from typing import Any

import pytest
from builders import cuda_device, profile, workload
from judging import Cases, judge, row
from rendering import Accepted

from advisor.profiles.schema import Profile, Side, WorkloadRecord
from advisor.rules.advise import advise
from advisor.rules.registry import RULES

SIZE = 4 << 20


STAGES: dict[str, Side | int] = {"produce": "host", "first": 0, "second": 1, "consume": "host"}
PIPELINE = workload(
    STAGES,
    {
        "a": {"produce": "out", "first": "in"},
        "b": {"first": "out", "second": "in"},
        "c": {"second": "out", "consume": "in"},
    },
    size=SIZE,
)
SPLIT = workload(
    STAGES,
    {
        "a": {"produce": "out", "first": "in"},
        "b": {"produce": "out", "second": "in"},
        "c": {"first": "out", "consume": "in"},
        "d": {"second": "out", "consume": "in"},
    },
    size=SIZE,
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


SLOW_PEER = row("peer", 0.012, kernels=0.001, copies=0.005)
WAITING_PEER = PEER.model_copy(update={"synchronize_seconds": 0.09})
CASES: Cases = {
    "peer-access-off": [
        ("peer 6.00 ms", "GPUs that reach each other", [EXAMPLES["peer-access-off"]]),
        ("not-applicable", "nothing crosses", [run(SPLIT, PEERS)]),
        ("not-applicable", "no access", [run(PIPELINE, APART)]),
        ("not-applicable", "not known", [run(PIPELINE, {})]),
        ("pass", "no faster", [run(PIPELINE, PEERS, PAGEABLE, SLOW_PEER)]),
    ],
    "host-staged-peer-copy": [
        ("advice", "GPUs that cannot reach each other", [EXAMPLES["host-staged-peer-copy"]]),
        ("not-applicable", "they can", [run(PIPELINE, PEERS)]),
        ("pass", "little of a frame", [run(PIPELINE, APART, WAITING_PEER)]),
    ],
    "one-link-for-two": [
        ("advice 500 µs", "one port", [EXAMPLES["one-link-for-two"]]),
        ("pass", "two ports", [run(SPLIT, TWO_PORTS)]),
        ("not-applicable", "not known", [run(SPLIT, {})]),
    ],
    "unbalanced-split": [
        ("advice 250 µs", "three quarters on one", [EXAMPLES["unbalanced-split"]]),
        ("pass", "halves", [run(SPLIT, PEERS)]),
        ("not-applicable", "one after the other", [run(PIPELINE, PEERS, first=0.9)]),
    ],
}


@pytest.mark.parametrize("rule", CASES)
def test_what_the_rule_concludes(rule: str, accepted: Accepted) -> None:
    judge(rule, CASES, accepted)


def test_of_one_gpu_these_rules_say_nothing() -> None:
    of_several = {rule.id for rule in RULES if rule.text.several_gpus}
    assert of_several == set(EXAMPLES)
    assert not of_several & {advice.rule for advice in advise(profile()).advice}
