"""What strategies do to the buffers of a workload: where each lies, what moves in a frame. No figures."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from advisor.profiles.schema import BufferRecord, Device, Side, WorkloadRecord
from advisor.strategies.placements.base import Placement
from advisor.strategies.registry import STRATEGIES, Strategy
from advisor.strategies.registry import shared as shared
from advisor.strategies.schedule import Step, plan, stage_uses


def strategy(name: str) -> Strategy | None:
    """The strategy of that name; None for one that this version does not know."""
    return next((s for s in STRATEGIES if s.name == name), None)


def host_readers(workload: WorkloadRecord) -> dict[str, list[str]]:
    """Shared buffers that host stages of a frame read, with these stages."""
    found = {
        buffer.name: [s for s, mode in workload.touching(buffer, "host").items() if mode != "out"]
        for buffer in shared(workload)
    }
    return {name: stages for name, stages in found.items() if stages}


def placements(name: str, workload: WorkloadRecord) -> dict[str, Placement]:
    """How that strategy places each buffer that both sides use; nothing for one not known here."""
    known = strategy(name)
    placed = known.placements(workload) if known else {}
    return {buffer.name: placed[buffer.name] for buffer in shared(workload) if known}


def moves(name: str, workload: WorkloadRecord, device: Device) -> tuple[Step, ...]:
    """The copies, or prefetches, of a steady frame under that strategy; none for one not known here."""
    known = strategy(name)
    if known is None:
        return ()
    placed = known.placements(workload)
    traits = {buffer: placement.traits(device) for buffer, placement in placed.items()}
    steps = plan(stage_uses(workload, "setup"), stage_uses(workload, "frame"), traits).steady
    return tuple(step for step in steps if step.action in ("to-device", "to-host"))


def changes_of_side(buffer: BufferRecord, workload: WorkloadRecord) -> int:
    """How often the side that touches the buffer changes from frame to frame, in one frame."""
    touched: list[Side] = [s.side for s in workload.frame_stages() if s.name in buffer.access]
    return sum(before != after for before, after in _around(touched))


def _around(sides: list[Side]) -> Iterator[tuple[Side, Side]]:
    """Neighbours, the last and the first among them: a frame follows a frame."""
    yield from pairwise([*sides, *sides[:1]])
