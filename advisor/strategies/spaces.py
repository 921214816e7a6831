"""The mixes that can be searched: the placements that differ on a device, and changes of one buffer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from advisor.profiles.schema import BufferRecord, Device, WorkloadRecord
from advisor.strategies.mixes import uniform
from advisor.strategies.registry import STRATEGIES, SearchedFor, crossing, to_place

MOST_BUFFERS = 8
"""The largest ones are changed, of more."""
MOST_EXHAUSTIVE = 4
"""Buffers of which all mixes can be measured: 256 of four."""

Placed = Mapping[str, str]
"""Placement by buffer."""


def tried_for(device: Device, among: SearchedFor) -> tuple[str, ...]:
    """The placements that are tried for these buffers on that device, in the order of the strategies."""
    found = (strategy for strategy in STRATEGIES if among in strategy.searched)
    return tuple(strategy.name for strategy in found if strategy.unavailable(device) is None)


def alike(workload: WorkloadRecord, name: str) -> dict[str, str]:
    return {buffer.name: name for buffer in to_place(workload)}


def to_change(workload: WorkloadRecord) -> list[str]:
    """The buffers whose placement is searched for, largest first."""
    ordered = sorted(to_place(workload), key=lambda buffer: -buffer.bytes)
    return [buffer.name for buffer in ordered[:MOST_BUFFERS]]


def choices(workload: WorkloadRecord, device: Device) -> dict[str, tuple[str, ...]]:
    """The placements that are tried for each of the buffers whose placement is searched for; external memory
    can be registered where it is, too, and what crosses between GPUs be copied from one to the other."""
    one_memory = (device.memory_class or "").startswith("tegra")
    names = tried_for(device, "one-memory" if one_memory else "cards")
    external = {buffer.name for buffer in workload.buffers if buffer.external}
    further = tuple(name for name in tried_for(device, "external") if name not in names)
    between = crossing(workload) if workload.gpus > 1 else ()
    peers = tried_for(device, "between-gpus")
    return {
        name: names + further * (name in external) + peers * (name in between) for name in to_change(workload)
    }


def changes(placed: Placed, tried: Mapping[str, Sequence[str]]) -> Iterator[dict[str, str]]:
    """Every mix in which one of the buffers is placed otherwise."""
    for buffer, names in tried.items():
        yield from ({**placed, buffer: name} for name in names if name != placed[buffer])


def every_mix(tried: Mapping[str, Sequence[str]]) -> Iterator[dict[str, str]]:
    for choice in product(*tried.values()):
        placed = dict(zip(tried, choice, strict=True))
        if not uniform(placed):
            yield placed


def used_alike(workload: WorkloadRecord) -> bool:
    """Whether all shared buffers have about the same size and the same uses."""
    return len({_use(buffer, workload) for buffer in to_place(workload)}) < 2


def _use(buffer: BufferRecord, workload: WorkloadRecord) -> tuple[object, ...]:
    uses = tuple((s.side, s.phase, s.name, buffer.access.get(s.name)) for s in workload.stages)
    touched = tuple(use for use in uses if use[-1])
    return round(math.log2(max(buffer.bytes, 1))), buffer.external, bool(buffer.regions), touched
