"""The rules as text for a terminal: the list, and one explained with an example of what it says.

The examples are made from committed profiles by the rules themselves (`make rules-examples`).
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

from advisor import units
from advisor.profiles.schema import MemoryClass
from advisor.rules.base import Rule, Threshold

WIDTH = 80
PATH = Path(__file__).with_name("examples.json")


def overview(rules: Sequence[Rule]) -> str:
    """Each rule in a few lines: id, what to do, the memory classes it speaks of."""
    entries = [
        "\n".join(
            (
                *textwrap.wrap(f"{rule.id}: {rule.title}", WIDTH, subsequent_indent="    ", **_WHOLE),
                *textwrap.wrap(f"on {_classes(rule)}", WIDTH, initial_indent="    ", **_INDENTED),
            )
        )
        for rule in rules
    ]
    return "\n".join(entries)


def describe(rule: Rule) -> str:
    """All there is to say of a rule, as plain text of 80 columns."""
    example = examples().get(rule.id)
    parts = [
        rule.id,
        rule.title,
        "",
        *textwrap.wrap(rule.why, WIDTH, **_WHOLE),
        "",
        *_item("Applies to", _classes(rule)),
        *_item("Elsewhere", rule.elsewhere),
        *_requires(rule),
        "",
        *(["Thresholds"] if rule.thresholds else ["No thresholds"]),
        *(line for threshold in rule.thresholds for line in _bullet(_threshold(threshold))),
        *_how_to_set(rule),
        "",
        *([*_example(example), ""] if example else []),
        "Sources",
        *(line for source in rule.sources for line in _bullet(source)),
    ]
    return "\n".join(parts) + "\n"


def examples() -> dict[str, dict[str, Any]]:
    """What each rule says of a committed profile, by its id."""
    made: dict[str, dict[str, Any]] = json.loads(PATH.read_text(encoding="utf-8"))["rules"]
    return made


def _example(example: dict[str, Any]) -> Iterator[str]:
    yield from _item("Example, from", example["from"])
    told = f"{example['title']}. {example['detail']}"
    yield from textwrap.wrap(told, WIDTH, initial_indent="  ", subsequent_indent="  ", **_WHOLE)
    if example["gain"]:
        gain = f"Gain: {example['gain']}"
        yield from textwrap.wrap(gain, WIDTH, initial_indent="  ", subsequent_indent="    ", **_WHOLE)
    for figure in example["evidence"]:
        yield from _bullet(figure)


def _requires(rule: Rule) -> Iterator[str]:
    names = [one if isinstance(one, str) else one.example for one in rule.requires]
    if names:
        yield from _item("Requires figures of", ", ".join(names))


def _how_to_set(rule: Rule) -> Iterator[str]:
    if rule.thresholds:
        first = rule.thresholds[0]
        yield from _item("Set them with", f"--rule {rule.id}.{first.name}=VALUE, or in advisor.toml")
    yield from _item("Silence it with", f"--ignore {rule.id}")


def _classes(rule: Rule) -> str:
    every = set(rule.memory_classes) == set(get_args(MemoryClass))
    return "all memory classes" if every else ", ".join(rule.memory_classes)


def _threshold(threshold: Threshold) -> str:
    value = written(threshold, threshold.default)
    return f"{threshold.name} = {value}: {threshold.meaning}. Source: {threshold.source}"


def written(threshold: Threshold, value: float) -> str:
    """A value of the threshold with its unit: 4.00 MiB, 0.1, 1.5 s."""
    if threshold.unit == "bytes":
        return units.size(value) if math.isfinite(value) else str(value)
    return f"{value:g}" + {"seconds": " s", "bytes_per_second": " bytes/s"}.get(threshold.unit, "")


_WHOLE: dict[str, Any] = {"break_on_hyphens": False, "break_long_words": False}
_INDENTED: dict[str, Any] = {**_WHOLE, "subsequent_indent": "    "}


def _item(label: str, text: str) -> list[str]:
    return textwrap.wrap(f"{label}: {text}", WIDTH, subsequent_indent="  ", **_WHOLE)


def _bullet(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="  - ", **_INDENTED)
