"""What nsys saw, as further evidence of the rules that speak of it. It never decides: rules judge what was
measured, with or without a trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from advisor.profiles import Advice, Evidence, Profile, Unit
from advisor.traces.records import Direction, StrategyTrace

_SEEN = "seen by nsys, per frame"


def with_trace(profile: Profile, advice: Sequence[Advice]) -> tuple[Advice, ...]:
    """The advice on the measured device with what nsys saw of the strategies that it is about."""
    return tuple(_with(profile, one) for one in advice)


def _with(profile: Profile, advice: Advice) -> Advice:
    wanted = ABOUT.get(advice.rule)
    about_this = advice.device == profile.device.name and advice.outcome in ("advice", "pass")
    if wanted is None or not about_this:
        return advice
    strategies, evidence = wanted
    traced = next((found for name in strategies if (found := profile.trace.of(name))), None)
    if traced is None:
        return advice
    return advice.model_copy(update={"evidence": (*advice.evidence, *evidence(traced))})


def _migrations(traced: StrategyTrace) -> Iterator[Evidence]:
    """Bytes that moved, each way, and the faults that made them."""
    directions: Mapping[Direction, str] = {"to-device": "the GPU", "to-host": "the host"}
    for direction, side in directions.items():
        moved = traced.migrated_bytes(direction)
        if moved is not None:
            yield _figure(traced, f"migrated to {side}", moved, "bytes")
    for who, faults in zip(("CPU", "GPU"), traced.faults(), strict=True):
        if faults is not None:
            yield _figure(traced, f"page faults by the {who}", faults, "count")


def _copies(traced: StrategyTrace) -> Iterator[Evidence]:
    """Bytes by direction and by the kind of the host's memory, as the driver saw it."""
    for copies in traced.activity.copies or ():
        to_host = copies.kind == "device-to-host"
        host = copies.destination if to_host else copies.source
        way = f"{'into' if to_host else 'from'} {host or 'unknown'} memory"
        yield _figure(traced, f"copied {copies.kind} {way}", copies.bytes / traced.frames, "bytes")


def _idle(traced: StrategyTrace) -> Iterator[Evidence]:
    """Time without kernels and copies, beside the traced frame that it is of: tracing makes both longer."""
    if traced.idle_share is not None:
        idle = traced.idle_share * traced.frame_seconds
        yield Evidence(label=f"{traced.strategy}: GPU idle, {_SEEN}", value=idle, unit="seconds")
        whole = f"{traced.strategy}: that frame, slowed by the tracing"
        yield Evidence(label=whole, value=traced.frame_seconds, unit="seconds")


def _figure(traced: StrategyTrace, label: str, value: float, unit: Unit) -> Evidence:
    return Evidence(label=f"{traced.strategy}: {label}, {_SEEN}", value=value, unit=unit)


ABOUT: Mapping[str, tuple[tuple[str, ...], Callable[[StrategyTrace], Iterator[Evidence]]]] = {
    "page-fault-migration": (("managed",), _migrations),
    "ping-pong-migration": (("managed",), _migrations),
    "pageable-transfer": (("pageable",), _copies),
    "staged-transfer": (("staged",), _copies),
    "serial-copies": (("pinned", "pageable"), _idle),
}
"""By rule: the strategies it is about, the first that was traced, and what of the trace speaks to it."""
