"""Files that somebody made to harm: each is refused, or read, in seconds and within half a gigabyte.

Through the command line, in a process of its own, whose time and memory are taken.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from running import environment

from advisor.devices.catalogue import load

SECONDS = 10 * float(os.environ.get("ADVISOR_TEST_SLOWER", "1"))
MEGABYTES = 500
ENDLESS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n"


@dataclass(frozen=True)
class Read:
    """What a command answered, and what it took."""

    code: int
    out: str
    error: str
    seconds: float
    megabytes: float


def read(folder: Path, *arguments: str) -> Read:
    begin = time.monotonic()
    with (folder / "out").open("w+") as out, (folder / "err").open("w+") as err:
        command = [sys.executable, "-m", "advisor", *arguments]
        process = subprocess.Popen(command, cwd=folder, env=environment(), stdout=out, stderr=err)
        try:
            _, status, used = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            raise
        process.returncode = os.waitstatus_to_exitcode(status)
        texts = [(file.seek(0), file.read())[1] for file in (out, err)]
    return Read(process.returncode, *texts, time.monotonic() - begin, used.ru_maxrss / 1024)


def refused(folder: Path, *arguments: str) -> str:
    """The message of a file that is refused; one line and the next step."""
    said = read(folder, *arguments)
    assert (said.code, said.out) == (5, ""), said.error[-2000:]
    message, step = said.error.splitlines()
    assert message.startswith("error: ")
    assert step.startswith("  next: ")
    assert len(said.error) < 2000
    assert said.seconds < SECONDS
    assert said.megabytes < MEGABYTES
    return message


CARD = Path(load("h200").origin)


def view(path: Path) -> None:
    """Rows without end in place of the ranges."""
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT)")
        made.execute(
            "CREATE VIEW NVTX_EVENTS AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) "
            "SELECT n AS start, n AS end, 75 AS eventType, 'advisor' AS text, n AS globalTid, "
            "n AS domainId FROM r"
        )
