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
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Protocol

_LAST = 5.0
"""Seconds that the status of a process that is gone may take to arrive."""
_UNKNOWN = -int(signal.SIGKILL)


class Process(Protocol):
    """The part of `subprocess.Popen` that watching and ending a worker takes."""

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
        self._link, theirs = socket.socketpair()
        with theirs, log.open("wb") as output:
            self._server = subprocess.Popen(
                [*command, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )

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
        request = json.dumps({"worker": worker, "arguments": arguments}).encode()
        status, told = Pipe(duplex=False)
        with told:
            self._link.settimeout(self.ready_seconds)
            socket.send_fds(self._link, [request], [told.fileno(), output.fileno(), *pass_fds])
        if not status.poll(self.ready_seconds):
            self.close()  # what it forks later would be nobody's
            raise TimeoutError("the fork server does not answer")
        try:
            return Forked(status.recv(), status)
        except EOFError:
            raise ConnectionResetError("the fork server has exited") from None

    def close(self) -> None:
        """Ends the server; workers that are left, and what they left, end with it."""
        self._link.close()
        self._server.terminate()
        try:
            self._server.wait(_LAST)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()


class Forked:
    """A worker of the server's: it is not this process's child, so the server sends how it ended."""

    def __init__(self, pid: int, status: Connection) -> None:
        self.pid, self.returncode = pid, _UNKNOWN
        self._status = status

    def poll(self) -> int | None:
        """See `Process`."""
        return self._ended(0.0 if self._alive() else _LAST)

    def wait(self, timeout: float | None = None) -> int:
        """See `Process`."""
        if self._ended(timeout) is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return self.returncode

    def kill(self) -> None:
        """See `Process`."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _ended(self, seconds: float | None) -> int | None:
        """Its exit code, -SIGKILL where the server ended before it could send one; None while it runs."""
        if not self._status.closed:
            if not self._status.poll(seconds):
                return None
            with self._status, suppress(EOFError, OSError):
                self.returncode = self._status.recv()
        return self.returncode

    def _alive(self) -> bool:
        """Not ended: one that nobody waited for yet has ended too."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return False
        return fields[0] not in "ZX"
