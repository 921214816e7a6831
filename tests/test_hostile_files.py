"""Large files and surroundings that harm: each is refused, or read, in seconds and within half a gigabyte.

Through the command line, in a process of its own, whose time and memory are taken; small ones: tests/faults.
"""

from __future__ import annotations

import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import profile, vector_add_trace
from running import Command, advisor
from test_cli import begun

from advisor.nsys import database
from tests.forking import started

SECONDS = 10.0
MEGABYTES = 500
SAMPLE = profile(traffic=vector_add_trace()).model_dump_json()


def refused(folder: Path, *arguments: str) -> str:
    """The message of a file that is refused in time: one line, and the next step."""
    done = advisor(*arguments, cwd=folder)
    seconds, megabytes = started().used
    assert (done.returncode, done.stdout) == (5, ""), done.stderr[-2000:]
    message, step = done.stderr.splitlines()
    assert step.startswith("  next: ")
    assert len(done.stderr) < 2000
    assert seconds < SECONDS
    assert megabytes < MEGABYTES
    return message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (lambda: SAMPLE[:-1] + "".join(f',"k{n}":1' for n in range(800_000)) + "}", "at most 20000"),
        (lambda: SAMPLE.replace('"blocks":[]', f'"blocks":[{"{}," * 999_999}{{}}]'), "blocks.0"),
        (lambda: SAMPLE.replace('"notes":[]', f'"notes":[{"1," * 19_999}1]'), "notes.0"),
        (lambda: "[" * 5_000_000, "more than 4000000 values"),
    ],
    ids=["unknown", "empty", "wrong", "deep"],
)
def test_a_profile(text: Callable[[], str], told: str, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(text(), encoding="utf-8")
    assert told in refused(tmp_path, "report", "p.json")


def endless(path: Path) -> None:
    """Names that are looked up for each of many ranges, without an index."""
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE META_DATA_EXPORT (name, value)")
        made.execute("CREATE TABLE StringIds (id, value)")
        made.execute("CREATE TABLE NVTX_EVENTS (start, end, eventType, text, globalTid, domainId, textId)")
        made.executemany("INSERT INTO StringIds VALUES (?, 'x')", ((n,) for n in range(200_000)))
        rows = ((59, -n) for n in range(200_000))
        made.executemany("INSERT INTO NVTX_EVENTS VALUES (0, 1, ?, NULL, 1, 1, ?)", rows)
    made.close()


def test_an_export_without_an_end(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a limit of a fifth of a second; the usual one is in time too."""
    endless(tmp_path / "e.sqlite")
    (usual,) = database.opened.__wrapped__.__defaults__
    assert usual < SECONDS
    monkeypatch.setattr(database.opened.__wrapped__, "__defaults__", (0.2,))
    said = command("trace", "e.sqlite")
    assert (said.code, "takes longer than 0 s" in said.err) == (5, True)


def test_a_view_is_no_table(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "v.sqlite") as made:
        made.execute("CREATE TABLE META_DATA_EXPORT (name, value)")
        made.execute(
            "CREATE VIEW NVTX_EVENTS AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) "
            "SELECT n AS start, n AS end, 75 AS eventType, 'advisor' AS text, n AS globalTid, n AS domainId "
            "FROM r"
        )
    made.close()
    assert advisor("trace", "v.sqlite", cwd=tmp_path).returncode == 0


def test_ctrl_c_while_the_program_is_loaded(tmp_path: Path) -> None:
    """From where Python has read the first lines of ours."""
    code = "import sys; import advisor.__main__ as m; print('up', flush=True); m.main()"
    with begun([sys.executable, "-c", code], tmp_path, "trace", "nothing.sqlite", "--json") as process:
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=300)
    assert process.returncode in (130, 5), said  # 5 where the machine was faster
    assert "Traceback" not in said
