"""Whatever is wrong with what the user gave: one message, the next step, the exit code, no trace of ours."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from rendering import Accepted, refusals
from running import MISBEHAVING, QUICK, Command, Said, having, missing

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


def refused(command: Command, code: int, *arguments: str) -> list[str]:
    """The message of a profile that is refused: nothing on stdout, nothing written, none of our frames."""
    said = command("profile", *QUICK, *arguments)
    assert said.out == ""
    assert said.code == code, said.err
    assert not Path("advisor-report").exists()
    lines = said.error
    assert lines[0].removeprefix("error: ")
    assert lines[1].startswith("  next: ")
    assert "/advisor/" not in "\n".join(lines)
    return lines


def wrong_file(command: Command, text: str | bytes) -> list[str]:
    Path("w.py").write_bytes(text if isinstance(text, bytes) else text.encode())
    return refused(command, 3, "w.py")


def test_a_missing_file(command: Command) -> None:
    message, step = refused(command, 5, "ww.py")
    assert not missing(message, "ww.py", " w.py?")
    assert "@workload" in step


def test_raising_on_import_shows_the_users_traceback_and_none_of_ours(command: Command) -> None:
    lines = wrong_file(command, "def f():\n    return 1 / 0\nf()\n")
    assert not missing(lines[0], "w.py", "ZeroDivisionError")
    assert lines[3].startswith("Traceback")
    assert lines[4] == '  File "w.py", line 3, in <module>'
    assert lines[-1] == "ZeroDivisionError: division by zero"
    assert sum(line.startswith("  File") for line in lines) == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import sys\nsys.exit(3)\n", "SystemExit"),
        ("raise KeyboardInterrupt\n", "KeyboardInterrupt"),
        ("import os\nos._exit(3)\n", "code 3"),
    ],
)
def test_ending_the_process_on_import(command: Command, text: str, told: str) -> None:
    assert told in wrong_file(command, text)[0]


CHANGED = (
    ("a: In, b", "a: In, bb"),
    ("return Workload(", "return dict(b=3) or ("),
    ("host(p), device(c)", "p, device(c)"),
    ('"b": Buffer(n, "f4")', '"b": n'),
    ('"b": Buffer(n, "f4")', '"b": Buffer(0, "f4")'),
    ("a: Out, frame: int", "a: In, frame: int"),
)
OPTIONS = (
    *("--set m=3", "--set n=x", "--set n=2**99999", "--strategy pined", "--format pdf", "--gpu 0 --no-gpu"),
    *("--out=", "--out w.py", "--out /proc/advisor", "--trace nothing", "--nsys x", "--keep-nsys"),
)


def test_workloads_and_options_that_are_wrong(command: Command, accepted: Accepted) -> None:
    def run(text: str, options: str = "") -> Said:
        Path("w.py").write_text(text, encoding="utf-8")
        said = command("profile", *QUICK, "w.py", *options.split())
        assert (said.out, Path("advisor-report").exists(), len(said.error)) == ("", False, 2)
        return said

    calls = {f"{old} -> {new}": partial(run, GOOD.replace(old, new)) for old, new in CHANGED}
    calls |= {options: partial(run, GOOD, options) for options in OPTIONS}
    accepted(refusals(calls), "input-refused.txt")


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


def test_a_target_that_is_not_file_and_name(command: Command) -> None:
    assert not missing(refused(command, 2, "w.py::")[0], "'w.py::'", "FILE::NAME")
    assert "advisor report p.json" in refused(command, 2, "p.json")[1], "a profile is not run as Python"


def test_wrong_options_of_the_command_line_itself(command: Command) -> None:
    for arguments in (["--nonsense"], []):
        said = command("profile", *arguments)
        assert (said.code, said.out) == (2, "")
        assert "'advisor profile -h'" in said.err
        assert said.err.splitlines()[-1].startswith("Error: ")


def test_a_gpu_that_is_not_there(command: Command) -> None:
    command.around = having(gpus=0)
    message, step = refused(command, 4, "w.py", "--gpu", "0")
    assert "--gpu 0" in message
    assert not missing(step, "nvidia-smi", "--gpu")


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
