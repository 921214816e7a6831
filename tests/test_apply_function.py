"""The recommended strategy, written into the function that a workload stands for."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import profile, recommendation
from every import every
from running import Command

from advisor.cli.profiling import _apply_to_function
from advisor.strategies.functions import page_locked
from advisor.strategies.syntax import CannotWrite

SOURCE = """\
import cupy as cp
import numpy as np

table = np.load("t.npy")

def process(frames, given):
    gray = np.empty((4, 4), np.float32)
    total = 0.0
    for frame in frames:
        np.multiply(frame, 0.5, out=gray)
        d = cp.asarray(gray)
        t = cp.asarray(table)
        g = cp.asarray(given)
        out = (d + t + g).get()
        total += float(out[0, 0]) + out.sum()
    return total
"""


def test_arrays_are_page_locked_and_downloads_reused() -> None:
    applied = page_locked(SOURCE, "process", ["gray", "table", "out"])
    assert (applied.written, applied.left_out) == (("gray", "table", "out"), ())
    for line in (
        "    gray = cupyx.empty_pinned((4, 4), np.float32)\n",
        "cp.cuda.runtime.hostRegister(table.ctypes.data, table.nbytes, 0)",
        "        out = out_device.get(out=out_host)\n",
        "cp.asarray(gray, blocking=True)",
        "cp.asarray(table, blocking=True)",
    ):
        assert line in applied.text


LEFT = {
    "its caller makes it": ("given", SOURCE),
    "no copy of an array of that name": ("total", SOURCE),
    "process has no copy of an array": ("out", SOURCE.replace("(d + t + g).get()", "frames.get()")),
    "passes it on": ("gray", SOURCE.replace("d = cp", "kept = gray; d = cp")),
    "line 15 passes it on": ("out", SOURCE.replace("float(out[0, 0])", "keep(out[1:])")),
    "line 10 passes it on": ("gray", SOURCE.replace("np.multiply(", "g = np.multiply(")),
    "not one line of the file makes it": ("gray", SOURCE.replace("    total = 0.0", "    gray = np.ones(3)")),
    "each call of process makes it": ("gray", SOURCE.replace("for frame in frames", "if frame := frames")),
    "makes a new array in each frame": (
        "gray",
        SOURCE.replace("        np.mul", "        gray = np.empty(4)\n        np.mul").replace(
            "    gray = np.empty((4, 4), np.float32)\n", "", 1
        ),
    ),
}


@every("reason", LEFT)
def test_what_the_text_does_not_show_to_be_safe_is_left(reason: str) -> None:
    name, source = LEFT[reason]
    applied = page_locked(source, "process", [name])
    assert (applied.text, applied.written) == (source, ())
    assert reason in applied.left_out[0]


def test_a_function_that_is_not_there() -> None:
    with pytest.raises(CannotWrite, match="no function other"):
        page_locked(SOURCE, "other", ["gray"])


@every("ends", ["\n", "\r\n", "", "\r\n-"])
def test_only_what_is_written_changes(ends: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Line ends stay, and a last line without one too. What is not surely better leaves every byte."""
    text = SOURCE.replace("gray", "a").replace("\n", "\r\n" if "\r" in ends else "\n")
    source = (text if ends in ("\n", "\r\n") else text.rstrip()).encode()
    file = tmp_path / "camera.py"
    file.write_bytes(source)
    for strategy, verdict in (("pinned", "open"), ("zero-copy", "fastest"), (None, "keep")):
        _apply_to_function(
            profile(recommendation=recommendation(strategy, verdict=verdict)), f"{file}::process"
        )
        assert file.read_bytes() == source
        assert "is not changed" in capsys.readouterr().err
    _apply_to_function(profile(recommendation=recommendation("pinned")), f"{file}::process")
    said, after = capsys.readouterr().err, file.read_bytes()
    assert f"changed {file}: a." in said
    assert "b: process has no copy of an array of that name" in said
    assert b"a = cupyx.empty_pinned((4, 4), np.float32)" in after
    assert after.count(b"\n") == (after.count(b"\r\n") if "\r" in ends else after.count(b"\n"))
    assert after.endswith(b"\n") == source.endswith(b"\n")


NEXT_STEP = "\n  next: Name the function that the workload stands for: --apply FILE::FUNCTION."


@every(
    ("arguments", "said"),
    [
        (["workload.py", "--apply"], f"--apply on a workload needs a function to change{NEXT_STEP}"),
        (["workload.py", "--apply=script.py"], f"--apply script.py names no function{NEXT_STEP}"),
        (["workload.py", "--apply", "gone.py::f"], f"gone.py::f: gone.py does not exist{NEXT_STEP}"),
        (["script.py", "--apply", "script.py::f"], "on a script without --try"),
        (["workload.py", "--apply", "script.py::f", "--sweep", "n=1,2"], "--apply needs one run"),
    ],
)
def test_what_apply_cannot_mean_is_refused_at_once(
    arguments: list[str], said: str, tmp_path: Path, command: Command
) -> None:
    vector_add = Path(__file__).parents[1] / "workloads" / "vector_add.py"
    (tmp_path / "workload.py").write_bytes(vector_add.read_bytes())
    (tmp_path / "script.py").write_text("import cupy\n", encoding="utf-8")
    ended = command("profile", *arguments)
    assert ended.code == 2
    assert said in ended.err
