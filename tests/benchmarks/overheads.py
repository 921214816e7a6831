"""What is done beside the user's code: interval arithmetic, and tensors made of buffers."""

from __future__ import annotations

import importlib.util
from statistics import median
from typing import Any

import numpy as np

from advisor import stats
from advisor.measure.backends import CpuBackend
from advisor.workloads.binding import BoundStage, bind
from advisor.workloads.bridges import StageBridges
from advisor.workloads.definition import Buffer, In, Out, Workload, device
from tests.benchmarks.timing import alternate, at_most, paired_ratio

FRAMES, ROUNDS, STRATEGIES = 333, 3, 14
GOAL_MICROSECONDS = 50


def run() -> None:
    """Intervals as ratios to sorting the same frames, a tensor in seconds."""
    generator = np.random.default_rng(7)
    runs = [generator.lognormal(0, 0.02, (ROUNDS, FRAMES)).tolist() for _ in range(STRATEGIES)]

    def concluded() -> None:
        for data in runs:
            stats.median_interval(data)
            stats.ratio_interval(data, runs[0])

    def sorted_once() -> None:
        for data in runs:
            np.sort(data[0])

    ratio, *_ = paired_ratio(alternate(concluded, sorted_once, 5))
    at_most("intervals of a report: ratio to sorting", ratio, 2000, "{:.0f}")
    if importlib.util.find_spec("torch"):
        _tensor()


def _tensor() -> None:
    """What one buffer costs a stage that asks for tensors."""

    def nothing(a: In, b: Out) -> None: ...

    def stage(**options: Any) -> BoundStage:
        buffers = {name: Buffer(64, np.float32) for name in "ab"}
        return bind(Workload(buffers, [device(nothing, **options)])).frame[0]

    array, backend = np.zeros(64, np.float32), CpuBackend()
    bridges = StageBridges(stage(arrays="torch"), backend)
    wrapping, viewing = alternate(lambda: bridges.shared("a", array), array.view, 1000)
    added = median(wrapping) - median(viewing)
    at_most("a tensor of a buffer: added to a view", added * 1e6, GOAL_MICROSECONDS, "{:.1f} µs")
