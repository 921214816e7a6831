"""The matrix of faults, forked: one command's cases and one of each kind of run; `make faults` runs all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import matrix
from tests.faults.case import Case
from tests.faults.matrix import CASES, OF_ONE_COMMAND, ONE_OF_A_KIND, close_started, run

OFTEN = [
    *(case for group in OF_ONE_COMMAND for case in group()),
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
