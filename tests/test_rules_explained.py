"""`advisor rules` and `advisor rules ID`: every rule in the list, each with an example of what it says."""

from __future__ import annotations

from pathlib import Path

import pytest
import rule_examples
from running import Command

from advisor.cli.explaining import describe, overview
from advisor.rules.base import Rule, Threshold
from advisor.rules.registry import RULES, by_id


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    return Command(monkeypatch, capsys)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_the_example_is_what_the_rule_says_of_a_run(rule: Rule) -> None:
    assert rule.example in rule_examples.said(rule.id)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_rule_is_explained_with_an_example(rule: Rule) -> None:
    text = describe(rule)
    flat = " ".join(text.split())
    assert f"Example: {rule.example} Sources" in flat
    for threshold in rule.thresholds:
        assert f"- {threshold.name} = {threshold.written(threshold.default)}: {threshold.meaning}" in flat
    assert f"--ignore {rule.id}" in flat
    assert ("--rule" in flat) == bool(rule.thresholds)
    assert ("No thresholds" in flat) != bool(rule.thresholds)
    long = [line for line in text.splitlines() if len(line) > 80 and "http" not in line]
    assert long == []


def test_what_a_rule_requires_is_told() -> None:
    assert "Requires figures of: zero-copy, pinned\n" in describe(by_id("zero-copy-uncoalesced"))
    assert "Requires" not in describe(by_id("host-bound-frame"))


def test_measured_and_made_up_examples_are_told_apart() -> None:
    real = {rule.id for rule in RULES if " on NVIDIA H200, measured: " in rule.example}
    assert {"pageable-transfer", "zero-copy-reread", "serial-copies"} <= real
    made_up = [rule.example for rule in RULES if rule.id not in real]
    assert made_up
    assert all(", made-up figures: " in text for text in made_up)


def test_the_list_has_every_rule_with_its_classes(command: Command) -> None:
    said = command("rules")
    assert said.code == 0
    assert said.out == overview(RULES) + "\n"
    assert max(map(len, said.out.splitlines())) <= 80
    flat = " ".join(said.out.split())
    for rule in RULES:
        assert f"{rule.id}: {rule.title}" in flat
    assert "on discrete, discrete-hmm, coherent" in flat
    assert "on all memory classes" in flat


@pytest.mark.parametrize(
    ("given", "near"), [("zero-copy-rered", "zero-copy-reread"), ("pageable", "pageable-transfer"), ("", "")]
)
def test_an_unknown_rule_offers_the_nearest(command: Command, given: str, near: str) -> None:
    said = command("rules", given)
    assert said.code == 2
    assert f"there is no rule {given!r}" in said.err
    assert near in said.err
    assert "pageable-transfer" in said.err


@pytest.mark.parametrize(
    ("unit", "value", "text"),
    [("bytes", 4 << 20, "4.00 MiB"), ("bytes", float("inf"), "inf"), ("seconds", 1e-5, "1e-05 s")],
)
def test_a_threshold_is_written_with_its_unit(unit: str, value: float, text: str) -> None:
    assert Threshold("x", 1.0, unit, "", "").written(value) == text  # type: ignore[arg-type]
