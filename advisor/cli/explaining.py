"""The rules as text for a terminal: the list, and one explained with an example of what it says."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, get_args

from advisor.profiles.schema import MemoryClass
from advisor.rules.base import Rule
from advisor.rules.snippets.base import opening
from advisor.rules.texts import Threshold

WIDTH = 80


def overview(rules: Sequence[Rule]) -> str:
    entries = [
        "\n".join(
            (
                *textwrap.wrap(f"{rule.id}: {rule.text.title}", WIDTH, subsequent_indent="    ", **_WHOLE),
                *textwrap.wrap(f"on {_classes(rule)}", WIDTH, initial_indent="    ", **_INDENTED),
            )
        )
        for rule in rules
    ]
    return "\n".join(entries)


def describe(rule: Rule) -> str:
    needed = [one if isinstance(one, str) else one.example for one in rule.requires]
    names = [threshold.name for threshold in rule.text.thresholds]
    parts = [
        rule.id,
        rule.text.title,
        "",
        *_explanation(rule.text.explanation),
        "",
        *_item("Applies to", _classes(rule)),
        *([] if _is_general(rule) else _item("Elsewhere", rule.text.elsewhere)),
        *(_item("Needs figures for", ", ".join(needed)) if needed else []),
        "",
        *(["Thresholds"] if rule.text.thresholds else ["No thresholds"]),
        *(line for threshold in rule.text.thresholds for line in _bullet(_threshold(threshold))),
        *(_item("Set them with", f"--rule {rule.id}.{names[0]}=VALUE, or in advisor.toml") if names else []),
        *_item("Silence it with", f"--ignore {rule.id}"),
        "",
        *_item("Example", rule.text.example),
        "",
        *_code("Bad", rule.text.bad),
        *_code("Good", rule.text.good),
        *_code("The functions it calls", opening(rule.text.bad + rule.text.good)),
        "Sources",
        *(line for source in rule.text.sources for line in _bullet(source)),
    ]
    return "\n".join(parts) + "\n"


def _explanation(text: str) -> Iterator[str]:
    """Its paragraphs, a blank line between them; items of a list stay items."""
    for number, paragraph in enumerate(text.split("\n\n")):
        if number:
            yield ""
        for item in paragraph.split("\n- "):
            listed = paragraph.startswith("- ")
            words = " ".join(item.removeprefix("- ").split())
            yield from _bullet(words) if listed else textwrap.wrap(words, WIDTH, **_WHOLE)


def _code(label: str, code: str) -> Iterator[str]:
    if code:
        yield from (label, "", textwrap.indent(code.rstrip(), "    "), "")


def _is_general(rule: Rule) -> bool:
    return set(rule.text.memory_classes) == set(get_args(MemoryClass))


def _classes(rule: Rule) -> str:
    return "all memory classes" if _is_general(rule) else ", ".join(rule.text.memory_classes)


def _threshold(threshold: Threshold) -> str:
    value = threshold.written(threshold.default)
    return f"{threshold.name} = {value}: {threshold.meaning}. Source: {threshold.source}"


_WHOLE: dict[str, Any] = {"break_on_hyphens": False, "break_long_words": False}
_INDENTED: dict[str, Any] = {**_WHOLE, "subsequent_indent": "    "}


def _item(label: str, text: str) -> list[str]:
    return textwrap.wrap(f"{label}: {text}", WIDTH, subsequent_indent="  ", **_WHOLE)


def _bullet(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="  - ", **_INDENTED)
