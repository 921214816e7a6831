"""A real GPU does what its imitations do: the records of tests/scripts, with times, and CuPy's refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cupy_cases import REFUSED, RUNS, Case
from on_gpu import numba_cuda, torch_with_cuda
from script_records import SCRIPTS, expected, record, rows

LIBRARIES = {
    "import cupy": lambda: None,
    "import torch": torch_with_cuda,
    "from numba import cuda": numba_cuda,
}
"""By the line that imports one, what skips the test if it cannot use the GPU."""


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_recorded_as_without_a_gpu(name: str, tmp_path: Path) -> None:
    script = SCRIPTS[name].read_text()
    next(require for line, require in LIBRARIES.items() if line in script)()
    run = record(SCRIPTS[name], tmp_path, "cuda")
    for each in run.crossings:
        print(each.place.line, each.call, each.host_seconds, each.kernel_seconds, each.stream_seconds)
    assert run.error == ""
    assert rows(run) == expected(script)
    copies = [each for each in run.crossings if each.kind in ("upload", "download")]
    assert all(each.stream_seconds for each in copies if each.call != "ndarray.__getitem__")
    assert run.is_accounted() or name == "spectra", run.copied  # cuFFT uploads tables of its own


# CuPy itself runs what the imitation lets pass, and refuses what it refuses


def run(case: Case) -> object:
    cupy: Any = pytest.importorskip("cupy")
    a = cupy.arange(64, dtype=cupy.float32)
    return case(cupy, a, a.reshape(8, 8).copy())


@pytest.mark.parametrize("case", RUNS.values(), ids=RUNS)
def test_cupy_runs_it(case: Case) -> None:
    run(case)


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_cupy_refuses_it(case: Case) -> None:
    with pytest.raises((TypeError, AttributeError, ValueError)):
        run(case)
