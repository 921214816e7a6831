"""What a rule is, and the case it judges.

A rule is data and one pure function: `judge(case, limits)`, with `limits` its own thresholds by name. What
a rule requires it declares, and it is asked only where that is there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from advisor import units
from advisor.profiles.blocks import Block
from advisor.profiles.schema import (
    Advice,
    Device,
    Environment,
    Evidence,
    MemoryClass,
    Method,
    Recommendation,
    Trace,
    Unit,
    WorkloadRecord,
)
from advisor.rules.findings import Finding, compared, gain, not_applicable, text
from advisor.rules.rows import Reads as Reads
from advisor.rules.rows import Row as Row
from advisor.rules.rows import fastest
from advisor.rules.snippets.writing import snippet
from advisor.rules.traced import Traced
from advisor.strategies.registry import BASELINE

Limits = Mapping[str, float]


@dataclass(frozen=True)
class Kind:
    """Strategies that are alike for a rule, by how they place the buffers that both sides use."""

    example: str
    """The strategy that is named where none of them has figures."""
    has: Callable[[Row], bool]
    none: str = "No buffer is used by both sides."
    """Why no strategy is of that kind although the example has figures."""


COPYING = Kind("pinned", lambda row: row.movements == {"copied"} and not row.overlaps)
"""Every buffer has a twin in device memory, and frames follow one another."""


@dataclass(frozen=True)
class Case:
    """One device with its figures: what rules judge. Made by `advisor.rules.case`."""

    device: Device
    workload: WorkloadRecord
    rows: Mapping[str, Row]
    absent: Mapping[str, str]
    """Strategies without figures, skipped and failed ones alike, and why."""
    reads: tuple[Reads, ...]
    traffic: Trace
    verdict: Recommendation | None
    failed: Mapping[str, str] = field(default_factory=dict)
    """Those that were tried, and what happened."""
    machine: Environment | None = None
    """Readings of the machine that was measured; None for a device that was predicted."""
    method: Method | None = None
    """How it was measured; None when predicted."""
    blocks: tuple[Block, ...] = ()
    """Of the final, where one was held."""

    @property
    def recommended(self) -> str | None:
        """The recommended strategy."""
        return self.verdict.strategy if self.verdict else None

    @property
    def one_dram(self) -> bool:
        """CPU and GPU use one DRAM, so that a copy moves data to where it already is."""
        return shares_dram(self.device)

    @property
    def chosen(self) -> Row | None:
        """The row of the recommended strategy."""
        return self.rows.get(self.recommended or "")

    @property
    def baseline(self) -> Row:
        """The row of what the user is taken to use, for rules that require it."""
        return self.rows[BASELINE]

    def of(self, kind: Kind) -> list[Row]:
        """The rows of that kind, in the order of the strategies."""
        return [row for row in self.rows.values() if kind.has(row)]

    def copying(self) -> list[Row]:
        """The rows of `COPYING`, those that copy from page-locked memory first."""
        return sorted(self.of(COPYING), key=lambda row: not row.locks)

    def fastest(self, rows: Iterable[Row] | None = None) -> Row | None:
        """The fastest of these rows, or of all."""
        return fastest(self.rows.values() if rows is None else rows)

    def proposal(self, candidates: Iterable[Row], against: Row) -> Row | None:
        """The candidate that beats `against`: the recommended one where it does, else the fastest, or None.

        So a report never recommends one strategy and advises another that is as good, nor the baseline, which
        the user is taken to use. Overlapping frames end later than their time tells, so that a strategy of
        that kind has to be the recommended one.
        """
        fitting = [row for row in candidates if row.fits and row.strategy not in (against.strategy, BASELINE)]
        faster = [row for row in fitting if row.beats(against)]
        chosen = [row for row in faster if row.strategy == self.recommended]
        serial = [row for row in faster if not row.overlaps]
        return min(chosen or serial, key=lambda row: row.seconds, default=None)

    def swap(
        self,
        subject: Row,
        better: Row,
        cause: str,
        shown: Iterable[Evidence],
        *,
        worth: str | None = None,
        title: str | None = None,
        inferred: bool = False,
    ) -> Finding:
        """Advice to change from one strategy to another: with both frames, the gain and the code.

        worth: says what it is worth, in place of the two frames compared.
        """
        return Finding(
            "advice",
            text(cause, compared(better, subject) if worth is None else worth),
            title=title,
            strategy=better.strategy,
            evidence=(*shown, subject.frame(), better.frame()),
            gain=gain(better, subject),
            snippet=snippet(better.strategy, self.workload, self.device),
            inferred=inferred,
        )

    def without(self, strategy: str) -> Finding:
        """Not applicable, since a strategy that the rule is about has no figures."""
        reason = self.absent.get(strategy)
        return not_applicable(
            f"{strategy} has no figures here" + (f": {reason.rstrip('.')}." if reason else ".")
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
class Rule:
    """One rule. `id` is the noun of the problem, `title` says in the imperative what to do about it."""

    id: str
    title: str
    why: str
    example: str
    """A run, and what the rule says of it, word for word."""
    judge: Callable[[Case, Limits], Finding]
    sources: tuple[str, ...]
    traced: Traced | None = None
    """What of a trace of nsys speaks to it."""
    thresholds: tuple[Threshold, ...] = ()
    requires: tuple[str | Kind, ...] = ()
    """Strategies and kinds of strategies that must have figures."""
    memory_classes: tuple[MemoryClass, ...] = get_args(MemoryClass)
    one_dram: bool | None = None
    """Whether CPU and GPU must share one DRAM, or must not; None where it does not matter."""
    elsewhere: str = "The device's memory class is not known."
    """Why it does not apply to other memory."""


def share_of_a_frame(meaning: str) -> Threshold:
    """The part of a frame (`Row.part`) from which it is worth a change: a tenth."""
    source = "Amdahl's law: without a part of 10 % a frame is at most 1.11 times as fast"
    return Threshold("share", 0.10, "ratio", meaning, source, high=1.0)


def apply(rule: Rule, case: Case, *, limits: Limits | None = None, silenced_by: str = "") -> Advice:
    """What the rule says of the case. One that raises becomes an `error`, so that the others still speak.

    limits: values in place of the thresholds' defaults. silenced_by: who silenced it; it is not asked then.
    """
    if silenced_by:
        return _advice(rule, case, outcome="silenced", detail=f"Silenced by {silenced_by}: it was not asked.")
    try:
        finding = _judge(rule, case, {**{t.name: t.default for t in rule.thresholds}, **(limits or {})})
    except Exception as problem:
        detail = f"This rule failed, which is a bug in advisor: {type(problem).__name__}: {problem}"
        return _advice(rule, case, outcome="error", detail=detail)
    said = {name: value for name, value in vars(finding).items() if name != "inferred"}
    said |= {"title": finding.title or rule.title, "certainty": finding.certainty}
    return _advice(rule, case, **said)


def _advice(rule: Rule, case: Case, **said: Any) -> Advice:
    stands = {"rule": rule.id, "device": case.device.name, "title": rule.title, "sources": rule.sources}
    return Advice(**{**stands, **said})


def _judge(rule: Rule, case: Case, limits: Limits) -> Finding:
    if case.device.memory_class not in rule.memory_classes:
        return not_applicable(rule.elsewhere)
    if not case.rows:
        return not_applicable(f"No strategy has figures on {case.device.name}.")
    if rule.one_dram not in (None, case.one_dram):
        return not_applicable(rule.elsewhere)
    missing = next((one for one in rule.requires if not _has(case, one)), None)
    if missing is None:
        return rule.judge(case, limits)
    if isinstance(missing, Kind) and missing.example in case.rows:
        return not_applicable(missing.none)
    return case.without(missing.example if isinstance(missing, Kind) else missing)


def _has(case: Case, required: str | Kind) -> bool:
    return bool(case.of(required)) if isinstance(required, Kind) else required in case.rows


def shares_dram(device: Device) -> bool:
    """CPU and GPU use one DRAM, so that a copy moves data to where it already is."""
    return (device.memory_class or "").startswith("tegra") or bool(device.attributes.get("integrated"))
