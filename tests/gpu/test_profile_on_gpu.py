"""`advisor profile` on a real GPU, through the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from advisor.profiles import Measured, Profile, load

WORKLOADS = Path(__file__).parents[2] / "workloads"

FAULT = """
import numpy as np
from advisor import Buffer, In, Out, Workload, device, host, workload

@workload
def fault(n: int = 1024) -> Workload:
    def produce(a: Out) -> None:
        a.fill(1)

    def reach(xp, a: In, b: Out) -> None:
        xp.RawKernel(
            'extern "C" __global__ void reach(const float* a, float* b) { b[1ull << 40] = a[threadIdx.x]; }',
            "reach",
        )((1,), (32,), (a, b))

    def consume(b: In) -> None:
        b.sum()

    buffers = {"a": Buffer(n, np.float32), "b": Buffer(n, np.float32)}
    return Workload(buffers, frame=[host(produce), device(reach), host(consume)])
"""


def profile(out: Path, *arguments: str, code: int = 0) -> Profile:
    done = subprocess.run(
        [sys.executable, "-m", "advisor", "profile", *arguments, "--out", str(out), "--max-seconds", "0.6"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return load(out / "profile.json")


def row(result: Profile, strategy: str) -> Measured:
    return result.measured()[strategy]


def test_vector_add_is_measured_under_every_strategy(tmp_path: Path) -> None:
    result = profile(tmp_path, str(WORKLOADS / "vector_add.py"), "--set", "n=2**22")
    assert result.device.kind == "cuda"
    assert result.device.memory_class is not None
    rows = {r.strategy: r.status for r in result.results}
    assert set(rows.values()) <= {"measured", "skipped"}, result.results
    assert {"pageable", "pinned"} <= set(result.measured())
    assert all(measured.verified for measured in result.measured().values())
    assert result.recommendation is not None


def test_the_parts_of_a_frame_add_up(tmp_path: Path) -> None:
    result = profile(tmp_path, str(WORKLOADS / "vector_add.py"), "--set", "n=2**24", "--strategy", "pinned")
    pinned = row(result, "pinned")
    parts = sum(pinned.stage_seconds.values()) + pinned.transfer_seconds + pinned.synchronize_seconds
    assert parts == pytest.approx(pinned.median_seconds, rel=0.15)


def test_rereading_zero_copy_memory_costs_on_a_discrete_gpu(tmp_path: Path) -> None:
    result = profile(tmp_path, str(WORKLOADS / "reread.py"), "--set", "passes=64", "--set", "n=2**24")
    if result.device.memory_class not in ("discrete", "discrete-hmm"):
        pytest.skip(f"memory class {result.device.memory_class}")
    assert row(result, "zero-copy").median_seconds > 1.5 * row(result, "pinned").median_seconds
    (said,) = [a for a in result.advice if a.rule == "zero-copy-reread"]
    assert said.outcome in ("advice", "pass")


def test_a_kernel_that_faults_becomes_a_failed_row(tmp_path: Path) -> None:
    file = tmp_path / "fault.py"
    file.write_text(FAULT)
    result = profile(tmp_path / "out", str(file), code=4)
    assert {r.status for r in result.results} <= {"failed", "skipped"}
    assert any("illegal" in r.reason.lower() for r in result.results if r.status == "failed")


def test_a_gpu_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "advisor", "profile", str(WORKLOADS / "vector_add.py"), "--gpu", "99"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 4
    assert "there is no GPU 99" in done.stderr
