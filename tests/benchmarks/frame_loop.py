"""What the frame loop adds to one written by hand: same memory, same functions, same copies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from advisor.measure.backends import open_backend
from advisor.measure.frames import FrameLoop
from advisor.measure.nvtx_ranges import Ranges
from advisor.strategies.backend import Backend, BackendName
from advisor.strategies.placements.arena import Arena
from advisor.strategies.placements.base import Layout
from advisor.strategies.registry import STRATEGIES, Strategy
from advisor.strategies.schedule import plan
from advisor.workloads.loading import load
from tests.benchmarks.timing import Times, alternate, paired_ratio, show

WORKLOAD = Path(__file__).parents[2] / "workloads" / "vector_add.py"
GOAL_SECONDS: dict[BackendName, float] = {"cpu": 30e-6, "cuda": 15e-6}


def run(name: BackendName) -> None:
    """Every strategy that means something there, small (seconds a frame) and large (ratio)."""
    backend = open_backend(name)
    for strategy in STRATEGIES:
        if strategy.name not in COMPARED or strategy.unavailable(backend.device()):
            continue
        ours, by_hand = compare(strategy, backend, 1 << 10, repeats=3000)
        added = median(ours) - median(by_hand)
        show(
            f"frame loop, {strategy.name}, 2^10: added to a hand-written loop",
            f"{added * 1e6:.1f} µs",
            f"<= {GOAL_SECONDS[name] * 1e6:.0f} µs",
            met=added <= GOAL_SECONDS[name],
        )
        ratio, low, high = paired_ratio(compare(strategy, backend, 1 << 24, repeats=200))
        show(
            f"frame loop, {strategy.name}, 2^24: ratio to a hand-written loop",
            f"{ratio:.4f} ({low:.4f} to {high:.4f})",
            "<= 1.01",
            met=low <= 1.01,
        )


def compare(strategy: Strategy, backend: Backend, n: int, repeats: int) -> Times:
    """Seconds of each frame of vector_add: ours, and by hand on the same memory."""
    loaded = load(WORKLOAD, None, {"n": str(n)})
    bound, device = loaded.bound, backend.device()
    placements = strategy.placements(loaded.record)
    traits = {name: placement.traits(device) for name, placement in placements.items()}
    steps = plan([], [stage.use for stage in bound.frame], traits)
    with Arena(backend) as arena:
        layout = Layout((n,), np.dtype(np.float32))
        placed = {name: placement.place(arena, layout) for name, placement in placements.items()}
        loop = FrameLoop(bound, steps, placed, backend, seed=0, ranges=Ranges())
        loop.first_frame()
        by_hand = _by_hand(strategy, placed, backend)
        by_hand()
        return alternate(lambda: loop.frame(1), by_hand, repeats)


COMPARED = ("pageable", "pinned", "zero-copy", "managed", "managed-prefetch")
"""Strategies with a hand-written loop of the same work beside them."""


def _by_hand(strategy: Strategy, placed: dict[str, Any], backend: Backend) -> Callable[[], None]:
    """What a careful programmer would write for this placement."""
    a, b, c = (placed[name] for name in "abc")
    add, synchronize = backend.xp.add, backend.synchronize
    if a.to_device is None:

        def in_place() -> None:
            a.host.fill(1)
            b.host.fill(0.5)
            add(a.device, b.device, out=c.device)
            synchronize()
            c.host.sum()

        return in_place

    def prefetching() -> None:
        a.to_host(None)
        b.to_host(None)
        synchronize()
        a.host.fill(1)
        b.host.fill(0.5)
        for placed_buffer in (a, b, c):
            placed_buffer.to_device(None)
        add(a.device, b.device, out=c.device)
        c.to_host(None)
        synchronize()
        c.host.sum()

    if strategy.name == "managed-prefetch":
        return prefetching

    def copying() -> None:
        a.host.fill(1)
        b.host.fill(0.5)
        a.to_device(None)
        b.to_device(None)
        add(a.device, b.device, out=c.device)
        c.to_host(None)
        synchronize()
        c.host.sum()

    return copying
