"""The workload API: what its parts accept, and what they say of anything else."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest
from every import every
from running import missing

from advisor.errors import WorkloadError
from advisor.workloads.definition import (
    RESERVED,
    Buffer,
    Definition,
    ImpossibleBuffer,
    In,
    Out,
    Stage,
    Workload,
    device,
    host,
    workload,
)


def produce(a: Out) -> None:
    a.fill(1)


def consume(a: In) -> None:
    a.sum()


BUFFERS = {"a": Buffer(4, np.float32)}
NOT_A_MAPPING: Any = [Buffer(4, np.float32)]


def test_a_buffer_has_dimensions_and_an_element() -> None:
    assert Buffer(4, np.float32).dimensions == (4,)
    assert Buffer([2, 3], "u1").dimensions == (2, 3)
    assert Buffer(np.int64(5), float).dimensions == (5,)
    assert Buffer((np.int32(5), 2), ">i2").element == np.dtype(">i2")
    assert Buffer(1, [("x", "f4"), ("y", "i4")]).element.itemsize == 8
    assert all(type(n) is int for n in Buffer((np.int32(5), np.uint8(2)), "f4").dimensions)


@every("shape", [(), 2.0, "4", None, True, (3, True), [[4]], {4}])
def test_a_wrong_shape(shape: Any) -> None:
    with pytest.raises(WorkloadError) as raised:
        Workload({"image": Buffer(shape, np.float32)}, frame=[device(print)])
    assert f"buffer 'image': the shape is {shape!r}" in raised.value.message
    assert "Buffer(1024, np.float32)" in raised.value.next_step


@every(
    ("shape", "told"),
    [
        (0, "1 or more"),
        (-1, "1 or more"),
        ((4, 0), "1 or more"),
        (1 << 61, "2**63"),
        ((1 << 40,) * 2, "2**63"),
    ],
)
def test_a_shape_that_no_array_can_have_is_told_with_the_buffer(shape: Any, told: str) -> None:
    with pytest.raises(ImpossibleBuffer, match="buffer 'image' has the shape") as raised:
        Workload({"image": Buffer(shape, np.float32)}, frame=[device(print)])
    assert told in raised.value.message


def test_the_largest_size_that_has_a_number() -> None:
    assert Buffer((1 << 61) - 1, np.float32).dimensions == ((1 << 61) - 1,)


@every("dtype", [None, object, "nonsense", 7, "V0", "U0", [("x", object)], "(2,)f4"])
def test_a_wrong_dtype(dtype: Any) -> None:
    with pytest.raises(WorkloadError) as raised:
        Workload({"image": Buffer(4, dtype)}, frame=[device(print)])
    assert f"buffer 'image': the dtype is {dtype!r}" in raised.value.message
    assert "Buffer(1024, np.float32)" in raised.value.next_step


def test_buffers_are_neither_external_nor_scratch_unless_told() -> None:
    for external, scratch in ((False, False), (True, False), (False, True)):
        buffer = Buffer(4, np.float32, external=external, scratch=scratch)
        assert (buffer.external, buffer.scratch) == (external, scratch)
    assert Buffer(4, np.float32) == Buffer(4, np.float32, external=False, scratch=False)


def test_external_and_scratch_exclude_one_another() -> None:
    with pytest.raises(WorkloadError, match="'image' cannot be both external and scratch"):
        Workload({"image": Buffer(4, np.float32, external=True, scratch=True)}, frame=[device(print)])


def test_stages() -> None:
    assert host(produce) == Stage(produce, "host")
    stage = device(produce, cpu=consume, passes={"a": 8, "b": 0.5}, flops=10)
    assert (stage.side, stage.cpu, stage.passes, stage.flops) == ("device", consume, {"a": 8, "b": 0.5}, 10)
    assert device(produce).passes == {}
    assert device(produce).flops is None


def test_a_stage_is_named_after_its_function() -> None:
    assert host(produce).name == "produce"
    assert host(functools.partial(produce)).name == "partial"


@every("value", [-1, math.nan, math.inf, "8", None, True, [1]])
def test_wrong_passes(value: Any) -> None:
    with pytest.raises(WorkloadError) as raised:
        device(produce, passes={"a": value})
    assert f"device(produce): a is {value!r}" in raised.value.message


@every("value", [-1, math.nan, math.inf, "8", True])
def test_wrong_flops(value: Any) -> None:
    with pytest.raises(WorkloadError, match=r"device\(produce\): flops is"):
        device(produce, flops=value)


def test_passes_of_a_buffer_named_flops_are_looked_at_too() -> None:
    with pytest.raises(WorkloadError, match="flops is -1"):
        device(produce, passes={"flops": -1})


def test_passes_and_flops_may_be_numpys_numbers() -> None:
    stage = device(produce, passes={"a": np.int64(8), "b": np.float32(2)}, flops=np.int32(5))
    assert stage.passes == {"a": 8, "b": 2}
    assert stage.flops == 5


def test_passes_that_are_no_table() -> None:
    wrong: Any = 8
    with pytest.raises(WorkloadError, match="passes is 8"):
        device(produce, passes=wrong)


@every("wrong", [None, 3, "produce"])
def test_what_is_no_function(wrong: Any) -> None:
    for make, where in ((host, "host"), (device, "device"), (workload, "@workload")):
        with pytest.raises(WorkloadError) as raised:
            make(wrong)
        assert not missing(raised.value.message, where, repr(wrong))
        assert "do not call it" in raised.value.next_step


def test_a_cpu_twin_and_a_check_must_be_functions() -> None:
    wrong: Any = 3
    with pytest.raises(WorkloadError, match=r"device\(cpu=\.\.\.\) was given 3"):
        device(produce, cpu=wrong)
    with pytest.raises(WorkloadError, match="check= was given 3"):
        Workload(BUFFERS, frame=[host(produce)], check=wrong)


@every("buffers", [{}, None, NOT_A_MAPPING])
def test_buffers_must_be_a_table(buffers: Any) -> None:
    with pytest.raises(WorkloadError) as raised:
        Workload(buffers, frame=[host(produce)])
    assert f"buffers is {buffers!r}" in raised.value.message


@every("buffers", [{"a b": Buffer(4, "f4")}, {1: Buffer(4, "f4")}, {"a": np.zeros(3)}])
def test_a_buffer_must_be_a_buffer_under_a_name(buffers: Any) -> None:
    with pytest.raises(WorkloadError, match=r"^buffers\["):
        Workload(buffers, frame=[host(produce)])


@every("name", RESERVED)
def test_a_buffer_cannot_take_a_special_name(name: str) -> None:
    with pytest.raises(WorkloadError, match=f"'{name}'") as raised:
        Workload({name: Buffer(4, "f4")}, frame=[host(produce)])
    assert ", ".join(RESERVED) in raised.value.next_step


def test_what_stages_get_by_name() -> None:
    assert RESERVED == ("xp", "rng", "frame", "stream", "gpu", "gpus")


@every("part", ["frame", "setup"])
def test_a_plain_function_is_no_stage(part: str) -> None:
    stages: Any = {"frame": [host(produce)], "setup": []}
    stages[part] = [host(produce), consume]
    with pytest.raises(WorkloadError) as raised:
        Workload(BUFFERS, **stages)
    assert f"{part}[1] is consume" in raised.value.message
    assert "host(produce)" in raised.value.next_step


@every("wrong", [host(produce), None, "produce"])
def test_stages_come_in_a_list(wrong: Any) -> None:
    with pytest.raises(WorkloadError, match=r"^frame is "):
        Workload(BUFFERS, frame=wrong)
    with pytest.raises(WorkloadError, match=r"^setup is "):
        Workload(BUFFERS, frame=[host(produce)], setup=wrong)


def test_a_workload_needs_neither_setup_nor_check() -> None:
    made = Workload(BUFFERS, frame=(host(produce),))
    assert (made.setup, made.check) == ((), None)


def test_a_frame_needs_a_stage() -> None:
    with pytest.raises(WorkloadError, match=r"frame=\[\]"):
        Workload(BUFFERS, frame=[])


def test_a_definition_stays_a_function() -> None:
    @workload
    def sample(n: int = 3, *, m: int = 4) -> tuple[int, int]:
        """First line.

        More.
        """
        return n, m

    assert isinstance(sample, Definition)
    assert (sample.name, sample.summary) == ("sample", "First line.")
    assert sample(5, m=6) == (5, 6)


def test_a_definition_without_docstring_or_name() -> None:
    assert workload(lambda: None).summary == ""
    assert workload(functools.partial(produce)).name == "partial"
