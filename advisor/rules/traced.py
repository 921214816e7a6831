"""What nsys recorded, as evidence for the rules that it concerns, and a check of the cause that they name.

Rules judge what was measured, with or without a trace. One whose cause the driver did not see is no longer
certain of it; that is all that a trace decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from advisor.profiles.conclusions import Advice, Evidence, Unit
from advisor.profiles.schema import Profile
from advisor.profiles.traces import Direction, StrategyTrace

_SEEN = "recorded by nsys, per frame"


@dataclass(frozen=True)
class Traced:
    """What of a trace speaks to a rule."""

    strategies: tuple[str, ...]
    """It is about the first of these that was traced."""
    evidence: Callable[[StrategyTrace], Iterator[Evidence]]
    cause: Callable[[StrategyTrace], float | None] | None = None
    """Bytes a frame by which the cause shows; None where none was watched."""
    unseen: str = ""
    """What nsys did not see where that is 0."""

    def beside(self, advice: Advice, profile: Profile) -> Advice:
        """The advice, where it is on the measured device, with what nsys recorded."""
        traced = next((found for name in self.strategies if (found := profile.trace.of(name))), None)
        spoken = advice.device == profile.device.name and advice.outcome in ("advice", "pass")
        if traced is None or not spoken:
            return advice
        seen = {"evidence": (*advice.evidence, *self.evidence(traced))}
        if advice.outcome == "pass" or self.cause is None or self.cause(traced) != 0:
            return advice.model_copy(update=seen)
        doubt = (
            f"{advice.detail} But nsys recorded {self.unseen} in its trace, so the cause may be different."
        )
        certainty = "likely" if advice.certainty == "measured" else advice.certainty
        return advice.model_copy(update={**seen, "detail": doubt, "certainty": certainty})


def pageable_bytes(traced: StrategyTrace) -> float | None:
    """Bytes copied from or to pageable memory in a frame."""
    up = traced.copied_bytes("host-to-device", source="pageable")
    down = traced.copied_bytes("device-to-host", destination="pageable")
    return None if up is None or down is None else up + down


def migrations(traced: StrategyTrace) -> Iterator[Evidence]:
    directions: Mapping[Direction, str] = {"to-device": "the GPU", "to-host": "the host"}
    for direction, side in directions.items():
        moved = traced.migrated_bytes(direction)
        if moved is not None:
            yield _figure(traced, f"migrated to {side}", moved, "bytes")
    for who, faults in zip(("CPU", "GPU"), traced.faults(), strict=True):
        if faults is not None:
            yield _figure(traced, f"page faults by the {who}", faults, "count")


def copies(traced: StrategyTrace) -> Iterator[Evidence]:
    """Bytes by direction and by the kind of the host's memory, as the driver saw it."""
    for copies in traced.activity.copies or ():
        to_host = copies.kind == "device-to-host"
        host = copies.destination if to_host else copies.source
        way = f"{'into' if to_host else 'from'} {host or 'unknown'} memory"
        yield _figure(traced, f"copied {copies.kind} {way}", copies.bytes / traced.frames, "bytes")


def idle(traced: StrategyTrace) -> Iterator[Evidence]:
    """Time without kernels and copies, beside the traced frame that it is of: tracing makes both longer."""
    if traced.idle_share is not None:
        yield _figure(traced, "GPU idle", traced.idle_share * traced.frame_seconds, "seconds")
        whole = f"{traced.strategy}: that frame, slowed by tracing"
        yield Evidence(label=whole, value=traced.frame_seconds, unit="seconds")


def _figure(traced: StrategyTrace, label: str, value: float, unit: Unit) -> Evidence:
    return Evidence(label=f"{traced.strategy}: {label}, {_SEEN}", value=value, unit=unit)
