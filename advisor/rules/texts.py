"""The text of a rule: `advisor/rules/<id>.md`, from which `advisor rules ID` and docs/rules.md are made.

The file begins with TOML between lines of +++: title, sources, thresholds, the devices and workloads that
the rule is for, and why it is silent `elsewhere`. Then come the explanation, Bad, Good and Example.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from advisor import units
from advisor.profiles.conclusions import Unit
from advisor.profiles.files import parse_toml
from advisor.profiles.schema import MemoryClass

FRAME_SHARE: Mapping[str, Any] = {
    "default": 0.10,
    "unit": "ratio",
    "high": 1.0,
    "source": "Amdahl's law: removing 10 % makes a frame at most 1.11 times as fast",
}
"""Thresholds that several rules share: the part of a frame (`Row.part`) that is worth a change."""
LINE_SHARE: Mapping[str, Any] = {
    "default": 0.01,
    "unit": "ratio",
    "high": 1.0,
    "meaning": "share of a script's frame that a line's change must gain",
    "source": "Amdahl's law: removing 1 % makes a frame at most 1.01 times as fast; several lines add up",
}
_SHARED: Mapping[str | None, Mapping[str, Any]] = {"frame-share": FRAME_SHARE, "line-share": LINE_SHARE}
_SECTIONS = re.compile(
    r"\+\+\+\n(?P<data>.*?)\n\+\+\+\n(?P<explanation>.*?)\n## Bad\n\n```python\n(?P<bad>.*?)\n```\n\n"
    r"## Good\n\n```python\n(?P<good>.*?)\n```\n\n## Example\n(?P<example>.*)",
    re.DOTALL,
)


@dataclass(frozen=True)
class Threshold:
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
    title: str
    sources: tuple[str, ...]
    thresholds: tuple[Threshold, ...]
    explanation: str
    bad: str
    good: str
    """A few lines of Python, as `bad`."""
    example: str
    """A finding."""
    memory_classes: tuple[MemoryClass, ...] = get_args(MemoryClass)
    one_dram: bool | None = None
    """Whether CPU and GPU must share one DRAM, or must not; None where it does not matter."""
    several_gpus: bool = False
    """Only for workloads on several GPUs; it is not listed for others."""
    elsewhere: str = "The device's memory class is not known."


def path(rule_id: str) -> Path:
    return Path(__file__).with_name(f"{rule_id.replace('-', '_')}.md")


def read(rule_id: str) -> RuleText:
    """Raises ValueError where its file is not of the form above."""
    sections = _SECTIONS.fullmatch(path(rule_id).read_text(encoding="utf-8"))
    if sections is None:
        raise ValueError(f"{path(rule_id).name} does not have the sections of a rule's text")
    data: dict[str, Any] = parse_toml(sections["data"])
    given = data.pop("thresholds", {})
    data |= {key: tuple(value) for key, value in data.items() if isinstance(value, list)}
    return RuleText(
        **data,
        thresholds=tuple(_threshold(name, each) for name, each in given.items()),
        explanation=sections["explanation"].strip(),
        bad=sections["bad"],
        good=sections["good"],
        example=" ".join(sections["example"].split()),
    )


def _threshold(name: str, given: dict[str, Any]) -> Threshold:
    shared = _SHARED.get(given.pop("like", None), {})
    return Threshold(name=name, **{**shared, **given})
