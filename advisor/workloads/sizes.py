"""Whether the machine can hold the buffers, asked before any of them is placed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from advisor import units
from advisor.workloads.binding import BoundWorkload
from advisor.workloads.definition import ImpossibleBuffer


def host_memory(group: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes of the machine, or of the container that this runs in."""
    total = int(psutil.virtual_memory().total)
    with suppress(OSError, ValueError):  # "max" where there is no limit
        total = min(total, int((group / "memory.max").read_text()))
    return total


def require_host_memory(
    bound: BoundWorkload, copies: int = 1, total: Callable[[], int] = host_memory
) -> None:
    """Raises `ImpossibleBuffer` where the host cannot hold the buffers that it shares with the GPU.

    copies: of each, 2 where the CPU stands for the GPU too, which then holds scratch memory as well.
    """
    buffers = {n: b for n, b in bound.workload.buffers.items() if copies > 1 or not b.scratch}
    needed, there = sum(b.nbytes * copies for b in buffers.values()), total()
    if needed <= there:
        return
    name, largest = max(buffers.items(), key=lambda item: item[1].nbytes)
    twice = " in two copies" if copies > 1 else ""
    raise ImpossibleBuffer(
        f"the buffers need {units.size(needed)}{twice}, and this machine has {units.size(there)}; the "
        f"largest is buffer {name!r} of shape {largest.dimensions} and dtype {largest.element}",
        next_step="Make it smaller with --set NAME=VALUE.",
    )
