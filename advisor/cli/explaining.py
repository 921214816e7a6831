"""The rules as text for a terminal: the list, and one explained with an example of what it says."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, get_args

from advisor.profiles.schema import MemoryClass
from advisor.rules.base import Rule, Threshold
from advisor.rules.registry import examples
from advisor.rules.snippets.helpers import opening

WIDTH = 80


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
    names = [one if isinstance(one, str) else one.example for one in rule.requires]
    parts = [
        rule.id,
        rule.title,
        "",
        *textwrap.wrap(rule.why, WIDTH, **_WHOLE),
        "",
        *_item("Applies to", _classes(rule)),
        *_item("Elsewhere", rule.elsewhere),
        *(_item("Needs figures for", ", ".join(names)) if names else []),
        "",
        *(["Thresholds"] if rule.thresholds else ["No thresholds"]),
        *(line for threshold in rule.thresholds for line in _bullet(_threshold(threshold))),
        *_how_to_set(rule),
        "",
        *_item("Example", examples()[rule.id]),
        "",
        *_code("Bad", rule.bad),
        *_code("Good", rule.good),
        *_code("The functions it calls", opening(rule.bad + rule.good)),
        "Sources",
        *(line for source in rule.sources for line in _bullet(source)),
    ]
    return "\n".join(parts) + "\n"


def _code(label: str, code: str) -> Iterator[str]:
    if code:
        yield from (label, "", textwrap.indent(code.rstrip(), "    "), "")


def _requires(rule: Rule) -> Iterator[str]:
    names = [one if isinstance(one, str) else one.example for one in rule.requires]
    if names:
        yield from _item("Needs figures for", ", ".join(names))


def _how_to_set(rule: Rule) -> Iterator[str]:
    if rule.thresholds:
        first = rule.thresholds[0]
        yield from _item("Set them with", f"--rule {rule.id}.{first.name}=VALUE, or in advisor.toml")
    yield from _item("Silence it with", f"--ignore {rule.id}")


def _classes(rule: Rule) -> str:
    every = set(rule.memory_classes) == set(get_args(MemoryClass))
    return "all memory classes" if every else ", ".join(rule.memory_classes)


def _threshold(threshold: Threshold) -> str:
    value = threshold.written(threshold.default)
    return f"{threshold.name} = {value}: {threshold.meaning}. Source: {threshold.source}"


_WHOLE: dict[str, Any] = {"break_on_hyphens": False, "break_long_words": False}
_INDENTED: dict[str, Any] = {**_WHOLE, "subsequent_indent": "    "}


def _item(label: str, text: str) -> list[str]:
    return textwrap.wrap(f"{label}: {text}", WIDTH, subsequent_indent="  ", **_WHOLE)


def _bullet(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="  - ", **_INDENTED)
