"""HEAD against BASE, two versions of the code that one run measured, as a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from advisor.profiles.schema import Measured, Profile, WorkloadRecord
from advisor.profiles.sweeps import was_interrupted
from advisor.verdicts.comparing.comparisons import (
    ComparedDevice,
    Comparison,
    advice_apart,
    around,
    recommended,
)
from advisor.verdicts.comparing.promised import PromisedSpeed
from advisor.verdicts.comparing.results import Results, retyped
from advisor.verdicts.comparing.rows import Outcome, Paired, by_strategy, one_sided
from advisor.verdicts.versions import CONFIDENCE, Change, Judged, Question


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
    notes: tuple[str, ...] = ()
    preparing_seconds: float = 0.0
    """Checking and screening, before the two met."""
    results: Results = field(default_factory=Results)


@dataclass(frozen=True)
class VersionComparison(Comparison):
    """HEAD against BASE, two versions of the code in one run. The first device is the measured one; of others
    that both predict for, recommendations are compared."""

    run: VersionRun = field(kw_only=True)
    promise: PromisedSpeed | None = None
    """What BASE's report promised of the strategy that HEAD uses, and what HEAD gains."""


def compare_versions(base: Profile, head: Profile, run: VersionRun) -> VersionComparison:
    noise = run.judged.noise
    off = max(noise.high, 1 / noise.low) if noise else 1.0
    rows = tuple(
        Paired(*run.rows[s], ratio, _outcome(run, s), run.judged.trusted, off, s in run.judged.used)
        for s, ratio in run.judged.ratios.items()
    )
    sides = [by_strategy(profile.results, tuple(run.rows)) for profile in (base, head)]
    figures = (len(base.measured()), len(head.measured()))
    whole, recommendations = (
        not any(map(was_interrupted, (base, head))),
        (base.recommendation, head.recommendation),
    )
    verdict = recommended(*recommendations, figures=figures, basis="measured", whole=whole)
    if verdict.change == "same" and set(base.measured()) != set(head.measured()):
        reason = f"BASE ran under {figures[0]} strategies, HEAD under {figures[1]}."
        verdict = replace(verdict, change="cannot tell", reason=reason)
    measured = ComparedDevice(head.device, "measured", rows, one_sided(*sides), verdict)
    other, on_gpu = around(base, head), head.device.kind == "cuda"
    return VersionComparison(
        base,
        head,
        other.conditions,
        (measured, *other.devices),
        *(advice_apart(base, head, (measured,)) if on_gpu else (other.new_advice, other.gone_advice)),
        CONFIDENCE,
        (*run.results.notes, *run.notes, *other.notes),
        changed_work=other.changed_work,
        results=run.results,
        run=run,
    )


def _outcome(run: VersionRun, strategy: str) -> Outcome:
    ratio = run.judged.ratios[strategy]
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
    notes = []
    for what, before, now in sides:
        new, gone = [n for n in now if n not in before], [n for n in before if n not in now]
        notes += [f"New {what} in HEAD: {', '.join(new)}."] if new else []
        notes += [f"Only BASE has the {what} {', '.join(gone)}."] if gone else []
    notes += [f"{each}." for each in retyped(base, head)]
    return tuple(notes)
