"""Questions to git about a repository whose configuration may be anybody's.

No program that the configuration names is run: hooks, filters, a file system monitor, signature checks and
transports are off, and missing objects are not fetched. Every call has a time limit, a session of its own
that ends with it, and an answer of a limited size.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from advisor.errors import FileProblem
from advisor.measure.processes import uninterrupted
from advisor.texts import printable

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
_CHUNK = 1 << 16
_SHOWN = 200
TWO_FILES = "Give two files: advisor compare --run BASE.py HEAD.py."


class Unanswered(FileProblem):
    """git did not answer; the reason in words."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"git gave no answer: {reason}", next_step=TWO_FILES)
        self.reason = reason


class Refused(Unanswered):
    """git ended with an error of its own: its last line is the reason, `said` is all of it."""

    def __init__(self, output: str) -> None:
        super().__init__((output.strip().splitlines() or ["no reason given"])[-1][:_SHOWN])
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

        Raises `Unanswered`; FileNotFoundError where there is no git.
        """
        with tempfile.TemporaryFile() as stdin:
            stdin.write(given)
            stdin.seek(0)
            with uninterrupted():  # amid its start, Ctrl-C would leave it running
                process = subprocess.Popen(
                    ["git", *self._settings(), *arguments],
                    cwd=self.folder,
                    env=self._environment(),
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                )
            with process:
                try:
                    out, err = _read(process, self.seconds)
                    code = process.wait(self.seconds)
                except subprocess.TimeoutExpired:
                    raise Unanswered(f"git {arguments[0]} did not end within {self.seconds:g} s") from None
                finally:
                    _end(process)
        if code:
            raise Refused(printable(err.decode(errors="replace")))
        return os.fsdecode(out)

    def answer(self, *arguments: str) -> str | None:
        """What git answers; None where it refuses."""
        try:
            return self.ask(*arguments).rstrip("\n")
        except Refused:
            return None

    def without_filters(self) -> Git:
        """The same with every filter of the configuration off: files are compared and written as stored.

        Raises `Unanswered`.
        """
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
        given = b"".join(os.fsencode(path) + b"\0" for path in paths)
        if not self.filters or not given:
            return []
        parts = self.ask("check-attr", *more, "-z", "--stdin", "filter", given=given).split("\0")
        return [path for path, value in zip(parts[::3], parts[2::3], strict=False) if value in self.filters]

    def _settings(self) -> list[str]:
        off = [f"filter.{name}.{key}={value}" for name in self.filters for key, value in _FILTER_KEYS.items()]
        return [part for setting in (*_OFF, *off) for part in ("-c", setting)]

    def _environment(self) -> dict[str, str]:
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("GIT_") or name.startswith(_INHERITED)
        }
        return {**inherited, **_OWN, **self.variables}


def _read(process: subprocess.Popen[bytes], seconds: float) -> tuple[bytes, bytes]:
    """All of stdout and stderr. Raises `subprocess.TimeoutExpired`, and `Unanswered` where it is too much."""
    assert process.stdout is not None
    assert process.stderr is not None
    chunks: dict[object, list[bytes]] = {process.stdout: [], process.stderr: []}
    deadline, size = time.monotonic() + seconds, 0
    with selectors.DefaultSelector() as selector:
        for stream in (process.stdout, process.stderr):
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            left = deadline - time.monotonic()
            ready = selector.select(left) if left > 0 else []
            if not ready:
                raise subprocess.TimeoutExpired(process.args, seconds)
            for key, _ in ready:
                chunk = os.read(key.fd, _CHUNK)
                chunks[key.fileobj].append(chunk)
                size += len(chunk)
                if not chunk:
                    selector.unregister(key.fileobj)
                if size > _MOST_BYTES:
                    raise Unanswered("git printed more than can be an answer")
    return b"".join(chunks[process.stdout]), b"".join(chunks[process.stderr])


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
