"""An interpreter that has the program loaded and forks what tests run: commands, and servers of workers.

What a command does is what `python -m advisor` does, in a process and a session of its own;
the imports, which take most of a command's CPU time, are shared. A case with a shell starts an interpreter.
A `forked` command forks the server of its workers too, in place of starting it, and the worker of a script.
Workers of a pytest process begin in the folder and with the variables of the test.
"""

from __future__ import annotations

import atexit
import gc
import json
import multiprocessing.process
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import IO, Any, NoReturn
from unittest import mock

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
from advisor.workloads.outline import imported_early
from tests.faults.case import PROFILE, ROOT

_LOADED = (
    "advisor.cli.profiling",
    "advisor.cli.reporting",
    "advisor.cli.comparing",
    "advisor.cli.listing",
    *processes.WORKERS,
    "advisor.measure.recording.worker",
    "advisor.pipeline",
    "advisor.sweep",
    "numpy.ma",
    "numpy.random",
)
TESTS = str(Path(__file__).parent)


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
                [sys.executable, "-m", "tests.forking", str(callers.fileno())],
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
        client = Path(TESTS, "faults", "client.py")
        return [sys.executable, "-I", "-S", str(client), self._address[1:].decode()]

    @property
    def program(self) -> str:
        """A shell script that stands for `advisor`."""
        return f'#!/bin/sh\nexec {shlex.join(self.command)} "$@"\n'

    def running(self) -> psutil.Process:
        """The process of the command that runs now, the newest: process ids start again at some time."""
        return max(psutil.Process(self._process.pid).children(), key=psutil.Process.create_time)

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
        with (
            open(os.devnull) as nothing,  # noqa: PTH123
            Path(output).open("ab") as written,
            Path(errors or output).open("ab") as told,
        ):
            streams = [each.fileno() for each in (nothing, written, told if errors else written)]
            with self._ask(streams, "become", [*command], str(folder), {**variables}, forked) as answers:
                pid = answers.recv()
                late = not answers.poll(longest)
                if late:
                    with suppress(ProcessLookupError):
                        os.killpg(pid, signal.SIGKILL)
                code, self.used = answers.recv()
        return -1 if late else code

    def serve(self, link: int, modules: str) -> int:
        """The process id of a fork server at that socket, whose workers have these modules imported."""
        with self._ask([link], "serve", modules) as answers:
            return answers.recv()

    def _ask(self, streams: Sequence[int], *request: Any) -> Connection:
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._address)
        socket.send_fds(server, [b"+"], streams)
        answers = Connection(server.detach())
        answers.send(request)
        return answers


def answer_callers() -> None:
    """Forks a process for each of them until stdin ends, and says its id; of a command, at its end, the exit
    code and what it used."""
    for name in _LOADED:
        import_module(name)
    page = page_of(load(PROFILE))
    for form in ("html", "md", "txt"):  # compiles the templates
        render(page, form)
    _undo_handlers()  # nohup and a shell's background have them ignored
    gc.freeze()
    callers = socket.socket(fileno=int(sys.argv.pop()))
    while 0 not in wait([callers, 0]):
        caller, _ = callers.accept()
        _, streams, _, _ = socket.recv_fds(caller, 1, 3)
        with Connection(caller.detach()) as answers:
            what, *arguments = answers.recv()
            if not (pid := os.fork()):
                callers.close()
                answers.close()
                {"become": _become, "serve": _serve}[what](streams, *arguments)
            for stream in streams:
                os.close(stream)
            answers.send(pid)
            if what == "become":
                _, status, used = os.wait4(pid, 0)
                spent = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
                answers.send((os.waitstatus_to_exitcode(status), spent))


def _become(
    streams: Sequence[int], command: list[str], folder: str, variables: dict[str, str], forked: bool
) -> NoReturn:
    """What a shell and `python -m advisor` set up; ends as the interpreter does."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.setsid()
    os.chdir(folder)
    multiprocessing.process.ORIGINAL_DIR = folder  # type: ignore[attr-defined]
    os.environ.clear()
    os.environ.update(variables)
    sys.argv = [str(ROOT / "advisor" / "__main__.py"), *command]
    sys.path[0] = folder
    if forked:
        fork_scripts(_own_server)
        app.main(Around(launching=partial(launching, server=_own_server), began=time.monotonic()))
    import_module("advisor.__main__").main()
    sys.exit("the program returned")


def _serve(link: Sequence[int], modules: str) -> NoReturn:
    os.setsid()
    for first, last in ((3, link[0]), (link[0] + 1, 1 << 16)):
        os.closerange(first, last)  # as a start does: the command's locks end with it, not with the server
    atexit._clear()  # its workers run what is left to do at the end
    _undo_handlers()
    sys.path[:] = [*sys.path[1:], TESTS, str(ROOT)]
    fork_server.main([str(os.getppid()), modules, str(*link)])
    sys.exit("the server returned")


def processes_with(variable: str, value: str) -> list[psutil.Process]:
    """Those that were started with this in their environment."""
    every = psutil.process_iter(["environ"])
    return [process for process in every if (process.info["environ"] or {}).get(variable) == value]


def _undo_handlers() -> None:
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        signal.signal(number, handler)


class _Forked(ForkServer):
    """A server that is forked; it ends once this process closes its link, or ends."""

    ready_seconds = 600.0
    """Importing PyTorch on a busy machine takes its time."""

    def __init__(self, serve: Callable[[int, str], int], modules: str) -> None:
        self._turns = threading.Lock()
        self._link, theirs = socket.socketpair()
        with theirs:
            self._server = psutil.Process(serve(theirs.fileno(), modules))

    def close(self) -> None:
        self._link.close()


@cache
def _own_server(libraries: str = "") -> ForkServer:
    """A server forked from this process."""

    def serve(link: int, modules: str) -> int:
        return os.fork() or _serve([link], modules)

    return _Forked(serve, f"os{libraries}")


def fork_scripts(server: Callable[[], ForkServer]) -> None:
    """From now on the worker of a script is forked by such a server; it prints on this process's stderr."""

    def start(job: Record, directory: Path, worker: str, **options: Any) -> Process:
        if options.get("stdout") != 2:
            return processes.start(job, directory, worker, **options)
        message = processes.write_job(job, directory)
        with open(2, "wb", closefd=False) as stderr:
            return server().fork(worker, [str(message)], stderr, ())

    launcher.start = start


# In a pytest process: one interpreter, whose servers fork the workers of all commands that run in it


@cache
def started() -> Started:
    """The interpreter that all commands of a pytest process are forked from."""
    started = Started()
    atexit.register(started.close)
    return started


class _Shared(_Forked):
    """Tells each worker where the test is."""

    def fork(
        self, worker: str, arguments: list[str], output: IO[bytes], pass_fds: tuple[int, ...]
    ) -> Process:
        where = json.dumps([worker, str(Path.cwd()), dict(os.environ)])
        return super().fork("tests.forking", [where, *arguments], output, pass_fds)


@cache
def server(libraries: str = "") -> ForkServer:
    """Its workers have those libraries imported, beside what workers need."""
    if "torch" in libraries:
        libraries += ",torch._dynamo"  # which its optimizers import
    return _Shared(started().serve, f"recording_worker,{__name__}{libraries}")


def launching(settings: Settings, server: Callable[[str], ForkServer] = server) -> ProcessLauncher:
    """Forked workers for a workload on the CPU; else started ones."""
    forked = settings.arguments is None and settings.backend == "cpu"
    libraries = "".join(f",{name}" for name in imported_early(settings.file)) if forked else ""
    return ProcessLauncher(settings.timeout, server=server(libraries) if forked else None)


def run_forked(module: str, *arguments: str, output: Path, libraries: str = "") -> int:
    """The exit code of a test module's `main` in a forked process, which prints to that file."""
    path = os.pathsep.join(filter(None, (TESTS, os.environ.get("PYTHONPATH"))))
    with output.open("wb") as log, mock.patch.dict(os.environ, PYTHONPATH=path):
        return server(libraries).fork(module, [*arguments], log, ()).wait(600)


def main(arguments: list[str]) -> None:
    """In the forked worker: goes where the test is, and does there what was asked."""
    worker, folder, variables = json.loads(arguments[0])
    before = (*os.environ.get("PYTHONPATH", "").split(os.pathsep), TESTS)
    own = [path for path in sys.path if path not in before]
    sys.path[:] = [*filter(None, variables.get("PYTHONPATH", "").split(os.pathsep)), *own]
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    import_module(worker).main(arguments[1:])


if __name__ == "__main__":
    answer_callers()
