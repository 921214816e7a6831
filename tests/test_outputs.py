"""What is the user's stays: files that advisor did not write are neither replaced nor removed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from builders import cpu_profile
from every import every
from running import QUICK, REPOSITORY, Command

from advisor.errors import UsageError
from advisor.profiles import outputs
from advisor.profiles.outputs import MANIFEST, output_directory, remove, require_free, set_aside, write
from tests.faults.case import workload

MINE = "a page of the user's"
SAMPLES = sorted((REPOSITORY / "reports").rglob("profile.json"))


@pytest.fixture
def command(command: Command) -> Command:
    cpu_profile().save("p.json")
    return command


def mine(name: str) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(MINE, encoding="utf-8")
    return path


def refused(directory: Path, name: str) -> str:
    """What is said of it; nothing is written."""
    before = sorted(directory.rglob("*"))
    with pytest.raises(UsageError) as told:
        require_free(directory, [name])
    assert sorted(directory.rglob("*")) == before
    return told.value.message


# What is advisor's


def test_what_was_written_is_written_again_until_somebody_changes_it(tmp_path: Path) -> None:
    for text in ("one", "two"):
        require_free(tmp_path, ["report.md"])
        assert write(tmp_path, "report.md", text) == tmp_path / "report.md"
    assert (tmp_path / "report.md").read_text() == "two"
    (tmp_path / "report.md").write_text(MINE)
    assert refused(tmp_path, "report.md").endswith("was not written by advisor, or has changed since")
    beside = write(tmp_path, "report.md", "three")
    assert (beside.name, beside.read_text()) == ("report-2.md", "three")
    assert outputs.instead_of(beside) == tmp_path / "report.md"
    assert write(tmp_path, "report.md", "four") == beside, "its own is replaced"
    remove(tmp_path, "report.md", "report-2.md", "none.md")
    assert sorted(path.name for path in tmp_path.iterdir()) == [MANIFEST, "report.md"]
    assert (tmp_path / "report.md").read_text() == MINE


def test_a_process_that_is_killed_while_it_writes_leaves_what_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the list and the file, the old file is there."""
    write(tmp_path, "p.json", "old")
    with monkeypatch.context() as patched:
        patched.setattr(outputs, "replacing", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            write(tmp_path, "p.json", "new")
    assert (tmp_path / "p.json").read_text() == "old"
    require_free(tmp_path, ["p.json"])
    assert write(tmp_path, "p.json", "new") == tmp_path / "p.json"
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # root may write everywhere
    assert refused(tmp_path, "p.json") == f"{tmp_path} cannot be written"


PLACES: dict[str, Callable[[Path, Path], object]] = {
    "is a link": lambda path, other: path.symlink_to(other),
    "is a folder": lambda path, _: path.mkdir(),
    "is not a regular file": lambda path, _: os.mkfifo(path),
    "was not written by advisor": lambda path, other: os.link(other, path),
    "has changed since": lambda path, _: path.touch(),
}


@pytest.mark.parametrize("says", PLACES)
def test_what_is_not_a_file_of_ours_is_refused_and_stays(says: str, tmp_path: Path) -> None:
    other, out = tmp_path / "other", tmp_path / "out"
    out.mkdir()
    other.write_text(MINE)
    PLACES[says](out / "report.md", other)
    kind = (out / "report.md").lstat().st_mode
    assert says in refused(out, "report.md")
    assert write(out, "report.md", "text").name == "report-2.md"
    remove(out, "report.md")
    assert set_aside(out) is None
    assert (other.read_text(), (out / "report.md").lstat().st_mode) == (MINE, kind)


@every("damage", ["{}x", "[" * 100_000, '{"files": {"report.md": "abc"}}', "link", "folder"])
def test_a_damaged_list_makes_nothing_ours(damage: str, tmp_path: Path) -> None:
    folder = tmp_path / damage[:6]
    folder.mkdir()
    write(folder, "report.md", "text")
    manifest = folder / MANIFEST
    manifest.unlink()
    if damage == "link":
        (folder / "m").write_text("{}")
        manifest.symlink_to("m")
    elif damage == "folder":
        manifest.mkdir()
    else:
        manifest.write_text(damage)
    assert "report.md was not written" in refused(folder, "report.md")
    assert "advisor-files.json is damaged" in refused(folder, "report.html")
    assert write(folder, "report.md", "new").name == "report-2.md"
    assert set_aside(folder) is None
    assert (folder / "report.md").read_text() == "text"
    assert manifest.is_dir() or manifest.read_text() == (damage if damage != "link" else "{}")


def test_a_forged_list_reaches_no_other_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, "report.md", "text")
    (tmp_path / "report.md").write_text("text")
    told = json.loads((out / MANIFEST).read_text())
    (digest,) = told["files"].pop("report.md")
    names = ("../report.md", str(tmp_path / "report.md"), "previous/report.md")
    told["files"] |= {name: [digest] for name in names}
    (out / MANIFEST).write_text(json.dumps(told))
    (out / "previous").symlink_to(tmp_path)
    assert set_aside(out) is None
    remove(out, *outputs.SET_ASIDE, "previous/report.md")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "report.md"]
    assert (out / "report.md").read_text() == (tmp_path / "report.md").read_text() == "text"


# The report of an earlier run


def test_the_report_of_another_run_goes_to_previous(tmp_path: Path) -> None:
    """One is kept: the last one."""
    assert set_aside(tmp_path) is None
    (tmp_path / "mine.txt").write_text(MINE)
    for run in "123":
        write(tmp_path, "report.html", run)
        if run != "2":
            write(tmp_path, "profile.json", run)
        assert set_aside(tmp_path) == tmp_path / "previous"
        assert {path.name for path in tmp_path.iterdir()} == {"mine.txt", "previous"}
        kept = {path.name: path.read_text() for path in (tmp_path / "previous").glob("[pr]*")}
        assert kept == dict.fromkeys(("report.html", "profile.json") if run != "2" else ("report.html",), run)


@pytest.mark.parametrize("what", ["file", "link"])
def test_files_of_the_users_in_previous_stay(what: str, tmp_path: Path) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    write(out, "report.md", "text")
    other.mkdir()
    (out / "previous").symlink_to(other) if what == "link" else (out / "previous").mkdir()
    for name in ("report.md", "sweep.md", "profile.json"):
        (out / "previous" / name).write_text(MINE)
    with pytest.raises(UsageError, match="previous"), output_directory(out, ["report.md"], aside=True):
        pass
    assert set_aside(out) == out / "previous-2"
    assert (out / "previous-2/report.md").read_text() == "text"
    assert {path.read_text() for path in (out / "previous").iterdir()} == {MINE}


# The commands


WRITING = {
    "report.md": ("report", "p.json", "--out", "."),
    "report.html": ("predict", "p.json", "--target", "h200", "--out", "."),
    "compare.md": ("compare", "p.json", "p.json", "--out", "."),
    "history.md": ("history", "d", "--out", "."),
}


@pytest.mark.parametrize("name", WRITING)
def test_no_command_overwrites_a_file_of_the_users(name: str, command: Command) -> None:
    cpu_profile().save(mine("d/profile.json"))
    mine(name)
    before = sorted(Path().rglob("*"))
    said = command(*WRITING[name])
    assert (said.code, "not written by advisor" in said.err) == (2, True), said
    assert sorted(Path().rglob("*")) == before
    assert Path(name).read_text() == MINE
    Path(name).unlink()
    for _ in range(2):
        assert command(*WRITING[name]).code == 0, "its own it replaces"


@every(
    ("name", "more"), [("report.md", ()), (MANIFEST, ()), ("n=2/profile.partial.json", ("--sweep", "n=1,2"))]
)
def test_profile_says_so_before_it_measures(name: str, more: tuple[str, ...], command: Command) -> None:
    mine("w.py").write_text("raise SystemExit('ran')")
    out = f"out-{len(name)}"
    mine(f"{out}/{name}")
    said = command("profile", "w.py", *QUICK, "--no-gpu", *more, "--out", out)
    assert (said.code, name in said.err, "ran" in said.err) == (2, True, False), said
    assert Path(out, name).read_text() == MINE


def test_a_workload_that_writes_into_the_folder_loses_neither_its_file_nor_the_report(
    command: Command,
) -> None:
    writes = f"import pathlib; pathlib.Path('report.md').write_text({MINE!r})"
    mine("w.py").write_text(workload(top=writes))
    said = command("profile", "w.py", *QUICK, "--no-gpu", "--out", ".")
    assert said.code == 0, said
    assert Path("report.md").read_text() == MINE
    assert "Predicted" in Path("report-2.md").read_text()
    assert "report.md was changed by another program" in said.err
    assert "report-2.md" in said.err


def test_new_follows_no_link(command: Command) -> None:
    mine("other.py")
    Path("w.py").symlink_to("other.py")
    Path("dangling.py").symlink_to("none.py")
    for force in ((), ("--force",)):
        assert [command("new", name, *force).code for name in ("w.py", "dangling.py")] == [2, 2]
    assert (Path("other.py").read_text(), Path("none.py").exists()) == (MINE, False)


@every("profile", SAMPLES, ids=lambda path: path.parent.name)
def test_the_sample_reports_can_be_rendered_again(profile: Path) -> None:
    """`make samples` writes their lists."""
    require_free(profile.parent, ("profile.json", "report.html", "report.md"))


# The folder


def test_folders_that_stay_empty_go_and_a_file_in_the_way_of_one_is_told(tmp_path: Path) -> None:
    with output_directory(tmp_path / "a" / "b"):
        pass
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "n").write_text(MINE)
    assert refused(tmp_path, "n/report.md") == f"{tmp_path / 'n'} is not a folder"
    assert [outputs.unused(tmp_path / name).name for name in "nm"] == ["n-2", "m"]


@every("name", ["file", "file/below", "x" * 300])
def test_an_output_directory_that_cannot_be(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UsageError, match="cannot be written"), output_directory(tmp_path / name):
        pass
    assert (tmp_path / "file").read_text() == "in the way"
