"""`advisor profile` on a real GPU, through the command line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from on_gpu import CARDS, WORKLOADS, advisor, profiled

from advisor.profiles.reading import load
from advisor.profiles.schema import Measured, Profile


def profile(out: Path, file: Path, *arguments: str, code: int = 0) -> Profile:
    return profiled(out, file, *arguments, "--max-seconds", "60", code=code)


def row(result: Profile, strategy: str) -> Measured:
    return result.measured()[strategy]


def test_rereading_zero_copy_memory_costs_on_a_discrete_gpu(tmp_path: Path) -> None:
    result = profile(tmp_path, WORKLOADS / "reread.py", "--set", "passes=64", "--set", "n=2**24")
    if result.device.memory_class not in CARDS:
        pytest.skip(f"memory class {result.device.memory_class}")
    assert row(result, "zero-copy").median_seconds > 1.5 * row(result, "pinned").median_seconds
    (said,) = [a for a in result.advice if a.rule == "zero-copy-reread"]
    assert said.outcome in ("advice", "pass")


LATE = """
import numpy as np
from advisor import Buffer, In, Out, Workload, device, host, workload

KEPT = []

@workload
def late(how: str, at: int = 8, n: int = 1024) -> Workload:
    def produce(a: Out) -> None:
        a.fill(1)

    def copy(xp, a: In, b: Out, frame: int) -> None:
        xp.copyto(b, a)
        if frame == at:
            ACTS[how](xp, b)

    def twin(a: In, b: Out) -> None:
        np.copyto(b, a)

    def consume(b: In) -> None:
        b.sum()

    buffers = {"a": Buffer(n, np.float32), "b": Buffer(n, np.float32)}
    return Workload(buffers, frame=[host(produce), device(copy, cpu=twin), host(consume)])

def never_ends(xp, b):
    source = 'extern "C" __global__ void stay(volatile float* b) { while (b[0] > -1.0f) { } }'
    xp.RawKernel(source, "stay")((1,), (1,), (b,))

def leaves_a_stream(xp, b):
    KEPT.append(xp.cuda.Stream(non_blocking=True))
    KEPT[-1].use()

def leaves_an_allocator(xp, b):
    KEPT.append(xp.cuda.MemoryPool())
    xp.cuda.set_allocator(KEPT[-1].malloc)

def takes_too_much(xp, b):
    KEPT.append(xp.empty(1 << 46, xp.uint8))

def faults(xp, b):
    source = 'extern "C" __global__ void reach(float* b) { b[1ull << 40] = threadIdx.x; }'
    xp.RawKernel(source, "reach")((1,), (32,), (b,))

ACTS = {f.__name__: f for f in (never_ends, leaves_a_stream, leaves_an_allocator, takes_too_much, faults)}
"""


@pytest.mark.parametrize(
    ("how", "at", "said"),
    [
        ("never_ends", 400, "15"),
        ("leaves_a_stream", 8, "another stream current"),
        ("leaves_an_allocator", 8, "another CuPy allocator"),
        ("takes_too_much", 8, "OutOfMemory|out of memory|Out of memory"),
        ("faults", 8, "[Ii]llegal"),
    ],
)
def test_what_goes_wrong_late_becomes_failed_rows_with_the_reason(
    how: str, at: int, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "late.py"
    file.write_text(LATE)
    two = ("--strategy", "pageable", "--strategy", "pinned-pipelined", "--timeout", "15")
    given = ("--set", f"how={how}", "--set", f"at={at}", *two)
    result = profile(tmp_path / "out", file, *given, code=4)
    failed = [row for row in result.results if row.status == "failed"]
    assert [row.strategy for row in failed] == ["pageable", "pinned-pipelined"]
    for row in failed:
        assert re.search(said, row.reason), row.reason


def test_hints_latency_and_host_copies_are_in_the_profile(tmp_path: Path) -> None:
    camera = Path(__file__).parents[1] / "workload_files" / "camera.py"
    result = profile(tmp_path, camera)
    assert {row.status for row in result.results} <= {"measured", "skipped"}, result.results
    rows = result.measured()
    if "managed-advised" in rows:
        assert any("read-mostly" in hints for hints in rows["managed-advised"].hints.values())
    assert rows["pinned"].host_copy_seconds
    for name in ("pageable", "staged", "registered", "zero-copy-registered"):
        assert name not in rows or rows[name].host_copy_seconds is None
    if "pinned-pipelined" in rows:
        overlapped = rows["pinned-pipelined"]
        assert overlapped.latency_seconds > overlapped.median_seconds
    assert all(row.verified for row in rows.values())


def test_rows_tell_more_than_their_time(tmp_path: Path) -> None:
    names = ("--strategy", "pageable", "--strategy", "pinned", "--strategy", "managed")
    result = profile(tmp_path, WORKLOADS / "vector_add.py", "--set", "n=2**24", *names)
    managed, pinned = row(result, "managed"), row(result, "pinned")
    if result.device.attributes.get("integrated"):
        assert "gpu0" not in managed.footprint.places
    else:
        assert managed.footprint.physical_bytes == 2 * managed.footprint.reserved["managed"]
        card = managed.footprint.places["gpu0"]
        assert card.peak_bytes >= 64 << 20
        assert managed.footprint.places["host"].peak_bytes > 0
    assert pinned.cpu_seconds is not None
    assert pinned.cpu_seconds > 0
    assert result.measured()["pageable"].host_pages is not None
    assert result.environment.host.allowed_cpus
    assert all(r.energy or r.absent["energy"] for r in result.measured().values())
    for found in (r.energy for r in result.measured().values() if r.energy):
        assert 0 < found.idle_watts < found.watts
        assert found.joules > 0


def test_energy_is_an_objective_or_refused_with_the_reason(tmp_path: Path) -> None:
    names = ("--strategy", "pageable", "--strategy", "pinned")
    options = ("--set", "n=2**20", "--objective", "energy", "--max-seconds", "90", "--out", tmp_path)
    done = advisor("profile", WORKLOADS / "vector_add.py", *names, *options)
    if done.returncode == 2:
        assert "energy cannot be measured here" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    result = load(tmp_path / "profile.json")
    assert all(block.energy for block in result.blocks)
    assert result.recommendation.objective == "energy"
