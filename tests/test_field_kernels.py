"""The kernels of the example workloads give what their CPU twins give: run as C++, launch shapes and all."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulated import Emulator
from fakes import job
from field import EXAMPLES, example_part

from advisor import kernel
from advisor.measure.backends import open_backend
from advisor.measure.frames import Ranges
from advisor.measure.placed_workload import place
from advisor.measure.reference import reference
from advisor.workloads.kernels import Kernel
from advisor.workloads.loading import load

CASES = [
    ("mapped_output", {"n": "3000"}, {"ramp"}),
    ("strided_reads", {"records": "300", "fields": "5"}, {"sum_fields"}),
    ("strided_reads", {"records": "300", "fields": "5", "coalesced": "true"}, {"sum_fields"}),
    ("flag_polling", {"polls": "20", "adds": "3"}, {"wait_and_count"}),
    (
        "debayer_resize",
        {"width": "46", "height": "33", "small_width": "17", "small_height": "12"},
        {"debayer", "resize"},
    ),
]


needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")


@needs_compiler
@pytest.mark.parametrize(("name", "parameters", "kernels"), CASES)
def test_a_kernel_does_what_its_twin_does(
    name: str, parameters: dict[str, str], kernels: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulator = Emulator(tmp_path)

    def call(kernel: Kernel, *arguments: Any, **shape: Any) -> None:
        emulator(kernel, *arguments, **shape)

    monkeypatch.setattr(Kernel, "__call__", call)
    path = EXAMPLES / f"{name}.py"
    loaded = load(path, None, parameters)
    frame = tuple(replace(stage, stage=replace(stage.stage, cpu=None)) for stage in loaded.bound.frame)
    without_twins = replace(loaded, bound=replace(loaded.bound, frame=frame))
    asked = job(task="reference", file=str(path), reference=str(tmp_path / "results"), assignments=parameters)
    backend = open_backend("cpu", 0)
    run = reference(asked, backend, lambda again=False: place(asked, without_twins, backend, Ranges()))
    assert not run.unlike
    assert set(emulator.launches) == kernels


@needs_compiler
def test_debayering_is_exact(tmp_path: Path) -> None:
    """The workload's check, of the resized image, lets a difference of one pass."""
    raw = np.random.default_rng(5).integers(0, 256, (33, 46), np.uint8)
    ours, expected = np.zeros((2, 33, 46, 3), np.uint8)
    debayer = kernel(str(EXAMPLES / "parts" / "bayer.cu"), "debayer")
    Emulator(tmp_path)(debayer, raw, ours, 46, 33, grid=(3, 3), block=(16, 16))
    example_part("parts/bayer").debayer(raw, expected)
    np.testing.assert_array_equal(ours, expected)
