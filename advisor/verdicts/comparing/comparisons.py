"""A comparison as data: comparable or refused, every strategy, the recommendations, the advice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal

from advisor.errors import NothingMeasured, UsageError
from advisor.profiles.conclusions import Advice
from advisor.profiles.schema import Device, Predicted, Prediction, Profile
from advisor.profiles.sweeps import was_interrupted
from advisor.strategies.mixes import identity, mixes_of, named_by_placements
from advisor.verdicts.comparing.conditions import Condition, arguments, conditions, differing
from advisor.verdicts.comparing.results import NO_RESULTS, Results, changed_work
from advisor.verdicts.comparing.rows import (
    Compared,
    Drift,
    OneSided,
    by_strategy,
    drift,
    has_figures,
    one_sided,
    outcome,
    ratio_of,
)
from advisor.verdicts.scores import counted

Change = Literal["same", "changed", "cannot tell"]


@dataclass(frozen=True)
class Recommended:
    """Each side's recommended strategy; None where it recommends nothing."""

    base: str | None
    head: str | None
    change: Change
    reason: str


def recommended(base: Profile | Prediction, head: Profile | Prediction) -> Recommended:
    """Whether the best strategy is another one now.

    A recommendation speaks for the strategy it names and those it is tied with; an open one for all that may
    be it. The best strategy changed where the two sets have nothing in common.
    """
    one, other, measured = base.recommendation, head.recommendation, isinstance(head, Profile)
    names = one.strategy if one else None, other.strategy if other else None
    unsound = _unsound("BASE", base) or _unsound("HEAD", head)
    if unsound or one is None or other is None:
        return Recommended(*names, "cannot tell", unsound)
    common = {one.strategy, *one.tied_with} & {other.strategy, *other.tied_with} - {None}
    open_ = "open" in (one.verdict, other.verdict)
    if not common and open_ and not measured:
        return Recommended(*names, "cannot tell", "The predicted ranges overlap.")
    if not common:
        reason = "No strategy is a candidate for the best in both BASE and HEAD."
        return Recommended(*names, "changed", reason)
    if names[0] is not None and names[0] == names[1] and not (open_ and measured):
        return Recommended(*names, "same", "")
    both = ", ".join(sorted(filter(None, common)))
    return Recommended(*names, "cannot tell", f"{both} may be the fastest in both.")


def _unsound(name: str, side: Profile | Prediction) -> str:
    """Why nothing follows from the side's recommendation; empty where something does."""
    if side.recommendation is None:
        return f"{name} recommends nothing."
    if side.recommendation.verdict == "untrusted":
        return f"{name} cannot be trusted: its control differs from itself."
    if sum(map(has_figures, side.results)) < 2:
        return f"{name} has figures for only one strategy."
    return "A run was interrupted." if isinstance(side, Profile) and was_interrupted(side) else ""


_WITHIN_NOISE = "No predicted time differs by more than host stages vary on this CPU."
DECIDING = ("device", "arguments")
"""Where these differ, times cannot be compared, and a gate would judge something else than the code."""
Basis = Literal["measured", "predicted"]


@dataclass(frozen=True)
class ComparedDevice:
    """One device: the measured GPU, or a device that both profiles predict for."""

    device: Device
    basis: Basis
    rows: tuple[Compared, ...]
    one_sided: tuple[OneSided, ...]
    recommended: Recommended
    drift: Drift | None = None
    """What moved all strategies together; None of predictions, and where too few ran side by side."""


@dataclass(frozen=True)
class Comparison:
    """HEAD against BASE. `devices` is one measured GPU, or the devices that both predict for."""

    base: Profile
    head: Profile
    conditions: tuple[Condition, ...]
    devices: tuple[ComparedDevice, ...]
    new_advice: tuple[Advice, ...]
    gone_advice: tuple[Advice, ...]
    confidence: float
    notes: tuple[str, ...] = ()
    unmatched_devices: tuple[str, ...] = ()
    """Devices that one of the two alone predicts for."""
    changed_work: tuple[str, ...] = ()
    """Why frames of the two do different work, so that no gate applies."""
    unjudged: tuple[OneSided, ...] = ()
    """Strategies that the user's code uses and that have no ratio, beside those that are `one_sided`."""
    results: Results = NO_RESULTS
    """Results of two versions that one run executed."""

    @property
    def predicted(self) -> bool:
        return all(each.basis == "predicted" for each in self.devices)

    @property
    def rows(self) -> tuple[Compared, ...]:
        return tuple(each for device in self.devices for each in device.rows)


def compare(
    base: Profile, head: Profile, *, strategies: Sequence[str] = (), anyway: bool = False
) -> Comparison:
    """HEAD against BASE; all strategies or those named.

    Raises `UsageError` where that makes no sense (`anyway` allows another workload's name, or a script's
    other arguments) or a named strategy is in neither; `NothingMeasured` where one has no figures or they
    have no strategy in common.
    """
    strategies = (strategies,) if isinstance(strategies, str) else strategies
    require_alike(base, head, anyway=anyway)
    mixes = {name: identity(row) for side in (base, head) for name, row in mixes_of(side).items()}
    strategies = [mixes.get(name, name) for name in strategies]
    base, head = named_by_placements(base), named_by_placements(head)
    predicted = (each.results for side in (base, head) for each in side.predictions)
    known = dict.fromkeys(row.strategy for row in chain(base.results, head.results, *predicted))
    if unknown := [name for name in strategies if name not in known]:
        raise UsageError(
            f"neither profile has a strategy {unknown[0]!r}", next_step=f"They have {', '.join(known)}."
        )
    devices = compared_devices(base, head, predicted=on_cpu(head), only=strategies)
    if not any(each.rows for each in devices):
        raise _nothing_in_common(devices, strategies)
    before, now = ([p.device.name for p in side.predictions if on_cpu(side)] for side in (base, head))
    alone = tuple(name for name in dict.fromkeys((*before, *now)) if (name in before) != (name in now))
    listed = {row.strategy for each in devices for rows in (each.rows, each.one_sided) for row in rows}
    rest = around(base, head, devices)
    if absent := [name for name in strategies if name not in listed]:  # of none, `by_strategy` has all
        rest["unjudged"] = one_sided(
            by_strategy(base.results, absent), by_strategy(head.results, absent), absent
        )
    return Comparison(devices=devices, unmatched_devices=alone, **rest)


def around(base: Profile, head: Profile, devices: Sequence[ComparedDevice]) -> dict[str, Any]:
    """All of a comparison but the devices, on whose rows its advice rests."""
    # A measured device may have another name in each.
    apart = {each.device.name: differing_strategies(each.rows, each.one_sided) for each in devices}
    apart.setdefault(base.device.name, apart.get(head.device.name, set()))
    return {
        "base": base,
        "head": head,
        "conditions": conditions(base, head),
        "new_advice": _changed_advice(head, base, apart),
        "gone_advice": _changed_advice(base, head, apart),
        "confidence": _confidence(base, head),
        "notes": tuple(_notes(base, head)),
        "changed_work": changed_work(base.workload, head.workload),
    }


def _confidence(base: Profile, head: Profile) -> float:
    return max(base.method.confidence, head.method.confidence)


def compared_devices(
    base: Profile, head: Profile, *, predicted: bool, only: Sequence[str] = ()
) -> tuple[ComparedDevice, ...]:
    """The measured device, or those that both predict for."""
    confidence, seed = _confidence(base, head), head.method.seed
    before, now = counted(base, head.preferences.objective), counted(head)
    if not predicted:
        return (_device(before, now, confidence, only, seed),)
    known = {each.device.name: each for each in before.predictions}
    both = ((known[each.device.name], each) for each in now.predictions if each.device.name in known)
    return tuple(_device(*pair, confidence, only, seed) for pair in both)


def on_cpu(profile: Profile) -> bool:
    """Whether it was made without a GPU, so that its predictions are what counts."""
    return profile.device.kind == "cpu"


def same_run(base: Profile, head: Profile) -> bool:
    """Whether both are the same run: the same figures, measured at the same time."""
    figures = [(side.created, side.results, side.predictions, side.script) for side in (base, head)]
    return figures[0] == figures[1]


def require_gateable(base: Profile, head: Profile, around: Iterable[Condition], *, anyway: bool) -> None:
    """Raises `UsageError` where a gate would judge something else than a change of the code."""
    if anyway:
        return
    if same_run(base, head):
        raise UsageError(
            "BASE and HEAD are the same run, which would pass every gate",
            next_step="Profile again for HEAD, or add --anyway.",
        )
    apart = [c for c in differing(around, "subject") if c.what in DECIDING]
    if apart:
        differences = "; ".join(f"{c.what}: {c.base} in BASE, {c.head} in HEAD" for c in apart)
        raise UsageError(
            f"BASE and HEAD differ in more than the code, so gates do not apply: {differences}",
            next_step="Profile both under the same conditions, omit --fail-if, or add --anyway.",
        )


def require_alike(base: Profile, head: Profile, *, anyway: bool) -> None:
    if (base.script is None) != (head.script is None):
        script, other = ("BASE", "HEAD") if base.script else ("HEAD", "BASE")
        raise UsageError(
            f"{script} is a profile of a script, {other} of a workload: runs and frames cannot be compared",
            next_step="Give two profiles of one script, or of one workload.",
        )
    if on_cpu(base) != on_cpu(head):
        first, second = ("BASE", "HEAD") if on_cpu(base) else ("HEAD", "BASE")
        raise UsageError(
            f"{first} is predicted, {second} was measured on a GPU: measured and predicted times cannot "
            "be compared",
            next_step=f"Profile {first} on the GPU too, or both with --no-gpu.",
        )
    if base.workload.name != head.workload.name and not anyway:
        what = "script" if head.script else "workload"
        raise UsageError(
            f"these are different {what}s: {base.workload.name} in BASE, {head.workload.name} in HEAD",
            next_step=f"Give two profiles of one {what}, or add --anyway if it was renamed.",
        )
    if arguments(base) != arguments(head) and not anyway:
        raise UsageError(
            f"the script ran with different arguments: {arguments(base)} in BASE, {arguments(head)} in HEAD",
            next_step="Profile both with the same arguments, or add --anyway.",
        )
    for side, profile in (("BASE", base), ("HEAD", head)):
        if profile.script is None:
            _require_figures(side, profile)


def _require_figures(side: str, profile: Profile) -> None:
    predicted = any(isinstance(r, Predicted) for p in profile.predictions for r in p.results)
    if predicted if on_cpu(profile) else any(map(has_figures, profile.results)):
        return
    failed = next((r for r in profile.results if r.status == "failed"), None)
    why = f" ({failed.strategy}: {failed.reason})" if failed else ""
    what = "predicted for a GPU" if on_cpu(profile) else "measured"
    raise NothingMeasured(
        f"{side} has no strategy that was {what}, so there is nothing to compare{why}",
        next_step="`advisor report` shows the reason. Fix it and profile again.",
    )


def _device(
    base: Profile | Prediction, head: Profile | Prediction, confidence: float, only: Sequence[str], seed: int
) -> ComparedDevice:
    measured = isinstance(head, Profile)
    before, now = by_strategy(base.results, only), by_strategy(head.results, only)
    rows = tuple(
        Compared(earlier, later, ratio := ratio_of(earlier, later, confidence, seed=seed), outcome(ratio))
        for name, later in now.items()
        if has_figures(later) and has_figures(earlier := before.get(name))
    )
    gaps = one_sided(before, now)
    basis: Basis = "measured" if measured else "predicted"
    chosen = recommended(base, head)
    if not measured and not differing_strategies(rows, gaps) and chosen.change == "changed":
        chosen = replace(chosen, change="cannot tell", reason=_WITHIN_NOISE)
    moved = drift(rows, head.workload, confidence) if isinstance(head, Profile) else None
    return ComparedDevice(head.device, basis, rows, gaps, chosen, moved)


def _nothing_in_common(devices: Sequence[ComparedDevice], only: Sequence[str]) -> NothingMeasured:
    if not devices:
        return NothingMeasured(
            "BASE and HEAD have no predicted device in common",
            next_step="Predict both for the same device: `advisor predict PROFILE --target DEVICE`.",
        )
    among = f" among {', '.join(only)}" if only else ""
    gaps = [f"{gap.strategy} {gap.status} in {gap.missing_in}" for gap in devices[0].one_sided]
    why = f": {', '.join(gaps[:6])}" if gaps else ""
    return NothingMeasured(
        f"no strategy{among} has figures in both BASE and HEAD{why}",
        next_step="Profile both with the same strategies.",
    )


_NAMES = {"name", "file", "sha256", "summary"}
_TIMES: Any = {"host_rates": True, "work": {"__all__": {"seconds"}}}


def differing_strategies(rows: Sequence[Compared], gaps: Sequence[OneSided]) -> AbstractSet[str]:
    """Strategies with a clearly different time, with other memory, or that failed in one of the two."""
    apart = (r for r in rows if r.outcome in ("slower", "faster") or r.base_bytes != r.head_bytes)
    return {row.strategy for row in apart} | {gap.strategy for gap in gaps if gap.status == "failed"}


def _changed_advice(
    one: Profile, other: Profile, differing: Mapping[str, AbstractSet[str]]
) -> tuple[Advice, ...]:
    """Advice of the one alone, by rule and device; measured devices stand for one another.

    Noise makes rules fire in one run of the same code and not in the next: advice counts as changed where
    frames do other work, or where a strategy that it speaks of clearly takes another time or memory. Of a
    device that one of the two alone predicts for, nothing is new or gone.
    """
    there = {_about(a, other) for a in other.advice if a.outcome == "advice"}
    shared = {None} | ({p.device.name for p in one.predictions} & {p.device.name for p in other.predictions})
    other_work = _work(one) != _work(other)
    fired = ((a, _about(a, one)) for a in one.advice if a.outcome == "advice")
    only = (a for a, about in fired if about not in there and about[1] in shared)

    def rests_on(advice: Advice) -> set[str]:
        """Strategies that it proposes, counts its gain from, or has figures of (`pinned: one frame`)."""
        named = {item.label.partition(":")[0] for item in advice.evidence}
        return named | {advice.strategy or "", (advice.gain.over or "") if advice.gain else ""}

    return tuple(a for a in only if other_work or rests_on(a) & differing.get(a.device, set()))


def _about(advice: Advice, profile: Profile) -> tuple[str, str | None]:
    return advice.rule, None if advice.device == profile.device.name else advice.device


def _work(profile: Profile) -> tuple[object, ...]:
    """The work of a frame, apart from how long it takes."""
    traced = profile.traffic.model_dump(exclude=_TIMES) if profile.traffic else None
    return profile.workload.model_dump(exclude=_NAMES), traced


def _notes(base: Profile, head: Profile) -> list[str]:
    notes = []
    if same_run(base, head):
        notes.append("BASE and HEAD are the same run.")
    before, now = ((*side.notes, *side.environment.warnings) for side in (base, head))
    for text in dict.fromkeys((*before, *now)):
        side = "Both" if text in before and text in now else "BASE" if text in before else "HEAD"
        notes.append(f"{side}: {text}")
    return notes
