"""`advisor history`: profiles of many commits in order, steps found where they are, and whose they may be."""

from __future__ import annotations

import math
import os
import random
import re
import shutil
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import builders
import pytest
from builders import cpu_profile, measured, predicted, prediction, profile, recommendation, script_profile
from every import every
from rendering import Accepted, markup, refusals
from running import Command
from test_revisions import git

from advisor.errors import FileProblem
from advisor.measure.revisions import commit_of
from advisor.profiles import histories
from advisor.profiles.histories import Entry, History
from advisor.profiles.redaction import anonymous
from advisor.profiles.schema import Commit, Measured, Profile
from advisor.report.history_page import MOST_POINTS, MOST_ROWS, history_page
from advisor.report.pages import render
from advisor.verdicts.histories import all_series, newest, steps

pytestmark = pytest.mark.skipif(find_spec("ruptures") is None, reason="the extra `history` is not installed")
TIMES = {"pageable": 0.040, "pinned": 0.020, "zero-copy": 0.030}
ALL = dict.fromkeys(TIMES, 1.10)
START = datetime(2026, 1, 1, tzinfo=timezone.utc)


def commit(number: int, changed: bool = False) -> Commit:
    revision = f"{random.Random(number).getrandbits(160):040x}"
    return Commit(revision=revision, committed=(START + timedelta(days=number)).isoformat(), changed=changed)


def series(
    count: int,
    planted: Mapping[int, Mapping[str, float]] | None = None,
    make: Callable[..., Profile] = profile,
    **fields: Any,
) -> list[Profile]:
    """So many commits of 1 % noise; from each number on, strategies take so many times as long."""
    noise, made = random.Random(1), []
    for i in range(count):
        seconds = {name: time * noise.lognormvariate(0, 0.01) for name, time in TIMES.items()}
        for at, factors in (planted or {}).items():
            seconds |= {name: seconds[name] * factor for name, factor in factors.items() if i >= at}
        rows = tuple(measured(name, time) for name, time in seconds.items())
        parts: dict[str, Any] = {"results": rows, "commit": commit(i), "recommendation": recommendation()}
        made.append(make(**{**parts, **fields}))
    return made


def history(made: list[Profile]) -> History:
    return History(tuple(Entry(f"{i}.json", each, START + timedelta(days=i)) for i, each in enumerate(made)))


def shown(found: History, form: str = "txt") -> str:
    return render(history_page(found, all_series(found)), form)


def test_steps_are_found_where_they_are_and_as_large_as_they_are() -> None:
    noise = random.Random(2)
    times = [1e-3 * (1.07 if 20 <= i < 45 else 1) * noise.lognormvariate(0, 0.01) for i in range(60)]
    up, down = steps(times)
    assert (up.at, down.at) == (20, 45)
    assert up.first <= 20 <= up.last
    assert up.ratio.low < 1.07 < up.ratio.high
    assert down.ratio.low < 1 / 1.07 < down.ratio.high
    assert up.ratio.high / up.ratio.low < 1.03
    short = [[(1.04 if i >= 6 else 1) * noise.lognormvariate(0, 0.01) for i in range(12)] for _ in range(20)]
    assert sum([step.at for step in steps(times)] == [6] for times in short) >= 18, "four times the noise"


@every("outliers", [0.0, 0.05])
def test_noise_is_seldom_taken_for_a_step(outliers: float) -> None:
    noise, claimed = random.Random(3), 0
    for _ in range(100):
        times = [noise.lognormvariate(0, 0.02) * (1.3 if noise.random() < outliers else 1) for _ in range(40)]
        claimed += bool(steps(times))
    assert claimed <= 8


def test_a_newest_profile_that_differs_is_told_as_one_profile() -> None:
    noise = random.Random(4)
    runs = [[noise.lognormvariate(0, 0.02) for _ in range(12)] for _ in range(400)]
    assert sum(newest(times) is not None for times in runs) <= 12, "5 % are the limit; small ones go untold"
    assert newest([1.0] * 4 + [2.0]) is None, "too few before it"
    doubled = series(12, {11: {"pinned": 2.0}})
    (found,) = all_series(history(doubled))
    assert (found.changes, list(found.newest)) == ((), ["pinned"])
    assert found.newest["pinned"].low < 2 < found.newest["pinned"].high
    assert "one profile so far" in shown(history(doubled), "md")
    (stepped,) = all_series(history(series(12, {6: {"pinned": 2.0}})))
    assert stepped.newest == {}, "those after the last change count"


def test_strategies_that_stepped_together_are_one_change_with_its_commit() -> None:
    found = history(series(40, {12: {"pinned": 1.20}, 25: ALL}))
    (followed,) = all_series(found)
    assert [(c.at, set(c.steps)) for c in followed.changes] == [(12, {"pinned"}), (25, set(TIMES))]
    told = shown(found)
    assert "2 changes in 40 profiles; the last: `pinned` slower by" in told
    assert "; 2 other strategies changed, too" in told
    assert commit(25).revision[:7] in told.split("\n\n")[1]


def test_a_step_within_one_commit_is_not_the_codes() -> None:
    for changed in (False, True):
        found = history(series(20, {10: ALL}, commit=commit(1, changed)))
        (followed,) = all_series(found)
        assert [change.same_code for change in followed.changes] == [not changed]
        assert ("(not the code: " in shown(found)) == (not changed)


def test_machines_and_parameters_have_lines_of_their_own() -> None:
    """One in two ran on a machine that takes twice the time: no step, and no noise of 50 % either."""
    made = series(40, {25: {"pinned": 1.10}})
    slow = made[0].environment.model_copy(update={"cpu_model": "Slow CPU"})
    twice = series(40, {0: dict.fromkeys(TIMES, 2.0)}, environment=slow)
    mixed = [each if i % 2 else twice[i] for i, each in enumerate(made)]
    found = all_series(history(mixed))
    assert [len(followed.entries) for followed in found] == [20, 20]
    assert {len(followed.changes) for followed in found} == {0, 1}
    told = " ".join(shown(history(mixed), "details").split())
    assert "Test discrete (Slow CPU, 2 cores)" in told


def test_predicted_times_are_never_on_a_line_with_measured_ones() -> None:
    both = [*series(8), *series(8, make=cpu_profile)]
    found = all_series(history(both))
    assert [followed.track.basis for followed in found] == ["measured", *["predicted"] * 3, "cpu"]
    assert {len(followed.entries) for followed in found} == {8}
    assert found[-1].track.strategies == ("pageable",), "on one memory all do the same work"
    assert "Predicted: No change detected in 8 profiles" in shown(history(both), "details")
    assert "Vertical lines show the quickest frame and the median" in shown(history(both), "html")


def test_without_the_library_the_page_is_there_and_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("advisor.verdicts.histories", "advisor.report.history_page"):
        monkeypatch.setattr(f"{module}.can_look", lambda: False)
    told = shown(history(series(40, {25: {"pinned": 1.5}})))
    assert "40 profiles: changes were not looked for" in told
    assert "pip install 'gpu-memory-advisor[history]'" in told
    assert commit(0).revision[:7] in told


def test_of_a_long_history_the_newest_are_drawn_and_its_table_keeps_the_changes() -> None:
    found = history(series(500, {250: {"pinned": 1.2}}))
    page = shown(found, "html")
    assert page.count('<th scope="row"><code>') <= MOST_ROWS + 10
    assert commit(250).revision[:7] in page
    assert f"{MOST_ROWS} of 500 profiles" in page
    assert f"The newest {MOST_POINTS} of 500 profiles." in page
    assert len(page) < 600_000


@pytest.mark.parametrize("form", ["html", "md", "txt"])
def test_the_history_looks_as_accepted(form: str, accepted: Accepted) -> None:
    drivers = [(builders.gpu_state("under-load", driver=driver),) for driver in ("570.1", "580.2")]
    around = [profile().environment.model_copy(update={"gpu_readings": states}) for states in drivers]
    old, new = (series(12, {7: {"pinned": 1.25}}, environment=each) for each in around)
    accepted(markup(shown(history(old[:7] + new[7:]), form)), f"history.{form}")


def save(made: Profile, name: str) -> None:
    Path(name).mkdir(parents=True)
    made.save(Path(name) / "profile.json")


def test_files_are_read_below_the_folder_in_the_order_of_their_commits(command: Command) -> None:
    """Whatever the folders are called; what is damaged, of another kind or without a time is told."""
    for i, made in enumerate(series(8, {4: {"pinned": 1.3}})):
        save(made, f"all/{(i * 5) % 8}/deep")
    for name in ("script", "scripts"):
        save(script_profile(), f"all/{name}")
    save(profile(created="yesterday"), "all/timeless")
    for name, text in (("torn", "{"), ("foreign", '{"name": "package"}')):
        Path("all", name).mkdir()
        Path("all", name, "profile.json").write_text(text, encoding="utf-8")
    said = command("history", "all")
    assert said.code == 0, said
    assert {path.name for path in Path("advisor-history").glob("history.*")} == {"history.html", "history.md"}
    assert f"at `{commit(4).revision[:7]}`" in " ".join(said.out.split())
    text = Path("advisor-history/history.md").read_text(encoding="utf-8")
    for name in ("torn", "foreign"):
        assert f"{name}/profile.json" in text
    assert text.count("is a profile of a script") == 1
    assert "script/profile.json and scripts/profile.json" in text
    assert {each.file.split("/")[0] for each in gathered("all").left_out} == {
        *("torn", "foreign", "script", "scripts", "timeless")
    }
    assert command("history", "all", "--out", "-", "--format", "md").out == text


def gathered(folder: str | Path) -> History:
    return histories.gather(Path(folder), lambda made: made)


def test_wrong_input(command: Command, accepted: Accepted) -> None:
    Path("file").touch()
    for name in ("empty", "torn"):
        Path(name).mkdir()
    Path("torn/profile.json").write_text("{", encoding="utf-8")
    save(script_profile(), "script")
    save(profile(results=()), "failed")
    folders = ("missing", "file", "empty", "torn", "script", "failed")
    calls = {f"history {folder}": partial(command, "history", folder) for folder in folders}
    accepted(refusals(calls), "histories-refused.txt")
    assert not Path("advisor-history").exists()


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_profile_knows_the_commit_of_its_workload_and_nobodys_name(tmp_path: Path) -> None:
    file = tmp_path / "w [1].py"
    file.write_text("1\n", encoding="utf-8")
    known = partial(commit_of, file, seconds=300.0)
    assert known() is None
    git(tmp_path, "init", "-q", "-b", "secret-branch")
    assert known() is None, "not one of its files"
    git(tmp_path, "add", ".")
    git(tmp_path, "-c", "user.name=A. Developer", "commit", "-qm", "first")
    found = known()
    assert (found.revision, found.changed) == (git(tmp_path, "rev-parse", "HEAD"), False)
    assert datetime.fromisoformat(found.committed).timestamp() == int(
        git(tmp_path, "log", "-1", "--format=%ct")
    )
    file.write_text("2\n", encoding="utf-8")
    assert known() == found.model_copy(update={"changed": True})
    kept = anonymous(profile(commit=found), include_host=False)
    assert kept.commit == found, "a hash is no secret"
    assert Profile.model_validate_json(kept.to_json()) == kept
    assert not {"Developer", "secret-branch"} & set(re.findall(r"[\w-]+", kept.to_json()))


def test_folders_that_cannot_be_read_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "locked"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "profile.json").write_text(profile(commit=commit(1)).to_json())
    scandir = os.scandir

    def denied(path: str) -> Any:
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", denied)
    found = gathered(tmp_path)
    (left_out,) = found.left_out
    assert (left_out.file, left_out.reason) == ("locked", "cannot be read: Permission denied")
    assert "locked" in render(history_page(found, all_series(found)), "md")
    (tmp_path / "one" / "profile.json").unlink()
    with pytest.raises(FileProblem, match="locked: cannot be read"):
        gathered(tmp_path)


def test_a_prediction_is_followed_without_the_host_whose_load_moves_it() -> None:
    """The host stage takes up to five times as long, the kernel twice as long from two commits on."""
    made, load = [], random.Random(3)
    for i, before in enumerate(series(12, make=cpu_profile)):
        factor = 2.0 ** ((i >= 9) + (i >= 11))
        parts = {"host:fill": 1e-3 * load.uniform(1, 5), "device:add": 1e-3 * factor, "to-device": 2e-4}
        slower = parts | {"to-device": 9e-4}
        migrating = {**parts, "device:add": parts["device:add"] + parts["host:fill"] / 20}
        each = {"pinned": parts, "pageable": slower, "managed": migrating}
        rows = tuple(predicted(name, math.fsum(terms.values()), terms=terms) for name, terms in each.items())
        choice = recommendation("pinned" if load.random() > 0.3 else "pageable")
        told = prediction(results=rows, recommendation=choice)
        made.append(before.model_copy(update={"predictions": (told,)}))
    found = history(made)
    followed = next(e for e in all_series(found) if e.looked and e.track.basis == "predicted")
    assert [(c.at, c.first, c.last) for c in followed.changes] == [(9, 9, 9), (11, 11, 11)]
    assert followed.changes[0].steps["pinned"].ratio.value == pytest.approx(2.2e-3 / 1.2e-3)
    assert {stop.optima.chosen for stop in followed.track.stops[:9]} == {"pinned"}
    assert "slower by 90.9 % at" in " ".join(shown(found).split())


def test_a_step_is_at_the_commit_that_changed_the_file() -> None:
    """The least squares of noisy times may lie a commit beside it."""
    stepped = dict.fromkeys(TIMES, 1.44)
    edited = profile().workload.model_copy(update={"sha256": "1" * 64})
    made = series(16, {8: stepped})[:8] + series(16, {8: stepped}, workload=edited)[8:]
    slow = [row.model_copy(update={"median_seconds": row.median_seconds / 1.40}) for row in made[8].results]
    made[8] = made[8].model_copy(update={"results": tuple(slow)})
    (followed,) = all_series(history(made))
    assert [change.at for change in followed.changes] == [8]


def test_a_history_on_a_cpu_follows_its_quickest_frames(tmp_path: Path) -> None:
    frames = tuple(1e-3 * (1 + i) for i in range(100))
    row = measured("pageable", 0.05, frame_seconds=frames, frames_per_round=(50, 50))
    cpu_profile(results=(row,)).save(tmp_path / "profile.json")
    (entry,) = gathered(tmp_path).entries
    kept = entry.profile.results[0]
    assert isinstance(kept, Measured)
    assert (kept.median_seconds, kept.interval_seconds) == (0.006, (0.001, row.median_seconds))
