"""Surroundings that Python or the shell would not survive: one message, and the right exit code."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from running import REPOSITORY, environment

from advisor.cli import startup


def started(cwd: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "advisor", *arguments]
    return subprocess.run(
        command,
        cwd=cwd,
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


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
    said = started(tmp_path, "report", "p.json", PYTHONPATH=folders)
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


def test_ctrl_c_is_taken_over_before_anything_slow_is_imported() -> None:
    """Until then Python itself would show a traceback; `import advisor` is part of the command's start."""
    text = f"import sys; sys.path.append({str(REPOSITORY)!r}); import advisor.__main__; print(*sys.modules)"
    command = [sys.executable, "-I", "-S", "-c", text]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not set(said.stdout.split()) & {"typing", "contextlib", "importlib", "re", "difflib"}
