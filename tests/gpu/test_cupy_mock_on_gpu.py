"""CuPy itself runs what the imitation lets pass, and refuses what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from cupy_cases import REFUSED, RUNS, Case

pytestmark = pytest.mark.gpu


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
