"""What nsys saw, as further evidence of the rules that speak of it, and a check of the cause that they name.

Rules judge what was measured, with or without a trace. One whose cause the driver did not see is no longer
certain of it; that is all that a trace decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from advisor.profiles.schema import Advice, Evidence, Profile, Unit
from advisor.profiles.traces import Direction, StrategyTrace

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
    seen = {"evidence": (*advice.evidence, *evidence(traced))}
    return advice.model_copy(update={**seen, **_doubt(advice, traced)})


def _doubt(advice: Advice, traced: StrategyTrace) -> dict[str, str]:
    """What changes where the driver was watched and did nothing of what an advice names as the cause."""
    if advice.outcome != "advice" or advice.rule not in CAUSES:
        return {}
    seen, unseen = CAUSES[advice.rule]
    if seen(traced) != 0:
        return {}
    doubt = f"{advice.detail} But in its trace nsys saw {unseen}: the cause may be another."
    return {"detail": doubt, **({"certainty": "likely"} if advice.certainty == "measured" else {})}


def _pageable(traced: StrategyTrace) -> float | None:
    """Bytes copied from or to ordinary memory in a frame."""
    up = traced.copied_bytes("host-to-device", source="pageable")
    down = traced.copied_bytes("device-to-host", destination="pageable")
    return None if up is None or down is None else up + down


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
CAUSES: Mapping[str, tuple[Callable[[StrategyTrace], float | None], str]] = {
    "page-fault-migration": (
        lambda traced: traced.migrated_bytes("to-device"),
        "no managed memory move to the GPU",
    ),
    "pageable-transfer": (_pageable, "no copy from or to pageable memory"),
    "staged-transfer": (
        lambda traced: traced.copied_bytes("host-to-device", source="pinned"),
        "no upload from page-locked memory",
    ),
}
"""By rule: the bytes a frame by which its cause shows, None where none was watched; what was not seen."""
