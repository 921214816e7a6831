"""A real process of the final, and the socket to it: what dies or hangs costs its contestant."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from advisor.measure.final_messages import (
    BlockBegun,
    FinalJob,
    FinalRound,
    Left,
    Message,
    RoundDone,
    as_line,
    read_message,
)
from advisor.measure.fork_server import ForkServer
from advisor.measure.jobs import LOG, Problem
from advisor.measure.processes import cause_of_death, end, keep_short, log_tail, place_in, start

WORKER = "advisor.measure.final_worker"


class Hung(Exception):
    """A block took longer than it may."""


class Late(Exception):
    """The time of the run is over, which no contestant is to blame for."""


@dataclass
class ProcessSession:
    """Runs rounds in a fresh Python process. `timeout`: seconds that a block may take, the first one's
    start included."""

    job: FinalJob
    timeout: float
    server: ForkServer | None = None

    def __post_init__(self) -> None:
        directory = Path(self.job.directory)
        directory.mkdir(parents=True)
        limit = self.job.limit_seconds
        self._end = math.inf if limit is None else time.monotonic() + limit
        self._message = message = directory / "job.json"
        message.write_text(self.job.model_dump_json(), encoding="utf-8")
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = start(
                message, directory / LOG, WORKER, "{fd}", pass_fds=(theirs.fileno(),), server=self.server
            )
        self._link, self._log, self._buffer = ours, directory / LOG, b""

    def round(self, request: FinalRound) -> Iterator[Message]:
        """See `Session`."""
        at = request.order[0]
        try:
            self._link.sendall(as_line(request).encode())
            while True:
                message = self._next()
                if isinstance(message, BlockBegun):
                    at = message.contestant
                    continue
                yield message
                if isinstance(message, RoundDone) or (isinstance(message, Left) and message.broken):
                    return
        except Late:
            return
        except (OSError, EOFError, Hung, ValidationError) as ended:
            yield Left(contestant=at, problem=self._problem(ended), broken=True)

    def ready(self) -> bool:
        """See `Session`."""
        try:
            self._next()
        except (OSError, EOFError, Hung, Late, ValidationError):
            return False
        return True

    def close(self) -> None:
        """Ends the process and all that it started."""
        self._link.close()
        end(self._process, self._message)

    def _next(self) -> Message:
        deadline = time.monotonic() + self.timeout
        while b"\n" not in self._buffer:
            self._link.settimeout(max(min(deadline, self._end) - time.monotonic(), 0.001))
            try:
                read = self._link.recv(1 << 16)
            except TimeoutError:
                raise (Late if self._end < deadline else Hung) from None
            if not read:
                raise EOFError
            self._buffer += read
        keep_short(self._log)
        line, _, self._buffer = self._buffer.partition(b"\n")
        return read_message(line.decode("utf-8"))

    def _problem(self, ended: Exception) -> Problem:
        if isinstance(ended, Hung):
            at = place_in(self.job.base.file, self._process, Path(self.job.directory))
            reason = f"a block did not finish within {self.timeout:g} s{at}"
        else:
            with suppress(Exception):
                self._process.wait(5)
            code = self._process.poll()
            reason = (
                "the process closed its connection" if code is None else cause_of_death(code, self._tail())
            )
        return Problem(cause="device", message=reason, detail=self._tail())

    def _tail(self) -> str:
        with suppress(OSError):
            return log_tail(self._log)
        return ""
