"""Which frames can overlap, and which buffers must then be there twice."""

from __future__ import annotations

from every import every

from advisor.profiles.schema import AccessMode
from advisor.strategies.schedule import StageUse, doubled, obstacle, renewed_each_frame


def host(name: str, **access: AccessMode) -> StageUse:
    return StageUse(name, "host", access)


def device(name: str, **access: AccessMode) -> StageUse:
    return StageUse(name, "device", access)


PRODUCE = host("produce", a="out")
KERNEL = device("kernel", a="in", w="in", s="inout", t="out", b="out")
CONSUME = host("consume", b="in", w="in")


def test_frames_that_can_overlap_and_a_frame_without_kernels() -> None:
    assert obstacle([PRODUCE, KERNEL, CONSUME]) is None
    assert obstacle([PRODUCE]) == "no stage runs on the device"
    assert obstacle([PRODUCE, device("k", a="in", s="inout")]) is None
    assert obstacle([PRODUCE, device("k", a="in", w="in"), host("look", w="in")]) is None


def test_which_buffers_are_doubled() -> None:
    assert renewed_each_frame([PRODUCE, KERNEL, CONSUME]) == ["a", "t", "b"]
    assert renewed_each_frame([device("k", a="inout"), host("h", a="out")]) == []
    assert doubled([PRODUCE, KERNEL, CONSUME]) == ["a", "b"]
    assert doubled([host("produce", a="out", h="out"), device("k", a="in"), host("end", h="in")]) == [
        "a",
        "h",
    ]


@every(
    ("frame", "stage"),
    [
        ([host("feed", x="inout"), device("k", x="in")], "feed"),
        ([device("k", x="inout"), host("look", x="in")], "look"),
        ([host("look", x="in"), device("k", x="out")], "look"),
        ([PRODUCE, device("k", a="in"), host("count", h="inout")], "count"),
    ],
)
def test_the_host_uses_what_the_last_frame_left(frame: list[StageUse], stage: str) -> None:
    why = obstacle(frame)
    assert why is not None
    assert f"host stage {stage!r} uses buffer" in why
    assert "carries data between frames" in why
