"""The process that forks workers. Run as `main([PARENT_PID, MODULES, SOCKET])`; see fork_server.py."""

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
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

from advisor.measure.process import die_with_parent


def main(arguments: list[str]) -> None:
    """Imports the modules, then forks a worker for each request until the parent closes its end."""
    parent, modules, descriptor = arguments
    die_with_parent(int(parent))
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
    waiting = selectors.DefaultSelector()
    waiting.register(link, selectors.EVENT_READ)
    waiting.register(woken, selectors.EVENT_READ)
    while True:
        for key, _ in waiting.select():
            if key.fileobj is woken:
                woken.recv(1 << 12)
                _report(link)
            elif not _serve(link, (woken, wake)):
                return


def _serve(link: socket.socket, ours: tuple[socket.socket, ...]) -> bool:
    """Forks the worker that is asked for; False once the parent is gone."""
    text, descriptors, _, _ = socket.recv_fds(link, 1 << 16, 8)
    if not text:
        return False
    request = json.loads(text)
    pid = os.fork()
    if pid == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for end in (link, *ours):
            end.close()
        _work(request["worker"], request["arguments"], descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    _send(link, {"pid": pid})
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


def _report(link: socket.socket) -> None:
    """Tells the parent of every worker that has ended."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            _send(link, {"ended": ended[0], "code": os.waitstatus_to_exitcode(ended[1])})


def _send(link: socket.socket, answer: dict[str, int]) -> None:
    link.sendall(json.dumps(answer).encode() + b"\n")
