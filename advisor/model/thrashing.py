"""Managed memory that both sides touch in quick turns: the driver stops moving it.

It counts faults on a page that follow one another within half a millisecond; after some it leaves the page
where it is and maps it for the other side too (NVIDIA/open-gpu-kernel-modules, uvm_perf_thrashing.c: lapse
500 µs, threshold 3, pin threshold 10). Then kernels use it over the link, as mapped memory. A product of
64 x 64 matrices took 22 µs a frame so on an H200, as with zero-copy, where faults would take 270 (measured
by us).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from advisor.model.context import Context
from advisor.model.monte_carlo import constant, triangular
from advisor.model.steady_frame import Frame, Timed
from advisor.model.terms import between

LAPSE = 500e-6
"""Seconds between two faults on a page within which they count as thrashing (the driver's default)."""

STILL_MOVING = (0.0, 0.1, 1.0)
"""Of the way from pages that stay to faults in every frame, on a logarithmic scale: least, likely, most. A
choice: the driver forgets what it found out after a while, and not all pages thrash alike."""


def timed_steps(at: Context) -> list[Timed]:
    """The steps of a frame with their seconds, as the driver does them once it has found out.

    The range goes up to faults in every frame, since some pages may go on moving.
    """
    moved = Frame(at).steps()
    if not _bounces(at):
        return moved
    # All of the frame within the lapse, so that every turn is, however unequal they are.
    pinned = sum((seconds for _, seconds in moved), constant(0.0)) <= LAPSE
    if not pinned.any():
        return moved
    still_moving = triangular(*STILL_MOVING, "thrashing")
    stayed = Frame(replace(at, stays=True)).steps()
    return [
        (step, np.where(pinned, between(remote, seconds, still_moving), seconds))
        for (step, seconds), (_, remote) in zip(moved, stayed, strict=True)
    ]


def _bounces(at: Context) -> bool:
    """Whether pages change side by faults alone, frame after frame."""
    managed = [b.name for b in at.workload.buffers if at.own(b.name).managed and at.migrates(b.name)]
    return not at.first_frames and any(not at.own(name).prefetched for name in managed)
