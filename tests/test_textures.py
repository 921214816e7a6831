"""Stages that sample through textures: how they are recognised."""

from __future__ import annotations

from typing import Any

import pytest
from every import every
from field import Concluded

import advisor
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


@pytest.mark.parametrize("layout", ["linear", "array"])
def test_the_example_is_recognised_and_right(layout: str, tmp_path: Any) -> None:
    said = Concluded("texture_sampling", "rtx-4090", "width=64", "height=32", f"layout={layout}")
    assert [stage.textures for stage in said.profile.workload.stages] == [False, True, False]
    assert said.says("texture-in-mapped-memory").outcome in ("advice", "pass")
