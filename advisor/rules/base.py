"""Rules, their texts, the case they judge and their findings, with the sentences that most rules use.

A rule is one pure function, `judge(case, limits)`, with `limits` its own thresholds by name, and a text,
`advisor/rules/<id>.md`, from which `advisor rules ID` and docs/rules.md are made: TOML between lines of +++
(title, sources, thresholds, the devices and workloads that the rule is for, and why it is silent
`elsewhere`), then the explanation, Bad, Good and Example.

It declares what it requires, and runs only where that is available. Rules judge what was measured, with or
without a trace of nsys: one whose cause the driver did not see is no longer certain of it, no more.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from advisor import units
from advisor.profiles.conclusions import Advice, Certainty, Evidence, Gain, Recommendation, Unit
from advisor.profiles.figures import Block, Method
from advisor.profiles.files import parse_toml
from advisor.profiles.schema import Device, MemoryClass, Trace, WorkloadRecord
from advisor.profiles.system_state import Environment
from advisor.rules.rows import Reads as Reads
from advisor.rules.rows import Row as Row
from advisor.rules.rows import Traced, fastness, strategy_named
from advisor.rules.snippets.writing import snippet, variants
from advisor.strategies.mixes import Mix
from advisor.strategies.planning import plan_of
from advisor.strategies.registry import BASELINE, Strategy
from advisor.strategies.schedule import Step

_SHARED: Mapping[str | None, Mapping[str, Any]] = {
    "frame-share": {
        "default": 0.10,
        "unit": "ratio",
        "high": 1.0,
        "source": "Amdahl's law: removing 10 % makes a frame at most 1.11 times as fast",
    },
    "line-share": {
        "default": 0.01,
        "unit": "ratio",
        "high": 1.0,
        "meaning": "share of a script's frame that a line's change must gain",
        "source": "Amdahl's law: removing 1 % makes a frame at most 1.01 times as fast; several lines add up",
    },
}
"""Thresholds that several rules share: the part of a frame (`Row.part`), or of a script's, that pays."""
_SECTIONS = re.compile(
    r"\+\+\+\n(?P<data>.*?)\n\+\+\+\n(?P<explanation>.*?)\n## Bad\n\n```python\n(?P<bad>.*?)\n```\n\n"
    r"## Good\n\n```python\n(?P<good>.*?)\n```\n\n## Example\n(?P<example>.*)",
    re.DOTALL,
)


Limits = Mapping[str, float]


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
    example: str
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
    thresholds = data.pop("thresholds", {})
    data |= {key: tuple(value) for key, value in data.items() if isinstance(value, list)}
    return RuleText(
        **data,
        thresholds=tuple(
            Threshold(name=name, **{**_SHARED.get(each.pop("like", None), {}), **each})
            for name, each in thresholds.items()
        ),
        explanation=sections["explanation"].strip(),
        bad=sections["bad"],
        good=sections["good"],
        example=" ".join(sections["example"].split()),
    )


@dataclass(frozen=True)
class Finding:
    """A rule's conclusion. An `advice` says what to change; most propose a strategy and its worth."""

    outcome: Literal["advice", "pass", "not-applicable"]
    detail: str
    title: str | None = None
    """In place of the rule's own, where the advice differs by device."""
    strategy: str | None = None
    evidence: tuple[Evidence, ...] = ()
    gain: Gain | None = None
    snippet: str | None = None
    variants: Mapping[str, str] = field(default_factory=dict)
    """The snippet for other libraries, by the library's name."""
    lines: tuple[str, ...] = ()
    inferred: bool = False
    """The effect was measured, its cause is the likeliest one."""

    @property
    def certainty(self) -> Certainty | None:
        """How sure an advice is; None for other outcomes."""
        if self.outcome != "advice":
            return None
        if any(item.predicted for item in self.evidence):
            return "predicted"
        return "likely" if self.inferred else "measured"


def advice(
    detail: str,
    *evidence: Evidence,
    saved: float | None = None,
    title: str | None = None,
    snippet: str | None = None,
    lines: tuple[str, ...] = (),
    inferred: bool = False,
) -> Finding:
    """Advice that proposes no strategy. saved: seconds a frame by a formula that the rule names."""
    gain = estimated(saved)
    return Finding("advice", detail, title, None, evidence, gain, snippet, lines=lines, inferred=inferred)


def estimated(seconds: float | None) -> Gain | None:
    """So much less of a frame; none where nothing is left to save."""
    return Gain(seconds_per_frame=seconds, basis="estimated") if seconds else None


def passed(detail: str) -> Finding:
    return Finding("pass", detail)


def unbeaten(subject: Row, nearest: Row | None) -> Finding:
    """Nothing to advise, since no strategy that copies less beats this one."""
    if nearest is None:
        return passed(f"No other strategy has figures to compare with {subject.strategy}.")
    reason = "No strategy that spends less on copies is clearly faster"
    return passed(f"{reason}: {subject.takes} a frame, {nearest.takes}.")


def few_copies(row: Row, limits: Limits) -> Finding | None:
    """Nothing to advise where copies are too little of a frame; None where they are enough."""
    share = row.part(row.transfer_seconds)
    if not row.transfer_seconds:
        return passed("Nothing is copied between the sides in a frame.")
    few = f"Copies are only {units.percent(share)} of a frame of {row.strategy}."
    return passed(few) if share < limits["share"] else None


def not_applicable(reason: str, why: str | None = None) -> Finding:
    """why: the cause of that, where it is known."""
    return Finding("not-applicable", f"{reason.rstrip('.')}: {why.rstrip('.')}." if why else reason)


def text(*sentences: str) -> str:
    """Sentences, those that are empty left out."""
    return " ".join(filter(None, sentences))


@dataclass(frozen=True)
class Kind:
    """Strategies that are alike for a rule, by how they place the buffers that both sides use."""

    example: str
    """The strategy that is named where none of them has figures."""
    has: Callable[[Row], bool]
    none: str = "No buffer is used by both CPU and GPU."
    """Why no strategy is of that kind although the example has figures."""


COPYING = Kind("pinned", lambda row: row.movements == {"copied"} and not row.overlaps)
"""Every buffer has a twin in device memory, and frames follow one another."""
WRITE_COMBINED = Kind(
    "write-combined",
    lambda row: bool(row.write_combined),
    "The host reads every shared buffer, so none is placed in write-combined memory.",
)


@dataclass(frozen=True)
class Case:
    """One device with its figures: what rules judge. Made by `advisor.rules.advise`."""

    device: Device
    workload: WorkloadRecord
    rows: Mapping[str, Row]
    absent: Mapping[str, str]
    """Strategies without figures, skipped and failed ones alike, and why."""
    reads: tuple[Reads, ...]
    traffic: Trace
    verdict: Recommendation | None
    machine: Environment | None = None
    """Readings of the machine that was measured; None for a device that was predicted."""
    method: Method | None = None
    blocks: tuple[Block, ...] = ()
    """Blocks of the final, if there was one."""
    mixes: Mapping[str, Strategy] = field(default_factory=dict)
    """By short name."""

    @property
    def one_dram(self) -> bool:
        return shares_dram(self.device)

    @property
    def chosen(self) -> Row | None:
        return self.rows.get((self.verdict and self.verdict.strategy) or "")

    @property
    def subject(self) -> Row:
        """The recommended strategy, else the fastest: some strategy has figures where a rule is asked."""
        return self.chosen or min(self.rows.values(), key=fastness)

    @property
    def baseline(self) -> Row:
        """The row of what the user is taken to use, for rules that require it."""
        return self.rows[BASELINE]

    def slowdown(self, row: Row, other: Row) -> float:
        """Kernel time over the other row's with the copies that spare a card the link; 0 without kernels."""
        path = other.device_seconds + (0.0 if self.one_dram else other.transfer_seconds)
        return row.device_seconds / path if path > 0 else 0.0

    def copies(self, strategy: str) -> list[tuple[Step, float]]:
        """Copies, or prefetches, of a steady frame with their bytes; none for a strategy not known here."""
        known, workload = strategy_named(strategy), self.workload
        if known is None:
            return []
        traits = {name: placed.traits(self.device) for name, placed in known.placements(workload).items()}
        steady = plan_of(workload, traits).steady
        moves = [step for step in steady if step.action in ("to-device", "to-host", "to-peer")]
        buffers = {buffer.name: buffer for buffer in workload.buffers}
        return [(step, step.moved(buffers[step.name], self.traffic.valid_bytes)) for step in moves]

    def of(self, kind: Kind) -> list[Row]:
        return [row for row in self.rows.values() if kind.has(row)]

    def copying(self) -> list[Row]:
        """The rows of `COPYING`, those that copy from page-locked memory first."""
        return sorted(self.of(COPYING), key=lambda row: not row.locks)

    def twins(self) -> list[tuple[Row, Row]]:
        """Rows that differ by write-combining alone, the combined one first; in order."""
        plain = [row for row in self.rows.values() if not WRITE_COMBINED.has(row)]
        return [(row, twin) for row in self.of(WRITE_COMBINED) for twin in plain if row.alike == twin.alike]

    def lines(self, buffers: Container[str] = (), stages: Container[str] = ()) -> tuple[str, ...]:
        """Where the user's code declares them, each line once."""
        declared = [one.line for one in self.workload.buffers if one.name in buffers]
        declared += [one.line for one in self.workload.stages if one.name in stages]
        return tuple(dict.fromkeys(filter(None, declared)))

    def proposal(self, candidates: Iterable[Row], against: Row) -> Row | None:
        """The candidate that beats `against`: the recommended one where it does, else the fastest, or None.

        So a report never recommends one strategy and advises another that is as good, nor the baseline, which
        the user is taken to use. Overlapping frames end later than their time tells, so that a strategy of
        that kind has to be the recommended one.
        """
        fitting = [row for row in candidates if row.fits and row.strategy not in (against.strategy, BASELINE)]
        faster = [row for row in fitting if row.beats(against)]
        chosen = [row for row in faster if row is self.chosen]
        serial = [row for row in faster if not row.overlaps]
        return min(chosen or serial, key=lambda row: row.seconds, default=None)

    def swap(
        self,
        subject: Row,
        better: Row,
        cause: str,
        evidence: Iterable[Evidence],
        *,
        worth: str | None = None,
        title: str | None = None,
        inferred: bool = False,
    ) -> Finding:
        """Advice to change from one strategy to another: with both frames, the gain and the code.

        worth: says what it is worth, in place of the two frames compared. None beyond the memory budget.
        """
        if not better.fits:
            needs = f"it needs {units.size(better.physical_bytes)}, which exceeds the memory budget"
            return passed(f"{better.strategy} would gain more, but {needs}.")
        mix = self.mixes.get(better.strategy)
        placed = f"{mix.name} places {mix.summary}." if isinstance(mix, Mix) else ""
        moved = [n for n, one in better.placements.items() if one is not subject.placements.get(n)]
        return Finding(
            "advice",
            text(cause, better.compared(subject) if worth is None else worth, placed),
            title=title,
            strategy=better.strategy,
            evidence=(*evidence, subject.frame(), better.frame()),
            gain=better.gain(subject),
            snippet=snippet(better.strategy, self.workload, self.device, self.mixes),
            variants=variants(better.strategy, self.workload, self.device, self.mixes),
            lines=self.lines(moved or better.placements),
            inferred=inferred,
        )

    def without(self, strategy: str) -> Finding:
        return not_applicable(f"{strategy} has no figures here.", self.absent.get(strategy))


@dataclass(frozen=True)
class Rule:
    """One rule. `id` is the noun of the problem; its text is in the Markdown file of that name."""

    id: str
    judge: Callable[[Case, Limits], Finding] | None
    """None for a rule for lines of scripts alone."""
    requires: tuple[str | Kind, ...] = ()
    """Strategies and kinds of strategies that must have figures."""
    traced: Traced | None = None
    """The part of an nsys trace that bears on it."""
    judge_line: Callable[[Any, Limits], Finding | None] | None = None
    """Judges a line of a script (a `lines.LineCase`); None where the rule has nothing to say of lines."""

    @cached_property
    def text(self) -> RuleText:
        return read(self.id)

    def advice(self, device: str, **fields: Any) -> Advice:
        stands = {"rule": self.id, "device": device, "title": self.text.title, "sources": self.text.sources}
        return Advice(**{**stands, **fields})

    def concluded(self, device: str, finding: Finding) -> Advice:
        told = {name: value for name, value in vars(finding).items() if name != "inferred" and value}
        return self.advice(device, **told, certainty=finding.certainty)


def shares_dram(device: Device) -> bool:
    """CPU and GPU use one DRAM, so that a copy moves data to where it already is."""
    return (device.memory_class or "").startswith("tegra") or bool(device.attributes.get("integrated"))
