"""Workers that a server forks: real processes, which end in every way there is."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import children, eventually, is_gone
from test_launcher import job, launched

from advisor.measure.fork_server import ForkServer
from advisor.measure.jobs import Sample
from advisor.measure.launcher import ProcessLauncher
from advisor.measure.processes import WORKERS, fork_server


@pytest.fixture(scope="module")
def shared() -> Iterator[ForkServer]:
    with fork_server(WORKERS) as server:
        yield server


def workers(server: ForkServer) -> list[int]:
    """Those that its keepers keep."""
    keepers = [keeper.pid for keeper in children(server.pid)]
    return [worker.pid for worker in children(*keepers, recursive=True)]


def test_the_server_forks_it(shared: ForkServer, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    seen: list[int] = []

    def look() -> tuple[int, int]:
        seen.extend(workers(shared))
        return (0, 1) if note.exists() and note.read_text() else (2, 1)

    launcher = ProcessLauncher(300, server=shared, memory=look)
    assert launched(tmp_path, launcher, how="hang", note=str(note)).how == "memory"
    assert set(seen) == {int(note.read_text())}
    assert eventually(lambda: workers(shared) == [])


def test_an_error_of_ours_is_told_by_its_last_line(shared: ForkServer, tmp_path: Path) -> None:
    ended = ProcessLauncher(300, worker="advisor.no_such_module", server=shared)(job(tmp_path))
    assert ended.reason == (
        "the process exited with code 1 without a result; "
        "its last output: ModuleNotFoundError: No module named 'advisor.no_such_module'"
    )


def test_a_server_that_does_not_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it would fork later, and tell of, must not be taken for another worker."""
    monkeypatch.setattr("advisor.measure.fork_server._LAST", 0.2)
    with fork_server(WORKERS) as server:
        launcher = ProcessLauncher(300, server=server)
        assert launched(tmp_path / "before", launcher, how="nothing").how == "finished"
        server.ready_seconds = 0.2
        os.kill(server.pid, signal.SIGSTOP)
        assert isinstance(launched(tmp_path / "after", launcher, how="nothing").outcome, Sample)
        assert is_gone(server.pid)


def test_a_server_killed_amid_a_job_ends_that_job_alone(tmp_path: Path) -> None:
    with fork_server(WORKERS) as server:
        note = tmp_path / "pid"

        def kill() -> tuple[int, int]:
            if note.exists() and note.read_text():
                os.kill(server.pid, signal.SIGKILL)
            return 2, 1

        launcher = ProcessLauncher(300, server=server, memory=kill)
        ended = launched(tmp_path / "first", launcher, how="hang", note=str(note))
        assert ended.how == "died"
        assert "SIGKILL" in ended.reason
        assert eventually(lambda: is_gone(int(note.read_text())))
        for name in ("after", "again"):
            ended = launched(tmp_path / name, ProcessLauncher(300, server=server), how="nothing")
            assert isinstance(ended.outcome, Sample)
