"""Has a command run by the interpreter of `started.py`, as if it were run here; signals are passed on."""

import json
import os
import signal
import socket
import sys

with socket.socket(socket.AF_UNIX) as server:
    server.connect(f"\0{sys.argv[1]}")
    socket.send_fds(server, [b"+"], [0, 1, 2])
    request = {"command": sys.argv[2:], "folder": os.getcwd(), "variables": dict(os.environ)}  # noqa: PTH109
    server.sendall(json.dumps({**request, "forked": True}).encode())
    server.shutdown(socket.SHUT_WR)
    with server.makefile() as answers:
        process = int(answers.readline())
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _: os.kill(process, number))
        code = int(answers.readline().split()[0])
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
