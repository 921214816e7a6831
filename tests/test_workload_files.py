"""The example workloads and files as users write them, end to end on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from field import SMALL, InProcess
from running import FILES, REPOSITORY, cpu_settings
from shared_server import launching

from advisor import pipeline
from advisor.errors import WorkloadError
from advisor.measure.progress import Silent
from advisor.profiles.schema import Measured, Profile
from advisor.profiles.traces import Traffic

EXAMPLES = REPOSITORY / "workloads"


def profiled(
    directory: Path, target: str | Path, *assignments: str, in_processes: bool = False, **options: object
) -> Profile:
    asked = cpu_settings(target, *assignments, **options)
    launcher = launching(asked) if in_processes else InProcess()
    return pipeline.profile(asked, Silent(), keep_in=directory, launcher=launcher)


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


def test_vector_add(tmp_path: Path) -> None:
    profile = profiled(tmp_path, EXAMPLES / "vector_add.py", "n=1000", in_processes=True)
    assert_verified(profile)
    assert moved(profile, "pageable") == (8000, 4000)
    assert moved(profile, "zero-copy") == (0, 0)
    assert traffic(profile, "add", "a").bytes_read == 4000
    assert profile.notes == ()


def test_reread(tmp_path: Path) -> None:
    profile = profiled(tmp_path, EXAMPLES / "reread.py", "n=5000", "passes=5", targets=["h200"])
    assert_verified(profile)
    assert traffic(profile, "read", "a").bytes_read == 5 * 20000
    assert profile.workload.parameters == {"n": 5000, "passes": 5}
    assert {row.status for row in profile.predictions[0].results} == {"predicted"}


def test_matrix_multiply(tmp_path: Path) -> None:
    profile = profiled(tmp_path, EXAMPLES / "matrix_multiply.py", "n=96", targets=["rtx-2060"])
    assert_verified(profile)
    assert traffic(profile, "multiply", "a").bytes_read == 3 * 96 * 96 * 4
    assert {row.status for row in profile.predictions[0].results} == {"predicted"}


def test_every_example_is_tested() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    here = {name.removeprefix("test_") for name in globals() if name.removeprefix("test_") in names}
    assert names == here | set(SMALL)


def test_state_stays_on_the_device(tmp_path: Path) -> None:
    profile = profiled(tmp_path, FILES / "counter.py", "n=100", "step=0.5", rounds=2)
    assert_verified(profile)
    assert moved(profile, "pageable") == (0, 800)
    assert profile.notes == ()
    assert profile.workload.parameters == {"n": 100, "step": 0.5}


def test_weights_go_up_once_and_scratch_memory_never_moves(tmp_path: Path) -> None:
    profile = profiled(tmp_path, FILES / "camera.py")
    assert_verified(profile)
    pixels = 64 * 48
    assert moved(profile, "pageable") == (2 * pixels, 48 * 4)  # image and mask go up, sums come back
    assert moved(profile, "zero-copy") == (0, 0)
    row = profile.measured()["zero-copy"]
    assert row.host_copy_seconds  # the camera's image is not where kernels reach it
    assert profile.measured()["pageable"].host_copy_seconds is None
    assert row.footprint.physical_bytes == 2 * pixels + pixels + 4 * pixels + 4 * pixels + 48 * 4
    assert set(row.stage_seconds) == {"capture", "weigh", "add_rows", "show"}


def test_one_of_several_workloads_with_parameters_of_every_kind(tmp_path: Path) -> None:
    given = ["n=1<<6", "dtype=float64", "factor=-1e-1", "negative=true", "note=a=b c"]
    profile = profiled(tmp_path, f"{FILES / 'several.py'}::many", *given)
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


def test_a_kernel_without_a_twin_needs_its_passes(tmp_path: Path) -> None:
    profile = profiled(tmp_path, FILES / "raw_kernel.py", targets=["rtx-4090"])
    assert {row.status for row in profile.results} == {"skipped"}
    assert traffic(profile, "twice", "a").source == "declared"
    assert traffic(profile, "produce", "a").source == "traced"
    assert profile.predictions[0].recommendation is not None
    assert any("CPU twin" in note for note in profile.notes)
    with pytest.raises(WorkloadError) as raised:
        profiled(tmp_path, FILES / "raw_kernel.py", "declared=false", targets=["rtx-4090"])
    assert "CPU twin" in raised.value.next_step
