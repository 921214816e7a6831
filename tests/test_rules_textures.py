"""Stages that sample through textures: how they are recognised, and what the rule says of them."""

from __future__ import annotations

from typing import Any

import pytest
from builders import (
    catalogue_device,
    cuda_device,
    prediction,
    profile,
    recommendation,
    vector_add_trace,
    vector_add_workload,
)
from every import every
from field import Concluded
from judging import bet, row, says

import advisor
from advisor.profiles.schema import Device, MemoryClass, Profile
from advisor.workloads.stage_code import samples_textures

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


def sampled() -> Any:
    plain = vector_add_workload()
    stages = tuple(s.model_copy(update={"textures": s.side == "device"}) for s in plain.stages)
    return plain.model_copy(update={"stages": stages})


COPIED = row("pinned", 0.020, kernels=0.001, copies=0.008)


def over(kernels: float, device: Device | None = None, **fields: Any) -> Profile:
    zero_copy = row("zero-copy", 0.010 + kernels, kernels=kernels)
    fields = {"workload": sampled(), "traffic": vector_add_trace()} | fields
    return profile(results=(COPIED, zero_copy), device=device or cuda_device("discrete"), **fields)


@every("memory_class", ["discrete", "tegra-io-coherent"])
def test_slow_textures_over_mapped_memory_are_told(memory_class: MemoryClass) -> None:
    found = says("texture-in-mapped-memory", over(0.012, cuda_device(memory_class)))
    assert (found.outcome, found.strategy, found.certainty) == ("advice", "pinned", "likely")


@every(
    ("kernels", "memory_class", "outcome"),
    [
        (0.0112, "discrete", "pass"),  # 9 ms by a copy and device memory
        (0.0113, "discrete", "advice"),
        (0.0012, "tegra-io-coherent", "pass"),  # where the copy spares nothing
        (0.0112, "tegra-io-coherent", "advice"),
        (0.0800, "coherent", "not-applicable"),
    ],
)
def test_where_it_costs(kernels: float, memory_class: MemoryClass, outcome: str) -> None:
    found = says("texture-in-mapped-memory", over(kernels, cuda_device(memory_class)))
    assert found.outcome == outcome, found.detail


@every(("seconds", "outcome"), [(0.001, "advice"), (0.09, "pass")])
def test_a_prediction_of_textures_in_place_asks_to_be_measured(seconds: float, outcome: str) -> None:
    rows = (bet("pinned", 0.02, kernels=0.001, copies=0.012), bet("zero-copy", seconds, kernels=0.0005))
    best = recommendation("zero-copy" if seconds < 0.02 else "pinned")
    told = prediction(device=catalogue_device("RTX 4090"), results=rows, recommendation=best)
    cpu = Device(name="Test CPU", kind="cpu")
    run = profile(device=cpu, traffic=vector_add_trace(), workload=sampled(), predictions=(told,))
    found = says("texture-in-mapped-memory", run)
    assert (found.outcome, found.gain) == (outcome, None)


EXAMPLES = {"texture-in-mapped-memory": over(0.012)}


@pytest.mark.parametrize("layout", ["linear", "array"])
def test_the_example_is_recognised_and_right(layout: str, tmp_path: Any) -> None:
    said = Concluded(tmp_path, "texture_sampling", "rtx-4090", "width=64", "height=32", f"layout={layout}")
    assert [stage.textures for stage in said.profile.workload.stages] == [False, True, False]
    assert said.says("texture-in-mapped-memory").outcome in ("advice", "pass")
