"""What the user asked for, checked before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from every import every
from running import asked

from advisor.configuration import parse_formats
from advisor.errors import FileProblem, UsageError
from advisor.strategies.registry import STRATEGIES


def test_file_and_name() -> None:
    assert asked("a/b.py").file == Path("a/b.py")
    assert asked("a/b.py").workload is None
    named = asked("a/b.py::two")
    assert (named.file, named.workload) == (Path("a/b.py"), "two")


@every("target", ["", "::two", "b.py::"])
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


@every(
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
    assert (made.options.rounds, made.options.seed) == (1000, 2**32 - 1)


def test_a_target_of_ones_own_that_is_missing() -> None:
    with pytest.raises(FileProblem, match=r"my\.toml does not exist"):
        asked("b.py", targets=["my.toml"])


@every(
    ("text", "formats"), [("html", ("html",)), ("json, md", ("json", "md")), ("md,md,,html", ("md", "html"))]
)
def test_formats(text: str, formats: tuple[str, ...]) -> None:
    assert parse_formats(text) == formats


@every(("text", "named"), [("pdf,html,doc", "pdf, doc"), ("", "''"), ("HTML", "HTML")])
def test_unknown_formats(text: str, named: str) -> None:
    with pytest.raises(UsageError, match=f"there is no format {named}"):
        parse_formats(text)


def test_a_path_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(UsageError, match="not valid UTF-8") as caught:
        asked("caf\udce9.py")
    assert "Rename" in caught.value.next_step
