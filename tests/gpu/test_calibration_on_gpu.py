"""`advisor devices calibrate` on a real GPU: in time, right where it can be checked, fit to predict with."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from on_gpu import CARDS, WORKLOADS, advisor, profiled

from advisor.calibration.calibrations import GROUPS
from advisor.devices.catalogue import load
from advisor.devices.entries import CatalogueEntry
from advisor.strategies.arena import Arena
from advisor.strategies.backend import Backend, host_array

BYTES = 256 << 20
COPIES = 5


@dataclass(frozen=True)
class Calibrated:
    path: Path
    entry: CatalogueEntry
    remarks: str


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> Calibrated:
    path = tmp_path_factory.mktemp("calibrated") / "mine.toml"
    done = advisor("devices", "calibrate", "--out", path)
    assert done.returncode == 0, done.stderr
    return Calibrated(path, load(str(path)), done.stderr)


def test_every_figure_is_there_or_missing_with_a_reason(calibrated: Calibrated) -> None:
    for key in (key for group in GROUPS for key in group.keys):
        assert getattr(calibrated.entry.figures, key) is not None or f"{key}" in calibrated.remarks


def test_it_is_the_device_that_is_here(calibrated: Calibrated, cuda: Backend) -> None:
    device = cuda.device()
    assert calibrated.entry.name == device.name
    assert calibrated.entry.memory_class == device.memory_class


def bare_rate(cuda: Backend, to_device: bool) -> float:
    """Bytes per second of the best of a few plain rows of cudaMemcpyAsync."""
    runtime = cuda.xp.cuda.runtime
    kind = runtime.memcpyHostToDevice if to_device else runtime.memcpyDeviceToHost
    with Arena(cuda) as arena:
        host, device = arena.pinned(BYTES), arena.device(BYTES)
        host_array(host, BYTES, (BYTES,), np.dtype(np.uint8)).fill(1)
        target, source = (device, host) if to_device else (host, device)
        times = []
        for _ in range(5):
            before = time.perf_counter()
            for _ in range(COPIES):
                runtime.memcpyAsync(target, source, BYTES, kind, cuda.stream.ptr)
            cuda.synchronize()
            times.append(time.perf_counter() - before)
    return COPIES * BYTES / float(np.median(times))


@pytest.mark.parametrize("to_device", [True, False], ids=["to-device", "to-host"])
def test_the_pinned_rate_is_that_of_bare_copies(
    calibrated: Calibrated, cuda: Backend, to_device: bool
) -> None:
    figures = calibrated.entry.figures
    found = (
        figures.pinned_to_device_bytes_per_second if to_device else figures.pinned_to_host_bytes_per_second
    )
    assert found.value == pytest.approx(bare_rate(cuda, to_device), rel=0.1)


def test_figures_are_in_an_order_that_is_physically_possible(calibrated: Calibrated) -> None:
    figures = calibrated.entry.figures
    memory = figures.device_memory_bytes_per_second.value
    if figures.l2_bytes_per_second is not None:
        assert figures.l2_bytes_per_second.value > 0.8 * memory
    if calibrated.entry.memory_class in CARDS:
        assert figures.zero_copy_read_bytes_per_second.value < memory
    assert 5e-7 < figures.launch_seconds.value < 1e-4


def test_what_is_read_again_and_calls_are_plausible(calibrated: Calibrated) -> None:
    figures = calibrated.entry.figures
    if calibrated.entry.memory_class in CARDS:
        two, alone, routines = (
            figures.link_again_share,
            figures.link_again_alone_share,
            figures.routine_again_share,
        )
        assert 0.1 < two.value < 1.2
        # Of reads far apart nearly all cross the link, of neighbouring ones fewer.
        assert 0.5 < alone.value < 1.2
        assert alone.low is not None
        assert alone.low < alone.value
        assert 0.2 < routines.value < 3
    assert 1e-6 < figures.prefetch_call_seconds.value < 1e-3


def test_the_entry_predicts(calibrated: Calibrated, tmp_path: Path) -> None:
    options = ("--set", "n=2**20", "--no-gpu", "--target", calibrated.path, "--max-seconds", "20")
    (target,) = profiled(tmp_path, WORKLOADS / "vector_add.py", *options).predictions
    assert target.device.name == calibrated.entry.name
