"""Workers in milliseconds: a process that has everything imported forks one for each job.

A worker so made is as fresh as any other: CUDA is first used after the fork (after cuInit a forked process
could not use it), the workload's file is imported there, and what it does to its process stays in it.

The server runs as `main([PARENT_PID, MODULES, SOCKET])`. Each worker has a keeper, a process whose child
becomes whatever the worker leaves running, in whatever session: it ends with the worker, all with the parent.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import traceback
import warnings
from contextlib import suppress
from importlib import import_module
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any, NoReturn

import psutil

from advisor.profiles.files import remove_abandoned

_LAST = 5.0
"""Seconds that the server may take to end."""
_UNKNOWN = -int(signal.SIGKILL)


class ForkServer:
    """The process that forks, and the socket to it. It ends with its parent."""

    ready_seconds = 60.0
    """Within which it has to answer."""

    def __init__(self, command: list[str], log: Path) -> None:
        """command: calls `advisor.measure.fork_server.main`; the socket's number is added to it."""
        self._turns = threading.Lock()
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
        return self._server.pid

    def fork(self, worker: str, arguments: list[str], output: IO[bytes], pass_fds: tuple[int, ...]) -> Forked:
        """A new worker: `main` of that module with those arguments, its parent's id and the descriptors that
        it is passed; what it prints goes to `output`. Raises OSError where the server is gone."""
        request = json.dumps({"worker": worker, "arguments": arguments}).encode()
        status, sender = Pipe(duplex=False)
        with sender, self._turns:
            self._link.settimeout(self.ready_seconds)
            socket.send_fds(self._link, [request], [sender.fileno(), output.fileno(), *pass_fds])
        if not status.poll(self.ready_seconds):
            self.close()  # what it forks later would be nobody's
            raise TimeoutError("the fork server does not answer")
        try:
            return Forked(status.recv(), status)
        except EOFError:
            raise ConnectionResetError("the fork server has exited") from None

    def close(self) -> None:
        self._link.close()
        self._server.terminate()
        try:
            self._server.wait(_LAST)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()


class Forked:
    """A worker of the server's, with the part of `subprocess.Popen` that watching and ending one takes. It is
    not this process's child, so its keeper sends how it ended."""

    def __init__(self, pid: int, status: Connection) -> None:
        self.pid, self.returncode = pid, _UNKNOWN
        self._status = status

    def poll(self, seconds: float | None = 0.0) -> int | None:
        """Its exit code, -SIGKILL where the server ended before it could send one; None while it runs."""
        if not self._status.closed:
            if not self._status.poll(seconds):
                return None
            with self._status, suppress(EOFError, OSError):
                self.returncode = self._status.recv()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.poll(timeout) is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return self.returncode

    def kill(self) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


Process = subprocess.Popen[bytes] | Forked


_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int, by: signal.Signals = signal.SIGKILL) -> None:
    """A killed parent leaves no child behind, and when memory is out the kernel takes the child."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, by)
    if parent and os.getppid() != parent:  # it died while this process was still starting
        os._exit(1)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def end_if_forked(worker: int) -> None:
    """Ends a process that user code forked and let go on: it would leave results beside those of the worker,
    whose process id is given, and is killed while it writes once that one has ended."""
    if os.getpid() != worker:
        with suppress(Exception):  # user code may have closed them
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(0)


def main(arguments: list[str]) -> None:
    """Imports the modules, then forks a worker for each request until the parent closes its end."""
    parent, modules, descriptor = arguments
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # who started the command may have blocked them
    signal.signal(signal.SIGTERM, lambda *_: _end_all())
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for keepers
    die_with_parent(int(parent), signal.SIGTERM)
    adopt_orphans()
    for name in modules.split(","):
        with suppress(Exception):  # whoever needs it will say so
            import_module(name)
    link = socket.socket(fileno=int(descriptor))
    warnings.filterwarnings("ignore", category=DeprecationWarning)  # OpenBLAS's threads, which know of forks
    gc.freeze()
    server = os.getpid()
    while True:
        text, descriptors, _, _ = socket.recv_fds(link, 1 << 16, 8)
        if not text:
            _end_all()
        if os.fork() == 0:
            link.close()
            _keep(json.loads(text), server, descriptors)
        for each in descriptors:
            os.close(each)


def _keep(request: dict[str, Any], server: int, descriptors: list[int]) -> NoReturn:
    """The life of a worker's keeper: forks it, tells the parent how it ended, ends what it left running."""
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    die_with_parent(server)
    adopt_orphans()
    keeper, status = os.getpid(), Connection(descriptors.pop(0), readable=False)
    worker = os.fork()
    if worker == 0:
        status.close()  # so that it ends with the keeper
        _work(request["worker"], request["arguments"], keeper, descriptors)
    with suppress(OSError):  # who asked for it has given it up
        status.send(worker)
        while (ended := os.wait())[0] != worker:
            pass
        _end_children()
        status.send(os.waitstatus_to_exitcode(ended[1]))
    os._exit(0)


def _work(worker: str, arguments: list[str], keeper: int, descriptors: list[int]) -> NoReturn:
    """The worker's life: as a fresh interpreter ends, so does this."""
    os.setsid()
    output, *passed = descriptors
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    code = 0
    try:
        import_module(worker).main([*arguments, *map(str, (keeper, *passed))])
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else 0 if ending.code is None else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _end_children() -> None:
    while left := psutil.Process().children():
        for child in left:
            with suppress(psutil.Error):
                child.kill()
            with suppress(ChildProcessError):
                os.waitpid(child.pid, 0)


def _end_all() -> NoReturn:
    """Also what the parent left, if it was killed."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it follows the closed link: once is enough
    _end_children()
    remove_abandoned()
    os._exit(0)
