"""The workloads of the field on a real GPU: every strategy is right, and their docstrings' claims hold."""

from __future__ import annotations

from pathlib import Path

import pytest
from field import EXAMPLES, SMALL, InProcess, missing
from on_gpu import CARDS
from running import asked

from advisor import pipeline
from advisor.measure.backends import gpu_count
from advisor.measure.progress import Silent
from advisor.profiles.schema import Failed, Measured, Profile


def profiled(directory: Path, name: str, *assignments: str, **options: object) -> Profile:
    """In this process: what is asked is whether results are right, and ratios of far more than two."""
    given = {"rounds": 1, "max_seconds": 60.0, **options}
    settings = asked(EXAMPLES / f"{name}.py", backend="cuda", parameters=assignments, **given)
    return pipeline.profile(settings, Silent(), keep_in=directory, launcher=InProcess())


@pytest.mark.parametrize("name", SMALL)
def test_every_strategy_is_right(name: str, tmp_path: Path) -> None:
    if missing(name):
        pytest.skip(missing(name) or "")
    if name.startswith("two_gpus") and gpu_count() < 2:
        pytest.skip("it takes two GPUs")
    profile = profiled(tmp_path, name, *SMALL[name])
    assert [row for row in profile.results if isinstance(row, Failed)] == []
    rows = profile.measured().values()
    assert {"pageable", "staged", "pinned"} <= {row.strategy for row in rows}
    assert all(row.verified for row in rows)


def on_a_card(directory: Path, name: str, *assignments: str, strategies: tuple[str, ...]) -> list[Measured]:
    """The rows of these strategies; skips where the GPU is no card behind a link."""
    profile = profiled(directory, name, *assignments, strategies=strategies)
    if profile.device.memory_class not in CARDS:
        pytest.skip(f"this GPU is of class {profile.device.memory_class}")
    return [profile.measured()[strategy] for strategy in strategies]


@pytest.mark.parametrize(
    ("name", "stage", "factor"), [("flag_polling", "wait", 2), ("weights_reuse", "multiply", 3)]
)
def test_kernels_that_poll_or_reuse_host_memory_are_slow(
    name: str, stage: str, factor: int, tmp_path: Path
) -> None:
    mapped, own = on_a_card(tmp_path, name, strategies=("zero-copy", "pinned"))
    assert mapped.stage_seconds[stage] > factor * own.stage_seconds[stage]


def test_strided_reads_of_host_memory_are_slower_than_a_copy(tmp_path: Path) -> None:
    mapped, own = on_a_card(tmp_path, "strided_reads", strategies=("zero-copy", "pinned"))
    assert mapped.stage_seconds["add_up"] > own.stage_seconds["add_up"] + own.transfer_seconds


@pytest.mark.parametrize("layout", ["linear", "pitch", "array"])
def test_a_texture_reads_memory_of_every_kind(layout: str, tmp_path: Path) -> None:
    chosen = ("width=1024", "height=1024", f"layout={layout}")
    found = profiled(tmp_path, "texture_sampling", *chosen, strategies=("pinned", "zero-copy", "managed"))
    assert all(row.verified for row in found.measured().values())
    assert len(found.measured()) == 3


def test_a_few_rows_are_read_in_place_sooner_than_all_are_copied(tmp_path: Path) -> None:
    shared, copied = on_a_card(tmp_path, "sparse_access", strategies=("zero-copy", "pinned"))
    assert shared.median_seconds < copied.median_seconds / 2
