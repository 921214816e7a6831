"""Real processes that end in every way there is, and what the parent makes of it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fakes
import pytest
from running import MISBEHAVING, eventually, is_gone

from advisor.measure.jobs import Job, ReferenceRun, Sample, TraceRun
from advisor.measure.launcher import Ended, ProcessLauncher
from advisor.measure.processes import first_lines, memory, python_command, write_job
from tests.faults.case import workload
from tests.forking import server


def job(directory: Path, task: str = "measure", file: Path = MISBEHAVING, **assignments: str) -> Job:
    return fakes.job(
        task=task, file=str(file), assignments=assignments, backend="cpu", strategy="zero-copy", seconds=0.02,
        directory=str(directory / task), reference=str(directory / "results"),
    )  # fmt: skip


def launched(directory: Path, launcher: ProcessLauncher | None = None, **assignments: str) -> Ended:
    """Forked, for which no test waits; `test_a_job_that_ends_well_gives_its_outcome` starts interpreters."""
    return (launcher or ProcessLauncher(300, server=server()))(job(directory, **assignments))


@pytest.mark.parametrize(
    ("task", "outcome"), [("reference", ReferenceRun), ("trace", TraceRun), ("measure", Sample)]
)
def test_a_job_that_ends_well_gives_its_outcome(tmp_path: Path, task: str, outcome: type) -> None:
    ended = ProcessLauncher(300)(job(tmp_path, task))
    assert ended.how == "finished"
    assert isinstance(ended.outcome, outcome)


def test_ctrl_c_while_a_worker_is_loaded_shows_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "loads.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    variables = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(python_command("loads"), env=variables, capture_output=True)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")


def test_on_the_cpu_no_library_of_the_workload_sees_a_gpu(tmp_path: Path) -> None:
    """PyTorch's `is_available()` decides where a module's weights go: to a GPU, stages on the CPU fail."""
    file = tmp_path / "seen.py"
    file.write_text(workload(add="assert os.environ['CUDA_VISIBLE_DEVICES'] == ''"))
    ended = ProcessLauncher(300, server=server())(job(tmp_path, "trace", file))
    assert isinstance(ended.outcome, TraceRun), ended


def test_a_process_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that starts when it does."""
    note = tmp_path / "pid"
    clock = SimpleNamespace(monotonic=lambda: time.time() - note.stat().st_mtime if note.exists() else 0.0)
    monkeypatch.setattr("advisor.measure.processes.time", clock)
    ended = launched(tmp_path, ProcessLauncher(3, server=server()), how="hang", at="2", note=str(note))
    reason = "did not finish within 3.00 s; it was in hangs (misbehaving.py:70)"
    assert (ended.how, ended.reason) == ("timeout", reason)


def test_a_process_that_fills_the_memory_is_ended(tmp_path: Path) -> None:
    ended = launched(tmp_path, ProcessLauncher(300, memory=lambda: (100 << 20, 200 << 20)), how="hang")
    assert ended.how == "memory"
    assert ended.reason.startswith("exhausted the memory: it held ")
    assert ended.reason.endswith("100 MiB were left")


def test_the_limit_of_a_container_counts(tmp_path: Path) -> None:
    files = {"memory.max": "1000", "memory.current": "900", "memory.stat": "anon 700\nfile 200\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert memory(tmp_path)[0] == 300  # what is cached can be had back


@pytest.mark.parametrize("how", ["process", "fork"])
def test_what_the_workload_started_ends_with_it(tmp_path: Path, how: str) -> None:
    note = tmp_path / "pid"

    def memory() -> tuple[int, int]:
        return (0, 1) if note.exists() and note.read_text() else (1, 0)

    launched(tmp_path, ProcessLauncher(300, memory=memory), how=how, at="2", note=str(note))
    pid = int(note.read_text())
    assert eventually(lambda: is_gone(pid))


def test_the_end_of_a_long_log_is_kept(tmp_path: Path) -> None:
    ended = launched(tmp_path, how="print", at="2")
    assert isinstance(ended.outcome, Sample)
    assert ended.log.endswith("line 19999 of the log of a workload that talks\n")
    assert len(ended.log) == 4000


def test_the_beginning_of_what_was_printed_is_shown_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each line once, few of them, masked, bounded, and with nothing that a terminal or a CI log obeys."""
    monkeypatch.setenv("MY_TOKEN", "hunter2-correct")
    log = tmp_path / "log"
    text = "frame\n" * 50 + "::error::\x1b[31m\n  hunter2-correct\n\n" + "x" * 500 + "\n"
    log.write_bytes(text.encode() + b"\xff\n" + b"".join(b"%d\n" % i for i in range(100)))
    lines = first_lines(log).split("\n")
    assert lines[:3] == ["  | frame", r"  | ::error::\x1b[31m", "  |   ***"]
    assert lines[3] == f"  | {'x' * 200}…"
    assert (len(lines), lines[-1]) == (21, "  | … and 85 more")
    assert first_lines(tmp_path) == first_lines(tmp_path / "none") == ""


@pytest.mark.parametrize("amid", ["the start", "the run"])
def test_ctrl_c_ends_the_process_once_it_is_known(amid: str, tmp_path: Path) -> None:
    started: list[int] = []

    def popen(*given: Any, **named: Any) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(*given, **named)
        started.append(process.pid)
        if amid == "the start":
            signal.raise_signal(signal.SIGINT)
        return process

    def interrupted() -> tuple[int, int]:
        raise KeyboardInterrupt

    before, memory = signal.getsignal(signal.SIGINT), {"memory": interrupted} if amid == "the run" else {}
    with pytest.raises(KeyboardInterrupt):
        launched(tmp_path, ProcessLauncher(300, popen=popen, **memory), how="hang")
    assert is_gone(started[0])
    assert signal.getsignal(signal.SIGINT) == before


def test_a_worker_whose_parent_is_gone_already_ends_at_once(tmp_path: Path) -> None:
    """The parent was killed while the worker was still starting, before it could ask to die with it."""
    asked = job(tmp_path, how="hang")
    message = write_job(asked, Path(asked.directory))
    nobody = "1" if os.getpid() != 1 else "2"
    command = python_command("advisor.measure.worker", str(message), nobody)
    assert subprocess.run(command, timeout=300, capture_output=True).returncode == 1
    assert [*message.parent.iterdir()] == [message]
