"""The code to copy for several GPUs is run: against stand-ins whose streams dawdle, and on two GPUs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import cuda_device
from every import every
from running import REPOSITORY
from snippet_fakes import Gpus, computed, fake_cupy, fake_numba, fake_torch, launching

from advisor.profiles.schema import Device, WorkloadRecord
from advisor.rules.snippets.writing import snippet, variants
from advisor.strategies.mixes import mix
from advisor.strategies.registry import STRATEGIES
from advisor.workloads.loading import prepare

WORKLOADS = ("two_gpus_split", "two_gpus_pipeline", "halves_joined")
N = 64
CARD = cuda_device("discrete", managed_memory=1, concurrent_managed_access=1)
ALL = ("CuPy", "PyTorch", "Numba")
IN_PLACE = ("zero-copy", "zero-copy-wc", "managed")
LIBRARIES = {"pinned": ALL, "peer": ALL, **dict.fromkeys(("staged", "write-combined", *IN_PLACE), ALL[:1])}
"""What has code of its own to copy, by strategy."""


def record(name: str) -> WorkloadRecord:
    """A workload of the repository; `halves_joined` is a split whose halves one GPU needs afterwards."""
    folder = "tests/workload_files" if name == "halves_joined" else "workloads"
    return prepare(Path(REPOSITORY / folder / f"{name}.py"), None, {"n": str(N)})().record


def texts(strategy: str, workload: WorkloadRecord, device: Device = CARD) -> dict[str, str]:
    text = snippet(strategy, workload, device)
    return {"CuPy": text, **variants(strategy, workload, device)} if text else {}


CASES = [
    (name, strategy, library)
    for name in WORKLOADS
    for strategy, libraries in LIBRARIES.items()
    for library in libraries
    if (name, strategy) != ("two_gpus_split", "peer")
]


def expected(name: str, frame: int) -> Any:
    added = np.full(N, 2 * frame + 1, np.float32)
    return {"two_gpus_split": added, "two_gpus_pipeline": np.full(N, frame), "halves_joined": added**2}[name]


@pytest.mark.parametrize(("name", "strategy", "library"), CASES)
def test_frames_compute_the_right_results(
    monkeypatch: pytest.MonkeyPatch, name: str, strategy: str, library: str
) -> None:
    gpus = Gpus()
    numba = fake_numba(gpus)
    for module, fake in (("cupy", fake_cupy(gpus)), ("torch", fake_torch(gpus)), ("numba", numba)):
        monkeypatch.setitem(sys.modules, module, fake)
    text = texts(strategy, record(name))[library]
    assert max(map(len, text.splitlines())) <= 120

    found = computed(text, launching(gpus, library))
    assert len(found) == 4
    for frame, values in enumerate(found):
        np.testing.assert_array_equal(values, expected(name, frame))


@every("name", WORKLOADS)
def test_which_strategies_have_code_in_which_libraries(name: str) -> None:
    workload = record(name)
    found = {strategy.name: tuple(texts(strategy.name, workload)) for strategy in STRATEGIES}
    expected = {n: some for n, some in LIBRARIES.items() if (name, n) != ("two_gpus_split", "peer")}
    assert {strategy: libraries for strategy, libraries in found.items() if libraries} == expected


def test_a_mix_with_peer_has_code_in_all_libraries() -> None:
    chosen = {"image": "pageable", "features": "peer", "result": "pinned"}
    mixes = {"hybrid-1": mix("hybrid-1", chosen)}
    workload = record("two_gpus_pipeline")
    found = [
        snippet("hybrid-1", workload, CARD, mixes),
        *variants("hybrid-1", workload, CARD, mixes).values(),
    ]
    assert [("mark0" in text, "features = " in text) for text in found if text] == [(True, False)] * 3


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "strategy", "library"), CASES)
def test_on_two_gpus(name: str, strategy: str, library: str) -> None:
    cupy = pytest.importorskip("cupy")
    if not cupy.cuda.is_available() or cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("fewer than two GPUs")
    if library == "Numba":
        pytest.skip("its kernels are compiled by name; test_rules_snippets.py runs it on one GPU")
    from advisor.measure.backends import open_backend

    text = texts(strategy, record(name), open_backend("cuda").device()).get(library)
    if text is None:
        pytest.skip("not available on this device")
    xp = pytest.importorskip("torch") if library == "PyTorch" else cupy
    for frame, values in enumerate(computed(text, lambda kernel, arrays, _: kernel(xp, **arrays))):
        np.testing.assert_array_equal(values, expected(name, frame))
