"""Script mode on a real GPU: every strategy is in force and gives the same results."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from running import FILES, environment, python_path

from advisor import pipeline
from advisor.measure.backends import open_backend
from advisor.measure.progress import Silent
from advisor.measure.settings import Settings
from advisor.profiles.row_figures import ScriptMeasured
from advisor.strategies.scripts import SCRIPT_STRATEGIES, UNCHANGED, choose, code

pytestmark = pytest.mark.filterwarnings("default")
"""Other libraries' own warnings are no failure of ours."""

SCRIPT = '''
"""Uploads, computes and downloads in ranges, and says what kind of memory its arrays are in."""
import sys

import cupy
import numpy as np
from cupyx.profiler import time_range

import advisor

frames = int(sys.argv[1])
host = np.arange(1 << 22, dtype=np.float32)
for frame in range(frames):
    with time_range("upload"):
        a = cupy.asarray(host)
    with time_range("compute"):
        b = a * 2 + frame
    with time_range("download"):
        total = float(b.sum())
kind = cupy.cuda.runtime.pointerGetAttributes(b.data.ptr).type
with open(sys.argv[2], "a") as log:
    print(kind, file=log)
advisor.result(b, "b")
print(f"{total:.0f}")
'''


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", python_path())
    (tmp_path / "script.py").write_text(SCRIPT)
    return tmp_path / "script.py"


def run(
    script: Path, *arguments: str, only: tuple[str, ...] = (), rounds: int = 2
) -> dict[str, ScriptMeasured]:
    settings = Settings(
        file=script,
        workload=None,
        arguments=arguments,
        assignments={},
        backend="cuda",
        gpu=0,
        strategies=choose(only),
        targets=(),
        rounds=rounds,
        max_seconds=1.0,
        timeout=120.0,
        seed=0,
        command="test",
    )
    found = pipeline.profile(settings, Silent(), keep_in=script.parent)
    failed = {row.strategy: row.reason for row in found.results if row.status == "failed"}
    assert failed == {}
    assert found.script is not None
    for row in found.script.measured:
        print(row.strategy, row.run_seconds, [(r.name, r.seconds) for r in row.ranges], row.memory)
    return {row.strategy: row for row in found.script.measured}


def test_every_strategy_gives_the_same_results(script: Path, tmp_path: Path) -> None:
    rows = run(script, "5", str(tmp_path / "kinds"))
    assert set(rows) >= {UNCHANGED, "unpinned-staging", "managed-pool", "zero-copy-pool"}
    nbytes = 4 << 22
    for name, row in rows.items():
        assert row.verified, name
        assert {r.name: r.count for r in row.ranges} == dict.fromkeys(("upload", "compute", "download"), 5)
        assert row.copies.to_device_bytes == 5 * nbytes
        if row.memory is not None:
            assert row.memory.peak_bytes >= 2 * nbytes
    assert rows["managed-pool"].memory is not None


@pytest.mark.parametrize(
    ("strategy", "kind"),
    [
        (UNCHANGED, 2),
        ("unpinned-staging", 2),
        ("managed-pool", 3),
        ("managed-prefetch-pool", 3),
        ("zero-copy-pool", 1),
        ("stream-ordered-pool", 2),
    ],
)
def test_a_strategy_is_in_force(strategy: str, kind: int, script: Path, tmp_path: Path) -> None:
    """By cudaPointerGetAttributes: 1 is host, 2 device, 3 managed memory."""
    log = tmp_path / "kinds"
    rows = run(script, "1", str(log), only=(strategy,), rounds=1)
    if strategy not in rows:
        pytest.skip(f"{strategy} is not available here")
    kinds = [int(line) for line in log.read_text().split()]
    assert set(kinds) == {2, kind}
    assert len(kinds) == (3 if strategy == UNCHANGED else 5), "warm-up, observed, and timed runs"


def test_the_code_to_copy_does_what_the_strategy_did(script: Path, tmp_path: Path) -> None:
    """Each snippet runs, and puts arrays where its strategy put them."""
    kinds = {"managed-pool": 3, "managed-prefetch-pool": 3, "zero-copy-pool": 1, "stream-ordered-pool": 2}
    device = open_backend("cuda").device()
    for strategy in SCRIPT_STRATEGIES:
        if strategy.name not in kinds or strategy.unavailable(device):
            continue
        text = code(strategy.name) + (
            "import json\na = cupy.arange(1000)\ntotal = int((a + 1).sum())\n"
            "print(json.dumps([cupy.cuda.runtime.pointerGetAttributes(a.data.ptr).type, total]))\n"
        )
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{strategy.name}: {done.stderr}"
        assert json.loads(done.stdout) == [kinds[strategy.name], 500500], strategy.name


def test_the_command_on_the_tests_own_script(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "advisor", "profile", str(FILES / "train.py"), "--rounds", "3"]
    done = subprocess.run(
        [*command, "--", "--epochs", "3"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stderr
    assert "as a script" in done.stdout
