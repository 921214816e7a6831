"""Trials of whole scripts in real processes, on a CuPy whose copies depend on their memory."""

from __future__ import annotations

import hashlib
import json
import subprocess
import types
from pathlib import Path
from typing import cast

import pytest

from advisor.measure.jobs import ScriptJob
from advisor.measure.progress import Progress
from advisor.measure.settings import Settings
from advisor.measure.trying.results import Results
from advisor.measure.trying.session import Session, candidates, try_script
from advisor.measure.trying.worker import TrialJob, TrialRun
from advisor.profiles.conclusions import Advice
from advisor.profiles.crossings import LineAdvice, ScriptRun
from advisor.profiles.trials import Trial, Trials

PACKAGES = Path(__file__).parent / "trial_packages"
CAMERA = """\
import cupy
import numpy as np

gray = np.zeros((64, 64), np.float32)
table = np.arange(64, dtype=np.float32)
total = 0.0; {start}
for i in range({frames}):
    gray[...] = i
    d = cupy.asarray(gray)
    {between}
    w = cupy.asarray(table)
    m = d * 2
    out = m.get()
    {after}
    total += float(out.sum())
print("total", total)
{end}
"""


def crossing(line: int, kind: str, **more: object) -> dict[str, object]:
    place = {"file": "camera.py", "line": line}
    call = "cupy.asarray" if kind == "upload" else "ndarray.get"
    common = {"place": place, "kind": kind, "call": call, "library": "cupy", "loop": 0, "memory": "pageable"}
    return {**common, "count": 300, "bytes": 300 * 16384, "frames": 300, **more}


def origin(line: int, each_frame: bool = False) -> dict[str, object]:
    return {"kind": "numpy", "place": {"file": "camera.py", "line": line}, "each_frame": each_frame}


REPEATS = {"checked": 5, "compared": 4, "same": 4, "complete": True, "false_share": 0.0}
RECORD = {
    "seconds": 3.0,
    "overhead_seconds": 0.0,
    "loops": [{"place": {"file": "camera.py", "line": 7}, "last_line": 15, "frames": 300, "seconds": 3.0}],
    "crossings": [
        crossing(9, "upload", origin=origin(4)),
        crossing(11, "upload", origin=origin(5), repeats=REPEATS),
        crossing(13, "download", origin=origin(13, each_frame=True)),
    ],
}


def tried(
    folder: Path, monkeypatch: pytest.MonkeyPatch, frames: int = 100, **parts: str
) -> tuple[Trials, dict[str, Trial]]:
    text = CAMERA.format(
        frames=frames, **{"start": "", "between": "pass", "after": "pass", "end": "", **parts}
    )
    file = folder / "camera.py"
    file.write_text(text, encoding="utf-8")
    before = hashlib.sha256(file.read_bytes()).hexdigest()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", str(PACKAGES))
    script = ScriptRun.model_validate_json(json.dumps(RECORD))
    settings = types.SimpleNamespace(
        file=Path("camera.py"),
        module="",
        arguments=(),
        frame="",
        gpu=0,
        backend="cuda",
        timeout=60.0,
        checked=(),
    )
    gain = {"seconds_per_frame": 1e-3, "basis": "estimated"}
    advice = {"rule": "r", "device": "d", "outcome": "advice", "title": "t", "detail": "", "gain": gain}
    told = LineAdvice(place=script.crossings[0].place, crossing=0, advice=Advice.model_validate(advice))
    concluded = script.model_copy(update={"advice": (told,)})
    found = try_script(cast(Settings, settings), script, concluded, Progress(), folder)
    assert hashlib.sha256(file.read_bytes()).hexdigest() == before, "a file of the user's was changed"
    return found, {trial.name: trial for trial in found.trials}


def test_what_pays_is_measured_patched_and_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, trials = tried(tmp_path, monkeypatch)
    assert {name: trial.outcome for name, trial in trials.items()} == dict.fromkeys(
        ("lock-9", "hoist-11", "reuse-13"), "faster"
    )
    assert trials["lock-9"].promised_seconds == 1e-3
    assert found.compared == ("what 1 line downloads", "1 printed line")
    patch = found.patch
    assert patch.equal
    assert patch.interval[0] > 1.2
    (tmp_path / "camera.patch").write_text(patch.text, encoding="utf-8")
    subprocess.run(["git", "apply", "camera.patch"], cwd=tmp_path, check=True)
    assert "gray = cupyx.zeros_pinned((64, 64), np.float32)" in (tmp_path / "camera.py").read_text()


def test_what_is_not_safe_is_refused_or_guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host writes what was uploaded at once, changes the table later, and keeps what it downloads."""
    _, trials = tried(
        tmp_path,
        monkeypatch,
        between="gray[...] = -1",
        after="table[0] = i // 30; kept.append(out)",
        start="kept = []",
    )
    assert {name: trial.outcome for name, trial in trials.items()} == {
        "lock-9": "faster",  # each copy is waited for
        "hoist-11": "refused",
        "reuse-13": "refused",
    }
    assert "keeps the arrays" in trials["reuse-13"].reason
    assert "not the same in each frame" in trials["hoist-11"].reason
    assert [name for name, trial in trials.items() if trial.in_patch] == ["lock-9"]


def test_a_program_that_differs_from_itself_is_never_called_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_random = "import random; gray[...] = random.random()"
    found, _ = tried(
        tmp_path, monkeypatch, frames=60, between=f"pass\n    {import_random}\n    d = d * gray[0, 0]"
    )
    assert found.unlike
    assert found.patch is None or not found.patch.equal


def test_candidates_need_what_makes_them_safe() -> None:
    script = ScriptRun.model_validate_json(json.dumps(RECORD))
    names = [each.change.name for each in candidates(script, 0, {}, Path("/there"))]
    assert names == ["lock-9", "hoist-11", "reuse-13"]
    fresh = script.crossings[0].model_copy(
        update={
            "origin": script.crossings[0].origin
            and script.crossings[0].origin.model_copy(update={"each_frame": True})
        }
    )
    assert candidates(script.model_copy(update={"crossings": (fresh,)}), 0, {}, Path("/there")) == ()
    assert candidates(script, 1, {}, Path("/there")) == ()


def test_a_single_change_with_other_results_is_run_once(tmp_path: Path) -> None:
    script = ScriptRun.model_validate_json(json.dumps(RECORD))
    (tmp_path / "camera.py").write_text("\n" * 6 + "for i in range(3):\n    pass\n", encoding="utf-8")
    jobs: list[TrialJob] = []

    def run(job: TrialJob) -> TrialRun:
        jobs.append(job)
        results = Results(printed=("7" if job.changes else "8",))
        return TrialRun(results=results, seconds=1.0)

    job = ScriptJob.model_construct(file="camera.py", directory="")
    session = Session(script, job, 0, run, Progress(), start=tmp_path)
    found = session.trials(candidates(script, 0, {}, tmp_path)[:1], 1.0)
    assert [(trial.outcome, trial.reason) for trial in found.trials] == [
        ("differs", "it prints another line 1")
    ]
    assert len(jobs) == 3
