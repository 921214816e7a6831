"""`advisor compare --run`, as its users start it: two files, or one file at two revisions, on the CPU."""

from __future__ import annotations

import math
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rendering import Accepted, refusals
from running import Command, Said, missing
from test_cli import begun
from test_revisions import git

import advisor
from advisor import pipeline
from advisor.errors import INTERRUPTED, WorkloadError
from advisor.verdicts.comparing.versions import VersionComparison
from tests.faults.case import workload
from tests.forking import started


def blending(**parts: str) -> str:
    """A workload whose host stage repeats what a module beside it says."""
    top = "from helpers import REPEATS\nSMALL = np.ones(4096)"
    parts = {"produce": "[np.sqrt(SMALL) for _ in range(REPEATS)]", "top": top, **parts}
    return workload(**parts).replace("n: int = 64", f"n: int = {parts.pop('n', 4096)}")


WORKLOAD = blending()
QUICK = ("--no-gpu", "--max-seconds", "90")


def version(folder: Path, repeats: int, text: str = WORKLOAD) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "helpers.py").write_text(f"REPEATS = {repeats}\n")
    (folder / "w.py").write_text(text)
    return folder / "w.py"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A branch that doubles the work of a helper beside the workload, which itself stays as it is."""
    git(tmp_path, "init", "-q", "-b", "main", "work")
    folder = tmp_path / "work"
    for branch, repeats in (("main", 100), ("feature", 200)):
        git(folder, "checkout", "-q", "-B", branch)
        version(folder, repeats)
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", branch)
    return folder


def run(command: Command, *arguments: str | Path) -> Said:
    return command("compare", "--run", *map(str, arguments), *QUICK)


def test_a_slower_helper_is_found_between_two_folders(command: Command, tmp_path: Path) -> None:
    """Which is all that differs: each version has its own, in one process."""
    said = run(command, version(tmp_path / "a", 100), version(tmp_path / "b", 400), "--fail-if", "slower=5%")
    assert said.code == 1, said
    first = said.out.splitlines()[0]
    assert first.startswith("slower by ")
    assert "under pageable: stage produce +" in " ".join(said.out.split())
    assert "gate slower=5%: failed" in said.err
    page = (tmp_path / "advisor-comparison" / "compare.md").read_text()
    assert not missing(page, "### slower by", "stage produce", "a/w.py", "b/w.py")


def test_a_strategy_of_the_code_that_fails_in_head_fails_the_gate(command: Command, tmp_path: Path) -> None:
    fails = "if isinstance(a, np.ndarray) and a.ctypes.data == AT[0]: raise ValueError('in place')"
    sides = [workload(top="AT = [0]", produce="AT[0] = a.ctypes.data", add=add) for add in ("pass", fails)]
    files = [version(tmp_path / name, 1, text) for name, text in zip("ab", sides, strict=True)]
    said = run(command, *files, "--strategy", "zero-copy", "--fail-if", "slower=900%")
    page = (tmp_path / "advisor-comparison" / "compare.md").read_text()
    assert (said.code, "`zero-copy` ran in BASE and fails in HEAD: the work" in page) == (1, True), said


def test_a_time_in_which_nothing_is_compared_passes_no_gate(command: Command, tmp_path: Path) -> None:
    """It ends as soon as that is known, without BASE: concluding has a quarter, a final takes a second."""
    files = version(tmp_path / "a", 100), version(tmp_path / "b", 200)
    gate = ("--fail-if", "footprint=+500%")
    said = command("compare", "--run", *map(str, files), "--no-gpu", "--max-seconds", "1.3", *gate)
    assert said.code == 4, said
    assert said.error[0].startswith("error: nothing was compared within --max-seconds 1.3: ")
    assert said.error[1] == "  next: Run again with a larger --max-seconds."
    assert "BASE: " not in said.err
    assert not (tmp_path / "advisor-comparison").exists()


def test_the_working_tree_is_compared_with_a_revision(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while the page is made keeps it. How often the same code seems to differ is counted in
    tests/test_versions.py, by a simulation."""
    monkeypatch.chdir(repository)
    concluding, interrupts = pipeline.comparing_versions, iter([KeyboardInterrupt])

    def interrupted_once(*sides: Any) -> VersionComparison:
        for interrupt in interrupts:
            raise interrupt
        return concluding(*sides)

    monkeypatch.setattr(pipeline, "comparing_versions", interrupted_once)
    found = advisor.compare_versions("w.py", against="HEAD", no_gpu=True, indifference=0.9, quiet=True)
    assert found.run.notes[-1].startswith("Interrupted after round ")
    traces = [side.traffic for side in (found.base, found.head)]
    assert len({trace.host_rates for trace in traces if trace}) == 1, "one machine"
    for side, trace in zip((found.base, found.head), traces, strict=True):
        stages = side.measured()["pageable"].stage_seconds
        assert {w.stage: w.seconds for w in trace.work}["use"] == stages["use"], "timed side by side"
    (row,) = found.rows
    assert 0 < row.ratio.low <= row.ratio.high < math.inf
    assert found.run.versions[0].startswith("w.py at HEAD, ")
    assert found.run.versions[1] == "w.py in the working tree"


ONCE = """
import numpy as np

if hasattr(np, "blending_was_registered"):
    raise RuntimeError("blending was registered twice")
np.blending_was_registered = True
"""


def test_versions_that_cannot_share_a_process_run_in_adjacent_ones(command: Command, tmp_path: Path) -> None:
    files = version(tmp_path / "a", 100), version(tmp_path / "b", 400)
    for file in files:
        with (file.parent / "helpers.py").open("a") as helpers:
            helpers.write(ONCE)
    said = run(command, *files, "--details", "--fail-if", "slower=5%")
    assert said.code == 1, said
    assert said.out.startswith("slower by ")
    told = " ".join(said.out.split())
    assert "The versions ran in separate processes" in told, told


BREAKS = blending(produce="raise ValueError('no camera')")
DIES = blending(produce="os.kill(os.getpid(), 11)")


@pytest.mark.parametrize(("head", "told"), [(BREAKS, "HEAD: "), (DIES, "killed by SIGSEGV")])
def test_a_head_that_fails(command: Command, tmp_path: Path, head: str, told: str) -> None:
    said = run(command, version(tmp_path / "a", 10), version(tmp_path / "b", 10, head))
    assert said.code == WorkloadError.exit_code, said
    assert told in said.err
    assert "report" not in said.err, "none is written"
    assert not (tmp_path / "advisor-comparison").exists()


GATES = ("--fail-if", "slower=500%", "--strict")
ZEROS_OTHER = blending(n="8192", add="b[...] = 0")
LAST = blending(add="b[7] += 3")


@pytest.mark.parametrize(
    ("base", "head", "code", "told"),
    [
        (BREAKS, WORKLOAD, 0, "Nothing to compare: BASE: "),
        (WORKLOAD, ZEROS_OTHER, 1, "something else with n=8192 in both: `b` differs in all of its elements"),
        (WORKLOAD, LAST, 1, "`b` differs in 1 of its 4096 elements, largest 3 at [7]"),
    ],
)
def test_what_a_gate_must_stop_and_what_it_must_let_pass(
    command: Command, tmp_path: Path, base: str, head: str, code: int, told: str
) -> None:
    files = version(tmp_path / "a", 10, base), version(tmp_path / "b", 10, head)
    said = run(command, *files, "--fail-if", "slower=500%")
    assert said.code == code, said
    page = (tmp_path / "advisor-comparison" / "compare.md").read_text().replace("\\", "")
    assert told in page
    assert ("results-differ: failed" in said.err) == bool(code)
    if head is LAST:
        assert run(command, *files, "--fail-if", "slower=500%", "--anyway").code == 0


def test_a_workload_that_is_new_passes_if_it_runs(
    command: Command, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    (repository / "new.py").write_text(WORKLOAD)
    said = run(command, "new.py", *GATES)
    assert (said.code, "gate slower=500%: not applicable\n" in said.err) == (0, True), said
    assert " ".join(said.out.split()).startswith("Nothing to compare: new.py is new: BASE (merge base with")
    git(repository, "branch", "token=hunter2hunter2", "main")
    run(command, "new.py", "--against", "token=hunter2hunter2")
    assert "hunter2" not in (repository / "advisor-comparison" / "compare.md").read_text()
    (repository / "new.py").write_text(BREAKS)
    assert run(command, "new.py", *GATES).code == WorkloadError.exit_code
    (repository / "w.py").write_text("x = (")
    git(repository, "commit", "-qam", "broken")
    (repository / "w.py").write_text(WORKLOAD)
    said = run(command, "w.py", "--against", "HEAD", *GATES)
    assert said.out.startswith("Nothing to compare: BASE: w.py is not valid Python: line 1"), said
    assert " ".join(said.out.split()).count("not valid Python") == 1, "one reason"


def test_wrong_input(
    command: Command, repository: Path, monkeypatch: pytest.MonkeyPatch, accepted: Accepted
) -> None:
    monkeypatch.chdir(repository)
    (repository / "s.py").write_text("import cupy\ncupy.arange(3)\n")
    wrong = ("w.py --against nowhere", "helpers.py w.py --against main", "nothing.py", "s.py s.py")
    calls = {f"compare --run {words}": partial(run, command, *words.split()) for words in wrong}
    accepted(refusals(calls), "versions-refused.txt")


LATE = "import time, traceback as t\nREPEATS = 'final_worker' not in str(t.extract_stack()) or time.sleep(60)"
INTERRUPTIONS = [
    ("HEAD: checking", signal.SIGINT, 1),
    ("BASE: pageable", signal.SIGTERM, 3),
    ("HEAD against BASE", signal.SIGINT, 3),
    ("HEAD / BASE: ", signal.SIGINT, 2),
]


@pytest.mark.parametrize(("at", "number", "times"), INTERRUPTIONS)
def test_ctrl_c_leaves_nothing(
    repository: Path, tmp_path: Path, number: signal.Signals, at: str, times: int
) -> None:
    """Whatever it interrupts, and however often: no worktree, no folder, never exit code 0, and a report only
    of ratios that were shown: the final takes long, either to settle or to begin."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    if "/" not in at:
        (repository / "helpers.py").write_text(LATE)
        git(repository, "commit", "-qam", "slow")
    words = ("compare", "--run", "w.py", "--against", "HEAD", *QUICK)
    with begun(started().command, repository, *words, temporary=temporary) as process:
        while at not in process.stderr.readline():
            assert process.poll() is None
        for _ in range(times):
            process.send_signal(number)
            time.sleep(0.02)
        _, said = process.communicate(timeout=300)
    assert process.returncode == INTERRUPTED, said
    page = repository / "advisor-comparison" / "compare.md"
    assert ("interrupted: nothing was compared" not in said) == page.exists() == ("/" in at)
    assert not page.exists() or "; interrupted" in page.read_text(encoding="utf-8").splitlines()[0]
    assert list(temporary.iterdir()) == []
    changed = git(repository, "status", "--porcelain", "--ignored").split()
    assert {*changed} <= {"!!", "??", "__pycache__/", *["advisor-comparison/"] * page.exists()}
    assert list((repository / ".git").glob("worktrees/*")) == []
