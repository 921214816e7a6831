"""What a rule is, the case it judges, and what it can find.

A rule is data and one pure function. `judge` is called with the parts of the case that the rule declares in
`needs`, by name, and with its thresholds as `limits`: it cannot look at anything else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from advisor import units
from advisor.profiles.schema import (
    Advice,
    Certainty,
    Device,
    Environment,
    Evidence,
    Gain,
    MemoryClass,
    Method,
    Recommendation,
    Trace,
    Unit,
    WorkloadRecord,
)
from advisor.rules.rows import Reads as Reads
from advisor.rules.rows import Row as Row

Need = Literal[
    "device",
    "workload",
    "rows",
    "absent",
    "failed",
    "reads",
    "traffic",
    "recommended",
    "verdict",
    "machine",
    "method",
]


@dataclass(frozen=True)
class Case:
    """One device with its figures: what rules judge. Made by `advisor.rules.case`."""

    device: Device
    workload: WorkloadRecord
    rows: Mapping[str, Row]
    absent: Mapping[str, str]
    """Strategies without figures, skipped and failed ones alike, and why."""
    failed: Mapping[str, str]
    """Those that were tried, and what happened."""
    reads: tuple[Reads, ...]
    traffic: Trace
    recommended: str | None
    verdict: Recommendation | None
    machine: Environment | None
    """Readings of the machine that was measured; None for a device that was predicted."""
    method: Method | None
    """How it was measured; None when predicted."""


@dataclass(frozen=True)
class Finding:
    """What a rule concluded. An `advice` says what to change; most propose a strategy and its worth."""

    outcome: Literal["advice", "pass", "not-applicable"]
    detail: str
    title: str | None = None
    """In place of the rule's own, where the advice differs by device."""
    strategy: str | None = None
    evidence: tuple[Evidence, ...] = ()
    gain: Gain | None = None
    snippet: str | None = None
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


@dataclass(frozen=True)
class Rule:
    """One rule. `id` is the noun of the problem, `title` says in the imperative what to do about it."""

    id: str
    title: str
    why: str
    memory_classes: tuple[MemoryClass, ...]
    elsewhere: str
    """Why it does not apply to the other memory classes."""
    needs: tuple[Need, ...]
    thresholds: tuple[Threshold, ...]
    sources: tuple[str, ...]
    judge: Callable[..., Finding]


def apply(
    rule: Rule, case: Case, *, limits: Mapping[str, float] | None = None, silenced_by: str = ""
) -> Advice:
    """What the rule says of the case. One that raises becomes an `error`, so that the others still speak.

    limits: values in place of the thresholds' defaults. silenced_by: who silenced it; it is not asked then.
    """
    if silenced_by:
        return Advice(
            rule=rule.id,
            device=case.device.name,
            outcome="silenced",
            title=rule.title,
            detail=f"Silenced by {silenced_by}: it was not asked.",
            sources=rule.sources,
        )
    try:
        finding = _judge(rule, case, {**{t.name: t.default for t in rule.thresholds}, **(limits or {})})
    except Exception as problem:
        return Advice(
            rule=rule.id,
            device=case.device.name,
            outcome="error",
            title=rule.title,
            detail=f"This rule failed, which is a bug in advisor: {type(problem).__name__}: {problem}",
            sources=rule.sources,
        )
    return Advice(
        rule=rule.id,
        device=case.device.name,
        outcome=finding.outcome,
        title=finding.title or rule.title,
        detail=finding.detail,
        strategy=finding.strategy,
        evidence=finding.evidence,
        gain=finding.gain,
        snippet=finding.snippet,
        certainty=finding.certainty,
        sources=rule.sources,
    )


def _judge(rule: Rule, case: Case, limits: Mapping[str, float]) -> Finding:
    if case.device.memory_class not in rule.memory_classes:
        return not_applicable(rule.elsewhere)
    if not case.rows:
        return not_applicable(f"No strategy has figures on {case.device.name}.")
    handed = {need: getattr(case, need) for need in rule.needs}
    return rule.judge(**handed, limits=limits)


def passed(detail: str, *evidence: Evidence) -> Finding:
    """Nothing to advise; the evidence shows why."""
    return Finding("pass", detail, evidence=evidence)


def not_applicable(reason: str) -> Finding:
    """The rule has nothing to say of this case."""
    return Finding("not-applicable", reason)


def no_figures(strategy: str, absent: Mapping[str, str]) -> Finding:
    """Not applicable, since the strategy it is about was not run."""
    reason = absent.get(strategy)
    return not_applicable(f"{strategy} has no figures here" + (f": {reason.rstrip('.')}." if reason else "."))


def proposal(candidates: Iterable[Row], against: Row, recommended: str | None) -> Row | None:
    """The candidate that beats `against`: the recommended one where it does, or else the fastest, or None.

    So a report never recommends one strategy and advises another that is as good. Overlapping frames end
    later than their time tells, so that a strategy of that kind has to be the recommended one.
    """
    fitting = [row for row in candidates if row.fits and row.strategy != against.strategy]
    faster = [row for row in fitting if row.beats(against)]
    chosen = [row for row in faster if row.strategy == recommended]
    serial = [row for row in faster if row.latency_seconds is None]
    return min(chosen or serial, key=lambda row: row.seconds, default=None)


def gain(better: Row, against: Row) -> Gain:
    """What changing from one to the other is worth; bytes only where fewer are needed."""
    saved = against.physical_bytes - better.physical_bytes
    return Gain(
        seconds_per_frame=against.seconds - better.seconds,
        bytes=saved if saved > 0 else None,
        basis="estimated" if better.predicted or against.predicted else "measured",
        over=against.strategy,
    )


def frame_evidence(row: Row) -> Evidence:
    """The row's time of one frame."""
    return evidence(f"{row.strategy}: one frame", row.seconds, "seconds", row)


def evidence(label: str, value: float, unit: Unit, row: Row) -> Evidence:
    """A figure of that row."""
    return Evidence(label=label, value=value, unit=unit, predicted=row.predicted)


def takes(row: Row, seconds: float) -> str:
    """ "pinned takes 1.23 ms", or that it is predicted to."""
    return f"{row.strategy} {'is predicted to take' if row.predicted else 'takes'} {units.seconds(seconds)}"


def shares_dram(device: Device) -> bool:
    """CPU and GPU use one DRAM, so that a copy moves data to where it already is."""
    return (device.memory_class or "").startswith("tegra") or bool(device.attributes.get("integrated"))
