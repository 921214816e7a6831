"""Sweeps: the values, running them one by one, and putting saved profiles together."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from builders import cpu_profile, vector_add_workload
from every import every
from hypothesis import given
from hypothesis import strategies as st
from rendering import Accepted, refusals
from running import FILES, MISBEHAVING, QUICK, Command, Said, cpu_settings
from test_cli import names

from advisor.measure.jobs import Job, Settings
from advisor.measure.launcher import Ended, Launcher
from advisor.profiles.schema import Profile
from advisor.profiles.sweeps import combine
from advisor.report import pages
from advisor.sweep import Sweep, parse_sweep, steps_of
from tests.forking import launching


def parsed(text: str) -> Sweep:
    (swept,) = parse_sweep([text])
    return swept


@every(
    ("text", "values"),
    [
        ("n=2**10..2**24", [4**i for i in range(5, 13)]),
        ("n=1..100:3", [1, 10, 100]),
        ("n=0.5..2:4", [0.5, 0.793701, 1.25992, 2]),
        ("n=8,1, 2", [8, 1, 2]),
        ("n=1..1000000:2", [1, 1_000_000]),
    ],
)
def test_values(text: str, values: list[float]) -> None:
    assert [float(value) for value in parsed(text).values] == values


@given(st.integers(1, 1 << 40), st.integers(2, 1 << 20))
def test_a_range_has_its_ends_rises_and_stays_short(first: int, factor: int) -> None:
    values = [int(value) for value in parsed(f"n={first}..{first * factor}").values]
    assert (values[0], values[-1]) == (first, first * factor)
    assert values == sorted(set(values))
    assert len(values) <= 8
    steps = [b / a for a, b in pairwise(values)]
    if first > 1_000:
        assert len({round(step, 2) for step in steps[:-1]}) <= 1
        assert steps[-1] <= max(steps[:-1], default=steps[-1])


NO_SWEEPS = (
    *("n", "n=", "5", "n=5", "n=1024,2**10", "n=16..1", "n=0..4", "n=1..4:1", "n=1..4:102", "n=1..inf"),
    *("n=1e-300..1e300", "n=1..x", "n=1..8:many", "n=1..2 m=1..2 k=1,2", "n=1,2 n=4,8", "n=1,2 m=1..64"),
)


COUNTER = FILES / "counter.py"


def test_what_is_no_sweep(command: Command, accepted: Accepted, tmp_path: Path) -> None:
    def profiled(words: str) -> Said:
        return command("profile", COUNTER, *words.split(), *QUICK)

    calls: dict[str, Callable[[], object]] = {t: partial(parse_sweep, t.split()) for t in NO_SWEEPS}
    wrong = ("--sweep n=1,x", "--sweep n=8,16 --set m=1", "--sweep n=8,16 --set n=1")
    accepted(refusals(calls | {words: partial(profiled, words) for words in wrong}), "sweeps-refused.txt")
    assert names(tmp_path) == set()


def test_folders_stay_in_the_output_directory_whatever_a_value_holds() -> None:
    values = ("../../x", "a/b", "é:b", "x" * 300, "x" * 299 + "y", "2**10")
    folders = [step.directory for step in steps_of([Sweep("mode", values)], cpu_settings())]
    assert folders[:3] == ["mode=..%2F..%2Fx", "mode=a%2Fb", "mode=%C3%A9%3Ab"]
    assert folders[5] == "mode=1024"
    assert len(set(folders)) == len(values)
    assert max(map(len, folders)) <= 120


@pytest.mark.parametrize(
    ("ended", "rows"), [(0, []), (2, ["failed", *["not run"] * 2]), (3, ["failed", "not run"])]
)
def test_a_value_that_fails_is_a_row_and_ctrl_c_keeps_the_finished_ones(
    ended: int, rows: list[str], command: Command
) -> None:
    """After so many processes that measure, two for each value that does not fail."""
    measuring = iter(range(ended))

    def interrupted(settings: Settings) -> Launcher:
        launch = launching(settings)

        def launched(job: Job) -> Ended:
            if job.task == "measure" and next(measuring, None) is None:
                raise KeyboardInterrupt
            return launch(job)

        return launched

    command.around = replace(command.around, launching=interrupted)
    said = command("profile", MISBEHAVING, "--sweep", "how=nothing,raise,print,exit", "--no-gpu", *QUICK)
    state = "finished values are in advisor-report" if ended else "no value was finished"
    assert (said.code, f"interrupted: {state}" in said.err) == (130, True)
    assert re.findall(r"\n  \w+ +(failed|not run)\b", said.out) == rows
    written = [path.parent.name for path in Path().glob("advisor-report/*/profile.json")]
    assert sorted(written) == ["how=nothing", "how=print"][: (ended + 1) // 2]


def at_n(n: int, **fields: object) -> Profile:
    return cpu_profile(workload=vector_add_workload(n), **fields)


def test_profiles_of_different_runs_are_noted() -> None:
    other = at_n(2, command="advisor profile w.py --sweep n=2,4")
    assert not combine([(Path("a"), at_n(1)), (Path("c"), at_n(4))], Path()).notes
    mixed = combine([(Path("a"), at_n(1)), (Path("b"), other)], Path())
    said = " ".join(pages.render(pages.page_of(mixed), "details").split())
    assert "b of `advisor profile w.py --sweep n=2,4`." in said


def test_two_parameters_are_combined_and_put_together_again(command: Command) -> None:
    arguments = ("--sweep", "n=16,8", "--sweep", "step=1,3", "--no-gpu", "--target", "orin-nano", *QUICK)
    said = command("profile", COUNTER, *arguments, "--format", "html,md,json,csv")
    assert said.code == 0, said.err
    cells = {f"n={n},step={step}" for n in (8, 16) for step in (1, 3)}
    assert names(Path("advisor-report")) == {*cells, "sweep.html", "sweep.md", "sweep.csv", "sweep.json"}
    assert said.out.startswith("counter over n = 8 and 16, step = 1 and 3: predicted.")
    tables = re.findall(r"\n +n  step = 1 +step = 3\n +8  \S.*\n +16  \S", said.out)
    assert len(tables) == 2, "on each device"
    whole = command("report", "advisor-report", "--details", "--out", "whole").out
    pairs = dict.fromkeys(re.findall(r"\n  (\(.*?\))", whole))
    assert " ".join(pairs) == "(n, step) (8, 1) (8, 3) (16, 1) (16, 3)"
    again = command("report", "advisor-report", "--out", "two")
    assert again.out == said.out


def test_the_command_and_putting_its_profiles_together_again(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    arguments = ("--sweep", "n=16,8", "--set", "step=3", "--no-gpu", "--strategy", "zero-copy", *QUICK)
    said = command("profile", COUNTER, *arguments)
    assert said.code == 0, said.err
    assert names(tmp_path / "advisor-report") == {"n=8", "n=16", "sweep.html", "sweep.md", "sweep.json"}
    assert said.out.startswith("counter over n = 8 and 16: predicted.")
    told = Path("advisor-report/sweep.md").read_text(encoding="utf-8")
    assert Path("summary.md").read_text(encoding="utf-8") == f"{told}\n"
    assert "[1] checking the values" in said.err
    assert "n=8: zero-copy, round 1" in said.err
    assert said.err.split()[-2:] == ["sweep.json,", "sweep.md"]
    Path("advisor-report/previous").mkdir()
    shutil.copy("advisor-report/n=8/profile.json", "advisor-report/previous")
    again = command("report", "advisor-report", "-q", "--out", "two")
    assert (again.code, again.out) == (0, "Only `zero-copy` was predicted: nothing was compared\n")
    assert 'href="./../advisor-report/n%3D8/report.html"' in Path("two/sweep.html").read_text()


def test_all_values_failing_writes_the_page_and_ends_with_the_first_error(command: Command) -> None:
    said = command("profile", MISBEHAVING, "--sweep", "how=raise,exit", *QUICK)
    assert said.code == 3
    assert names(Path("advisor-report")) == {"sweep.html", "sweep.md", "sweep.json"}
    assert "how = exit" in said.out
