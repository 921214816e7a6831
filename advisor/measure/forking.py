"""The process that forks workers. Run as `main([PARENT_PID, MODULES, SOCKET])`; see fork_server.py.

What a worker leaves running, in whatever session, becomes this process's child and ends with the worker;
all of it ends with the parent.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import selectors
import signal
import socket
import sys
import threading
import traceback
import warnings
from collections.abc import Container
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection
from typing import NoReturn

import psutil

from advisor.measure.process import adopt_orphans, die_with_parent
from advisor.profiles.scratch import remove_abandoned


def main(arguments: list[str]) -> None:
    """Imports the modules, then forks a worker for each request until the parent closes its end."""
    parent, modules, descriptor = arguments
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # who started the command may have blocked them
    signal.signal(signal.SIGTERM, lambda *_: _end_all())
    die_with_parent(int(parent), signal.SIGTERM)
    adopt_orphans()
    for name in modules.split(","):
        with suppress(ImportError):  # whoever needs it will say so
            import_module(name)
    link = socket.socket(fileno=int(descriptor))
    woken, wake = socket.socketpair()
    for end in (woken, wake):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    warnings.filterwarnings("ignore", category=DeprecationWarning)  # OpenBLAS's threads, which know of forks
    gc.freeze()
    workers: dict[int, Connection] = {}
    waiting = selectors.DefaultSelector()
    waiting.register(link, selectors.EVENT_READ)
    waiting.register(woken, selectors.EVENT_READ)
    while True:
        for key, _ in waiting.select():
            if key.fileobj is woken:
                woken.recv(1 << 12)
                _report(workers)
            elif not _serve(link, (woken, wake), workers):
                _end_all()


def _serve(link: socket.socket, ours: tuple[socket.socket, ...], workers: dict[int, Connection]) -> bool:
    """Forks the worker that is asked for; False once the parent is gone."""
    text, descriptors, _, _ = socket.recv_fds(link, 1 << 16, 8)
    if not text:
        return False
    request, status = json.loads(text), Connection(descriptors.pop(0), readable=False)
    pid = os.fork()
    if pid == 0:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        for end in (link, *ours):
            end.close()
        for told in (status, *workers.values()):
            told.close()  # so that it ends with this server
        _work(request["worker"], request["arguments"], descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    workers[pid] = status
    _send(status, pid)
    return True


def _work(worker: str, arguments: list[str], descriptors: list[int]) -> NoReturn:
    """The worker's life: as a fresh interpreter ends, so does this."""
    os.setsid()
    output, *passed = descriptors
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    code = 0
    try:
        import_module(worker).main([part.format(fd=passed[0] if passed else "") for part in arguments])
    except SystemExit as asked:
        code = asked.code if isinstance(asked.code, int) else 0 if asked.code is None else 1
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


def _report(workers: dict[int, Connection]) -> None:
    """Tells the parent of every worker that has ended, once what it left running has ended too."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if status := workers.pop(ended[0], None):
                _end_children(besides=workers)
                with status:
                    _send(status, os.waitstatus_to_exitcode(ended[1]))


def _end_children(besides: Container[int] = ()) -> None:
    """Kills this process's children, and those that come to it by that; but for some and their own."""
    while left := [child for child in psutil.Process().children() if child.pid not in besides]:
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


def _send(status: Connection, number: int) -> None:
    with suppress(OSError):  # who asked for it has given it up
        status.send(number)
