"""What the user asked for, checked before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from running import asked

from advisor.configuration import output_directory, parse_formats
from advisor.errors import FileProblem, UsageError
from advisor.strategies.registry import STRATEGIES


def test_file_and_name() -> None:
    assert asked("a/b.py").file == Path("a/b.py")
    assert asked("a/b.py").workload is None
    named = asked("a/b.py::two")
    assert (named.file, named.workload) == (Path("a/b.py"), "two")


@pytest.mark.parametrize("target", ["", "::two", "b.py::"])
def test_neither_file_nor_name(target: str) -> None:
    with pytest.raises(UsageError, match="is not FILE or FILE::NAME"):
        asked(target)


def test_a_cpu_run_predicts_the_default_devices_unless_told_which() -> None:
    assert (asked("b.py").targets, asked("b.py").targets_under) == ((), "linux")
    assert asked("b.py", target_os="windows").targets_under == "windows"
    assert asked("b.py", backend="cuda").targets_under is None
    assert asked("b.py", targets=["h200"]).targets_under is None
    chosen = asked("b.py", backend="cuda", targets=["h200", "orin-nano", "h200"])
    assert [target.origin for target in chosen.targets] == ["h200", "orin-nano"]


def test_strategies_stand_in_the_order_of_the_table() -> None:
    assert asked("b.py").strategies == STRATEGIES
    chosen = asked("b.py", strategies=["zero-copy", "pageable", "zero-copy"])
    assert [strategy.name for strategy in chosen.strategies] == ["pageable", "zero-copy"]


@pytest.mark.parametrize(
    "options",
    [
        {"rounds": 0},
        {"rounds": 1001},
        {"max_seconds": 0.0},
        {"max_seconds": float("nan")},
        {"timeout": float("inf")},
        {"timeout": -1.0},
        {"seed": -1},
        {"seed": 2**32},
        {"strategies": ["pinnd"]},
        {"targets": ["no-such-device"]},
        {"parameters": ["n"]},
    ],
)
def test_what_is_out_of_range_or_unknown(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as raised:
        asked("b.py", **options)
    assert raised.value.next_step


def test_the_ends_of_the_ranges_are_allowed() -> None:
    made = asked("b.py", rounds=1000, seed=2**32 - 1, max_seconds=1e-3, timeout=1e6)
    assert (made.rounds, made.seed) == (1000, 2**32 - 1)


def test_a_target_of_ones_own_that_is_missing() -> None:
    with pytest.raises(FileProblem, match=r"my\.toml does not exist"):
        asked("b.py", targets=["my.toml"])


@pytest.mark.parametrize(
    ("text", "formats"),
    [("html", ("html",)), ("json, md", ("json", "md")), ("md,md,,html", ("md", "html"))],
)
def test_formats(text: str, formats: tuple[str, ...]) -> None:
    assert parse_formats(text) == formats


@pytest.mark.parametrize(("text", "named"), [("pdf,html,doc", "pdf, doc"), ("", "''"), ("HTML", "HTML")])
def test_unknown_formats(text: str, named: str) -> None:
    with pytest.raises(UsageError, match=f"there is no format {named}"):
        parse_formats(text)


def test_the_output_directory_is_made_with_its_parents(tmp_path: Path) -> None:
    with output_directory(tmp_path / "a/b") as directory:
        assert list(directory.iterdir()) == []
        (directory / "report.md").write_text("x")
    assert (tmp_path / "a/b/report.md").exists()


def test_empty_directories_it_made_are_taken_away_again(tmp_path: Path) -> None:
    with pytest.raises(ValueError), output_directory(tmp_path / "a/b"):
        raise ValueError
    assert list(tmp_path.iterdir()) == []


def test_an_empty_directory_of_the_users_stays(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    with output_directory(tmp_path / "mine"):
        pass
    with output_directory(tmp_path / "mine/new"):
        pass
    assert list(tmp_path.rglob("*")) == [tmp_path / "mine"]


@pytest.mark.parametrize("name", ["file", "file/below", "x" * 300])
def test_an_output_directory_that_cannot_be(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UsageError, match="cannot be written"), output_directory(tmp_path / name):
        pass
    assert (tmp_path / "file").read_text() == "in the way"


def test_a_directory_that_exists_and_takes_no_files() -> None:
    with pytest.raises(UsageError, match="--out /proc cannot be written"), output_directory(Path("/proc")):
        pass


def test_a_path_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(UsageError, match="not valid UTF-8") as caught:
        asked("caf\udce9.py")
    assert "Rename" in caught.value.next_step
