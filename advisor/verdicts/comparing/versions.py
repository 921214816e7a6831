"""Two versions of the code that one run measured: a comparison whose ratios are the final's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from advisor.errors import UsageError
from advisor.profiles.schema import BufferRecord, Measured, Profile, WorkloadRecord
from advisor.profiles.sweeps import was_interrupted
from advisor.verdicts.comparing.comparisons import ComparedDevice, Comparison, around
from advisor.verdicts.comparing.recommended import recommended
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


@dataclass(frozen=True)
class VersionComparison(Comparison):
    """HEAD against BASE, two versions of the code in one run. The first device is the measured one; of others
    that both predict for, recommendations are compared."""

    run: VersionRun = field(kw_only=True)


def compare_versions(base: Profile, head: Profile, run: VersionRun) -> VersionComparison:
    rows = tuple(
        Paired(*run.rows[strategy], ratio, _outcome(run, strategy), run.judged.trusted)
        for strategy, ratio in run.judged.ratios.items()
    )
    sides = [by_strategy(profile.results, tuple(run.rows)) for profile in (base, head)]
    figures = (len(base.measured()), len(head.measured()))
    whole = not (was_interrupted(base) or was_interrupted(head))
    told = recommended(
        base.recommendation, head.recommendation, figures=figures, basis="measured", whole=whole
    )
    measured = ComparedDevice(head.device, "measured", rows, one_sided(*sides), told)
    other = around(base, head)
    return VersionComparison(
        base,
        head,
        other.conditions,
        (measured, *other.devices),
        other.new_advice,
        other.gone_advice,
        CONFIDENCE,
        (*run.notes, *other.notes),
        run=run,
    )


def _outcome(run: VersionRun, strategy: str) -> Outcome:
    found = run.judged.ratios[strategy]
    if not run.judged.trusted:
        return "cannot tell"
    if found.low > 1:
        return "slower"
    if found.high < 1:
        return "faster"
    return "same" if run.question.same(found) else "cannot tell"


def require_same_frames(base: WorkloadRecord, head: WorkloadRecord) -> None:
    """Raises `UsageError` where a frame of HEAD does another amount of work than one of BASE.

    Parameters and buffers that one of the two alone has are part of the change, and so is another dtype.
    """
    for name in base.parameters.keys() & head.parameters.keys():
        before, now = base.parameters[name], head.parameters[name]
        if before != now:
            raise UsageError(
                f"the parameter {name} is {before} in BASE and {now} in HEAD, so frames do different work",
                next_step=f"Set it for both: --set {name}={now}; or add --anyway.",
            )
    there = {buffer.name: buffer for buffer in base.buffers}
    for buffer in head.buffers:
        before_it = there.get(buffer.name)
        if before_it is not None and _count(before_it) != _count(buffer):
            raise UsageError(
                f"buffer {buffer.name!r} has shape {before_it.shape} in BASE and {buffer.shape} in HEAD, so "
                "their frames do different work",
                next_step="Make the size a parameter and set it for both with --set; or add --anyway.",
            )


def _count(buffer: BufferRecord) -> int:
    count = 1
    for extent in buffer.shape:
        count *= extent
    return count


def differences(base: WorkloadRecord, head: WorkloadRecord) -> tuple[str, ...]:
    """The differences of the two workloads, in sentences."""
    sides = (
        ("parameter", base.parameters, head.parameters),
        ("buffer", [b.name for b in base.buffers], [b.name for b in head.buffers]),
        ("stage", [s.name for s in base.stages], [s.name for s in head.stages]),
    )
    told = []
    for what, before, now in sides:
        new, gone = [n for n in now if n not in before], [n for n in before if n not in now]
        told += [f"New {what} in HEAD: {', '.join(new)}."] if new else []
        told += [f"Only BASE has the {what} {', '.join(gone)}."] if gone else []
    dtypes = {b.name: b.dtype for b in base.buffers}
    told += [
        f"Buffer {b.name} is {dtypes[b.name]} in BASE and {b.dtype} in HEAD."
        for b in head.buffers
        if dtypes.get(b.name, b.dtype) != b.dtype
    ]
    return tuple(told)
