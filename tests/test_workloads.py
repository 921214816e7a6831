"""The workload API: what its parts accept, and what they say of anything else."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from every import every
from field import Concluded

import advisor
from advisor.errors import WorkloadError
from advisor.workloads.definition import (
    RESERVED,
    Buffer,
    Definition,
    In,
    Out,
    Stage,
    Workload,
    device,
    host,
    workload,
)
from advisor.workloads.stage_code import samples_textures


def produce(a: Out) -> None:
    a.fill(1)


def consume(a: In) -> None:
    a.sum()


BUFFERS = {"a": Buffer(4, np.float32)}


def test_a_buffer_has_dimensions_and_an_element() -> None:
    assert Buffer(4, np.float32).dimensions == (4,)
    assert Buffer([2, 3], "u1").dimensions == (2, 3)
    assert Buffer(np.int64(5), float).dimensions == (5,)
    assert Buffer((np.int32(5), 2), ">i2").element == np.dtype(">i2")
    assert Buffer(1, [("x", "f4"), ("y", "i4")]).element.itemsize == 8
    assert all(type(n) is int for n in Buffer((np.int32(5), np.uint8(2)), "f4").dimensions)


def test_stages() -> None:
    assert host(produce) == Stage(produce, "host")
    stage = device(produce, cpu=consume, passes={"a": 8, "b": 0.5}, flops=10)
    assert (stage.side, stage.cpu, stage.passes, stage.flops) == ("device", consume, {"a": 8, "b": 0.5}, 10)
    assert device(produce).passes == {}
    assert device(produce).flops is None
    assert host(produce).name == "produce"
    assert host(functools.partial(produce)).name == "partial"
    stage = device(produce, passes={"a": np.int64(8), "b": np.float32(2)}, flops=np.int32(5))
    assert stage.passes == {"a": 8, "b": 2}
    assert stage.flops == 5


def framed(buffers: Any = BUFFERS, frame: Any = None, **parts: Any) -> Workload:
    return Workload(buffers, frame=[host(produce)] if frame is None else frame, **parts)


def shaped(shape: Any, dtype: Any = np.float32, **facts: bool) -> Workload:
    return framed({"image": Buffer(shape, dtype, **facts)})


NUMBERS = (-1, math.nan, math.inf, "8", True)
Refusal = tuple[Callable[[Any], object], Sequence[Any], str, str]
"""What makes it of each of the values; its message, with the value as `{0!r}`; a part of the next step."""
REFUSED: list[Refusal] = [
    (
        shaped,
        ((), 2.0, "4", None, True, (3, True), [[4]], {4}),
        "buffer 'image': the shape is {0!r}",
        "Buffer(1024, np.float32)",
    ),
    (shaped, (0, -1, (4, 0)), "buffer 'image' has the shape", "Correct the shape"),
    (shaped, (1 << 61, (1 << 40,) * 2), "bytes; the most is 2**63 - 1", "smaller shape"),
    (
        lambda dtype: shaped(4, dtype),
        (None, object, "nonsense", 7, "V0", "U0", [("x", object)], "(2,)f4"),
        "buffer 'image': the dtype is {0!r}",
        "Buffer(1024, np.float32)",
    ),
    (
        lambda both: shaped(4, external=both, scratch=both),
        (True,),
        "'image' cannot be both external and scratch",
        "arrives on the host",
    ),
    (
        lambda value: device(produce, passes={"a": value}),
        (*NUMBERS, None, [1]),
        "device(produce): a is {0!r}",
        "times that the kernel reads",
    ),
    (lambda value: device(produce, flops=value), NUMBERS, "device(produce): flops is {0!r}", "operations"),
    (lambda value: device(produce, passes={"flops": value}), (-1,), "flops is -1", "Give the number"),
    (lambda value: device(produce, passes=value), (8,), "passes is 8", 'passes={"image": 8}'),
    (host, (None, 3, "produce"), "host was given {0!r}", "do not call it"),
    (device, (None, 3, "produce"), "device was given {0!r}", "do not call it"),
    (workload, (None, 3, "produce"), "@workload was given {0!r}", "do not call it"),
    (lambda twin: device(produce, cpu=twin), (3,), "device(cpu=...) was given 3", "do not call it"),
    (lambda check: framed(check=check), (3,), "check= was given 3", "do not call it"),
    (framed, ({}, None, [Buffer(4, np.float32)]), "buffers is {0!r}", "Write buffers="),
    (
        framed,
        ({"a b": Buffer(4, "f4")}, {1: Buffer(4, "f4")}, {"a": np.zeros(3)}),
        "buffers[",
        "naming a parameter after it",
    ),
    (lambda name: framed({name: Buffer(4, "f4")}), RESERVED, "{0!r}", ", ".join(RESERVED)),
    (lambda stage: framed(frame=[host(produce), stage]), (consume,), "frame[1] is consume", "host(produce)"),
    (lambda stage: framed(setup=[host(produce), stage]), (consume,), "setup[1] is consume", "host(produce)"),
    (lambda stages: framed(frame=stages), (host(produce), 3, "produce"), "frame is ", "host(produce)"),
    (lambda stages: framed(setup=stages), (host(produce), None, "produce"), "setup is ", "host(produce)"),
    (lambda stages: framed(frame=stages), ([],), "frame=[]", "List the stages"),
]


@every(
    ("make", "value", "message", "next_step"),
    [(make, value, *told) for make, values, *told in REFUSED for value in values],
)
def test_what_is_wrong_is_refused_with_the_next_step(
    make: Callable[[Any], object], value: Any, message: str, next_step: str
) -> None:
    with pytest.raises(WorkloadError) as raised:
        make(value)
    assert message.format(value) in raised.value.message
    assert next_step in raised.value.next_step


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
    assert workload(lambda: None).summary == ""
    assert workload(functools.partial(produce)).name == "partial"


# Stages that sample through textures


SOURCE = 'extern "C" __global__ void f(cudaTextureObject_t t, float* y) { y[0] = tex2D<float>(t, 0, 0); }'
KERNEL = advisor.kernel(SOURCE, "f")
PLAIN = advisor.kernel('extern "C" __global__ void g(float* y) { int vtex2D = 0; y[0] = (vtex2D); }', "g")


def helper(array: Any) -> Any:
    return KERNEL(array)


def by_a_kernel(y: Any) -> None:
    KERNEL(y)


def by_a_source(y: Any, xp: Any) -> None:
    xp.RawKernel(SOURCE, "f")((1,), (1,), (y,))


def by_a_helper(y: Any) -> None:
    helper(y)


def by_an_object(y: Any) -> None:
    def made() -> Any:
        from cupy.cuda import texture

        return texture.TextureObject(None, None)

    made()


def by_itself_again(y: Any) -> None:
    by_itself_again(y) if y is None else by_a_helper(y)


def not_at_all(y: Any) -> None:
    PLAIN(y)


@every("stage", [by_a_kernel, by_a_source, by_a_helper, by_an_object, by_itself_again])
def test_a_texture_is_found(stage: Any) -> None:
    assert samples_textures(stage)


@every("stage", [not_at_all, len, print, object()])
def test_others_have_none(stage: Any) -> None:
    assert not samples_textures(stage)


@pytest.mark.parametrize("layout", ["linear", "array"])
def test_the_example_is_recognised_and_right(layout: str, tmp_path: Any) -> None:
    said = Concluded("texture_sampling", "rtx-4090", "width=64", "height=32", f"layout={layout}")
    assert [stage.textures for stage in said.profile.workload.stages] == [False, True, False]
    assert said.says("texture-in-mapped-memory").outcome in ("advice", "pass")
