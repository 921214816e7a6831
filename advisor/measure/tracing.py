"""A workload on arrays that record what is done to them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from advisor.measure.frames import FrameLoop
from advisor.measure.nvtx_ranges import Ranges
from advisor.measure.region_violations import Stray
from advisor.measure.stand import Stand
from advisor.measure.traffic import TrafficRecorder
from advisor.strategies.backend import Backend
from advisor.strategies.parts import Region
from advisor.strategies.placements.base import Placed
from advisor.workloads.binding import BoundWorkload


def regions_of(bound: BoundWorkload) -> dict[tuple[str, str], Region]:
    """The parts that stages of a frame touch, by stage and buffer."""
    return {
        (stage.name, name): part
        for stage in bound.frame
        for name, part in stage.parts.items()
        if isinstance(part, Region)
    }


def traced(recorder: TrafficRecorder, run: Stand, backend: Backend, seed: int) -> FrameLoop:
    """The frames of the stand on traced arrays; those of a GPU stay as they are."""

    def wrap(name: str, array: Any) -> Any:
        return recorder.wrap(name, array) if isinstance(array, np.ndarray) else array

    def wrapped(name: str, each: Placed) -> Placed:
        others = {gpu: wrapped(name, other) for gpu, other in each.others.items()}
        return replace(each, host=wrap(name, each.host), device=wrap(name, each.device), others=others)

    placed = {name: wrapped(name, each) for name, each in run.placed.items()}
    return FrameLoop(run.bound, run.plan, placed, backend, seed=seed, ranges=Ranges())


def located(stray: Stray, run: Stand, backend: Backend, seed: int, frames: int) -> Stray:
    """The stray access with its line, where so many frames from the start show it."""
    recorder = TrafficRecorder(regions_of(run.bound))
    loop = traced(recorder, run, backend, seed)
    run.serial.run_setup()
    for index in range(frames):
        for action in loop.in_turn(loop.actions(index)):
            with recorder.stage(action.label.partition(":")[2]):
                loop.act(action, index)
            found = recorder.strays.get((stray.stage, stray.buffer))
            if found:
                return replace(stray, line=found.found.line)
    return stray
