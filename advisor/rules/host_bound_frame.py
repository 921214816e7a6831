"""host-bound-frame: the CPU's own stages fill the frame, so that no memory strategy can help."""

from advisor import units
from advisor.profiles.conclusions import Evidence
from advisor.rules.base import Case, Finding, Limits, Row, advice, not_applicable, passed
from advisor.strategies.registry import BASELINE


def judge(case: Case, limits: Limits) -> Finding:
    best = case.fastest()
    subject = case.rows.get(BASELINE) or best
    if best is None or subject is None or not subject.parts_seconds:
        return not_applicable("No part of a frame was timed separately.")
    share = subject.part(subject.host_seconds)
    if share < limits["share"]:
        return passed(_enough(subject, share, case.chosen), *_evidence(subject))
    if best is not subject and subject.over(best).low > 1 / limits["share"]:
        most = f"Host stages are {units.percent(share)} of a frame of {subject.strategy}"
        reason = f"{most}, but {best.strategy} makes them faster too."
        return passed(reason, *_evidence(subject), *_evidence(best))
    stages = ", ".join(f"{name} {units.seconds(seconds)}" for name, seconds in _longest(subject))
    return advice(
        f"The CPU's own stages are {units.percent(share)} of a frame of {subject.strategy} ({stages}"
        f"{', as predicted' if subject.predicted else ''}). Even if kernels, copies and waits took no "
        f"time, a frame would be at most {units.ratio(1 / share)} as fast, so the memory strategy makes "
        "little difference. Speed up these stages, move them to the GPU, or overlap frames.",
        *_evidence(subject),
    )


def _enough(subject: Row, share: float, chosen: Row | None) -> str:
    """Also how much of a frame is left to the CPU once the recommended strategy is in use."""
    reason = (
        f"Host stages are {units.percent(share)} of a frame of {subject.strategy}"
        f"{' as predicted' if subject.predicted else ''}: the placement of the data matters."
    )
    if chosen is None or chosen is subject or not chosen.parts_seconds:
        return reason
    left = chosen.part(chosen.host_seconds)
    return f"{reason} With {chosen.strategy} they are {units.percent(left)}."


def _longest(row: Row) -> list[tuple[str, float]]:
    return sorted(row.host_stages.items(), key=lambda item: -item[1])[:3]


def _evidence(row: Row) -> tuple[Evidence, ...]:
    beside = row.parts_seconds - row.host_seconds
    return (
        *(row.figure(f"{row.strategy}: {name}", seconds) for name, seconds in _longest(row)),
        row.figure(f"{row.strategy}: kernels, copies and waits", beside),
    )
