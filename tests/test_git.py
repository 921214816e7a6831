"""git asked about repositories whose configuration and files are hostile: nothing of theirs is run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from running import eventually, is_gone
from test_revisions import add_submodule, commit, git, work

from advisor.errors import FileProblem, UsageError
from advisor.measure.revisions import Git, Unanswered, base_of, checkout, commit_of, dirty, repository
from tests.forking import processes_with

__all__ = ["work"]


@pytest.fixture
def program(tmp_path: Path) -> str:
    """Tells in `ran` beside it that it was run, and passes on what it gets."""
    file = tmp_path / "program"
    file.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{tmp_path}/ran'\ncat\n")
    file.chmod(0o755)
    return str(file)


def touched(folder: Path) -> None:
    """Every file has another time than the index knows."""
    for file in folder.rglob("*"):
        if file.is_file() and ".git" not in file.parts:
            os.utime(file, (1, 1))


def attributes(repository: Path, text: str) -> None:
    (repository / "info").mkdir(exist_ok=True)
    (repository / "info" / "attributes").write_text(text)


def filters(work: Path, program: str) -> None:
    attributes(work / ".git", "* filter=evil\n")
    for key in ("clean", "smudge", "process"):
        git(work, "config", f"filter.evil.{key}", program)
    git(work, "config", "filter.evil.required", "true")
    touched(work)


def filters_of_another_name(work: Path, program: str) -> None:
    """As one cannot turn off with -c."""
    attributes(work / ".git", "* filter=a=b\n")
    git(work, "config", "--add", "filter.a=b.clean", program)
    touched(work)


def included_filters(work: Path, program: str) -> None:
    filters(work, program)
    (work / ".git" / "config").rename(work / ".git" / "more")
    (work / ".git" / "config").write_text("[include]\n\tpath = more\n")


def monitor(work: Path, program: str) -> None:
    git(work, "config", "core.fsmonitor", program)


def hooks(work: Path, program: str) -> None:
    for name in ("post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc"):
        (work / ".git" / "hooks" / name).symlink_to(program)
    git(work, "config", "gc.auto", "1")


def signature(work: Path, program: str) -> None:
    """The commit has one, and the repository wants to see it."""
    raw = git(work, "cat-file", "commit", "HEAD")
    first, blank, message = raw.partition("\n\n")
    file = work.parent / "commit"
    file.write_text(
        f"{first}\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n -----END PGP SIGNATURE-----{blank}{message}\n"
    )
    git(work, "reset", "-q", "--hard", git(work, "hash-object", "-t", "commit", "-w", str(file)))
    git(work, "config", "log.showSignature", "true")
    git(work, "config", "gpg.program", program)


def differ(work: Path, program: str) -> None:
    (work / ".gitattributes").write_text("* diff=evil\n")
    for key in ("diff.external", "diff.evil.textconv", "diff.evil.command", "core.pager", "core.editor"):
        git(work, "config", key, program)


def submodule(work: Path, program: str) -> None:
    add_submodule(work, "lib")
    attributes(work / ".git" / "modules" / "lib", "* filter=evil\n")
    for key in ("filter.evil.clean", "filter.evil.smudge", "core.fsmonitor"):
        git(work / "lib", "config", key, program)
    touched(work / "lib")


def promisor(url: str) -> Callable[[Path, str], None]:
    def make(work: Path, program: str) -> None:
        """A partial clone whose earlier file is missing."""
        blob = git(work, "rev-parse", "HEAD~1:app/w.py")
        (work / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
        for key, value in {
            "core.repositoryFormatVersion": "1",
            "extensions.partialClone": "origin",
            "remote.origin.url": url.format(program=program),
            "remote.origin.promisor": "true",
            "core.sshCommand": program,
            "protocol.allow": "always",
        }.items():
            git(work, "config", key, value)

    make.__name__ = url.partition(":")[0]
    return make


HOSTILE = (
    filters, filters_of_another_name, included_filters, monitor, hooks, signature, differ, submodule,
    promisor("ext::{program}"), promisor("ssh://host/path"),
)  # fmt: skip


@pytest.mark.parametrize("make", HOSTILE, ids=lambda make: make.__name__)
def test_nothing_of_the_repository_is_run(
    work: Path, program: str, make: Callable[[Path, str], None]
) -> None:
    """Neither for a profile's commit nor for two versions; the repository stays as it is, too."""
    make(work, program)
    ran = Path(program).with_name("ran")
    ran.unlink(missing_ok=True)
    before = {file: file.stat().st_mtime_ns for file in (work / ".git").rglob("*")}
    found = repository(work / "app" / "w.py")
    known = commit_of(work / "app" / "w.py", seconds=60)
    assert known.revision == git(work, "rev-parse", "HEAD")
    dirty(found)
    refused = {"ext": "git archive", "ssh": "git archive", "filters_of_another_name": "filter that cannot be"}
    why = refused.get(make.__name__)
    for base in ("HEAD~1",) if why else ("HEAD~1", "HEAD"):
        expected = pytest.raises(FileProblem, match=why) if why else nullcontext()
        with expected, checkout(found, base_of(found, base)) as (folder, _):
            assert (folder / "app" / "w.py").exists()
    assert not ran.exists(), ran.read_text()
    assert {file: file.stat().st_mtime_ns for file in (work / ".git").rglob("*")} == before


def test_the_fixtures_run_their_programs_where_git_is_asked_plainly(work: Path, program: str) -> None:
    ran = Path(program).with_name("ran")
    for make, question in (
        (filters, ("status", "--porcelain")),
        (monitor, ("status", "--porcelain")),
        (signature, ("log", "-1")),
    ):
        make(work, program)
        ran.unlink(missing_ok=True)
        subprocess.run(["git", *question], cwd=work, capture_output=True, check=False, timeout=300)
        assert ran.exists(), make.__name__
        (work / ".git" / "info" / "attributes").unlink(missing_ok=True)


LFS = "version https://git-lfs.github.com/spec/v1"


def test_files_behind_a_filter_are_the_users_where_they_are_unchanged(work: Path) -> None:
    """Filters are not run: what they made is copied, the rest is as it is stored, and said."""
    (work / ".gitattributes").write_text("*.bin filter=lfs\n")
    for name in ("same.bin", "other.bin"):
        (work / name).write_text(f"{LFS} {name}\n")
    commit(work, "with data")
    git(work, "config", "filter.lfs.clean", "false")
    (work / "other.bin").write_text(f"{LFS} of a later commit\n")
    git(work, "-c", "filter.lfs.clean=", "add", "-A")
    git(work, "commit", "-qm", "later")
    (work / "same.bin").write_text("the data")
    os.utime(work / "same.bin", (1, 1))
    git(work, "-c", "filter.lfs.clean=printf '%s same.bin\\n' '" + LFS + "'", "add", "same.bin")
    found = repository(work / "app" / "w.py")
    with checkout(found, base_of(found, "HEAD~1")) as (folder, note):
        assert (folder / "same.bin").read_text() == "the data"
        assert (folder / "other.bin").read_text() == f"{LFS} other.bin\n"
    assert "other.bin" in note
    assert "same.bin" not in note


def test_what_a_filter_hides_is_unknown_and_not_called_changed(work: Path) -> None:
    filters(work, "/bin/false")
    (work / "app" / "w.py").write_text("what the filter made of it")
    known = commit_of(work / "app" / "w.py", seconds=60)
    assert known.changed is None
    assert dirty(repository(work / "app" / "w.py")) == (
        "git cannot tell for app/w.py without its filters, which are not run."
    )
    (work / ".git" / "info" / "attributes").write_text("")
    known = commit_of(work / "app" / "w.py", seconds=60)
    assert known.changed


def wrapped(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `git` in PATH that does this."""
    (folder / "bin").mkdir()
    wrapper = folder / "bin" / "git"
    wrapper.write_text(f"#!/bin/sh\n{script}\n")
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("sleep 60 & sleep 60", "git rev-parse did not end within 0.5 s"),
        ("exec yes", "more than advisor reads"),
        ("exec >&- 2>&-; sleep 60", "git rev-parse did not end within 0.5 s"),
        ("kill -INT $PPID; sleep 60 & sleep 60", ""),
    ],
)
def test_a_git_that_hangs_or_talks_without_end_or_is_interrupted_is_ended(
    tmp_path: Path, script: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapped(tmp_path, script, monkeypatch)
    asked = Git(tmp_path, 0.5 if "0.5 s" in problem else 60.0, variables={"MARK": str(tmp_path)})
    with pytest.raises(Unanswered if problem else KeyboardInterrupt, match=problem or None):
        asked.ask("rev-parse", "HEAD")
    marked = [process.pid for process in processes_with("MARK", str(tmp_path))]
    assert eventually(lambda: all(map(is_gone, marked))), "killed ones have a moment"


ANSWERS = ("printf ''", "printf garbage", "printf '\\377'", "printf ../..", "sleep 60")


@pytest.mark.parametrize("script", ANSWERS)
def test_an_answer_that_makes_no_sense_is_no_answer(
    work: Path, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a traceback nor a commit that does not exist."""
    wrapped(work.parent, script, monkeypatch)
    assert commit_of(work / "app" / "w.py", seconds=0.5) is None
    if script == "sleep 60":
        return
    with pytest.raises((UsageError, FileProblem)):
        base_of(repository(work / "app" / "w.py"), None)
