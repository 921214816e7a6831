"""What git knows of a workload's file: the commit that it is at, and the file at an earlier one, in a clean
worktree of the user's repository in a temporary folder.

The user's checkout is never touched. Nothing of the user's runs: hooks are off.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from advisor.errors import AdvisorError, FileProblem, UsageError
from advisor.measure.processes import uninterrupted
from advisor.profiles.schema import Commit
from advisor.profiles.scratch import scratch

_DEFAULTS = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
"""Where a pull request goes, the first that is there."""
_SHALLOW = (
    "The clone is shallow, so the history is not there. Fetch it: `git fetch --unshallow`, or in GitHub "
    "Actions `fetch-depth: 0` for actions/checkout."
)
_TWO_FILES = "Give two files: advisor compare --run BASE.py HEAD.py."
_SHOWN = 5
_SECONDS = 5.0
"""A file system that hangs must not hold up a profile, which can do without its commit."""
_LINE = "\n"
_OF_HOOKS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")
"""Where a hook of git's runs this, they stand for another repository or index."""


@dataclass(frozen=True)
class Repository:
    """The user's checkout around a workload's file."""

    top: Path
    file: Path
    """From the top on."""

    def git(self, *arguments: str) -> str | None:
        """What git answers; None where it fails."""
        ended = _git(self.top, *arguments)
        return ended.stdout.rstrip("\n") if ended.returncode == 0 else None

    @property
    def shallow(self) -> bool:
        """Whether history is cut off."""
        return self.git("rev-parse", "--is-shallow-repository") == "true"

    @property
    def changed(self) -> tuple[str, ...]:
        """Files of the working tree that are not as committed, and new Python files."""
        told = self.git("status", "--porcelain", "--untracked-files=normal") or ""
        lines = (line for line in told.splitlines() if not line.startswith("??") or line.endswith(".py"))
        return tuple(line[3:] for line in lines)

    def submodules(self, commit: str) -> Iterator[tuple[str, str]]:
        """Path and commit of each in that commit."""
        told = self.git("ls-tree", "-r", "-z", "--full-tree", commit) or ""
        for line in told.split("\0"):
            kind, _, path = line.partition("\t")
            if kind.startswith("160000 "):
                yield path, kind.split()[2]

    def commit(self, revision: str) -> str | None:
        """The whole name of the commit."""
        return self.git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")


@dataclass(frozen=True)
class Base:
    """What HEAD is compared with: a commit, how it was chosen, in words, and the file there."""

    commit: str
    told: str
    file: Path


def repository(file: Path) -> Repository:
    """The one that the file is in. Raises `UsageError` without one, or without git."""
    if not file.is_file():
        raise FileProblem(f"{file} does not exist", next_step="Give the path of a workload file.")
    real = file.resolve()
    ended = _git(real.parent, "rev-parse", "--show-toplevel")
    if ended.returncode:
        said = ended.stderr.strip().splitlines()
        if said and "dubious ownership" in said[0]:
            raise UsageError(
                f"git does not trust the repository of {file}: another user owns it",
                next_step=f"git config --global --add safe.directory {real.parent}",
            )
        raise UsageError(f"{file} is not in a git repository", next_step=_TWO_FILES)
    top = Path(ended.stdout.rstrip("\n")).resolve()
    return Repository(top, real.relative_to(top))


def base_of(found: Repository, against: str | None) -> Base:
    """The revision that is named, or else the merge base with the remote's default branch.

    Raises `UsageError` where there is none, or where the file is not in it.
    """
    commit, told = _named(found, against) if against is not None else _merge_base(found)
    if found.git("cat-file", "-e", f"{commit}:{found.file.as_posix()}") is not None:
        return Base(commit, told, found.file)
    renamed = _renamed(found, commit)
    if renamed is None:
        raise _absent(found, told)
    return Base(commit, told, Path(renamed))


def _named(found: Repository, against: str) -> tuple[str, str]:
    commit = found.commit(against)
    if commit is None:
        raise UsageError(
            f"git knows no revision {against!r}",
            next_step=_SHALLOW
            if found.shallow
            else "List branches and tags with `git branch -a`, `git tag`.",
        )
    return commit, f"{against}, {commit[:10]}" if not commit.startswith(against) else commit[:10]


def _merge_base(found: Repository) -> tuple[str, str]:
    head = found.commit("HEAD")
    if head is None:
        raise UsageError("the repository has no commit yet", next_step=f"Commit first. {_TWO_FILES}")
    branch = next((name for name in _DEFAULTS if found.commit(name)), None)
    if branch is None:
        raise UsageError(
            "there is no branch to compare with: none of " + ", ".join(_DEFAULTS) + " exists",
            next_step=_SHALLOW if found.shallow else "Name a revision: --against REV.",
        )
    commit = found.git("merge-base", "HEAD", branch)
    if commit is None:
        raise UsageError(
            f"HEAD and {branch} have no common commit",
            next_step=_SHALLOW if found.shallow else "Name a revision: --against REV.",
        )
    if commit == head and not found.changed:
        raise UsageError(
            f"HEAD is the merge base with {branch}, nothing has changed since: there is nothing to compare",
            next_step=_SHALLOW if found.shallow else "Name an earlier revision: --against HEAD~1.",
        )
    return commit, f"merge base with {branch}, {commit[:10]}"


@contextmanager
def checkout(found: Repository, base: Base) -> Iterator[Path]:
    """A clean worktree of that commit with its submodules, gone at the end however it comes; its top folder.

    Raises `FileProblem` where git cannot check it out.
    """
    with scratch() as folder, ExitStack() as trees:
        _add(trees, found, folder / "base", base.commit, base.told)
        yield folder / "base"


def _add(trees: ExitStack, found: Repository, tree: Path, commit: str, told: str) -> None:
    """A worktree, and those of the submodules that the user's checkout has, from its repositories."""
    trees.callback(_remove, found, tree)
    with uninterrupted():  # half of one could not be removed
        ended = _git(found.top, "worktree", "add", "--detach", "--force", str(tree), commit)
    if ended.returncode:
        raise FileProblem(
            f"git could not check out {told}: {ended.stderr.strip().rpartition(_LINE)[2]}",
            next_step=_TWO_FILES,
        )
    for path, at in found.submodules(commit):
        if (found.top / path / ".git").exists():
            inner = Repository(found.top / path, found.file)
            _add(trees, inner, tree / path, at, f"the submodule {path} of {told}, {at[:10]}")


def _remove(found: Repository, tree: Path) -> None:
    with uninterrupted():
        _git(found.top, "worktree", "remove", "--force", "--force", str(tree))


def _absent(found: Repository, told: str) -> UsageError:
    tracked = found.git("ls-files", "--error-unmatch", "--", str(found.file)) is not None
    step = "It is new since then." if tracked else "Commit it first."
    return UsageError(f"{found.file} does not exist in BASE ({told})", next_step=f"{step} {_TWO_FILES}")


def _renamed(found: Repository, commit: str) -> str | None:
    """What the file was called then, where git takes it for the same."""
    told = found.git("diff", "--find-renames", "--diff-filter=R", "--name-status", commit) or ""
    pairs = (line.split("\t") for line in told.splitlines())
    return next((old for _, old, new in pairs if new == found.file.as_posix()), None)


def dirty(found: Repository) -> str:
    """That HEAD is more than its commit, in a sentence; empty where it is not."""
    changed = found.changed
    if not changed:
        return ""
    more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
    return f"HEAD is the working tree, with uncommitted changes: {', '.join(changed[:_SHOWN])}{more}."


def _git(folder: Path, *arguments: str, seconds: float | None = None) -> subprocess.CompletedProcess[str]:
    """Runs git there, in a session of its own: Ctrl-C is for this process to handle. It asks nothing and
    starts no hook. Raises `subprocess.TimeoutExpired` after so many seconds."""
    ours = ("core.hooksPath=/dev/null", "core.quotePath=false", "core.fsmonitor=false")
    inherited = {name: value for name, value in os.environ.items() if name not in _OF_HOOKS}
    try:
        return subprocess.run(
            ["git", *(part for setting in ours for part in ("-c", setting)), *arguments],
            cwd=folder,
            env={**inherited, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            start_new_session=True,
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError:
        raise UsageError("git is not installed", next_step=_TWO_FILES) from None


def commit_of(file: Path, git: Callable[..., subprocess.CompletedProcess[str]] = _git) -> Commit | None:
    """The commit checked out where the file is, if the file is one of its, and whether anything differs; None
    where git is not there or does not know it."""

    def ask(*arguments: str) -> str:
        ended = git(file.parent, *arguments, seconds=_SECONDS)
        ended.check_returncode()
        return ended.stdout.strip()

    try:
        if not ask("ls-files", "--", f":(literal){file.name}"):
            return None
        revision, _, seconds = ask("log", "-1", "--format=%H %ct").partition(" ")
        changed = bool(ask("status", "--porcelain", "--untracked-files=no"))
        time = datetime.fromtimestamp(int(seconds), timezone.utc)
        return Commit(revision=revision, committed=time.isoformat(), changed=changed)
    except (AdvisorError, OSError, ValueError, OverflowError, subprocess.SubprocessError):
        return None
