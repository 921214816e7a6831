"""Two real GPUs: stages run where they should, results are right under every strategy, figures are by GPU."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import bench
from on_gpu import WORKLOADS, advisor, profiled, require
from several import expected, mix

from advisor.measure.backends import gpu_count, open_backend
from advisor.strategies.backend import Backend
from advisor.strategies.registry import STRATEGIES
from advisor.workloads.definition import Buffer, In, Out, Workload, device, host

SERIAL = [s.name for s in STRATEGIES if not s.pipelined]
pytestmark = pytest.mark.skipif(gpu_count() < 2, reason=f"needs two GPUs; CUDA sees {gpu_count()}")


@pytest.fixture(scope="module")
def two() -> Iterator[Backend]:
    """Both GPUs, opened once; the first is current."""
    backend = open_backend("cuda")
    backend.open_gpus(2)
    with backend.stream:
        yield backend


def test_a_stage_runs_on_its_gpu_with_its_arrays_and_stream_there(two: Backend) -> None:
    seen: list[tuple[Any, ...]] = []

    def produce(a: Out) -> None:
        a.fill(1)

    def look(xp: Any, a: In, b: Out, stream: Any, gpu: int, gpus: int) -> None:
        xp.add(a, gpu, out=b)
        current = xp.cuda.get_current_stream()
        where = (xp.cuda.runtime.getDevice(), a.device.id, b.device.id, current.device_id)
        seen.append((gpu, gpus, *where, current.ptr == stream.ptr))

    def again(xp: Any, b: In, c: Out, stream: Any, gpu: int, gpus: int) -> None:
        look(xp, b, c, stream, gpu, gpus)

    def consume(c: In) -> None:
        assert (c == 2).all()

    buffers = {name: Buffer(1024, np.int64) for name in "abc"}
    frame = [host(produce), device(look), device(again, gpu=1), host(consume)]
    for strategy in ("pinned", "peer"):
        with bench(Workload(buffers, frame), strategy, two, listening=False) as run:
            run.start()
            run.loop.frame(1)
    assert seen == [(0, 2, 0, 0, 0, 0, True), (1, 2, 1, 1, 1, 1, True)] * 4
    assert two.disturbed() is None


@pytest.mark.parametrize("strategy", SERIAL)
def test_random_graphs_on_two_gpus_give_the_right_results(strategy: str, two: Backend) -> None:
    require(strategy, two)
    for seed in range(8):
        workload = mix(seed, gpus=2, n=1 << 18)
        with bench(workload, strategy, two, listening=False) as run:
            run.start(6)
            found = {name: array.copy() for name, array in run.inspector.results(5).items()}
        for name, array in expected(workload, 6).items():
            np.testing.assert_array_equal(found[name], array, f"{name} of graph {seed} under {strategy}")


def test_a_profile_tells_of_both_gpus(tmp_path: Path) -> None:
    options = ["--gpus", "1,0", "--max-seconds", "25", "--set", "n=2**22"]
    options += ["--strategy", "pageable", "--strategy", "pinned", "--strategy", "peer"]
    profile = profiled(tmp_path, WORKLOADS / "two_gpus_pipeline.py", *options)
    rows = profile.measured()
    assert set(rows) == {"pageable", "pinned", "peer"}, profile.results
    assert all(row.verified for row in rows.values())
    assert {"host", "gpu0", "gpu1"} <= set(rows["peer"].footprint.places)
    gpu = profile.environment.gpu
    assert str(gpu["gpu0_uuid"]) != str(gpu["gpu1_uuid"])
    assert rows["peer"].median_seconds < rows["pinned"].median_seconds * 1.02
    assert rows["peer"].transfer_seconds < rows["pinned"].transfer_seconds


# Two GPUs as two workers


def test_each_of_two_gpus_gets_its_own_profile(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    options = ("--local", "2", "--each", "--set", "n=2**22", "--max-seconds", "25", "--quiet")
    emit = ("--emit", tmp_path / "placements.toml", "--out", tmp_path / "fleet")
    said = advisor("fleet", WORKLOADS / "vector_add.py", *options, *emit)
    assert said.returncode == 0, said.stderr
    profiles = [json.loads(file.read_text()) for file in (tmp_path / "fleet").glob("*/profile.json")]
    assert [made["device"]["kind"] for made in profiles] == ["cuda", "cuda"]
    places = {made["environment"]["gpu"]["pci_bus_id"] for made in profiles}
    assert len(places) == 2
    rows = [json.loads(file.read_text()) for file in (tmp_path / "fleet").glob("*/row.json")]
    assert all(row["strategy"] and row["basis"] == "measured" for row in rows)
    assert (tmp_path / "placements.toml").read_text().count("[[device]]") == 2
    assert "NVIDIA" in (tmp_path / "fleet" / "fleet.html").read_text()
