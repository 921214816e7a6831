"""The text of a rule: `advisor/rules/<id>.md`, from which `advisor rules ID` and docs/rules.md are made.

The file begins with TOML between lines of +++: title, sources, thresholds, and why the rule is silent
`elsewhere`. Then come the explanation and the sections Bad, Good and Example.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor import units
from advisor.profiles.conclusions import Unit

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FRAME_SHARE: Mapping[str, Any] = {
    "default": 0.10,
    "unit": "ratio",
    "high": 1.0,
    "source": "Amdahl's law: removing 10 % makes a frame at most 1.11 times as fast",
}
"""The threshold that several rules share: the part of a frame (`Row.part`) that is worth a change."""
_SECTIONS = re.compile(
    r"\+\+\+\n(?P<data>.*?)\n\+\+\+\n(?P<explanation>.*?)\n## Bad\n\n```python\n(?P<bad>.*?)\n```\n\n"
    r"## Good\n\n```python\n(?P<good>.*?)\n```\n\n## Example\n(?P<example>.*)",
    re.DOTALL,
)


@dataclass(frozen=True)
class Threshold:
    """A named number that a rule decides by, and where it comes from."""

    name: str
    default: float
    unit: Unit
    meaning: str
    source: str
    low: float = 0.0
    high: float = math.inf
    """The least and the greatest that a user may set it to."""

    def written(self, value: float) -> str:
        """A value of it with its unit: 4.00 MiB, 0.1, 1.5 s."""
        if self.unit == "bytes":
            return units.size(value) if math.isfinite(value) else str(value)
        return f"{value:g}" + {"seconds": " s", "bytes_per_second": " bytes/s"}.get(self.unit, "")


@dataclass(frozen=True)
class RuleText:
    """What a rule says of itself. `bad` and `good` are a few lines of Python, `example` one finding."""

    title: str
    sources: tuple[str, ...]
    thresholds: tuple[Threshold, ...]
    elsewhere: str
    explanation: str
    bad: str
    good: str
    example: str


def path(rule_id: str) -> Path:
    """The file of that rule."""
    return Path(__file__).with_name(f"{rule_id.replace('-', '_')}.md")


def read(rule_id: str) -> RuleText:
    """The text of that rule. Raises ValueError where its file is not of the form above."""
    found = _SECTIONS.fullmatch(path(rule_id).read_text(encoding="utf-8"))
    if found is None:
        raise ValueError(f"{path(rule_id).name} does not have the sections of a rule's text")
    data = tomllib.loads(found["data"])
    thresholds = data.get("thresholds", {}).items()
    return RuleText(
        title=data["title"],
        sources=tuple(data["sources"]),
        thresholds=tuple(_threshold(name, given) for name, given in thresholds),
        elsewhere=data.get("elsewhere", "The device's memory class is not known."),
        explanation=found["explanation"].strip(),
        bad=found["bad"],
        good=found["good"],
        example=" ".join(found["example"].split()),
    )


def _threshold(name: str, given: dict[str, Any]) -> Threshold:
    if given.pop("like", None) == "frame-share":
        given = {**FRAME_SHARE, **given}
    return Threshold(name=name, **given)
