"""What moves between the sides: copies, prefetches, pages that follow faults."""

from __future__ import annotations

import numpy as np

from advisor.model import terms
from advisor.model.context import Context
from advisor.model.monte_carlo import Values, constant
from advisor.profiles.schema import Side
from advisor.strategies.placements.base import Placement
from advisor.strategies.schedule import Step


def transfer(at: Context, step: Step, to: Side) -> Values:
    """One to-device or to-host step."""
    placement, size = at.own(step.name), at.moved(step)
    if placement.managed:
        return _prefetch(at, placement, size, to)
    if placement.staged and to == "device":
        return into_pool(at, size) + _pinned(at, placement, size, to)
    if not placement.locks:
        rate = at.machine.pageable_rate("to_device" if to == "device" else "to_host")
        return np.asarray(terms.copy(size, at.machine.get("pageable_copy_call_seconds"), rate))
    return _pinned(at, placement, size, to)


def blocks(at: Context, step: Step) -> bool:
    """Whether the step is a copy from or to pageable memory, for which the host waits."""
    if step.action not in ("to-device", "to-host"):
        return False
    placement = at.own(step.name)
    copied = placement.device_kind == "device" and not placement.locks
    return copied and not (placement.staged and step.action == "to-device")


def into_pool(at: Context, size: float) -> Values:
    """The CPU's copy into CuPy's pinned pool."""
    pinned, plain = "host_pinned_copy_bytes_per_second", "host_copy_bytes_per_second"
    uncached = at.machine.entry.memory_class == "tegra"
    return size / at.machine.get(pinned if at.machine.has(pinned) and not uncached else plain)


def peer_copy(at: Context, step: Step) -> Values:
    """From GPU to GPU, with peer access enabled."""
    call, rate = at.machine.get("pinned_copy_call_seconds"), at.machine.get("peer_bytes_per_second")
    return np.asarray(terms.copy(at.moved(step), call, rate))


def _pinned(at: Context, placement: Placement, size: float, to: Side) -> Values:
    rate = link_rate(at, to)
    if placement.write_combined:
        rate = rate * at.machine.get("write_combined_share")
    return np.asarray(terms.copy(size, at.machine.get("pinned_copy_call_seconds"), rate))


def link_rate(at: Context, to: Side) -> Values:
    """Bytes per second of the link in that direction, from page-locked memory."""
    return at.machine.get(f"pinned_to_{to}_bytes_per_second")


def _prefetch(at: Context, placement: Placement, size: float, to: Side) -> Values:
    """A call, and the pages over the link; nothing moves on one DRAM, nor what is kept on both sides.

    On a card the driver also maps each page that comes back to the CPU, one by one and within the call.
    """
    machine = at.machine
    call = machine.get("prefetch_call_seconds")
    if machine.shares_memory or "read-mostly" in placement.hints:
        return call
    share, rate = machine.find("prefetch_share"), f"prefetch_to_{to}_bytes_per_second"
    moved = size / (machine.get(rate) if machine.has(rate) else link_rate(at, to))
    mapping = machine.find("map_page_seconds") if to == "host" and not machine.has(rate) else None
    if mapping is not None:
        moved = moved + _pages(at, size) * mapping
    return call + moved / (1.0 if share is None else share)


def first_writes(at: Context, count: Values) -> Values:
    """What the host pays to write pages that were brought back to it mapped for reading alone."""
    fault = at.machine.find("write_fault_seconds")
    return constant(0.0) if fault is None else _pages(at, count) * fault


def _pages(at: Context, count: Values | float) -> Values:
    return np.asarray(count) / at.machine.exact("cpu_page_bytes")


def migration(at: Context, buffer: str, count: Values, to: Side) -> Values:
    """Pages of a buffer that the other side had last, moved because this side touches them."""
    machine, touched = at.machine, np.minimum(count, at.size(buffer))
    if not touched.any():
        return constant(0.0)
    if at.moves_whole:
        return touched / machine.get(f"migration_to_{to}_bytes_per_second")
    by_rate = machine.find("fault_rate_bytes_per_second")
    first = machine.find("fault_batch_seconds") if to == "device" else None
    first = constant(0.0) if first is None else first
    measured = f"migration_to_{to}_bytes_per_second"
    if by_rate is not None and not machine.has(measured):
        return touched / by_rate + first
    page = machine.exact("migration_bytes" if to == "device" else "cpu_page_bytes")
    fault, link = machine.get("fault_seconds"), link_rate(at, to)
    if machine.has(measured):
        return terms.migration_at(touched, page, fault, link, machine.get(measured)) + first
    return terms.migration(touched, page, fault, link) + first
