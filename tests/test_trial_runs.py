"""Trials of whole scripts in real processes, on a CuPy whose copies depend on their memory."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from builders import profile
from every import every
from running import asked

from advisor.cli import profiling
from advisor.errors import UsageError, WorkloadError
from advisor.measure.jobs import ScriptJob
from advisor.measure.launcher import script_job
from advisor.measure.progress import Lines, Progress
from advisor.measure.trying.candidates import Candidate, allocator_candidates, candidates, written_patch
from advisor.measure.trying.results import Results
from advisor.measure.trying.session import MOST_PROCESSES, RunTrial, Session, try_script
from advisor.measure.trying.worker import TimeUp, TrialJob, TrialRun, preloaded, run_trial
from advisor.profiles import outputs
from advisor.profiles.conclusions import PAGE_LOCKED, Evidence
from advisor.profiles.crossings import Ceiling, LineAdvice, Place, ScriptRun
from advisor.profiles.redaction import anonymous
from advisor.profiles.schema import Profile
from advisor.profiles.trials import ChangeKind, Patch, Trial, TrialBlock, Trials
from advisor.strategies.edits import Change

PACKAGES = Path(__file__).parent / "trial_packages"
CAMERA = """\
import cupy
import numpy as np

gray = np.zeros((64, 64), np.float32)
table = np.arange(64, dtype=np.float32)
total = 0.0
for i in range(100):
    gray[...] = i
    d = cupy.asarray(gray)
    pass
    w = cupy.asarray(table)
    m = d * 2
    out = m.get()
    pass
    total += float(out.sum())
print("total", total)
"""


def crossing(line: int, kind: str, **more: object) -> dict[str, object]:
    place = {"file": "camera.py", "line": line}
    call = "cupy.asarray" if kind == "upload" else "ndarray.get"
    common = {"place": place, "kind": kind, "call": call, "library": "cupy", "loop": 0, "memory": "pageable"}
    return {**common, "count": 300, "bytes": 300 << 17, "frames": 300, **more}


def origin(line: int, each_frame: bool = False) -> dict[str, object]:
    return {"kind": "numpy", "place": {"file": "camera.py", "line": line}, "each_frame": each_frame}


REPEATS = {"checked": 5, "compared": 4, "same": 4, "complete": True, "false_share": 0.0}
RECORD: dict[str, Any] = {
    "seconds": 3.0,
    "overhead_seconds": 0.0,
    "loops": [{"place": {"file": "camera.py", "line": 7}, "last_line": 15, "frames": 300, "seconds": 3.0}],
    "crossings": [
        crossing(9, "upload", origin=origin(4)),
        crossing(11, "upload", repeats=REPEATS),
        crossing(13, "download", origin=origin(13, each_frame=True)),
    ],
}


def test_what_pays_is_measured_patched_and_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "camera.py"
    file.write_text(CAMERA, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(PACKAGES))
    monkeypatch.setenv("TRIAL_POOL_SECONDS", "0.0024")
    script = ScriptRun.model_validate_json(json.dumps(RECORD))
    settings = asked("camera.py", backend="cuda", timeout=600.0)
    concluded = script.model_copy(update={"advice": (told("hidden-host-copy", 0, 1e-3),)})
    found = try_script(settings, script, concluded, Progress(), tmp_path)
    assert file.read_text(encoding="utf-8") == CAMERA, "a file of the user's was changed"
    trials = {trial.name: trial for trial in found.trials}
    lines = {name: trial.outcome for name, trial in trials.items() if trial.kind != "allocator"}
    assert [*lines] == ["lock-9", "hoist-11", "reuse-13"]
    assert {*lines.values()} <= {"faster", "open"}  # on a busy machine an interval is wide
    assert (trials["lock-9"].promised_seconds, trials["lock-9"].rule) == (1e-3, "hidden-host-copy")
    assert (trials["async-pool"].outcome, trials["async-pool"].in_patch) == ("faster", True)
    assert trials["no-pool"].reason == "another allocator was faster"
    assert "cannot allocate: managed memory" in trials["managed-pool"].reason
    assert found.compared == ("what 1 line downloads", "1 printed line")
    patch = found.patch
    assert patch.equal
    assert patch.speedup > 1.2
    (tmp_path / "camera.patch").write_text(patch.text, encoding="utf-8")
    subprocess.run(["git", "apply", "camera.patch"], cwd=tmp_path, check=True)
    after = (tmp_path / "camera.py").read_text()
    assert "\n\ncupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)  # stream-ordered pool\n" in after
    assert ("gray = cupyx.zeros_pinned((64, 64), np.float32)" in after) == trials["lock-9"].in_patch


SLEEPS = "import time\nfor i in range(9): time.sleep(9)\n"
DIES = "import os\nfor i in range(9): pass\nos._exit(3)\n"


@every(
    ("text", "timeout", "left", "message"),
    [
        (DIES, 600.0, None, "ended without results: exit code 3"),
        (SLEEPS, 0.5, None, "took longer than 0 s"),
        (SLEEPS, 60.0, 0.5, ""),
    ],
)
def test_a_trial_without_results_ends_with_the_reason(
    text: str, timeout: float, left: float | None, message: str, tmp_path: Path
) -> None:
    """Without one where the time for all trials is over."""
    file = tmp_path / "script.py"
    file.write_text(text, encoding="utf-8")
    script = script_job(asked(str(file), backend="cuda"), tmp_path)
    loop = {"loop_file": str(file), "loop": 0, "contestants": ("as-is",), "most_seconds": left}
    with pytest.raises(WorkloadError if message else TimeUp, match=message or None):
        run_trial(TrialJob.model_validate({"script": script, "task": "results", **loop}), timeout, tmp_path)


def test_libraries_are_not_imported_beforehand_where_a_file_sets_variables(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("import os\nos.environ['OMP_NUM_THREADS'] = '1'\n")
    with preloaded([], [file]) as server:
        assert server is None


@pytest.mark.parametrize(
    ("seconds", "kinds", "words"),
    [
        (1e-4, "every", "Nothing to gain: memory can change 100 µs (1.0 %) of a frame."),
        (1e-3, "waits", "memory can change 1.00 ms (10 %) of a frame, but none of the changes that --try"),
        (None, "waits", "tried: none of the changes that --try makes applies to the loop's lines."),
        (1e-3, "none", "Nothing to gain: no loop repeats a copy or a wait."),
    ],
)
def test_nothing_runs_again_where_there_is_nothing_to_gain(
    seconds: float | None, kinds: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    crossings = {"every": RECORD["crossings"], "waits": [crossing(9, "wait")], "none": []}[kinds]
    script = ScriptRun.model_validate_json(json.dumps(RECORD | {"crossings": crossings}))
    if seconds:
        ceiling = Ceiling(loop=0, copy_seconds=seconds, wait_seconds=0.0, of_seconds=0.01)
        script = script.model_copy(update={"ceilings": (ceiling,)})
    trials = try_script(asked("camera.py", backend="cuda"), script, script, Progress(), tmp_path)
    assert words in trials.reason
    assert (trials.runs, trials.trials) == (0, ())


LOCKED, GRAY = 2e-3, "gray = np.zeros(9)\nfor i in n:\n d = cupy.asarray(gray)"
TENSOR = "import torch\nx = torch.ones(9)\nfor i in n:\n y = x.cuda()"
KERNEL = "import numpy as np\nx = np.ones(9)\nfor i in n:\n add[1, 9](x, d)"
ARGUMENT = {"call": "kernel argument", "origin": origin(2)}
BATCH = "for data, target in loader:\n data, target = data.to(device), target.to(device)"
OUT, SMALL = "import a\nfor i in n:\n out = {}", {"bytes": 300 << 16}
ONE_LOCKED = ("lock-4", "page-lock x of line 2", LOCKED)
REUSED = ("reuse-3", "reuse out", LOCKED)
UNBLOCKED = ("non-blocking-2", "copy data, target without blocking", None)
PINNED = ("pin-memory-1", "pin the loader's memory, line 1", LOCKED)
SUGGESTED: tuple[tuple[str, str, str, dict[str, object], object], ...] = (
    (GRAY, "upload", "cupy", {"origin": origin(1)}, ("lock-3", "page-lock the array of line 1", LOCKED)),
    (GRAY, "upload", "cupy", {"origin": origin(1, each_frame=True)}, None),
    (GRAY, "upload", "cupy", {"origin": origin(1)} | SMALL, None),
    (BATCH, "upload", "torch", {"memory": "pinned"}, UNBLOCKED),
    (f"loader = DataLoader(a)\n{BATCH}", "upload", "torch", {}, PINNED),
    (TENSOR, "upload", "torch", {}, ONE_LOCKED),
    (TENSOR.replace("x = torch.ones(9)", "x = next(a)"), "upload", "torch", {}, None),
    (KERNEL, "download", "numba", ARGUMENT, ONE_LOCKED),
    (OUT.format("y.cpu()"), "download", "torch", {}, REUSED),
    (OUT.format("y.copy_to_host()"), "download", "numba", {"origin": origin(2, each_frame=True)}, REUSED),
)


@every(("text", "kind", "library", "more", "expected"), SUGGESTED)
def test_a_change_is_suggested_where_the_file_and_the_record_show_that_it_can_help(
    text: str, kind: str, library: str, more: dict[str, object], expected: object
) -> None:
    """For the last line of a loop, on which another rule advises. Copies of 64 KiB return before they are
    made. Promised is what page-locked memory saves, not what sparing the copy does."""
    rows = text.splitlines()
    place = {"file": "camera.py", "line": len(rows), "text": rows[-1].strip()}
    loop = {**RECORD["loops"][0], "place": {"file": "camera.py", "line": len(rows) - 1}}
    copied = {**crossing(len(rows), kind), "library": library, "place": place, **more}
    sources = [{"file": "camera.py", "lines": rows}]
    record = {**RECORD, "crossings": [copied], "sources": sources, "loops": [loop]}
    script = ScriptRun.model_validate_json(json.dumps(record))
    locked = Evidence(label=PAGE_LOCKED, value=LOCKED, unit="seconds")
    other = told("repeated-upload", 0, 9e-3)
    advice = other.model_copy(update={"advice": other.advice.model_copy(update={"evidence": (locked,)})})
    tries = candidates(script, 0, Path("/there"), (advice,))
    shown = [(each.trial.name, each.trial.title, each.trial.promised_seconds) for each in tries]
    assert shown == ([expected] if expected else [])
    assert candidates(script, 1, Path("/there")) == ()


def test_other_uploads_of_an_array_are_part_of_the_change_that_page_locks_it() -> None:
    copies = [crossing(line, kind, origin=origin(4)) for line, kind in ((9, "upload"), (11, "upload"))]
    copies.append(crossing(13, "download", origin=origin(4)))
    script = ScriptRun.model_validate_json(json.dumps({**RECORD, "crossings": copies}))
    (lock,) = candidates(script, 0, Path("/there"))
    assert (lock.change.line, lock.change.uploads) == (9, (("/there/camera.py", 11),))


class Runs:
    """Runs of a script, played: frames by contestant, printed lines by the changes in force."""

    def __init__(
        self,
        seconds: dict[str, float],
        printed: dict[tuple[str, ...], str] | None = None,
        *,
        drawn: Callable[[int], dict[str, float]] = lambda _: {},
        ends: Callable[[TrialJob], BaseException | str] = lambda _: "",
    ) -> None:
        """drawn: other seconds of a process. ends: how the script fails, or what ends all trials."""
        self.seconds, self.printed, self.jobs = seconds, printed or {}, list[TrialJob]()
        self.drawn, self.ends = drawn, ends

    def __call__(self, job: TrialJob) -> TrialRun:
        self.jobs.append(job)
        if isinstance(ended := self.ends(job), BaseException):
            raise ended
        seconds = self.seconds | self.drawn(job.process)
        blocks = [
            TrialBlock(
                process=job.process, round=number, place=place, contestant=name, frames=10,
                seconds=10 * seconds[name] * (1 + 0.001 * (number % 3)),
            )
            for number in range(40)
            for place, name in enumerate(job.contestants)
            if job.task == "time" and not ended
        ]  # fmt: skip
        text = self.printed.get(tuple(change.name for change in job.changes), "7")
        results = Results(printed=(text,), exit_code=int(ended != ""))
        return TrialRun(blocks=tuple(blocks), results=results, error=ended)


LOCK, HOIST, REUSE = "lock-9", "hoist-11", "reuse-13"
FAST = {"as-is": 0.004, LOCK: 0.003, HOIST: 0.003, REUSE: 0.003, "patched": 0.002}


def session(folder: Path, runs: RunTrial, tries: Sequence[Candidate] = (), **more: Any) -> Session:
    (folder / "camera.py").write_text(CAMERA, encoding="utf-8")
    name = folder / "camera.py" if "start" in more else "camera.py"
    script = ScriptRun.model_validate_json(json.dumps(RECORD).replace("camera.py", str(name)))
    job = ScriptJob.model_construct(file="camera.py", directory="")
    tries = tries or candidates(script, 0, folder)
    return Session(script, job, 0, tries, runs, Lines(), **{"start": folder, **more})


def played(folder: Path, runs: RunTrial, **more: Any) -> Trials:
    return session(folder, runs, **more).trials(1.0)


def told(rule: str, crossing: int, seconds: float) -> LineAdvice:
    gain = {"seconds_per_frame": seconds, "basis": "estimated"}
    advice = {"rule": rule, "device": "d", "outcome": "advice", "title": "t", "detail": "", "gain": gain}
    place = {"file": "camera.py", "line": 9}
    return LineAdvice.model_validate({"place": place, "crossing": crossing, "advice": advice})


@every(
    ("task", "outcome", "reason"),
    [
        ("time", "refused", "under one of the changes in turns: ValueError: 3"),
        ("results", "open", "exit code 1 when it ran again: ValueError: 3"),
    ],
)
def test_a_script_that_fails_under_a_change_or_again_is_told_with_the_error(
    task: str, outcome: str, reason: str, tmp_path: Path
) -> None:
    """Where it cannot run twice, its record is kept."""
    tried = played(tmp_path, Runs(FAST, ends=lambda job: "ValueError: 3" if job.task == task else ""))
    assert {trial.outcome for trial in tried.trials} == {outcome}
    assert reason in (tried.reason or tried.trials[0].reason)


def test_changes_of_a_loop_with_few_frames_have_separate_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """How many runs that makes is told before."""
    monkeypatch.setitem(RECORD["loops"][0], "frames", 10)
    runs = Runs(FAST)
    found = played(tmp_path, runs)
    plan = "trying 3 changes: 15 to 36 runs of the script (45 s to 110 s) if one pays, else about 4 (12 s)\n"
    assert plan in capsys.readouterr().err
    assert 15 <= len(runs.jobs) <= 36
    assert {len(job.contestants) for job in runs.jobs} == {1}
    assert {trial.outcome for trial in found.trials} == {"faster"}


@every(
    ("kind", "seconds", "processes"),
    [
        (kind, *case)
        for kind in ("pin-memory", "lock")
        for case in (((0.0033, 0.0042), 5), ((0.0039, 0.0041), 2), ((0.002, 0.002), 2))
    ],
)
def test_a_promising_change_gets_more_processes(
    kind: ChangeKind, seconds: tuple[float, float], processes: int, tmp_path: Path
) -> None:
    change = Change(name="changed", kind=kind, file="camera.py", line=5)
    trial = Trial(name=change.name, kind=kind, title="t", outcome="open")
    runs = Runs({}, drawn=lambda process: {"as-is": 0.004, "changed": seconds[process % 2]})
    tried = session(tmp_path, runs, [Candidate(trial, change)])
    tried._time()
    assert len({block.process for block in tried._blocks}) == processes


def test_times_divide_to_the_ratios_beside_them(tmp_path: Path) -> None:
    """Those of allocators too, which take turns in a process that may be slower."""
    pools = dict.fromkeys(("no-pool", "async-pool", "managed-pool", "managed-prefetch-pool"), 0.005)
    slower = {"as-is": 0.0048, "no-pool": 0.006}
    runs = Runs(FAST | pools, drawn=lambda process: slower if process == MOST_PROCESSES else {})
    script = ScriptRun.model_validate_json(json.dumps(RECORD))
    tries = (*candidates(script, 0, tmp_path), *allocator_candidates(script, 0, tmp_path / "camera.py"))
    found = session(tmp_path, runs, tries).trials(1.0)
    timed = {t.name: (found.frame_seconds / t.frame_seconds, t.speedup) for t in found.trials if t.speedup}
    assert timed["no-pool"] == (pytest.approx(0.8), pytest.approx(0.8))
    assert all(ratio == pytest.approx(speedup) for ratio, speedup in timed.values()), timed


@pytest.mark.parametrize(("end", "reason"), [(TimeUp, "--max-seconds"), (KeyboardInterrupt, "Interrupted")])
def test_what_was_measured_before_the_time_ends_is_kept_and_proves_nothing(
    end: type[BaseException], reason: str, tmp_path: Path
) -> None:
    found = played(
        tmp_path, Runs(FAST, ends=lambda job: end() if job.task == "results" and not job.changes else "")
    )
    assert {(t.outcome, bool(t.speedup)) for t in found.trials} == {("open", True)}
    assert (found.patch, bool(found.blocks)) == (None, True)
    assert reason in found.reason
    kept = played(tmp_path, Runs(FAST), end=0.0)
    assert (kept.blocks, "--max-seconds" in kept.reason) == ((), True)


@every(("timed", "holds"), [(0, False), (1, True)])
def test_a_patch_that_was_timed_before_ctrl_c_is_handed_over(timed: int, holds: bool, tmp_path: Path) -> None:
    def ends(job: TrialJob) -> BaseException | str:
        return KeyboardInterrupt() if job.sources and job.process > MOST_PROCESSES + timed else ""

    patch = played(tmp_path, Runs(FAST, ends=ends)).patch
    assert (patch.equal, patch.holds) == (True, holds)


@pytest.mark.parametrize(
    ("results", "proved"),
    [
        (lambda run: Results(printed=(f"total {run}", "done")), None),
        (lambda run: Results(printed=("done",)), None),
        (lambda run: Results(downloads=(("a.py:3", "x"), ("a.py:5", str(run))), printed=("frames 9",)), None),
        (lambda run: Results(files={"out.npy": str(run)}, printed=("frames 9",)), None),
        (lambda _: Results(files={"old.npy": ""}, printed=("frames 9",)), None),
        (lambda run: Results(downloads=(("a.py:3", "x"),), printed=(f"{run} ms",)), True),
        (lambda run: Results(printed=("total 9", "done")), True),
    ],
)
def test_a_program_that_differs_from_itself_is_never_called_equal(
    results: Callable[[int], Results], proved: bool | None, tmp_path: Path
) -> None:
    """What it prints may differ, as times do, where something else is compared. Its patch is code to
    consider: no file of it is written or changed."""
    runs = Runs(FAST)

    def run(job: TrialJob) -> TrialRun:
        return runs(job).model_copy(update={"results": results(len(runs.jobs))})

    tried = played(tmp_path, run)
    assert tried.patch
    patch = tried.patch
    assert (patch.equal, patch.holds, patch.is_unproved) == (proved, bool(proved), not proved)
    assert (bool(patch.text), bool(patch.speedup), bool(patch.reason)) == (True, True, not proved)
    assert {trial.outcome for trial in tried.trials} == {"faster" if proved else "open"}
    result, settings = Profile.model_construct(trials=tried, script=None), asked("camera.py")
    assert (profiling._patch_name(settings), result.trials.patch.holds) == ("camera.patch", bool(proved))
    if not proved:
        with pytest.raises(UsageError, match=re.escape(f"with equal results to apply: {patch.reason}")):
            profiling._apply(result)


@every(
    ("patched", "processes", "holds"),
    [((0.002, 0.0021), 2, True), ((0.0055, 0.0056), 3, False), ((0.002, 0.0055), 6, True)],
)
def test_a_patch_is_timed_until_processes_tell_and_left_out_if_it_is_slower(
    patched: tuple[float, float], processes: int, holds: bool, tmp_path: Path
) -> None:
    """Its results are compared with one unchanged run where they do not differ."""
    runs = Runs(FAST, drawn=lambda process: {"patched": patched[process % 2]})
    trials = played(tmp_path, runs)
    assert len({block.process for block in trials.blocks if block.contestant == "patched"}) == processes
    assert (trials.patch.equal, trials.patch.holds, trials.patch.left_out) == (True, holds, ())
    unchanged = [job for job in runs.jobs if job.task == "results" and not (job.changes or job.sources)]
    assert len(unchanged) == 1


def test_the_file_of_a_patch_has_the_users_text_which_pages_mask(tmp_path: Path) -> None:
    """Else no line with a token, a home or a carriage return could be patched."""
    token = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
    text = f"--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-token = '{token}'\r\n+token = 1\r\n"
    tried = Trials(patch=Patch(text=text, lines=2, equal=True, speedup=1.5), seconds=1.0)
    masked = anonymous(profile(trials=tried), include_host=False)
    assert "ghp_" not in masked.to_json()
    name, exact = profiling._patch_name(asked("x.py")), masked.trials.patch.exact
    file = outputs.write(tmp_path, name, exact)
    loaded = Patch.model_validate_json(masked.trials.patch.model_dump_json())
    assert (file.read_bytes().decode(), loaded.exact) == (text, loaded.text)


def test_names_of_a_patch_start_where_its_files_lie(tmp_path: Path) -> None:
    """`patch` and `git apply` refuse names that lead out of a folder."""
    (tmp_path / "elsewhere").mkdir()
    patch = played(tmp_path, Runs(FAST), start=tmp_path / "elsewhere").patch
    assert patch.folder == ".."
    assert patch.text.startswith("--- a/camera.py\n")
    profiling._apply(Profile.model_construct(trials=Trials(patch=patch, seconds=1.0)))
    assert "asarray(gray, blocking=True)" in (tmp_path / "camera.py").read_text(encoding="utf-8")


def test_an_array_is_page_locked_in_the_file_that_makes_it_and_waited_for_where_it_is_uploaded(
    tmp_path: Path,
) -> None:
    texts = {
        "made.py": "import numpy as np\ndef make():\n    frame = np.zeros(4)\n    return frame\n",
        "up.py": "import cupy as cp\ndef up(a):\n    return cp.asarray(a)\n",
        "other.py": "import cupy as cp\ndef up(a):\n    return cp.array(a, 'f4')\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    made, up, other = (str(tmp_path / name) for name in texts)
    change = Change("lock", 3, 3, uploads=((other, 3),), name=LOCK, file=up, origin_file=made)
    tries = [Candidate(Trial(name=LOCK, kind="lock", title="t", outcome="faster"), change, {0: 0.7, 3: 0.5})]
    patch, names = written_patch(tries, Place(file="main.py", line=1), tmp_path, 1.0)
    assert (names, patch.left_out) == ((LOCK,), ())
    assert (patch.promised_seconds, patch.reason) == (1.0, "the trials ended before it was run")
    added = [row[1:].strip() for row in patch.text.splitlines() if row.startswith("+")]
    assert added == [
        *("++ b/up.py", "return cp.asarray(a, blocking=True)"),
        *("++ b/made.py", "import cupyx", "frame = cupyx.zeros_pinned(4)"),
        *("++ b/other.py", "return cp.array(a, 'f4', blocking=True)"),
    ]
    (tmp_path / "other.py").write_text(texts["other.py"].replace("return cp", "return yours"))
    patch, names = written_patch(tries, Place(file="main.py", line=1), tmp_path, 1.0)
    assert (patch.text, names, patch.reason) == ("", (), "none of the changes could be written")
    assert "line 3 has no place after its copy" in patch.left_out[0]


def test_what_differs_is_left_out_and_the_others_are_timed_without_it(tmp_path: Path) -> None:
    runs = Runs(FAST, {(LOCK, HOIST, REUSE): "8", (HOIST,): "8"})
    found = {trial.name: trial for trial in played(tmp_path, runs).trials}
    assert {t.name for t in found.values() if t.outcome == "faster"} == {LOCK, REUSE}
    assert found[HOIST].outcome == "differs"
    assert found[HOIST].reason == "it prints another line 1"
    last = [job for job in runs.jobs if job.task == "time" and len(job.contestants) > 1][-1]
    assert [*last.contestants] == ["as-is", LOCK, REUSE]


def test_of_the_allocators_that_gain_the_fastest_is_kept(tmp_path: Path) -> None:
    """Those of CuPy take turns first; PyTorch's needs a process of its own."""
    seconds = {"async-pool": 0.0015, "no-pool": 0.002, "cuda-malloc-async": 0.0017}
    tries = [
        *candidates(ScriptRun.model_validate_json(json.dumps(RECORD)), 0, tmp_path),
        *(
            Candidate(
                Trial(name=name, kind="allocator", title="t", outcome="open"),
                Change("allocator", 1, name=name, file=str(tmp_path / "camera.py")),
            )
            for name in seconds
        ),
    ]
    runs = Runs(FAST | seconds)
    found = {trial.name: trial for trial in session(tmp_path, runs, tries).trials(1.0).trials}
    assert [found[name].outcome for name in seconds] == ["faster", "not-faster", "not-faster"]
    assert {found[name].reason for name in [*seconds][1:]} == {"another allocator was faster"}
    screened = [job.contestants for job in runs.jobs if job.process == MOST_PROCESSES and not job.sources]
    assert screened[0] == ("as-is", "async-pool", "no-pool")


def test_what_a_run_refuses_that_compares_results_is_not_timed(tmp_path: Path) -> None:
    runs = Runs(FAST)

    def refusing(job: TrialJob) -> TrialRun:
        compares = job.task == "results" and job.changes
        return runs(job).model_copy(update={"refused": {HOIST: "it writes"}} if compares else {})

    found = {trial.name: (trial.outcome, trial.reason) for trial in played(tmp_path, refusing).trials}
    assert (found[HOIST], found[LOCK][0]) == (("refused", "it writes"), "faster")
    assert all(HOIST not in job.contestants for job in runs.jobs)
