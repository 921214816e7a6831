"""Runs that rules' examples are of: measured ones of an H200, and those made up for the tests of a rule.

A rule's own is `tests/data/rules/<id>.json`, or stands in the tests of its kind: `EXAMPLES = {"<id>": run}`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from advisor.profiles.reading import load
from advisor.profiles.schema import Profile
from advisor.rules.advise import advise

HERE = Path(__file__).parent
MEASURED = tuple(HERE / "data" / f"h200-{name}.json" for name in ("vector_add", "reread-8"))
TESTS = tuple(sorted(path.stem for path in HERE.glob("test_rules*.py")))


def said(rule_id: str) -> list[str]:
    """What the rule advises on these runs, as its `example` has it."""
    found = (
        (told, advice)
        for told, run in _runs(rule_id)
        for advice in run.advice
        if advice.rule == rule_id and advice.outcome == "advice"
    )
    whole = [f"{told}: {advice.detail}" for told, advice in found]
    return whole or [f"camera.py, made-up figures: {detail}" for detail in _of_a_line(rule_id)]


def _of_a_line(rule_id: str) -> Iterator[str]:
    """What it says of a script's line, for rules that speak of no more."""
    lines = importlib.import_module("test_rules_lines")
    if rule_id in lines.RUNS:
        yield lines.said(lines.RUNS[rule_id], device=lines.ON.get(rule_id, lines.CARD))[rule_id].detail


def _runs(rule_id: str) -> Iterator[tuple[str, Profile]]:
    for path in MEASURED:
        yield "{0.workload.name} on {0.device.name}, measured".format(_advised(path)), _advised(path)
    path = HERE / "data" / "rules" / f"{rule_id}.json"
    own = [getattr(importlib.import_module(name), "EXAMPLES", {}).get(rule_id) for name in TESTS]
    for run in [_advised(path) if path.exists() else None, *own]:
        if run is not None:
            yield f"{run.device.name}, made-up figures", advise(run)


@cache
def _advised(path: Path) -> Profile:
    return advise(load(path))
