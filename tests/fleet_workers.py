"""Dask workers as processes of one machine, forked from one that imported Dask: sixteen start in a second.

    python tests/fleet_workers.py SCHEDULER HOST:KIND...

Each says that it is on its own HOST. `behave` says what a KIND does. Only `real` ones make a
real profile; the others answer a task at once, with the profile in $ADVISOR_TEST_ANSWER.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from pathlib import Path

from distributed import Worker

from advisor.fleets import remote
from advisor.version import __version__

LOCALHOST = "127.0.0.1"


def behave(host: str, kind: str) -> None:
    socket.gethostname = lambda: host
    if kind == "real":
        return
    version = "0.0.9" if kind == "old" else __version__
    machine = remote.machine().model_copy(update={"host": host, "advisor": version})
    remote.inspect = lambda: machine.model_dump_json()

    def profile(text: str) -> str:
        Path(os.environ["ADVISOR_TEST_BEGUN"], f"{host}-{kind}").touch()
        if kind == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep({"slow": 2.0, "hangs": 600.0}.get(kind, 0.0))
        return Path(os.environ["ADVISOR_TEST_ANSWER"]).read_text(encoding="utf-8")

    remote.profile = profile
    if kind == "bare":
        for name in [name for name in sys.modules if name.split(".")[0] == "advisor"]:
            del sys.modules[name]
        sys.modules["advisor"] = None  # type: ignore[assignment]


async def serve(scheduler: str) -> None:
    worker = await Worker(scheduler, nthreads=1, host=LOCALHOST, dashboard=False, memory_limit=0)
    await worker.finished()


def main(scheduler: str, *workers: str) -> None:
    signal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGKILL))
    for each in workers:
        if os.fork() == 0:
            host, _, kind = each.partition(":")
            behave(host, kind)
            asyncio.run(serve(scheduler))
            os._exit(0)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


main(*sys.argv[1:])
