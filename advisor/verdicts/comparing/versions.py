"""HEAD against BASE, two versions of the code that one run measured, as a comparison; what a change promised.

A workload runs under every strategy, so the user says which one the code uses: where it alone is compared and
BASE recommended it, HEAD makes the change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from advisor.profiles.schema import Measured, Profile, WorkloadRecord
from advisor.stats import Ratio
from advisor.strategies.registry import BASELINE
from advisor.verdicts.comparing.comparisons import (
    DECIDING,
    ComparedDevice,
    Comparison,
    around,
    compared_devices,
    recommended,
)
from advisor.verdicts.comparing.conditions import conditions, differing
from advisor.verdicts.comparing.results import Results, changed_work, retyped
from advisor.verdicts.comparing.rows import Compared, OneSided, Outcome, ratio_of
from advisor.verdicts.scores import counted
from advisor.verdicts.versions import BASE, CONFIDENCE, HEAD, Change, Judged, Question, named


@dataclass(frozen=True)
class PromisedSpeed:
    """The baseline's time in BASE over the strategy's: as BASE promised it, and as HEAD measured it."""

    strategy: str
    baseline: str
    promised: Ratio
    got: Ratio


@dataclass(frozen=True)
class VersionRun:
    """What the final said. `rows` are BASE's and HEAD's with its times, by strategy; `changes` are what the
    parts of a frame differ by. `left`: why a contestant has no figures; `apart`: why versions had separate
    processes."""

    judged: Judged
    question: Question
    rows: Mapping[str, tuple[Measured, Measured]]
    changes: Mapping[str, tuple[Change, ...]]
    versions: tuple[str, str]
    """Names of BASE and HEAD."""
    apart: str = ""
    left: Mapping[str, str] = field(default_factory=dict)
    gaps: tuple[OneSided, ...] = ()
    """Strategies that were to be compared, without figures in BASE, in HEAD or in both."""
    notes: tuple[str, ...] = ()
    preparing_seconds: float = 0.0
    """Checking and screening, before the two met."""


@dataclass(frozen=True)
class VersionComparison(Comparison):
    """HEAD against BASE, two versions of the code in one run. The first device is the measured one; of others
    that both predict for, recommendations are compared."""

    run: VersionRun = field(kw_only=True)
    promise: PromisedSpeed | None = None
    """What BASE's report promised of the strategy that HEAD uses, and what HEAD gains."""


def compare_versions(base: Profile, head: Profile, run: VersionRun, results: Results) -> VersionComparison:
    judged, noise = run.judged, run.judged.noise
    off = max(noise.high, 1 / noise.low) if noise else 1.0
    rows = tuple(
        Compared(*run.rows[s], ratio, _outcome(run, ratio), True, judged.trusted, off, s in judged.used)
        for s, ratio in judged.ratios.items()
    )
    left = ((v, s, run.left.get(named(v, s))) for v, s in product((BASE, HEAD), run.question.strategies))
    unjudged = [
        OneSided(s, version, "not run", f"it left the final: {why}") for version, s, why in left if why
    ]
    unjudged += [gap for gap in run.gaps if gap.strategy in run.question.strategies]
    verdict, before, now = recommended(base, head), base.measured(), head.measured()
    if verdict.change == "same" and before.keys() != now.keys():
        reason = f"BASE ran under {len(before)} strategies, HEAD under {len(now)}."
        verdict = replace(verdict, change="cannot tell", reason=reason)
    measured = ComparedDevice(head.device, "measured", rows, (), verdict)
    predicted = compared_devices(base, head, predicted=True)
    other = around(base, head, (measured,) if head.device.kind == "cuda" else predicted)
    other |= {
        "confidence": CONFIDENCE,
        "unjudged": tuple(unjudged),
        "notes": (*results.notes, *run.notes, *other["notes"]),
    }
    devices = (measured, *(replace(each, rows=(), one_sided=()) for each in predicted))
    return VersionComparison(devices=devices, results=results, run=run, **other)


def _outcome(run: VersionRun, ratio: Ratio) -> Outcome:
    if not run.judged.trusted:
        return "cannot tell"
    if ratio.low > 1:
        return "slower"
    if ratio.high < 1:
        return "faster"
    return "cannot tell" if run.question.same_within(ratio) is None else "same"


def differences(base: WorkloadRecord, head: WorkloadRecord) -> tuple[str, ...]:
    """The differences of the two workloads, in sentences."""
    sides = (
        ("parameter", base.parameters, head.parameters),
        ("buffer", [b.name for b in base.buffers], [b.name for b in head.buffers]),
        ("stage", [s.name for s in base.stages], [s.name for s in head.stages]),
    )
    names = f"The workloads have different names: {base.name} in BASE, {head.name} in HEAD."
    notes = [names] if base.name != head.name else []
    for what, before, now in sides:
        new, gone = [n for n in now if n not in before], [n for n in before if n not in now]
        notes += [f"New {what} in HEAD: {', '.join(new)}."] if new else []
        notes += [f"Only BASE has the {what} {', '.join(gone)}."] if gone else []
    notes += [f"{each}." for each in retyped(base, head)]
    return tuple(notes)


def promised_speed(comparison: Comparison) -> PromisedSpeed | None:
    """None unless BASE recommended, by time on the same device, the one strategy that is compared."""
    promise = _promise_of(comparison.base, comparison.head, [row.strategy for row in comparison.rows])
    if promise is None:
        return None
    before, now = counted(comparison.base).measured().get(promise.baseline), comparison.rows[0].head
    if before is None or not isinstance(now, Measured):
        return None
    return replace(
        promise, got=ratio_of(now, before, comparison.confidence, seed=comparison.head.method.seed)
    )


def promised_to_versions(
    saved: Profile, head: Profile, strategies: Sequence[str], gains: Mapping[str, Ratio]
) -> PromisedSpeed | None:
    """What a saved profile of BASE promised of the one strategy that the user says HEAD uses, against BASE's
    baseline over HEAD measured side by side (`gains`, by strategy)."""
    promise = _promise_of(saved, head, strategies)
    alike = saved.workload.name == head.workload.name and not changed_work(saved.workload, head.workload)
    if promise is None or not alike or promise.baseline != BASELINE or promise.strategy not in gains:
        return None
    return replace(promise, got=gains[promise.strategy])


def _promise_of(base: Profile, head: Profile, strategies: Sequence[str]) -> PromisedSpeed | None:
    """The promise, as if it were kept, where the one strategy is BASE's choice by time on the same device."""
    advice = base.recommendation
    if not (advice and advice.strategy and advice.baseline and advice.speedup and advice.interval):
        return None
    sound = (
        advice.verdict != "untrusted" and advice.objective == "time" and advice.baseline != advice.strategy
    )
    alike = not any(c.what in DECIDING for c in differing(conditions(base, head)))
    if not (sound and alike and list(strategies) == [advice.strategy]):
        return None
    promised = Ratio(advice.speedup, *advice.interval)
    return PromisedSpeed(advice.strategy, advice.baseline, promised, promised)
