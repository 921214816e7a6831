"""What git knows of a workload's file: its commit, and the file at an earlier one, in a temporary folder.

The user's repository is only read: the files of a commit are written through an index of our own, so nothing
of ours is left there however a run ends. Its configuration may be anybody's, and no program that it names is
run: hooks, filters, a file system monitor, signature checks and transports are off, and missing objects are
not fetched. Every call has a time limit, a session of its own that ends with it, and a bounded answer.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import IO

from advisor.errors import AdvisorError, FileProblem, UsageError
from advisor.measure.processes import uninterrupted
from advisor.profiles.files import scratch
from advisor.profiles.schema import Commit
from advisor.texts import listed, printable

_OFF = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=",
    "core.splitIndex=false",
    "core.sparseCheckout=false",
    "core.quotePath=false",
    "core.sshCommand=false",
    "credential.helper=",
    "log.showSignature=false",
    "protocol.allow=never",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
)
_FILTER_KEYS = {"clean": "", "smudge": "", "process": "", "required": "false"}
_INHERITED = ("GIT_CONFIG", "GIT_EXEC_PATH", "GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM")
"""Variables of git's that a user sets. A hook of git's sets others, for another repository or index."""
_OWN = {
    "LC_ALL": "C",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
}
_MOST_BYTES = 64 << 20
"""Enough for the names of half a million files."""
_LONGEST_REASON = 200
_TWO_FILES = "Give two files: advisor compare --run BASE.py HEAD.py."
_DEFAULTS = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
"""Where a pull request goes, the first that is there."""
_SHALLOW = (
    "The clone is shallow, so the history is not there. Fetch it: `git fetch --unshallow`, or in GitHub "
    "Actions `fetch-depth: 0` for actions/checkout."
)
_SHOWN = 5
_SECONDS = 5.0
"""A file system that hangs must not hold up a profile, which can do without its commit."""
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SUBMODULE = re.compile(r"160000 (?:commit )?([0-9a-f]{40,64})(?: 0)?\t(.+)", re.DOTALL)
"""A line of `ls-tree`, or of `ls-files --stage`."""


class Unanswered(FileProblem):
    """git did not answer; the reason in words."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"git gave no answer: {reason}", next_step=_TWO_FILES)
        self.reason = reason


class Refused(Unanswered):
    """git ended with an error of its own: its last line is the reason, `said` is all of it."""

    def __init__(self, output: str) -> None:
        super().__init__((output.strip().splitlines() or ["no reason given"])[-1][:_LONGEST_REASON])
        self.said = output


@dataclass(frozen=True)
class Git:
    """git in a folder. `seconds` limits each call; `filters` are those to be turned off."""

    folder: Path
    seconds: float = 30.0
    filters: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)

    def ask(self, *arguments: str, given: bytes = b"") -> str:
        """What git prints, `given` on its stdin. Names keep bytes that are not UTF-8 as `os.fsdecode` does.
        Raises `Unanswered`; FileNotFoundError where there is no git."""
        off = [f"filter.{name}.{key}={value}" for name in self.filters for key, value in _FILTER_KEYS.items()]
        settings = [part for setting in (*_OFF, *off) for part in ("-c", setting)]
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("GIT_") or name.startswith(_INHERITED)
        }
        with ExitStack() as files:
            stdin, *outputs = (files.enter_context(tempfile.TemporaryFile()) for _ in range(3))
            stdin.write(given)
            stdin.seek(0)
            with ExitStack() as ended:
                with uninterrupted():  # amid its start, Ctrl-C would leave it running
                    process = subprocess.Popen(
                        ["git", *settings, *arguments],
                        cwd=self.folder,
                        env={**inherited, **_OWN, **self.variables},
                        stdin=stdin,
                        stdout=outputs[0],
                        stderr=outputs[1],
                        start_new_session=True,
                    )
                    ended.callback(_end, process)
                _wait(process, f"git {arguments[0]}", self.seconds, outputs)
            out, err = (os.pread(file.fileno(), _size(file), 0) for file in outputs)
        if process.returncode:
            raise Refused(printable(err.decode(errors="replace")))
        return os.fsdecode(out)

    def answer(self, *arguments: str) -> str | None:
        """What git answers; None where it refuses."""
        try:
            return self.ask(*arguments).rstrip("\n")
        except Refused:
            return None

    def without_filters(self) -> Git:
        """The same with every filter of the configuration off: files are compared and written as stored."""
        try:
            keys = self.ask("config", "--includes", "-z", "--name-only", "--get-regexp", r"^filter\.")
        except Refused:  # there is none
            keys = ""
        filters = (key.partition(".")[2].rpartition(".")[0] for key in keys.split("\0")[:-1])
        names = tuple(dict.fromkeys(filters))
        if any("=" in name or "\n" in name for name in names):
            raise Unanswered("the repository has a filter that cannot be turned off")
        return replace(self, filters=names)

    def filtered(self, paths: Iterable[str], *more: str) -> list[str]:
        names = b"".join(os.fsencode(path) + b"\0" for path in paths)
        if not self.filters or not names:
            return []
        parts = self.ask("check-attr", *more, "-z", "--stdin", "filter", given=names).split("\0")
        return [path for path, value in zip(parts[::3], parts[2::3], strict=False) if value in self.filters]


def _wait(process: subprocess.Popen[bytes], name: str, seconds: float, outputs: Sequence[IO[bytes]]) -> None:
    """Waits until it has ended. Raises `Unanswered` where that takes too long, or it prints too much."""
    deadline = time.monotonic() + seconds
    while process.returncode is None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(min(seconds, 0.1))
        if sum(map(_size, outputs)) > _MOST_BYTES:
            raise Unanswered("git printed more than advisor reads")
        if process.returncode is None and time.monotonic() >= deadline:
            raise Unanswered(f"{name} did not end within {seconds:g} s")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends it with all that it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _size(file: IO[bytes]) -> int:
    return os.fstat(file.fileno()).st_size


@dataclass(frozen=True)
class Differences:
    """Files of a working tree that are not as committed, and new Python files. `unknown`: cannot be compared,
    since git's filters are not run. `problem`: why git gave no answer."""

    files: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    problem: str = ""

    @property
    def any(self) -> bool | None:
        """Whether there are any; None where that is unknown."""
        return True if self.files else None if self.unknown or self.problem else False


@dataclass(frozen=True)
class Repository:
    """The user's checkout around a workload's file, whose path is from the top on."""

    top: Path
    file: Path
    git: Git

    @property
    def changed(self) -> Differences:
        """What the working tree has that its commit does not."""
        return differences(self.git, untracked=True)

    def commit(self, revision: str) -> str | None:
        options = ("--verify", "--quiet", "--end-of-options")
        name = self.git.answer("rev-parse", *options, f"{revision}^{{commit}}")
        return name if name and _COMMIT.fullmatch(name) else None

    def without(self, message: str, step: str) -> UsageError:
        """The error of history that is not there, which in a shallow clone is why."""
        is_shallow = self.git.answer("rev-parse", "--is-shallow-repository") == "true"
        return UsageError(message, next_step=_SHALLOW if is_shallow else step)


def differences(git: Git, *, untracked: bool) -> Differences:
    """Files of the working tree with that top folder, and of the submodules in it."""
    known: dict[str, bool] = {}
    problem = ""
    try:
        for name, certain in _different(git, "normal" if untracked else "no"):
            known[os.fsencode(name).decode(errors="replace")] = certain
    except Unanswered as unanswered:
        problem = unanswered.reason
    files, unknown = (tuple(name for name, sure in known.items() if sure is kind) for kind in (True, False))
    return Differences(files, unknown, problem)


def _different(git: Git, untracked: str) -> Iterator[tuple[str, bool]]:
    """Each file, and whether it is known to differ."""
    git = git.without_filters()
    form = ("--porcelain", "-z", "--no-renames", "--ignore-submodules=dirty")
    status = git.ask("status", *form, f"--untracked-files={untracked}").split("\0")
    lines = [line for line in status if line and (not line.startswith("??") or line.endswith(".py"))]
    unknown = git.filtered(line[3:] for line in lines if line.startswith(" "))
    yield from ((line[3:], line[3:] not in unknown) for line in lines)
    if (git.folder / ".gitmodules").is_file():
        for path, _ in submodules(git.ask("ls-files", "--stage", "-z")):
            if _is_checkout(inner := git.folder / path):
                inner_files = _different(replace(git, folder=inner), untracked)
                yield from ((f"{path}/{name}", certain) for name, certain in inner_files)


def submodules(listed: str) -> Iterator[tuple[str, str]]:
    """Path and commit of each, from what `ls-tree -z` or `ls-files --stage -z` lists."""
    for line in listed.split("\0"):
        if entry := _SUBMODULE.fullmatch(line):
            yield entry[2], entry[1]


def _is_checkout(folder: Path) -> bool:
    """Whether a submodule's files are there, and no link leads elsewhere."""
    return (folder / ".git").exists() and folder.resolve() == folder


@dataclass(frozen=True)
class Base:
    """What HEAD is compared with: a commit, how it was chosen, in words, and the file there; None where it is
    new since then."""

    commit: str
    label: str
    file: Path | None


def repository(file: Path, seconds: float = 30.0) -> Repository:
    """The one that the file is in. Raises `UsageError` without one, or without git."""
    if not file.is_file():
        raise FileProblem(f"{file} does not exist", next_step="Give the path of a workload file.")
    real = file.resolve()
    try:
        top = Path(Git(real.parent, seconds).ask("rev-parse", "--show-toplevel").rstrip("\n")).resolve()
        return Repository(top, real.relative_to(top), Git(top, seconds))
    except FileNotFoundError:
        raise UsageError("git is not installed", next_step=_TWO_FILES) from None
    except Refused as refused:
        if "dubious ownership" in refused.said:
            wrong = f"git does not trust the repository of {file}: another user owns it"
            step = f"git config --global --add safe.directory {real.parent}"
            raise UsageError(wrong, next_step=step) from None
    except ValueError:  # what git names is no folder around the file
        pass
    raise UsageError(f"{file} is not in a git repository", next_step=_TWO_FILES)


def base_of(repo: Repository, against: str | None) -> Base:
    """The revision that is named, or else the merge base with the remote's default branch.

    Raises `UsageError` where there is none.
    """
    if against is None:
        commit, label = _merge_base(repo)
    else:
        commit = repo.commit(against) or ""
        if not commit:
            step = "List branches and tags with `git branch -a`, `git tag`."
            raise repo.without(f"git knows no revision {against!r}", step)
        label = commit[:10] if commit.startswith(against) else f"{against}, {commit[:10]}"
    name = repo.file.as_posix()
    if repo.git.answer("rev-parse", "--verify", "--quiet", f"{commit}:{name}") is not None:
        return Base(commit, label, repo.file)
    # What the file was called then, where git takes it for the same.
    options = ("--cached", "--find-renames", "--diff-filter=R", "--name-status", "-z")
    parts = (repo.git.answer("diff-index", *options, commit) or "").split("\0")
    renamed = dict(zip(parts[2::3], parts[1::3], strict=False))
    return Base(commit, label, Path(renamed[name]) if name in renamed else None)


def _merge_base(repo: Repository) -> tuple[str, str]:
    head = repo.commit("HEAD")
    if head is None:
        raise UsageError("the repository has no commit yet", next_step=f"Commit first. {_TWO_FILES}")
    branch = next((name for name in _DEFAULTS if repo.commit(name)), None)
    if branch is None:
        none = f"there is no branch to compare with: none of {', '.join(_DEFAULTS)} exists"
        raise repo.without(none, "Name a revision: --against REV.")
    commit = repo.git.answer("merge-base", "HEAD", branch)
    if commit is None or not _COMMIT.fullmatch(commit):
        raise repo.without(f"HEAD and {branch} have no common commit", "Name a revision: --against REV.")
    if commit == head and repo.changed.any is False:
        same = f"HEAD is the merge base with {branch}, nothing has changed since: there is nothing to compare"
        raise repo.without(same, "Name an earlier revision: --against HEAD~1.")
    return commit, f"merge base with {branch}, {commit[:10]}"


@contextmanager
def checkout(repo: Repository, base: Base, seconds: float = 60.0) -> Iterator[tuple[Path, str]]:
    """The files of that commit with its submodules, gone at the end; their folder, and a note on those that
    the user's filters, such as Git LFS, would have made. seconds: limit of each repository's. Raises
    `FileProblem` where git cannot write them."""
    with scratch() as folder:
        tree, index = folder / "base", folder / "index"
        at_length = replace(repo, git=replace(repo.git, seconds=seconds))
        stored = list(_write(at_length, tree, index, base.commit, base.label))
        note = (
            f"In BASE, {_listed(stored)} as the repository stores it: filters of git (LFS) are not run. "
            "If BASE reads it, give two files."
        )
        yield tree, note if stored else ""


def _write(repo: Repository, tree: Path, index: Path, commit: str, label: str) -> Iterator[str]:
    """Writes the files of a commit and of those submodules that the user's checkout has. Yields those that
    are as the repository stores them, since filters are not run."""
    tree.mkdir(parents=True, exist_ok=True)
    try:
        variables = {
            "GIT_DIR": repo.git.ask("rev-parse", "--absolute-git-dir").rstrip("\n"),
            "GIT_WORK_TREE": str(tree),
            "GIT_INDEX_FILE": str(index),
        }
        git = replace(repo.git.without_filters(), folder=tree, variables=variables)
        git.ask("read-tree", commit)
        git.ask("checkout-index", "--all", "--force")
        listed = git.ask("ls-files", "--stage", "-z")
        if git.filters:
            yield from _unchanged(repo, git, tree, listed)
    except Unanswered as unanswered:
        step = _TWO_FILES
        is_partial = ("config", "--get-regexp", r"^remote\..*\.promisor$")
        if isinstance(unanswered, Refused) and repo.git.answer(*is_partial):
            step = f"The clone is partial. Fetch the files: git archive {commit[:10]} > /dev/null"
        raise FileProblem(f"git could not check out {label}: {unanswered.reason}", next_step=step) from None
    index.unlink(missing_ok=True)
    for path, at in submodules(listed):
        if _is_checkout(repo.top / path) and (tree / path).resolve().is_relative_to(tree.resolve()):
            inner = replace(repo, top=repo.top / path, git=replace(repo.git, folder=repo.top / path))
            yield from _write(inner, tree / path, index, at, f"the submodule {path} of {label}, {at[:10]}")


def _unchanged(repo: Repository, git: Git, tree: Path, listed: str) -> Iterator[str]:
    """Copies what a filter made in the user's checkout, where the content is the same; yields the rest."""
    different = differences(repo.git, untracked=False)
    changed = {*different.files, *different.unknown}
    here = set(repo.git.ask("ls-files", "--stage", "-z").split("\0")) if not different.problem else set()
    blobs = {line.partition("\t")[2]: line for line in listed.split("\0") if line.startswith("100")}
    for path in git.filtered(blobs, "--cached"):
        theirs = repo.top / path
        if blobs[path] in here and path not in changed and theirs.resolve() == theirs and theirs.is_file():
            shutil.copy(theirs, tree / path)
        else:
            yield path


def _listed(names: Sequence[str]) -> str:
    return printable(listed(names, _SHOWN))


_DEPENDENCIES = re.compile(
    r"(?:.*/)?(?:(?:dev-)?requirements[\w.-]*\.(?:txt|in)|pyproject\.toml|setup\.(?:py|cfg)|environment\.ya?ml|"
    r"(?:uv|poetry|pdm|pixi)\.lock|Pipfile(?:\.lock)?)"
)


def dependencies(repo: Repository, commit: str) -> str:
    """Says that files which name packages differ from that commit's; empty where none does."""
    listed = repo.git.answer("diff-index", "--name-only", "--no-renames", "-z", commit) or ""
    changed = [name for name in listed.split("\0") if _DEPENDENCIES.fullmatch(name)]
    both = "but both versions ran with the packages installed here."
    return f"Dependencies changed ({_listed(changed)}), {both}" if changed else ""


def dirty(repo: Repository) -> str:
    """What HEAD has that its commit does not, in sentences; empty where it has nothing."""
    changed = repo.changed
    unknown = _listed(changed.unknown)
    sentences = {
        f"HEAD is the working tree, with uncommitted changes: {_listed(changed.files)}.": changed.files,
        f"git cannot tell for {unknown} without its filters, which are not run.": changed.unknown,
        f"git could not tell whether HEAD has uncommitted changes: {changed.problem}.": changed.problem,
    }
    return " ".join(sentence for sentence, reason in sentences.items() if reason)


def commit_of(file: Path, seconds: float = _SECONDS) -> Commit | None:
    """The commit checked out where the file is, if the file is one of its, and whether anything differs; None
    where git is not there or does not know it."""
    try:
        repo = repository(file, seconds)
        if not repo.git.ask("ls-files", "--", f":(literal){repo.file}"):
            return None
        answer = repo.git.ask("rev-list", "--max-count=1", "--timestamp", "HEAD", "--")
        moment, _, revision = answer.strip().partition(" ")
        committed = datetime.fromtimestamp(int(moment), timezone.utc).isoformat()
        changed = differences(repo.git, untracked=False).any
        return Commit(revision=revision, committed=committed, changed=changed)
    except (AdvisorError, OSError, ValueError, OverflowError):
        return None
