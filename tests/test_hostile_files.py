"""Large files and surroundings that harm: each is refused, or read, in seconds and within half a gigabyte.

Through the command line, in a process of its own, whose time and memory are taken; small ones: tests/faults.
"""

from __future__ import annotations

import shlex
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import cpu_profile, profile, vector_add_trace
from running import FILES, QUICK, REPOSITORY, Command, advisor, environment, started

from advisor.nsys import database

SECONDS = 10.0
MEGABYTES = 500
DATA = REPOSITORY / "tests/data"
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


STREAMS = {
    "report nothing.json 2>&-": 5,
    "report --bad >&- 2>&- <&-": 2,
    "compare {base} {head} --fail-if slower=5% >/dev/full 2>/dev/full": 5,
}


@pytest.mark.parametrize(("line", "code"), STREAMS.items())
def test_closed_and_full_streams(line: str, code: int, tmp_path: Path) -> None:
    """Never 1, which means that a gate failed. Each command with each stream: tests/faults."""
    (tmp_path / "p.json").write_text(cpu_profile().model_dump_json(), encoding="utf-8")
    program = f"{sys.executable} -m advisor" if "&-" in line else shlex.join(started().command)
    line = line.format(base=DATA / "h200-vector_add.json", head=DATA / "h200-vector_add-again.json")
    said = subprocess.run(["bash", "-c", f"{program} {line}"], cwd=tmp_path, env=environment(), timeout=300)
    assert said.returncode == code


def test_a_closed_stderr_puts_no_message_into_a_file(tmp_path: Path) -> None:
    """The next file that is opened would have its number."""
    (tmp_path / "p.json").write_text(SAMPLE, encoding="utf-8")
    line = f"{sys.executable} -m advisor report p.json --out o 2>&- >/dev/null"
    subprocess.run(["bash", "-c", line], cwd=tmp_path, env=environment(), timeout=300, check=True)
    assert "wrote o/" not in (tmp_path / "o/report.md").read_text(encoding="utf-8")


def test_a_user_without_a_home_whose_module_shadows_none_of_the_workers(tmp_path: Path) -> None:
    (tmp_path / "importlib.py").write_text("raise SystemError('shadowed')\n", encoding="utf-8")
    program = (
        "import pwd, sys\ndef gone(*_): raise KeyError('no such user')\npwd.getpwuid = gone\n"
        "sys.path.remove('')\n"  # as it is for a command
        "from advisor.__main__ import main\nmain()"
    )
    command = [sys.executable, "-c", program, "profile", str(FILES / "counter.py"), "--no-gpu", *QUICK]
    variables = {k: v for k, v in environment().items() if k not in ("HOME", "USER", "LOGNAME")}
    said = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=300)
    assert said.returncode == 0, said.stderr


def test_ctrl_c_while_the_program_is_loaded(tmp_path: Path) -> None:
    """From where Python has read the first lines of ours."""
    started = "import sys; import advisor.__main__ as m; print('up', flush=True); m.main()"
    process = subprocess.Popen(
        [sys.executable, "-c", started, "trace", "nothing.sqlite", "--json"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=300)
    assert process.returncode in (130, 5), said  # 5 where the machine was faster
    assert "Traceback" not in said
