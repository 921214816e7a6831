"""Folders of runs that were killed go with the next run; those of running ones stay."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from running import environment

from advisor.profiles.files import remove_abandoned, scratch

HOLD = """
from advisor.profiles.files import scratch
with scratch() as folder:
    (folder / "job.json").write_text("hunter2")
    print(folder, flush=True)
    input()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@contextmanager
def holding(temporary: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process with a folder of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD],
        env=environment(TMPDIR=str(temporary)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_the_next_removes_what_a_killed_process_left_and_nothing_of_a_running_one(temporary: Path) -> None:
    with holding(temporary) as (killed, left), holding(temporary) as (_, used):
        killed.kill()
        killed.wait()
        assert (left / "job.json").exists()
        with scratch() as mine:
            assert set(temporary.iterdir()) == {mine, used}
            remove_abandoned()
            assert (used / "job.json").read_text() == "hunter2"
    remove_abandoned()
    assert list(temporary.iterdir()) == []


def test_folders_of_the_users_own_stay(temporary: Path) -> None:
    """Also with a lock of that name: empty, or that of a folder of ours that was copied or renamed."""
    (temporary / "advisor-notes").mkdir()
    (temporary / "advisor-file").touch()
    (temporary / "advisor-link").symlink_to(temporary / "advisor-notes")
    (temporary / "advisor-report").mkdir()
    (temporary / "advisor-report" / "advisor.lock").touch()
    with scratch() as mine:
        shutil.copytree(mine, temporary / "advisor-copy")
    with holding(temporary) as (killed, left):
        killed.kill()
        killed.wait()
    left.rename(temporary / "advisor-moved")
    remove_abandoned()
    kept = {f"advisor-{name}" for name in ("notes", "file", "link", "report", "copy", "moved")}
    assert {path.name for path in temporary.iterdir()} == kept


def test_a_folder_that_is_removed_before_it_is_locked_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made, make = [], tempfile.mkdtemp

    def removed_once(*arguments: str | None) -> str:
        made.append(make(*arguments))
        if len(made) == 1:
            Path(made[0]).rmdir()
        return made[-1]

    monkeypatch.setattr("tempfile.mkdtemp", removed_once)
    with scratch() as folder:
        assert str(folder) == made[1]
        (folder / "job.json").touch()
    assert not folder.exists()
