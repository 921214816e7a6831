"""Two GPUs as two workers: each profile is of another one, and both run at the same time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from running import REPOSITORY, environment

from advisor.measure.backends import gpu_count

pytestmark = pytest.mark.gpu
pytest.importorskip("distributed")


@pytest.mark.skipif(gpu_count() < 2, reason="needs two GPUs")
def test_each_of_two_gpus_gets_its_own_profile(tmp_path: Path) -> None:
    options = ("--local", "2", "--each", "--set", "n=2**22", "--max-seconds", "25", "--quiet")
    emit = ("--emit", tmp_path / "placements.toml", "--out", tmp_path / "fleet")
    command = [sys.executable, "-m", "advisor", "fleet", REPOSITORY / "workloads" / "vector_add.py"]
    said = subprocess.run(
        [*command, *options, *emit], env=environment(), capture_output=True, text=True, timeout=180
    )
    assert said.returncode == 0, said.stderr
    profiles = [json.loads(file.read_text()) for file in (tmp_path / "fleet").glob("*/profile.json")]
    assert [made["device"]["kind"] for made in profiles] == ["cuda", "cuda"]
    places = {made["environment"]["gpu"]["pci_bus_id"] for made in profiles}
    assert len(places) == 2
    rows = [json.loads(file.read_text()) for file in (tmp_path / "fleet").glob("*/row.json")]
    assert all(row["strategy"] and row["basis"] == "measured" for row in rows)
    assert (tmp_path / "placements.toml").read_text().count("[[device]]") == 2
    assert "NVIDIA" in (tmp_path / "fleet" / "fleet.html").read_text()
