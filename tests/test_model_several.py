"""Predictions of workloads on several GPUs: what overlaps, what crosses, and what is not known."""

from __future__ import annotations

import re

import numpy as np
import pytest
from builders import altered, workload
from every import every

from advisor.devices.catalogue import load, of_device
from advisor.devices.entries import CatalogueEntry
from advisor.errors import UsageError
from advisor.model.machines import Machine
from advisor.model.simulate import Simulated, simulate
from advisor.profiles.schema import Trace, WorkloadRecord
from advisor.strategies.mixes import mix

SIZE = 1 << 28
COPYING = ("pageable", "staged", "pinned", "registered", "zero-copy")


def declared(ran: WorkloadRecord) -> WorkloadRecord:
    """Each kernel passes over its buffers once."""
    passes = dict.fromkeys("abc", 1.0)
    stages = (s.model_copy(update={"passes": passes if s.side == "device" else {}}) for s in ran.stages)
    return ran.model_copy(update={"stages": tuple(stages)})


def split(gpus: int) -> WorkloadRecord:
    """Each half of a to the same half of c, on one GPU or on two."""
    ran = workload(
        {"produce": "host", "first": 0, "second": gpus - 1, "consume": "host"},
        {
            "a": {"produce": "out", "first": "in", "second": "in"},
            "c": {"first": "out", "second": "out", "consume": "in"},
        },
        size=SIZE,
    )
    halves = {"first": ((0, SIZE // 2),), "second": ((SIZE // 2, SIZE),)}
    return declared(altered(ran, "buffers.*", regions=halves))


def pipeline() -> WorkloadRecord:
    """One GPU makes b of a, the other c of b."""
    return declared(
        workload(
            {"produce": "host", "make": 0, "finish": 1, "consume": "host"},
            {
                "a": {"produce": "out", "make": "in"},
                "b": {"make": "out", "finish": "in"},
                "c": {"finish": "out", "consume": "in"},
            },
            size=SIZE,
        )
    )


def predicted(workload: WorkloadRecord, target: CatalogueEntry | str) -> dict[str, Simulated | str]:
    entry = load(target) if isinstance(target, str) else target
    return simulate(workload, Trace(), Machine(entry))


def _path(found: Simulated, *, host: bool = False) -> float:
    """Seconds of the device path, or of the host's."""
    return sum(float(s[0]) for part, s in found.parts.items() if part.startswith("host") == host)


@every(("strategy", "gain"), [("pinned", 2 * 0.94), ("registered", 2 * 0.94), ("zero-copy", 2 * 0.73)])
def test_a_split_halves_the_device_path_less_what_links_lose_at_one_host_memory(
    strategy: str, gain: float
) -> None:
    one, two = (predicted(split(gpus), "2xh200")[strategy] for gpus in (1, 2))
    assert _path(one) / _path(two) == pytest.approx(gain, rel=0.07)
    assert _path(two, host=True) == pytest.approx(_path(one, host=True))


@every("strategy", ["pinned", "registered", "zero-copy"])
def test_a_link_that_is_shared_halves_nothing_on_it(strategy: str) -> None:
    behind_one = load("2xh200").model_copy(update={"gpus_share_link": True})
    one, two = predicted(split(1), "h200")[strategy], predicted(split(2), behind_one)[strategy]
    assert 0.9 < _path(one) / _path(two) < (1.1 if strategy == "zero-copy" else 1.6)


def test_copies_of_two_gpus() -> None:
    one, two = (predicted(split(gpus), "2xh200")["pageable"] for gpus in (1, 2))
    assert _path(one) / _path(two) < 1.1
    found = predicted(pipeline(), "2xh200")
    peer, pinned = found["peer"], found["pinned"]
    assert float(peer.parts["to-peer"][0]) == pytest.approx(SIZE / 387e9, rel=0.05)
    saved = float(pinned.seconds[0] - peer.seconds[0])
    assert saved == pytest.approx(SIZE / 55.1e9 + SIZE / 55.4e9 - SIZE / 387e9, rel=0.05)
    assert (peer.seconds < pinned.seconds).all()


@every("strategy", COPYING)
@every("workload", [split(2), pipeline()], ids=["split", "pipeline"])
def test_parts_add_up_in_every_draw_and_figures_have_ranges(workload: WorkloadRecord, strategy: str) -> None:
    found = predicted(workload, "2xh200")[strategy]
    np.testing.assert_allclose(sum(found.parts.values()), found.seconds)
    low, high = np.percentile(found.seconds[1:], (5, 95))
    assert low < found.seconds[0] < high


def test_what_is_not_known_of_several_gpus_is_not_predicted() -> None:
    one = set(predicted(split(2), "h200").values())
    assert one == {"the workload runs on 2 GPUs, and the target H200 SXM is one GPU: use --target 2xh200"}
    jetson = set(map(str, predicted(split(1), "2xorin-nano").values()))
    assert len(jetson) == 1
    assert "has one GPU" in jetson.pop()
    assert set(predicted(split(2), "orin-nano").values()) == {
        "the workload runs on 2 GPUs, and Jetson Orin Nano 8GB has one"
    }
    cards = predicted(pipeline(), "2xrtx-4090")
    assert "copies from GPU to GPU is not known" in str(cards["peer"])
    assert isinstance(cards["pinned"], Simulated)
    assert "managed memory" in str(cards["managed"])


def test_a_mix_with_peer_is_predicted_where_the_rate_between_gpus_is_known() -> None:
    chosen = mix("m", {"a": "zero-copy", "b": "peer"}, "pinned")

    def simulated(target: str) -> Simulated | str:
        return simulate(pipeline(), Trace(), Machine(load(target)), [chosen])["m"]

    assert float(simulated("2xh200").parts["to-peer"][0]) == pytest.approx(SIZE / 387e9, rel=0.05)
    assert "peer_bytes_per_second" in str(simulated("2xrtx-4090"))


def test_a_count_and_a_name_are_a_target() -> None:
    two = load("2xH200")
    assert (two.gpus, two.name, two.origin) == (2, "2 x H200 SXM", "2xh200")
    assert of_device(two.device().name) == two
    assert of_device("H200 SXM") == load("1xh200") == load("h200")
    assert of_device("2 x Nothing") is None


@every("target", ["0xh200", "17xh200", "2x2xh200"])
def test_a_wrong_count_is_one_message(target: str) -> None:
    with pytest.raises(UsageError) as problem:
        load(target)
    assert re.match(r"^\S+xh200'? is not a target|there is no device '2x2xh200'", problem.value.message)
