"""The matrix of faults, forked: one command's cases and one of each kind of run; `make faults` runs all."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import Command

from tests.faults import matrix
from tests.faults.case import Case
from tests.faults.matrix import (
    CASES,
    OF_ONE_COMMAND,
    ONE_OF_A_KIND,
    close_started,
    problems,
    run,
    write_files,
)

READING = [case for group in OF_ONE_COMMAND for case in group()]
HERE = [case for case in READING if not (case.shell or case.variables or case.never or case.never_shown)]
"""Commands that read something and refuse it run in this process; it remembers what was secret."""
OFTEN = [
    *(case for case in READING if case not in HERE),
    *(case for case in CASES if ONE_OF_A_KIND.match(case.name)),
]


@pytest.fixture(scope="module", autouse=True)
def ended() -> Iterator[None]:
    """The interpreters that cases share end with the last of them."""
    yield
    close_started()


@pytest.mark.parametrize("case", OFTEN, ids=lambda case: case.name)
def test_it_holds(case: Case, tmp_path: Path) -> None:
    assert not run(case, tmp_path, forked=True).broken


def test_what_is_read_and_refused(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisor.fleets.dask_cluster._CONNECT_SECONDS", 0.3)
    broken = {}
    for number, case in enumerate(HERE):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        monkeypatch.chdir(folder)
        write_files(case, folder)
        begin = time.process_time()
        said = command(*case.command)
        late = ("ten seconds",) * (time.process_time() - begin > 10)
        broken[case.name] = problems(case, folder, said.out + said.err, said.code) + late
    assert {name: what for name, what in broken.items() if what} == {}
    assert len(broken) > 60


def test_a_case_that_does_not_hold_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kind of check, on a command that breaks it."""
    monkeypatch.setattr(matrix, "_MOMENT", 0.2)
    said = "\x1b[31m\n::error::x\nhunter2"
    script = f"printf '%b' {said!r}; echo '<script>' > report.html; (sleep 600 >/dev/null 2>&1 &) ; exit 3"
    broken = run(
        Case("broken", (), 0, says=("done",), never=("hunter2",), never_shown=("<script>",), shell=script),
        tmp_path,
    ).broken
    signs = ("exit code 3", "control", "workflow", "does not say", "tells", "shows", "left a process")
    assert all(any(sign in what for what in broken) for sign in signs), broken
