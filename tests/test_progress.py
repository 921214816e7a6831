"""Progress as lines, as a bar, and none at all."""

from __future__ import annotations

import sys

import pytest
from fakes import FakeClock

from advisor.measure.progress import Bar, Lines, Silent, make_progress


def runs(progress: Silent) -> None:
    with progress:
        progress.start(3)
        for what in ("checking the workload", "pinned, round 1"):
            progress.begin(what)
            progress.end()


def test_lines_count_also_without_a_total_yet(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines()
    lines.begin("checking the workload")
    lines.end()
    runs(lines)
    told = "[1] checking the workload\n[2/3] checking the workload\n[3/3] pinned, round 1\n"
    assert capsys.readouterr() == ("", told)


def test_lines_tell_the_time_left_where_it_is_limited(capsys: pytest.CaptureFixture[str]) -> None:
    clock = FakeClock()
    lines = Lines(clock)
    lines.limit(60.0)
    for seconds in (18.0, 50.0):
        clock.advance(seconds)
        lines.begin("pinned")
    assert capsys.readouterr().err == "[1] pinned (42 s left)\n[1] pinned (0 s left)\n"


@pytest.mark.parametrize("progress", [Lines(), Bar()])
def test_what_the_first_run_printed(progress: Silent, capsys: pytest.CaptureFixture[str]) -> None:
    with progress:
        progress.printed("  | frame 0")
    assert "output of the first run:\n  | frame 0\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("quiet", "terminal", "kind"), [(True, True, Silent), (False, False, Lines), (False, True, Bar)]
)
def test_what_fits(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    quiet: bool,
    terminal: bool,
    kind: type,
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    assert type(make_progress(quiet=quiet)) is kind
    runs(Silent())
    assert capsys.readouterr() == ("", "")


def test_the_bar_stays_on_stderr_and_counts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("advisor.measure.progress.time.monotonic", lambda: 5.0)
    bar = Bar()
    bar._bar.live.transient = False  # what a terminal shows last
    bar.limit(57.9)
    runs(bar)
    told = capsys.readouterr()
    assert told.out == ""
    assert "pinned, round 1" in told.err
    assert "2/3" in told.err
    assert "58 s left" in told.err
    assert max(map(len, told.err.splitlines())) <= 80
