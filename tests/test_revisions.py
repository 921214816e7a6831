"""A file at an earlier revision, with real git repositories."""

from __future__ import annotations

import subprocess
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest
from rendering import Accepted, refusals

from advisor.errors import FileProblem
from advisor.measure.revisions import Repository, base_of, checkout, dirty, repository


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")
    who += ("-c", "maintenance.auto=false", "-c", "gc.auto=0")  # they go on in the background
    ended = subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return ended.stdout.strip()


def commit(folder: Path, text: str, message: str = "a change") -> str:
    (folder / "app").mkdir(exist_ok=True)
    (folder / "app" / "w.py").write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", message)
    return git(folder, "rev-parse", "HEAD")


def add_submodule(work: Path, place: str) -> None:
    lib = work.parent / "lib"
    lib.mkdir()
    git(lib, "init", "-q", "-b", "main")
    commit(lib, "old")
    git(work, "submodule", "--quiet", "add", str(lib), place)
    git(work, "commit", "-qm", "with a submodule")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A clone whose branch `feature` is a commit ahead of main, which has another one since."""
    origin = tmp_path / "origin"
    origin.mkdir()
    git(origin, "init", "-q", "-b", "main")
    commit(origin, "one", "first")
    commit(origin, "two", "second")
    git(tmp_path, "clone", "-q", str(origin), "work")
    git(tmp_path / "work", "checkout", "-q", "-b", "feature")
    commit(tmp_path / "work", "three", "third")
    commit(origin, "other", "meanwhile")
    git(tmp_path / "work", "fetch", "-q")
    return tmp_path / "work"


@pytest.fixture
def found(work: Path) -> Repository:
    return repository(work / "app" / "w.py")


def text_of(found: Repository, against: str | None = None) -> str:
    with checkout(found, base_of(found, against)) as (folder, _):
        return (folder / found.file).read_text()


@pytest.mark.parametrize(
    ("against", "text", "label"),
    [
        (None, "two", "merge base with origin/HEAD, "),
        ("HEAD~2", "one", "HEAD~2, "),
        ("origin/main", "other", "origin/main, "),
    ],
)
def test_the_merge_base_with_the_default_branch_or_any_revision_is_base(
    found: Repository, against: str | None, text: str, label: str
) -> None:
    assert text_of(found, against) == text
    assert base_of(found, against).label.startswith(label)


def test_an_index_of_a_hook_is_not_used(found: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    assert text_of(found) == "two"


def shallow(work: Path, branches: str) -> Repository:
    """With the default branch at hand, or as actions/checkout leaves it: with nothing but the commit."""
    folder = work.parent / f"shallow{branches}"
    git(work.parent, "clone", "-q", "--depth=1", branches, f"file://{work}", folder.name)
    git(folder, "remote", "set-head", "origin", "--delete")
    if branches == "--single-branch":
        git(folder, "checkout", "-q", "--detach")
        git(folder, "branch", "-D", "feature")
    return repository(folder / "app" / "w.py")


def test_where_there_is_no_base_the_next_step_says_why(
    found: Repository, work: Path, tmp_path: Path, accepted: Accepted, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, new = tmp_path / "alone.py", tmp_path / "new"
    alone.touch()
    new.mkdir()
    git(new, "init", "-q", "-b", "trunk")
    (new / "w.py").touch()
    told = refusals(
        {f"--against {name}": partial(base_of, found, name) for name in ("--force", "HEAD:app/w.py")}
        | {
            f"a shallow clone, {branches}, --against {name}": partial(base_of, clone, name)
            for branches in ("--single-branch", "--no-single-branch")
            for clone in [shallow(work, branches)]
            for name in (None, "v1")
        }
        | {
            "no such file": partial(repository, tmp_path / "none.py"),
            "no commit": partial(base_of, repository(new / "w.py"), None),
        }
    )
    commit(new, "one")
    git(work, "checkout", "-q", "main")
    told += refusals(
        {"no branch": partial(base_of, repository(new / "app/w.py"), None)}
        | {"no change": partial(base_of, found, None)}
    )
    head = git(work, "rev-parse", "HEAD")
    assert (base_of(found, "HEAD").commit, base_of(found, head[:7]).label) == (head, head[:10])
    (work / "app" / "w.py").write_text("uncommitted")
    assert base_of(found, None).commit == head
    git(work, "checkout", "-q", "--force", "--orphan", "apart")
    commit(work, "apart")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    told += refusals(
        {"no common commit": partial(base_of, found, None), "no repository": partial(repository, alone)}
    )
    monkeypatch.setenv("PATH", str(tmp_path))
    told += refusals({"no git": partial(repository, alone)})
    accepted(told.replace(str(tmp_path), "FOLDER"), "revisions-refused.txt")


def test_a_dirty_tree_is_told(found: Repository, work: Path) -> None:
    assert dirty(found) == ""
    (work / "notes.txt").write_text("")
    assert dirty(found) == ""
    (work / "app" / "helper.py").write_text("")
    (work / "app" / "w.py").write_text("uncommitted")
    assert dirty(found) == ("HEAD is the working tree, with uncommitted changes: app/w.py, app/helper.py.")


@pytest.mark.parametrize("how", ["new", "untracked"])
def test_a_file_that_is_not_there_at_base_is_new(work: Path, how: str) -> None:
    git(work, "branch", "-f", "main")
    new = work / "app" / "new.py"
    new.write_text("other")
    if how != "untracked":
        git(work, "add", "-A")
        git(work, "commit", "-qm", "new")
    assert base_of(repository(new), "main").file is None


def test_a_file_that_was_renamed_since_is_found_under_its_old_name(work: Path) -> None:
    commit(work, "\n".join(map(str, range(50))))
    git(work, "branch", "-f", "main")
    git(work, "mv", "app/w.py", "app/new.py")
    base = base_of(repository(work / "app" / "new.py"), "main")
    assert base.file == Path("app/w.py")


@pytest.mark.parametrize("there", [True, False], ids=["cloned", "its commit is missing"])
def test_submodules_are_at_the_commits_of_base(work: Path, there: bool) -> None:
    add_submodule(work, "third party/lib")
    git(work, "branch", "-f", "main")
    commit(work / "third party" / "lib", "new")
    if not there:  # a commit that nobody has
        git(work, "update-index", "--cacheinfo", f"160000,{'1' * 40},third party/lib")
        git(work, "commit", "-qm", "a commit that was never pushed")
        git(work, "branch", "-f", "main")
    found = repository(work / "app" / "w.py")
    why = "check out the submodule third party/lib of main"
    expected = nullcontext() if there else pytest.raises(FileProblem, match=why)
    with expected, checkout(found, base_of(found, "main")) as (folder, _):
        assert (folder / "third party" / "lib" / "app" / "w.py").read_text() == "old"
