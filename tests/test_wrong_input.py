"""Whatever is wrong with what the user gave: one message, the next step, the exit code, no trace of ours."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest
from rendering import Accepted, refusals
from running import MISBEHAVING, QUICK, Command, Said, having

GOOD = """
import numpy as np
from advisor import Buffer, In, Out, Workload, device, host, workload

@workload
def w(n: int = 64) -> Workload:
    def p(a: Out, frame: int) -> None:
        a.fill(frame)
    def c(xp, a: In, b: Out) -> None:
        xp.add(a, 1, out=b)
    def r(b: In) -> None:
        b.sum()
    return Workload({"a": Buffer(n, "f4"), "b": Buffer(n, "f4")}, [host(p), device(c), host(r)])
"""


@pytest.fixture
def command(command: Command) -> Command:
    Path("w.py").write_text(GOOD, encoding="utf-8")
    return command


def wrong_file(command: Command, text: str) -> list[str]:
    """The message of a profile that is refused: nothing on stdout, nothing written, none of our frames."""
    Path("w.py").write_text(text, encoding="utf-8")
    said = command("profile", *QUICK, "w.py")
    assert (said.out, said.code) == ("", 3), said.err
    assert not Path("advisor-report").exists()
    assert said.error[1].startswith("  next: ")
    assert "/advisor/" not in "\n".join(said.error)
    return said.error


def test_ending_the_process_on_import(command: Command) -> None:
    assert "KeyboardInterrupt" in wrong_file(command, "raise KeyboardInterrupt\n")[0]
    assert "code 3" in wrong_file(command, "import os, sys\nos._exit(2 + len(sys.argv))\n")[0], "no arguments"


CHANGED = (
    ("host(p), device(c)", "p, device(c)"),
    ('"b": Buffer(n, "f4")', '"b": Buffer(0, "f4")'),
    ("a: Out, frame: int", "a: In, frame: int"),
)
"""A few: tests/test_workloads.py and tests/test_loading.py have what can be wrong with a file."""
WORDS = """\
ww.py; w.py::; p.json; w.py --set m=3; w.py --set n=x; w.py --set n=2**99999; w.py --strategy pined
w.py --format pdf; w.py --gpu 0 --no-gpu; w.py --gpu 0; w.py --out=; w.py --out w.py; w.py --out /proc/advisor
w.py --trace nothing; w.py --nsys x; w.py --keep-nsys; w.py --gpus 0,1; w.py --gpu 0 --format pdf
w.py --gpu 0 --strategy pined; w.py --gpu 0 --sweep n; w.py --apply; w.py --apply=s.py
w.py --apply gone.py::f; s.py --apply s.py::f; w.py --apply s.py::f --sweep n=1,2
w.py --set n=0; w.py --set n=10**12; w.py --sweep n=1..1000000000000"""


def test_workloads_and_options_that_are_wrong(command: Command, accepted: Accepted) -> None:
    command.around = having(gpus=0)
    Path("s.py").write_text("import cupy\n", encoding="utf-8")

    def run(text: str, words: str) -> Said:
        Path("w.py").write_text(text, encoding="utf-8")
        said = command("profile", *QUICK, *words.split())
        assert (said.out, Path("advisor-report").exists(), len(said.error)) == ("", False, 2)
        return said

    calls = {words: partial(run, GOOD, words) for words in WORDS.replace("\n", "; ").split("; ")}
    calls |= {f"{old} -> {new}": partial(run, GOOD.replace(old, new), "w.py") for old, new in CHANGED}
    accepted(re.sub("machine has [^;]+;", "machine has …;", refusals(calls)), "input-refused.txt")


def test_a_stage_that_raises_in_the_first_frame(command: Command) -> None:
    lines = wrong_file(command, GOOD.replace("b.sum()", "raise ValueError('bad\\nworse')"))
    assert lines[0] == "error: stage 'r' (w.py:12), frame 0: ValueError: bad; buffers: b float32 (64,)"
    assert [line for line in lines if line.startswith("  File")] == ['  File "w.py", line 12, in r']
    assert lines[-2:] == ["ValueError: bad", "worse"]


def test_an_output_that_cannot_be_written_is_found_before_anything_runs(command: Command) -> None:
    Path("w.py").write_text("open('ran', 'w')\n" + GOOD, encoding="utf-8")
    said = command("profile", *QUICK, "w.py", "--out", "/proc/advisor")
    assert "checking the workload" not in said.err
    assert not Path("ran").exists()
    assert command("profile", *QUICK, "w.py").code == 0
    assert Path("ran").exists()


def test_wrong_options_of_the_command_line_itself(command: Command) -> None:
    for arguments in (["--nonsense"], []):
        said = command("profile", *arguments)
        assert (said.code, said.out) == (2, "")
        assert "'advisor profile -h'" in said.err
        assert said.err.splitlines()[-1].startswith("Error: ")


def test_nothing_measured_and_nothing_predicted(command: Command) -> None:
    """The report is written all the same: it has the reasons."""
    said = command("profile", *QUICK, f"{MISBEHAVING}", "--set", "how=kill")
    assert said.code == 4
    assert "pageable: " in said.error[0]
    assert "killed by SIGKILL" in said.out
    assert Path("advisor-report/report.html").exists()


def test_a_failing_run_leaves_earlier_reports_alone_and_the_next_puts_them_aside(command: Command) -> None:
    assert command("profile", *QUICK, "w.py").code == 0
    before = {path: path.read_bytes() for path in Path("advisor-report").iterdir()}
    assert len(before) == 4
    Path("w.py").write_text(GOOD.replace("b.sum()", "b.summ()"), encoding="utf-8")
    assert command("profile", *QUICK, "w.py").code == 3
    assert {path: path.read_bytes() for path in Path("advisor-report").iterdir()} == before
    Path("w.py").write_text(GOOD, encoding="utf-8")
    assert command("profile", *QUICK, "w.py").code == 0
    assert Path("advisor-report/previous/report.md").read_bytes() == before[Path("advisor-report/report.md")]
