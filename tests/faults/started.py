"""An interpreter that has the program loaded and forks a process for each command.

What it does is what `python -m advisor` does, in a process and a session of its own;
the imports, which take most of a command's CPU time, are shared. A case with a shell starts an interpreter.
A `forked` command forks the server of its workers too, in place of starting it, and the worker of a script.
"""

from __future__ import annotations

import atexit
import gc
import json
import multiprocessing.process
import os
import selectors
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NoReturn

import psutil

from advisor.cli import app
from advisor.cli.console import Around
from advisor.measure import fork_server, launcher, processes
from advisor.measure.fork_server import ForkServer, Process
from advisor.measure.jobs import Settings
from advisor.measure.launcher import ProcessLauncher
from advisor.profiles.base import Record
from advisor.profiles.reading import load
from advisor.report.pages import page_of, render
from tests.faults.case import PROFILE, ROOT

_LOADED = (
    "advisor.cli.profiling",
    "advisor.cli.reporting",
    "advisor.cli.comparing",
    "advisor.cli.listing",
    "advisor.measure.final_worker",
    "advisor.measure.recording.worker",
    "advisor.measure.worker",
    "advisor.pipeline",
    "advisor.sweep",
    "numpy.ma",
    "numpy.random",
)


class Started:
    """The client's side: one command at a time."""

    used = 0.0, 0.0
    """The last one's CPU seconds, and the most megabytes it had: those of the interpreter at least."""

    def __init__(self) -> None:
        with socket.socket(socket.AF_UNIX) as callers:
            callers.bind("")
            callers.listen()
            self._address: bytes = callers.getsockname()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.started", str(callers.fileno())],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,  # commands inherit what Python takes it for: nothing to seek in
                pass_fds=(callers.fileno(),),
            )

    def close(self) -> None:
        """It ends with its stdin, which this closes."""
        with self._process:
            pass

    @property
    def command(self) -> list[str]:
        """Stands for `python -m advisor` in the caller's folder, with its variables, streams and signals."""
        client = Path(__file__).with_name("client.py")
        return [sys.executable, "-I", "-S", str(client), self._address[1:].decode()]

    @property
    def program(self) -> str:
        """A shell script that stands for `advisor`."""
        return f'#!/bin/sh\nexec {shlex.join(self.command)} "$@"\n'

    def running(self) -> psutil.Process:
        """The process of the command that runs now."""
        return psutil.Process(self._process.pid).children()[-1]

    def run(
        self,
        command: Sequence[str],
        folder: Path,
        variables: Mapping[str, str],
        output: str,
        longest: float,
        *,
        forked: bool,
        errors: str = "",
    ) -> int:
        """The exit code, -1 where it took longer; stdout and stderr go to one file, or to two."""
        request = {"command": command, "folder": str(folder), "variables": variables, "forked": forked}
        with (
            socket.socket(socket.AF_UNIX) as server,
            open(os.devnull) as nothing,  # noqa: PTH123
            Path(output).open("ab") as written,
            Path(errors or output).open("ab") as told,
            selectors.DefaultSelector() as selector,  # select.select takes no descriptor beyond 1,023
        ):
            server.connect(self._address)
            streams = (nothing, written, told if errors else written)
            socket.send_fds(server, [b"+"], [each.fileno() for each in streams])
            server.sendall(json.dumps(request).encode())
            server.shutdown(socket.SHUT_WR)
            selector.register(server, selectors.EVENT_READ)
            with server.makefile() as answers:
                pid = int(answers.readline())
                late = not selector.select(longest)
                if late:
                    with suppress(ProcessLookupError):
                        os.killpg(pid, signal.SIGKILL)
                code, seconds, megabytes = answers.readline().split()
        self.used = float(seconds), float(megabytes)
        return -1 if late else int(code)


def main() -> None:
    """Forks a process for each caller until stdin ends."""
    for name in _LOADED:
        import_module(name)
    page = page_of(load(PROFILE))
    for form in ("html", "md", "txt"):  # compiles the templates
        render(page, form)
    _undo_handlers()  # nohup and a shell's background have them ignored
    gc.freeze()
    callers, selector = socket.socket(fileno=int(sys.argv[1])), selectors.DefaultSelector()
    selector.register(callers, selectors.EVENT_READ)
    selector.register(0, selectors.EVENT_READ)
    while 0 not in {key.fd for key, _ in selector.select()}:
        caller, _ = callers.accept()
        with caller, caller.makefile("w") as answer, caller.makefile() as request:
            _, streams, _, _ = socket.recv_fds(caller, 1, 3)
            _answer(json.load(request), answer, [callers, selector, caller, answer, request], streams)


def _answer(request: dict[str, Any], answers: IO[str], own: Sequence[Any], streams: Sequence[int]) -> None:
    """Runs a command to its end; says its process before, and its exit code and what it used after."""
    if not (pid := os.fork()):
        for each in own:
            each.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        _become(**request)
    for stream in streams:
        os.close(stream)
    print(pid, file=answers, flush=True)
    _, status, used = os.wait4(pid, 0)
    seconds = used.ru_utime + used.ru_stime
    print(os.waitstatus_to_exitcode(status), seconds, used.ru_maxrss / 1024, file=answers)


def _become(command: list[str], folder: str, variables: dict[str, str], *, forked: bool) -> NoReturn:
    """What a shell and `python -m advisor` set up; ends as the interpreter does."""
    os.setsid()
    os.chdir(folder)
    multiprocessing.process.ORIGINAL_DIR = folder  # type: ignore[attr-defined]
    os.environ.clear()
    os.environ.update(variables)
    sys.argv = [str(ROOT / "advisor" / "__main__.py"), *command]
    sys.path[0] = folder
    if forked:
        fork_scripts(_Forked)
        app.main(Around(launching=_launching, began=time.monotonic()))
    import_module("advisor.__main__").main()
    sys.exit("the program returned")


def _undo_handlers() -> None:
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        signal.signal(number, handler)


def _launching(settings: Settings) -> ProcessLauncher:
    """Workers that a server forks, itself forked from this process; a script's are started."""
    return ProcessLauncher(settings.timeout, server=None if settings.arguments is not None else _Forked())


def fork_scripts(server: Callable[[], ForkServer]) -> None:
    """From now on the worker of a script is forked by such a server; it prints on this process's stderr."""

    def start(job: Record, directory: Path, worker: str, **options: Any) -> Process:
        if options.get("stdout") != 2:
            return processes.start(job, directory, worker, **options)
        message = processes.write_job(job, directory)
        with open(2, "wb", closefd=False) as stderr:
            return server().fork(worker, [str(message)], stderr, ())

    launcher.start = start


class _Forked(ForkServer):
    """A server that need not import anything."""

    def __init__(self) -> None:
        self._turns = threading.Lock()
        self._link, theirs = socket.socketpair()
        parent = os.getpid()
        if not (pid := os.fork()):
            self._link.close()
            os.setsid()
            atexit._clear()  # its workers run what is left to do at the end
            _undo_handlers()
            del sys.path[0]
            fork_server.main([str(parent), "os", str(theirs.detach())])
        theirs.close()
        self._server = _Child(pid)
        atexit.register(self.close)


class _Child:
    """What `subprocess.Popen` would be of it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def terminate(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)

    def wait(self, timeout: float | None = None) -> None:
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


if __name__ == "__main__":
    main()
