"""Advice that one of two profiles alone has, where something that it rests on clearly differs.

Rules have thresholds, so noise makes one speak in one run of the same code and not in the next. Advice counts
as changed where frames do other work, or where a strategy that it speaks of clearly takes another time or
memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from advisor.profiles.conclusions import Advice
from advisor.profiles.schema import Profile
from advisor.verdicts.comparing.rows import Compared, OneSided

_NAMES = {"name", "file", "sha256", "summary"}
_TIMES = {"host_rates": True, "work": {"__all__": {"seconds"}}}
_NONE: AbstractSet[str] = frozenset()


def differing_strategies(rows: Sequence[Compared], gaps: Sequence[OneSided]) -> AbstractSet[str]:
    """Strategies with a clearly different time, with other memory, or that failed in one of the two."""
    apart = (r for r in rows if r.outcome in ("slower", "faster") or r.base_bytes != r.head_bytes)
    return {row.strategy for row in apart} | {gap.strategy for gap in gaps if gap.status == "failed"}


def changed_advice(
    one: Profile, other: Profile, differing: Mapping[str, AbstractSet[str]]
) -> tuple[Advice, ...]:
    """Advice of the one alone, by rule and device; measured devices stand for one another.

    differing: strategies that differ, by device. Of a device that one of the two alone predicts for, nothing
    is new or gone.
    """
    there = {_about(a, other) for a in other.advice if a.outcome == "advice"}
    shared = {None} | ({p.device.name for p in one.predictions} & {p.device.name for p in other.predictions})
    other_work = _work(one) != _work(other)
    fired = ((a, _about(a, one)) for a in one.advice if a.outcome == "advice")
    only = (a for a, about in fired if about not in there and about[1] in shared)
    return tuple(a for a in only if other_work or _rests_on(a) & differing.get(a.device, _NONE))


def _about(advice: Advice, profile: Profile) -> tuple[str, str | None]:
    return advice.rule, None if advice.device == profile.device.name else advice.device


def _work(profile: Profile) -> tuple[object, ...]:
    """What frames do, apart from how long it takes."""
    traced = profile.traffic.model_dump(exclude=_TIMES) if profile.traffic else None
    return profile.workload.model_dump(exclude=_NAMES), traced


def _rests_on(advice: Advice) -> set[str]:
    """Strategies that it proposes, counts its gain from, or has figures of (`pinned: one frame`)."""
    named = {item.label.partition(":")[0] for item in advice.evidence}
    return named | {advice.strategy or "", (advice.gain.over or "") if advice.gain else ""}
