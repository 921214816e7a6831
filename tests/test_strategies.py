"""Strategies: which buffer gets which placement, where a strategy cannot be used, and its name."""

from __future__ import annotations

import pytest
from builders import cuda_device, vector_add_workload

from advisor import strategies
from advisor.errors import UsageError
from advisor.placements.base import Placement
from advisor.placements.external import External
from advisor.placements.one_sided import DeviceOnly, HostOnly
from advisor.profiles import AccessMode, BufferRecord, Device, Side, StageRecord, WorkloadRecord
from advisor.strategies import BASELINE, STRATEGIES, Strategy, by_name, choose, describe

CPU = Device(name="CPU", kind="cpu")
NAMES = [strategy.name for strategy in STRATEGIES]


def workload(side_of: dict[str, Side], *, external: bool = False, **access: AccessMode) -> WorkloadRecord:
    """One buffer `x`, touched by the stages of that name."""
    buffer = BufferRecord(
        name="x", shape=(4,), dtype="float32", bytes=16, access=dict(access), external=external
    )
    return WorkloadRecord(
        name="w",
        file="w.py",
        sha256="0" * 64,
        parameters={},
        buffers=(buffer,),
        stages=tuple(StageRecord(name=n, side=side, phase="frame") for n, side in side_of.items()),
    )


def place(strategy: str, record: WorkloadRecord) -> Placement:
    return by_name(strategy).placements(record)["x"]


def test_the_table() -> None:
    assert NAMES == ["pageable", "pinned", "zero-copy", "managed"]
    assert NAMES[0] == BASELINE
    assert [strategy.code_change for strategy in STRATEGIES] == [0, 1, 2, 1]


@pytest.mark.parametrize("strategy", NAMES)
def test_buffers_of_both_sides_get_the_strategys_placement(strategy: str) -> None:
    placements = by_name(strategy).placements(vector_add_workload())
    assert placements == dict.fromkeys("abc", by_name(strategy).placement)


@pytest.mark.parametrize("strategy", NAMES)
def test_buffers_of_one_side_stay_there(strategy: str) -> None:
    on_device = workload({"k": "device", "h": "host"}, k="inout")
    assert isinstance(place(strategy, on_device), DeviceOnly)
    on_host = workload({"k": "device", "h": "host"}, h="out")
    assert isinstance(place(strategy, on_host), HostOnly)
    untouched = workload({"k": "device"})
    assert isinstance(place(strategy, untouched), HostOnly)


@pytest.mark.parametrize("strategy", NAMES)
def test_external_data_pays_a_copy_unless_any_memory_will_do(strategy: str) -> None:
    placed = place(strategy, workload({"h": "host", "k": "device"}, external=True, h="out", k="in"))
    if strategy == "pageable":
        assert placed is by_name(strategy).placement
    else:
        assert isinstance(placed, External)
        assert placed.inner is by_name(strategy).placement


def test_external_data_of_one_side_is_not_copied() -> None:
    assert isinstance(place("pinned", workload({"h": "host"}, external=True, h="out")), HostOnly)


@pytest.mark.parametrize(
    ("strategy", "attributes", "reason"),
    [
        ("zero-copy", {"can_map_host_memory": 0}, "canMapHostMemory is 0"),
        ("managed", {"managed_memory": 0}, "managedMemory is 0"),
    ],
)
def test_unavailable_with_the_reason(strategy: str, attributes: dict[str, int], reason: str) -> None:
    why = by_name(strategy).unavailable(cuda_device(**attributes))
    assert why is not None
    assert reason in why
    assert "Test discrete" in why
    assert by_name(strategy).unavailable(cuda_device(**dict.fromkeys(attributes, 1))) is None


@pytest.mark.parametrize("strategy", NAMES)
def test_an_attribute_the_device_does_not_tell_is_no_reason(strategy: str) -> None:
    assert by_name(strategy).unavailable(cuda_device()) is None


def test_on_the_cpu_only_pageable_and_zero_copy_differ() -> None:
    available = [strategy.name for strategy in STRATEGIES if strategy.unavailable(CPU) is None]
    assert available == ["pageable", "zero-copy"]
    why = by_name("managed").unavailable(CPU)
    assert why is not None
    assert "CPU device" in why


def test_what_the_model_asks_of_a_strategy() -> None:
    kinds = {s.name: (s.host_kind, s.device_kind) for s in STRATEGIES}
    assert kinds == {
        "pageable": ("pageable", "device"),
        "pinned": ("pinned", "device"),
        "zero-copy": ("pinned", "pinned"),
        "managed": ("managed", "managed"),
    }
    assert by_name("pinned").traits(cuda_device()).moves == "copies"
    assert by_name("managed").traits(cuda_device(concurrent_managed_access=0)).exclusive


def test_an_unknown_name_offers_the_nearest() -> None:
    with pytest.raises(UsageError) as raised:
        by_name("pined")
    assert raised.value.message.startswith("there is no strategy 'pined'; did you mean pinned")
    assert ", ".join(NAMES) in raised.value.next_step
    with pytest.raises(UsageError, match=r"^there is no strategy 'qqq'$"):
        by_name("qqq")


def test_choosing_keeps_the_order_of_the_table() -> None:
    assert choose([]) == STRATEGIES
    assert [s.name for s in choose(["managed", "pageable", "managed"])] == ["pageable", "managed"]
    with pytest.raises(UsageError):
        choose(["pageable", "nothing"])


def test_the_description_has_every_strategy_with_its_placements_text() -> None:
    text = describe()
    paragraphs = text.split("\n\n")
    assert len(paragraphs) == len(STRATEGIES)
    for strategy, paragraph in zip(STRATEGIES, paragraphs, strict=True):
        head, *body = paragraph.splitlines()
        assert head == f"{strategy.name}: {strategy.summary}"
        assert "".join(body).strip()
        assert all(line.startswith("  ") and len(line) <= 80 for line in body)
    assert "Best Practices Guide" in text


def test_a_strategy_is_made_of_a_placement(monkeypatch: pytest.MonkeyPatch) -> None:
    another = Strategy("another", "as pinned", by_name("pinned").placement, 3)
    monkeypatch.setattr(strategies, "STRATEGIES", (*STRATEGIES, another))
    assert by_name("another") is another
