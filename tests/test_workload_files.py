"""The example workloads and files as users write them, end to end on the CPU."""

from __future__ import annotations

import pytest
from every import every
from field import EXAMPLES, SMALL, profiled
from running import FILES

from advisor.errors import WorkloadError
from advisor.profiles.schema import Measured, Profile
from advisor.profiles.traces import Traffic


def traffic(profile: Profile, stage: str, buffer: str) -> Traffic:
    (found,) = [t for t in profile.traffic.traffic if (t.stage, t.buffer) == (stage, buffer)]
    return found


def assert_verified(profile: Profile) -> None:
    rows = profile.results
    assert [row.strategy for row in rows] == ["pageable", "zero-copy"]
    assert all(isinstance(row, Measured) and row.verified for row in rows), rows


def moved(profile: Profile, strategy: str) -> tuple[int, int]:
    total = profile.measured()[strategy].transfer_bytes
    return total["to-device"], total["to-host"]


@every(
    ("assignments", "stage", "read"),
    [
        ("vector_add n=1000", "add", 4000),
        ("reread n=5000 passes=5", "read", 5 * 20000),
        ("matrix_multiply n=96", "multiply", 3 * 96 * 96 * 4),
    ],
)
def test_an_example(assignments: str, stage: str, read: int) -> None:
    name, *given = assignments.split()
    profile = profiled(name, *given, targets=["rtx-2060"])
    assert_verified(profile)
    assert traffic(profile, stage, "a").bytes_read == read
    assert {row.status for row in profile.predictions[0].results} == {"predicted"}
    assert profile.notes == ()


def test_every_example_is_tested() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {
        "vector_add",
        "reread",
        "matrix_multiply",
        *SMALL,
    }


def test_state_stays_on_the_device() -> None:
    profile = profiled(FILES / "counter.py", "n=100", "step=0.5", rounds=2)
    assert_verified(profile)
    assert moved(profile, "pageable") == (0, 800)
    assert profile.notes == ()
    assert profile.workload.parameters == {"n": 100, "step": 0.5}


def test_weights_go_up_once_and_scratch_memory_never_moves() -> None:
    profile = profiled(FILES / "camera.py")
    assert_verified(profile)
    pixels = 64 * 48
    assert moved(profile, "pageable") == (2 * pixels, 48 * 4)  # image and mask go up, sums come back
    assert moved(profile, "zero-copy") == (0, 0)
    row = profile.measured()["zero-copy"]
    assert row.host_copy_seconds  # the camera's image is not where kernels reach it
    assert profile.measured()["pageable"].host_copy_seconds is None
    assert row.footprint.physical_bytes == 2 * pixels + pixels + 4 * pixels + 4 * pixels + 48 * 4
    assert set(row.stage_seconds) == {"capture", "weigh", "add_rows", "show"}


def test_one_of_several_workloads_with_parameters_of_every_kind() -> None:
    given = ["n=1<<6", "dtype=float64", "factor=-1e-1", "negative=true", "note=a=b c"]
    profile = profiled(f"{FILES / 'several.py'}::many", *given)
    assert_verified(profile)
    assert profile.workload.name == "many"
    assert profile.workload.parameters == {
        "n": 64,
        "dtype": "float64",
        "factor": -0.1,
        "negative": True,
        "note": "a=b c",
    }
    assert {buffer.dtype for buffer in profile.workload.buffers} == {"float64"}


def test_a_kernel_without_a_twin_needs_its_passes() -> None:
    profile = profiled(FILES / "raw_kernel.py", targets=["rtx-4090"])
    assert {row.status for row in profile.results} == {"skipped"}
    assert traffic(profile, "twice", "a").source == "declared"
    assert traffic(profile, "produce", "a").source == "traced"
    assert profile.predictions[0].recommendation is not None
    assert any("CPU twin" in note for note in profile.notes)
    with pytest.raises(WorkloadError) as raised:
        profiled(FILES / "raw_kernel.py", "declared=false", targets=["rtx-4090"])
    assert "CPU twin" in raised.value.next_step
