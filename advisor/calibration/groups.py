"""The groups of measurements, in the order in which they run: one process each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from advisor.calibration import device_memory, host_memory, latencies, managed, transfers, zero_copy
from advisor.calibration.bench import Bench


@dataclass(frozen=True)
class Group:
    """What one process measures."""

    name: str
    title: str
    keys: tuple[str, ...]
    """The figures it should find."""
    measure: Callable[[Bench], None]
    needs_gpu: bool = True


GROUPS = (
    Group("host", "the CPU's memory", host_memory.keys("host"), host_memory.measure_plain, needs_gpu=False),
    Group(
        "page-locked",
        "page-locked memory",
        (*host_memory.keys(host_memory.PINNED), *host_memory.keys(host_memory.WRITE_COMBINED)),
        host_memory.measure_page_locked,
    ),
    Group("transfers", "copies", (*transfers.keys("pinned"), *transfers.keys("pageable")), transfers.measure),
    Group("zero-copy", "mapped memory", zero_copy.KEYS, zero_copy.measure),
    Group("device", "the device's memory", device_memory.KEYS, device_memory.measure),
    Group("latencies", "launches", latencies.KEYS, latencies.measure),
    Group(
        "managed", "managed memory", (*host_memory.keys(host_memory.MANAGED), *managed.KEYS), managed.measure
    ),
)
"""The CPU alone first; managed memory, which has hung GPUs, last."""


def by_name(name: str) -> Group:
    """Raises KeyError."""
    return {group.name: group for group in GROUPS}[name]
