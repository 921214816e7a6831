"""Workers in milliseconds: a process that has everything imported forks one for each job.

A worker so made is as fresh as any other: CUDA is first used after the fork (after cuInit a forked process
could not use it), the workload's file is imported there, and what it does to its process stays in it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol

_LAST = 5.0
"""Seconds that the status of a process that is gone may take to arrive."""
_UNKNOWN = -int(signal.SIGKILL)


class Process(Protocol):
    """As much of `subprocess.Popen` as watching and ending a worker takes."""

    pid: int
    returncode: int

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Waits for it. Raises `subprocess.TimeoutExpired`."""

    def kill(self) -> None:
        """SIGKILL, if it still runs."""


class ForkServer:
    """The process that forks, and the socket to it. It ends with its parent."""

    ready_seconds = 60.0
    """Within which it has to answer."""

    def __init__(self, command: list[str], log: Path) -> None:
        """command: calls `advisor.measure.forking.main`; the socket's number is added to it."""
        self._statuses: dict[int, int] = {}
        ours, theirs = socket.socketpair()
        with theirs, log.open("wb") as output:
            self._server = subprocess.Popen(
                [*command, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._link, self._rest = ours, b""

    @property
    def pid(self) -> int:
        """The parent of the workers."""
        return self._server.pid

    def fork(
        self, worker: str, arguments: list[str], output: IO[bytes], pass_fds: tuple[int, ...]
    ) -> Process:
        """A new worker: `main` of that module with those arguments; what it prints goes to `output`.

        `{fd}` among the arguments stands for the number that the passed descriptor has there. Raises OSError
        where the server is gone.
        """
        request = json.dumps({"worker": worker, "arguments": arguments}).encode() + b"\n"
        self._link.settimeout(self.ready_seconds)
        try:
            socket.send_fds(self._link, [request], [output.fileno(), *pass_fds])
            while "pid" not in (answer := self._answer()):
                self._note(answer)
        except TimeoutError:
            self.close()  # what it forks later would be nobody's
            raise
        return Forked(answer["pid"], self)

    def status(self, pid: int, seconds: float) -> int | None:
        """The exit code of a worker; None while it runs, as far as is known after waiting that long."""
        deadline = time.monotonic() + seconds
        while pid not in self._statuses:
            self._link.settimeout(max(deadline - time.monotonic(), 0.0001))
            try:
                self._note(self._answer())
            except TimeoutError:
                return None
            except OSError:
                self._statuses[pid] = _UNKNOWN
        return self._statuses[pid]

    def close(self) -> None:
        """Ends the server; workers that are left, and what they left, end with it."""
        self._link.close()
        self._server.terminate()
        try:
            self._server.wait(_LAST)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()

    def _note(self, answer: dict[str, int]) -> None:
        self._statuses[answer["ended"]] = answer["code"]

    def _answer(self) -> dict[str, int]:
        while b"\n" not in self._rest:
            read = self._link.recv(1 << 12)
            if not read:
                raise ConnectionResetError("the fork server has exited")
            self._rest += read
        line, _, self._rest = self._rest.partition(b"\n")
        answer: dict[str, int] = json.loads(line)
        return answer


class Forked:
    """A worker of the server's: it is not this process's child, so the server tells how it ended."""

    def __init__(self, pid: int, server: ForkServer) -> None:
        self.pid = pid
        self.returncode: int = _UNKNOWN
        self._server = server
        self._ended = False

    def poll(self) -> int | None:
        """See `Process`."""
        return self._told(0.0 if self._alive() else _LAST)

    def wait(self, timeout: float | None = None) -> int:
        """See `Process`."""
        deadline = time.monotonic() + (timeout if timeout is not None else 1e9)
        while self._told(0.05) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return self.returncode

    def kill(self) -> None:
        """See `Process`."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _told(self, seconds: float) -> int | None:
        if not self._ended:
            code = self._server.status(self.pid, seconds)
            if code is None:
                return None
            self.returncode, self._ended = code, True
        return self.returncode

    def _alive(self) -> bool:
        """Not ended: one that nobody waited for yet has ended too."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return False
        return fields[0] not in "ZX"
