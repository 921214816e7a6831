"""What moves between the sides: copies, prefetches, pages that follow faults."""

from __future__ import annotations

import numpy as np

from advisor.model import terms
from advisor.model.draws import Values, constant
from advisor.model.situation import Situation
from advisor.placements.base import Placement
from advisor.placements.staged import Staged
from advisor.profiles import Side


def transfer(at: Situation, buffer: str, to: Side) -> Values:
    """One to-device or to-host step."""
    placement, size = at.inner(buffer), at.size(buffer)
    if placement.device_kind == "managed":
        return _prefetch(at, placement, size, to)
    if isinstance(placement, Staged) and to == "device":
        staging = size / at.machine.get("host_copy_bytes_per_second")
        return staging + _pinned(at, placement, size, to)
    if placement.host_kind == "pageable":
        rate = at.machine.pageable_rate("to_device" if to == "device" else "to_host")
        return np.asarray(terms.copy(size, at.machine.get("pageable_copy_call_seconds"), rate))
    return _pinned(at, placement, size, to)


def _pinned(at: Situation, placement: Placement, size: int, to: Side) -> Values:
    rate = link_rate(at, to)
    if placement.write_combined:
        rate = rate * at.machine.get("write_combined_share")
    return np.asarray(terms.copy(size, at.machine.get("pinned_copy_call_seconds"), rate))


def link_rate(at: Situation, to: Side) -> Values:
    """Bytes per second of the link in that direction, from page-locked memory."""
    return at.machine.get(f"pinned_to_{to}_bytes_per_second")


def _prefetch(at: Situation, placement: Placement, size: int, to: Side) -> Values:
    """A call, and the pages over the link; nothing moves on one DRAM, nor what is kept on both sides."""
    call = at.machine.get("prefetch_call_seconds")
    if at.machine.shares_memory or "read-mostly" in placement.hints:
        return call
    return call + size / link_rate(at, to)


def migration(at: Situation, buffer: str, count: Values, to: Side) -> Values:
    """Pages of a buffer that the other side had last, moved because this side touches them."""
    machine, touched = at.machine, np.minimum(count, at.size(buffer))
    if not touched.any():
        return constant(0.0)
    by_rate = machine.find("fault_rate_bytes_per_second")
    if by_rate is not None:
        return touched / by_rate
    page = machine.exact("migration_bytes" if to == "device" else "cpu_page_bytes")
    return np.asarray(terms.migration(touched, page, machine.get("fault_seconds"), link_rate(at, to)))
