"""What the shell completes values to, through the program's own completion."""

from __future__ import annotations

from pathlib import Path

import pytest
from running import REPOSITORY, advisor

from advisor.cli import completion
from advisor.cli.completion import VALUES
from advisor.measure.options import OPTIONS
from advisor.workloads import outline

FILE = """\
import advisor
from advisor import workload

@workload
def first(height: int = 1 << 10, width: int = 640, fast: bool = True, *, mode: str = "soft") -> None: ...
@advisor.workload
def second(n: int, share: float = -0.5, made: int = len("abc"), most: int = 1 // 0) -> None: ...
def other(): ...
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("w.py").write_text(FILE, encoding="utf-8")
    Path("wide").mkdir()
    Path("mine.toml").touch()
    return Path("w.py")


def test_the_outline_of_a_file_is_read_and_not_run(file: Path) -> None:
    assert outline.workloads(file) == {
        "first": {"height": 1024, "width": 640, "fast": True, "mode": "soft"},
        "second": {"share": -0.5},
    }
    assert outline.defaults_of("w.py::second") == {"share": -0.5}
    assert outline.defaults_of("w.py")["height"] == 1024
    assert outline.workloads(Path("gone.py")) == outline.defaults_of("gone.py::x") == {}
    file.write_text("def (", encoding="utf-8")
    assert outline.workloads(file) == {}


@pytest.mark.parametrize(
    ("option", "begun", "expected"),
    [
        ("workload", "w", ["w.py", "wide/"]),
        ("workload", "w.py::", ["w.py::first", "w.py::second"]),
        ("workload", "w.py::s", ["w.py::second"]),
        ("strategies", "pinned-", ["pinned-pipelined"]),
        ("targets", "rtx-40", ["rtx-4060-laptop", "rtx-4070", "rtx-4090"]),
        ("targets", "m", ["mine.toml"]),
        ("ignore", "implicit", ["implicit-wait"]),
        ("rules", "implicit-wait.s", ["implicit-wait.seconds=", "implicit-wait.share="]),
        ("objective", "l", ["latency-p99"]),
        ("trace", "", ["nsys", "chrome"]),
    ],
)
def test_values_of_options(option: str, begun: str, expected: list[str], file: Path) -> None:
    assert VALUES[option](begun) == expected


def test_examples_complete() -> None:
    assert completion.examples("vector") == ["vector_add"]


def test_each_value_belongs_to_an_option() -> None:
    assert set(VALUES) <= set(OPTIONS)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("profile w.py --set h", ["height="]),
        ("profile w.py::second --sweep s", ["share="]),
        ("profile w.py --strategy zero-copy-", ["zero-copy-registered", "zero-copy-wc"]),
        ("rules pin-", ["pin-per-frame"]),
        ("devices show orin-nx", ["orin-nx", "orin-nx-8gb"]),
        ("devices l", ["list"]),
    ],
)
def test_a_shell_asks_the_program(words: str, expected: list[str], file: Path) -> None:
    line = f"advisor {words}"
    place = str(len(line.split()) - 1)
    around = {"COMP_WORDS": line, "COMP_CWORD": place, "_ADVISOR_COMPLETE": "complete_bash"}
    done = advisor(cwd=Path.cwd(), **around)
    assert sorted(done.stdout.split()) == expected, done.stderr


def test_devices_list_is_devices() -> None:
    assert advisor("devices", "list", cwd=REPOSITORY).stdout == advisor("devices", cwd=REPOSITORY).stdout
