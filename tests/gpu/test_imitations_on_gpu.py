"""A real GPU does what its imitations do: the records of tests/scripts, with times, and CuPy's refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cupy_cases import REFUSED, RUNS, Case
from script_records import RECORDS, SCRIPTS, record, rows

LIBRARIES = {"import cupy": "cupy", "import torch": "torch", "from numba import cuda": "numba"}


def require_library(script: str) -> None:
    """Skips where the script's library is missing or was built for the CPU."""
    name = next(name for line, name in LIBRARIES.items() if line in script)
    module = pytest.importorskip("numba.cuda" if name == "numba" else name)
    available = module.is_available if name != "torch" else module.cuda.is_available
    if not available():
        pytest.skip(f"{name} cannot use the GPU here")


@pytest.mark.parametrize("name", RECORDS)
def test_a_script_is_recorded_as_without_a_gpu(name: str, tmp_path: Path) -> None:
    require_library((SCRIPTS / f"{name}.py").read_text())
    run = record(SCRIPTS / f"{name}.py", tmp_path, "cuda")
    for each in run.crossings:
        print(each.place.line, each.call, each.host_seconds, each.kernel_seconds, each.stream_seconds)
    assert run.error == ""
    assert rows(run) == RECORDS[name]
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
