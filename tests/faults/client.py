"""Has a command run by the interpreter of `forking.py`, as if it were run here; signals are passed on."""

import os
import signal
import socket
import sys
from contextlib import suppress
from multiprocessing.connection import Connection

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def pass_on(number, _):
    with suppress(ProcessLookupError):  # it has just ended
        os.kill(process, number)


signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)  # they wait for the process
server = socket.socket(socket.AF_UNIX)
server.connect(f"\0{sys.argv[1]}")
socket.send_fds(server, [b"+"], [0, 1, 2])
with Connection(server.detach()) as answers:
    answers.send(("become", sys.argv[2:], os.getcwd(), dict(os.environ), True))  # noqa: PTH109
    process = answers.recv()
    for number in PASSED_ON:
        signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    code, _ = answers.recv()
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)  # at its end Python would have a signal end it
