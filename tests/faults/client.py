"""Has a command run by the interpreter of `forking.py`, as if it were run here; signals are passed on."""

import os
import signal
import socket
import sys
from multiprocessing.connection import Connection

server = socket.socket(socket.AF_UNIX)
server.connect(f"\0{sys.argv[1]}")
socket.send_fds(server, [b"+"], [0, 1, 2])
with Connection(server.detach()) as answers:
    answers.send(("become", sys.argv[2:], os.getcwd(), dict(os.environ), True))  # noqa: PTH109
    process = answers.recv()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(process, number))
    code, _ = answers.recv()
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
