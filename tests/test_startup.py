"""Surroundings that Python or the shell would not survive: one message, and the right exit code."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from running import FILES, QUICK, REPOSITORY, environment

from advisor.cli import startup

PROFILE = ("profile", str(FILES / "counter.py"), "--no-gpu", *QUICK, "--quiet")


def started(cwd: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "advisor", *arguments]
    told = {"PYTHONPATH": str(REPOSITORY), **variables}
    return subprocess.run(
        command, cwd=cwd, env=environment(**told), stdin=subprocess.DEVNULL, capture_output=True, text=True
    )


@pytest.mark.parametrize("module", ["numpy", "asyncio"])
def test_a_module_that_hides_another_is_named(module: str, tmp_path: Path) -> None:
    (tmp_path / f"{module}.py").write_text("raise RuntimeError('shadow')")
    said = started(tmp_path, "report", "p.json", PYTHONPATH=f"{tmp_path}:{REPOSITORY}")
    if module == "asyncio":  # nothing of what this command does needs it
        assert said.returncode == 5, said.stderr
        return
    assert said.returncode == 2, said.stderr
    assert f"{module}.py' in PYTHONPATH hides a module" in said.stderr
    assert "Traceback" not in said.stderr


def test_an_installation_in_pythonpath_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its metadata beside it, as pip --target and environment modules leave it."""
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy/__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert "numpy" in startup.hidden()[0]
    (tmp_path / "numpy-2.0.0.dist-info").mkdir()
    assert startup.hidden() == ("", "")


def test_modules_of_the_working_directory_hide_nothing(tmp_path: Path) -> None:
    for module in ("json", "numpy", "typer"):
        (tmp_path / f"{module}.py").write_text("raise RuntimeError('shadow')")
    assert started(tmp_path, "report", "p.json").returncode == 5


def test_inspecting_changes_no_exit_code(tmp_path: Path) -> None:
    said = started(tmp_path, "report", "p.json", PYTHONINSPECT="1")
    assert (said.returncode, "Traceback" in said.stderr) == (5, False)


@pytest.mark.parametrize("value", ["x", "complete_bash"])
def test_a_completion_variable_of_somebody_else_is_ignored(value: str, tmp_path: Path) -> None:
    said = started(tmp_path, "--version", _ADVISOR_COMPLETE=value)
    assert (said.returncode, said.stdout.split()[0]) == (0, "advisor"), said


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


def test_ctrl_c_is_taken_over_before_anything_slow_is_imported() -> None:
    """Until then Python itself would show a traceback; `import advisor` is part of the command's start."""
    text = f"import sys; sys.path.append({str(REPOSITORY)!r}); import advisor.__main__; print(*sys.modules)"
    command = [sys.executable, "-I", "-S", "-c", text]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not set(said.stdout.split()) & {"typing", "contextlib", "importlib", "re", "difflib"}
