"""`advisor profile` of a folder, or of a file with several workloads: each in turn, and one page of all."""

from __future__ import annotations

import csv
import json
from functools import partial
from pathlib import Path

import pytest
from rendering import Accepted, refusals
from running import FILES, QUICK, Command, missing
from test_cli import names

from advisor.errors import WorkloadError
from advisor.workloads.outline import targets

COUNTER = (FILES / "counter.py").read_text(encoding="utf-8").replace("shown.sum()", "shown[0]")
COUNTER = COUNTER.replace("n: int = 64", "n: int = 1 << 16")
"""The host does next to nothing: what is advised does not hang on how busy this machine is."""
BROKEN = """
from advisor import Workload, workload

@workload
def broken(n: int = 4) -> Workload:
    raise ValueError("no such camera")
"""


@pytest.fixture
def folder(command: Command) -> Path:
    """Three workloads in two files, of which one is broken, and a file of none."""
    made = Path("wl")
    made.mkdir()
    (made / "counter.py").write_text(COUNTER, encoding="utf-8")
    (made / "more.py").write_text(COUNTER.replace("def counter", "def second") + BROKEN, encoding="utf-8")
    (made / "helper.py").write_text("x = 1\n", encoding="utf-8")
    return made


def test_each_runs_in_turn_and_one_that_fails_stops_no_other(command: Command, folder: Path) -> None:
    said = command("profile", folder, "--no-gpu", *QUICK, "--format", "html,md,json,csv")
    assert said.code == 3, said.err
    out = Path("advisor-report")
    pages = {f"workloads.{form}" for form in ("html", "md", "json", "csv")}
    assert names(out) == {"counter", "second", *pages}
    assert missing(said.out, "3 workloads: 2 recommendations, 1 failed", "no such camera") == []
    rows = json.loads((out / "workloads.json").read_text())["rows"]
    assert [*dict.fromkeys(row["workload"] for row in rows)] == ["counter", "second", "broken"]
    (broken,) = (row for row in rows if row["workload"] == "broken")
    assert (broken["kind"], broken["reason"]) == ("failed", "workload 'broken' raised ValueError")
    held = json.loads((out / "counter" / "profile.json").read_text())
    advised = held["predictions"][0]["recommendation"]
    best = next(row for row in rows if row["workload"] == "counter" and row.get("recommended"))
    assert best["kind"] == "predicted"
    name, gain = best["strategy"], best["gain"]
    assert (name, gain) == (advised["strategy"], advised["speedup"])
    assert ("keep pageable" if name == "pageable" else f"{name}, {gain:.2f}×") in said.out
    with (out / "workloads.csv").open(newline="") as file:
        assert {row["workload"] for row in csv.DictReader(file)} == {"counter", "second", "broken"}
    assert 'href="./second/report.html"' in (out / "workloads.html").read_text()
    assert (out / "workloads.md").read_text().count("workload 'broken' raised ValueError") == 1
    both = [out / name / "profile.json" for name in ("counter", "second")]
    said = command("report", *both, "--out", out / "again", "--format", "md,json")
    assert (said.code, said.out.splitlines()[2]) == (0, "  2 workloads: 2 recommendations")
    assert json.loads((out / "again" / "workloads.json").read_text())["rows"] == rows[:-1]
    assert "| Command |" in (out / "again" / "workloads.md").read_text(), "the same of both"
    said = command("report", *both, both[0], "--out", "-", "--format", "json")
    assert (said.code, "are both of counter" in said.err) == (2, True)


def test_the_exit_code_is_the_highest_of_all(command: Command, folder: Path) -> None:
    """A parameter that one does not have is 2, code that raises is 3."""
    both = BROKEN.replace("broken(n", "raises(step") + BROKEN.partition("import Workload, workload")[2]
    (folder / "more.py").write_text(both, encoding="utf-8")
    said = command("profile", folder / "more.py", "--no-gpu", "--set", "step=3")
    assert said.code == 3
    assert missing(said.out, "2 workloads: 2 failed", "no parameter 'step'", "no such camera") == []
    assert "Recommended" not in said.out, "no table without a column"


def test_what_several_workloads_cannot(command: Command, folder: Path, accepted: Accepted) -> None:
    Path("empty").mkdir()
    wrong = ("wl --sweep n=1,2", "wl/more.py --save main", "wl -- 5", "empty")
    calls = {f"profile {words}": partial(command, "profile", "--no-gpu", *words.split()) for words in wrong}
    accepted(refusals(calls), "several-workloads-refused.txt")


def test_what_a_target_names(folder: Path) -> None:
    assert targets("wl") == ("wl/counter.py::counter", "wl/more.py::second", "wl/more.py::broken")
    assert targets("wl/more.py") == ("wl/more.py::second", "wl/more.py::broken")
    for one in ("wl/counter.py", "wl/more.py::second", "wl/helper.py", "missing.py"):
        assert targets(one) == (one,)
    (folder / "more.py").write_text(COUNTER, encoding="utf-8")
    assert targets("wl/more.py") == ("wl/more.py",)
    (folder / "more.py").write_text("".join(f"@workload\ndef w{i}(): ...\n" for i in range(100)))
    with pytest.raises(WorkloadError, match="wl has 101 workloads; one command runs at most 100"):
        targets("wl")
