"""The command as its users start it: what goes where, signals, terminals, pipes, hostile surroundings."""

from __future__ import annotations

import json
import os
import pty
import random
import re
import resource
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest
from builders import cpu_profile, vector_add_trace
from running import (
    FILES,
    MISBEHAVING,
    QUICK,
    REPOSITORY,
    SHORT,
    Command,
    advisor,
    environment,
    eventually,
    having,
    is_gone,
    kill_children,
    ran,
)

import advisor as package
from advisor.cli import startup
from advisor.cli.console import AROUND, Around, began
from advisor.measure.backends import Machine
from advisor.measure.options import OPTIONS
from advisor.profiles.outputs import MANIFEST
from tests.forking import Started, started

REPORTS = {"profile.json", "report.html", "report.md"}
SLOW = ("profile", str(MISBEHAVING), "--strategy", "pageable", "--strategy", "zero-copy")
ESCAPE = "\x1b"


def names(directory: Path) -> set[str]:
    """All but the list of them."""
    return {path.name for path in directory.iterdir()} - {MANIFEST}


def test_profile_in_an_empty_directory(tmp_path: Path) -> None:
    said = advisor("profile", REPOSITORY / "workloads/vector_add.py", "--set", "n=500", *SHORT, cwd=tmp_path)
    assert said.returncode == 0
    assert names(tmp_path) == {"advisor-report"}
    assert names(tmp_path / "advisor-report") == REPORTS
    assert said.stdout.startswith("vector_add: predicted. Nothing was measured on a GPU.\n")
    steps = [re.sub(r"\d+ s left", "left", line) for line in said.stderr.splitlines()[:2]]
    assert steps == ["[1] checking the workload (left)", "[2] tracing the workload (left)"]
    assert said.stderr.splitlines()[-1] == "wrote advisor-report/report.html, profile.json, report.md"
    assert len(said.stdout.splitlines()) < 25
    assert ESCAPE not in said.stdout + said.stderr
    loaded = package.load(tmp_path / "advisor-report/profile.json")
    assert loaded.command.endswith("vector_add.py --set n=500 --max-seconds 90 --rounds 1")
    assert loaded.command.startswith("advisor profile ")
    ran = {row.strategy for row in loaded.results if row.status == "measured"}
    assert ran == {"pageable", "zero-copy"}
    assert {row.status for row in loaded.results if row.strategy not in ran} == {"skipped"}
    assert len(loaded.predictions) == 3


def test_quiet_prints_results_only_and_the_summary_goes_to_github(tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n", encoding="utf-8")
    arguments = ("profile", FILES / "counter.py", "--quiet", "--format", "md", "--out", "deep/er", *QUICK)
    said = advisor(*arguments, cwd=tmp_path, GITHUB_STEP_SUMMARY=str(summary), PYTHONIOENCODING="ascii")
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.startswith("Predicted: ")
    assert (said.stdout.count("\n"), said.stdout.isascii()) == (1, True)
    assert names(tmp_path / "deep/er") == {"report.md"}
    report = (tmp_path / "deep/er/report.md").read_text(encoding="utf-8")
    assert summary.read_text(encoding="utf-8") == f"before\n{report}\n"


def test_a_gpu_without_cupy_is_told_of_unless_the_user_chose_the_cpu(command: Command) -> None:
    command.around = having(gpus=1, cupy=False)
    told = "There is a GPU but CuPy is not installed, so this run predicts.\n  next: pip install"
    assert told in command("profile", "missing.py").err
    assert "CuPy" not in command("profile", "missing.py", "--quiet").err
    assert "CuPy" not in command("profile", "missing.py", "--no-gpu").err


def test_failures_late_in_the_run_are_rows_and_predictions_stand(command: Command) -> None:
    """Frame 20 is past the frames that are checked and traced, so its failure costs measurements alone."""
    said = command(*SLOW, "--set", "how=raise", "--set", "at=20", *QUICK)
    assert said.code == 3, "every strategy ran into it: the user's code"
    assert said.error[0].startswith("error: ")
    assert re.search("(?s)next: The error is in your code: .*\nValueError: this frame is bad\n", said.err)
    loaded = package.load(Path("advisor-report/profile.json"))
    reason = (
        "the workload failed: stage 'compute' (misbehaving.py:38), frame 20: ValueError: this frame is "
        "bad; buffers: a float32 (64,), b float32 (64,)"
    )
    assert {(r.status, r.reason) for r in loaded.results} == {("failed", reason)}  # type: ignore[union-attr]
    assert "misbehaving.py" in loaded.results[0].detail  # type: ignore[union-attr]
    assert {row.status for row in loaded.predictions[0].results} == {"predicted"}
    assert "this frame is bad" in " ".join(said.out.split())


def test_report_and_predict_of_a_saved_profile(command: Command, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    saved = cpu_profile(traffic=vector_add_trace()).model_dump_json()
    (tmp_path / "sub/p.json").write_text(saved, encoding="utf-8")
    said = command("report", "sub/p.json")
    assert said.code == 0
    assert names(tmp_path / "sub") == {"p.json", "report.html", "report.md"}
    again = command("report", "sub/p.json", "--out", "other", "--format", "json", "-q")
    assert (again.code, again.err) == (0, "")
    assert again.out.splitlines()[0] in " ".join(said.out.split())
    whole = command("report", "sub/p.json", "--out", "other", "--details")
    assert len(whole.out) > len(said.out)
    assert json.loads(Path("other/profile.json").read_text())["format"] == 2
    said = command("predict", "sub/p.json", "--target", "t4", "--target", "nano", "--out", "there")
    assert (said.code, "Predicted" in said.out, names(tmp_path / "there")) == (0, True, REPORTS)
    devices = [p.device.name for p in package.load(Path("there/profile.json")).predictions]
    assert devices == ["T4", "Jetson Nano 4GB"]


@pytest.mark.parametrize("arguments", [["strategies"], ["rules"], ["rules", "zero-copy-reread"], ["--help"]])
def test_what_is_printed_fits_80_columns_and_is_complete(command: Command, arguments: list[str]) -> None:
    said = command(*arguments)
    assert (said.code, said.err) == (0, "")
    # Functions to copy are as a report has them.
    lines = said.out.partition("\nThe functions it calls:\n")[0].splitlines()
    assert max(len(line) for line in lines if "://" not in line) <= 80
    assert not [line for line in lines if line.endswith("...") and "Usage" not in line]
    expected = {
        "strategies": ["pageable:", "pinned:", "zero-copy:", "managed:"],
        "rules": ["zero-copy-reread"],
        "--help": ["profile", "report", "strategies", "rules", "--version", "interrupted", "broken pipe"],
    }[arguments[0]]
    assert all(word in said.out for word in expected)


def test_the_help_of_profile_groups_all_options_with_defaults_and_limits(command: Command) -> None:
    said = command("profile", "--help")
    lines = said.out.splitlines()
    assert max(map(len, lines)) <= 80
    titles = [line.rstrip(":") for line in lines if re.fullmatch(r"[A-Z].*:", line)]
    assert titles == [*dict.fromkeys(option.panel for option in OPTIONS.values()), "Options"]
    text = " ".join(said.out.split())
    for option in OPTIONS.values():
        assert (option.metavar if option.positional else f"--{option.key}") in text
        assert not option.facts or option.positional or f"[{option.facts}]" in text.replace("- ", "-")
    fleet = command("fleet", "--help").out.split()
    assert not {"--try", "--check", "--apply", "--save", "--frame", "-m,"} & set(fleet), "of scripts"
    assert "1 to 256" in " ".join(fleet)


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    """Of a command's own help typer itself may import pydantic."""
    code = (
        "import sys\nfrom advisor.cli.app import main\n"
        "try: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    )
    for arguments, heavy in ((["--help"], {"pydantic"}), (["profile", "--help"], set())):
        said = ran([sys.executable, "-c", code, *arguments], tmp_path)
        assert said.stdout.startswith("Usage: ")
        assert ({"numpy", "rich", "jinja2"} | heavy) & set(said.stderr.split()) == set()


def test_a_bug_shows_its_traceback(command: Command) -> None:
    """And is not taken for a gate that failed, which is 1."""
    command.around = Around(machine=Machine(gpus=Mock(side_effect=RuntimeError("a bug"))))
    said = command("profile", FILES / "counter.py")
    assert (said.code, said.out) == (70, "")
    assert said.err.startswith("Traceback")
    assert "RuntimeError: a bug\n" in said.err


ADVISOR = [sys.executable, "-m", "advisor"]


@contextmanager
def begun(
    command: list[str], directory: Path, *arguments: str, temporary: Path | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A command in a process group of its own, as a shell starts it; none of it is left afterwards."""
    process = subprocess.Popen(
        [*command, *arguments],
        cwd=directory,
        env=environment(TMPDIR=str(temporary or directory)),  # a parent that is killed cannot clear it
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            kill_children(process.pid)
        process.kill()
        process.communicate()


def at_work_on(process: subprocess.Popen[str] | Started, label: str) -> psutil.Process:
    """The worker that is at work on the process of that label."""
    found: list[psutil.Process] = []

    def look() -> bool:
        with suppress(psutil.Error, OSError, ValueError):  # not yet begun, or it ends while it is looked at
            parent = process.running() if isinstance(process, Started) else psutil.Process(process.pid)
            if any(Path(parent.cwd()).rglob(f"{label}/job.json")):
                # Forked by a server, so its command line is the server's.
                found.extend(forked for server in parent.children() for forked in server.children())
        return bool(found)

    assert eventually(look), f"no worker at {label}"
    return found[0]


HANGING = [*SLOW, "--set", "how=hang", "--set", "at=20", "--set", "only_shared=true", *QUICK, "--seed"]
SEEDS = (n for n in range(20) if random.Random(n).sample(["pageable", "zero-copy"], 2)[0] == "pageable")
HANGING.append(str(next(SEEDS)))
"""Measures pageable, then hangs in zero-copy."""


@pytest.mark.parametrize(("number", "whole_group"), [(signal.SIGINT, True), (signal.SIGHUP, False)])
def test_ctrl_c_keeps_what_was_measured(tmp_path: Path, number: signal.Signals, whole_group: bool) -> None:
    command = ADVISOR if whole_group else started().command
    with begun(command, tmp_path, *HANGING) as process:
        worker = at_work_on(process if whole_group else started(), "zero-copy-1")
        (os.killpg if whole_group else os.kill)(process.pid, number)
        out, err = process.communicate(timeout=300)
    assert process.returncode == 130, err
    assert is_gone(worker.pid)
    assert "1 of 2" in out
    assert "Traceback" not in err
    assert names(tmp_path / "advisor-report") == REPORTS
    loaded = package.load(tmp_path / "advisor-report/profile.json")
    assert [row.status for row in loaded.results] == ["measured", "skipped"]
    assert {row.status for row in loaded.predictions[0].results} == {"predicted"}


def test_ctrl_c_before_the_first_figures_leaves_nothing_behind(tmp_path: Path) -> None:
    with begun(started().command, tmp_path, *SLOW, "--set", "how=hang", *QUICK) as process:
        worker = at_work_on(started(), "reference")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1].startswith("interrupted: ")
    assert is_gone(worker.pid)
    assert names(tmp_path) == set()


def test_ctrl_c_while_concluding_says_where_the_figures_are(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("advisor.pipeline.conclude", Mock(side_effect=KeyboardInterrupt))
    said = command("profile", FILES / "counter.py", *QUICK)
    assert (said.code, said.out) == (130, "")
    assert "advisor report advisor-report/profile.partial.json" in said.err.splitlines()[-1]
    assert len(package.load(Path("advisor-report/profile.partial.json")).measured()) == 2
    said = command("profile", FILES / "counter.py", "--strategy", "pinned", *QUICK)
    assert "nothing was measured" in said.err


def test_ctrl_c_while_an_error_is_told_ends_the_command(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", Mock(write=Mock(side_effect=KeyboardInterrupt)))
    assert command("report", "none.json").code == 130


def test_ctrl_c_in_a_text_that_exec_runs_has_its_exit_code_too(tmp_path: Path) -> None:
    act = "exec('import os; os.kill(os.getpid(), 2)')"
    (tmp_path / "m.py").write_text(f"from advisor.cli import app; app.app = lambda **_: {act}; app.main()")
    assert ran([sys.executable, "-m", "m"], tmp_path).returncode == 130


def test_a_killed_parent_leaves_no_child_and_what_was_measured(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    with begun(ADVISOR, tmp_path, *HANGING, "--set", f"note={note}") as process:
        assert eventually(lambda: note.exists() and note.read_text() != "")
        worker = int(note.read_text())
        assert not is_gone(worker)
        process.kill()
        process.wait(timeout=300)
        assert eventually(lambda: is_gone(worker))
        assert eventually(lambda: not list(tmp_path.glob("advisor-*/advisor.lock"))), "jobs tell parameters"
    assert names(tmp_path / "advisor-report") == {"profile.partial.json"}
    partial = package.load(tmp_path / "advisor-report/profile.partial.json")
    assert [row.status for row in partial.results] == ["measured", "skipped"]
    rendered = advisor("report", "advisor-report/profile.partial.json", cwd=tmp_path)
    assert rendered.returncode == 0


def in_a_terminal(directory: Path, *arguments: str, **variables: str) -> str:
    """What an 80 column terminal gets to see."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(directory)
        given = {"TERM": "xterm", "COLUMNS": "80", "LINES": "24", **variables}
        os.execvpe(sys.executable, [sys.executable, "-m", "advisor", *arguments], environment(**given))
    seen = b""
    with suppress(OSError):  # at its end
        while select.select([terminal], [], [], 300)[0] and (part := os.read(terminal, 65536)):
            seen += part
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    return seen.decode()


def test_a_terminal_shows_a_bar_with_the_strategy_at_work_and_no_color_if_unwanted(tmp_path: Path) -> None:
    """It is drawn ten times a second: which steps are seen depends on the load."""
    text = in_a_terminal(tmp_path, "profile", str(FILES / "counter.py"), *QUICK, NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", text)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    lines = [line.rstrip() for line in re.split(r"[\r\n]+", plain)]
    assert max(map(len, lines)) <= 80
    bars = [line for line in lines if line.endswith(" left")]
    steps = r"(checking the workload|tracing it|(pageable|zero-copy), round \d) +\S* "
    assert any(re.match(steps, line) for line in bars), bars
    assert not any(line.startswith("[") for line in lines)


def test_a_reader_that_goes_away_is_no_gate(tmp_path: Path) -> None:
    program = shlex.join(started().command)  # it begins once the pipe has no reader
    line = f"set -o pipefail; mkfifo go; (read -r < go; {program} rules) | (exec <&-; echo > go)"
    said = ran(["bash", "-c", line], tmp_path)
    assert (said.returncode, said.stderr) == (141, "")


# Surroundings that Python or the shell would not survive


@pytest.mark.parametrize(
    ("modules", "in_path", "code"),
    [(["numpy"], True, 2), (["asyncio"], True, 5), (["json", "numpy", "typer"], False, 5)],
    ids=["needed", "needed by no part of this command", "in the working directory"],
)
def test_a_module_that_hides_another_is_named(
    modules: list[str], in_path: bool, code: int, tmp_path: Path
) -> None:
    for module in modules:
        (tmp_path / f"{module}.py").write_text("raise RuntimeError('shadow')")
    folders = f"{tmp_path}:{REPOSITORY}" if in_path else str(REPOSITORY)
    said = advisor("report", "p.json", cwd=tmp_path, PYTHONPATH=folders)
    assert (said.returncode, "Traceback" in said.stderr) == (code, False), said.stderr
    assert (f"{modules[0]}.py' in PYTHONPATH hides a module" in said.stderr) == (code == 2)


def test_an_installation_in_pythonpath_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its metadata beside it, as pip --target and environment modules leave it."""
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy/__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert "numpy" in startup.hidden()[0]
    (tmp_path / "numpy-2.0.0.dist-info").mkdir()
    assert startup.hidden() == ("", "")


def test_completion_itself() -> None:
    words = {"COMP_WORDS": "advisor pro", "COMP_CWORD": "1"}
    for value, more, expected in (
        ("complete_bash", words, True),
        ("complete_bash", {}, False),
        ("complete_zsh", {"_TYPER_COMPLETE_ARGS": "advisor "}, True),
        ("source_fish", {}, True),
        ("source_none", {}, False),
    ):
        assert startup.is_completion([], {"_ADVISOR_COMPLETE": value, **more}) is expected
    assert not startup.is_completion(["report"], {"_ADVISOR_COMPLETE": "complete_bash", **words})


@pytest.mark.parametrize(
    ("limit", "value", "says"),
    [
        (resource.RLIMIT_NOFILE, 12, "the limit on open files is 12; advisor needs 32"),
        (resource.RLIMIT_STACK, 100 << 10, "the limit on the stack is 102400 bytes; advisor needs 131072"),
    ],
)
def test_limits(limit: int, value: int, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert startup.obstacle() == ("", "")
    real = resource.getrlimit
    monkeypatch.setattr(resource, "getrlimit", lambda of: (value, value) if of == limit else real(of))
    assert startup.obstacle()[0] == says


def test_the_time_of_a_command_begins_with_its_process_or_now(monkeypatch: pytest.MonkeyPatch) -> None:
    AROUND.set(Around())  # commands of other tests began then
    now = time.monotonic()
    assert now - 86_400 < began() < now
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: "")
    assert began() >= now


def test_ctrl_c_is_taken_over_before_anything_slow_is_imported() -> None:
    """Until then Python itself would show a traceback; `import advisor` is part of the command's start."""
    text = f"import sys; sys.path.append({str(REPOSITORY)!r}); import advisor.__main__; print(*sys.modules)"
    command = [sys.executable, "-I", "-S", "-c", text]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not set(said.stdout.split()) & {"typing", "contextlib", "importlib", "re", "difflib"}
