"""A workload on its placed buffers, ready to run."""

from __future__ import annotations

import gc
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from advisor.errors import UsageError
from advisor.measure.frames import FrameLoop, Ranges
from advisor.measure.jobs import Job
from advisor.measure.namespaces import back_to_start
from advisor.measure.pipelined import PipelinedLoop
from advisor.measure.sampling import Clock
from advisor.measure.verification import Inspector
from advisor.strategies.arena import Arena, ReusedAllocations, chosen_node
from advisor.strategies.backend import Backend, wait_for_all
from advisor.strategies.mixes import known
from advisor.strategies.placement import Layout, Placed, require_memory
from advisor.strategies.planning import plan
from advisor.strategies.registry import gpus_of
from advisor.strategies.schedule import Plan, doubled
from advisor.workloads.binding import BoundWorkload
from advisor.workloads.loading import Loaded, prepare

_LEAST_SECONDS = 10.0
"""For one frame of a workload with a loop, however little time is left."""


@dataclass(frozen=True)
class PlacedWorkload:
    bound: BoundWorkload
    loop: FrameLoop
    plan: Plan
    inspector: Inspector
    arena: Arena
    placed: dict[str, Placed]
    hints: dict[str, tuple[str, ...]]
    placing_seconds: float


@contextmanager
def place(
    job: Job,
    loaded: Loaded,
    backend: Backend,
    ranges: Ranges,
    *,
    padding: int = 0,
    clock: Clock = time.perf_counter,
    reused: ReusedAllocations | None = None,
) -> Iterator[PlacedWorkload]:
    """Places the buffers and plans the frames; frees everything at the end, whatever happens. padding: bytes
    taken on both sides before the buffers, so that they come to lie elsewhere. reused: where memory comes
    from and goes."""
    backend.open_gpus(loaded.record.gpus, job.gpus)
    bound, device, strategy = loaded.bound, backend.device(), known(job.strategy, job.mixes)
    placements = strategy.placements(loaded.record)
    traits = {name: placement.traits(device) for name, placement in placements.items()}
    frame = [stage.use for stage in bound.frame]
    planned = plan([stage.use for stage in bound.setup], frame, traits)
    layouts = {name: Layout(b.dimensions, b.element) for name, b in bound.workload.buffers.items()}
    second = doubled(frame) if strategy.pipelined else []
    begin = clock()
    nodes = [_numa_node(job, gpu) for gpu in backend.gpus]
    with Arena(backend, nodes[0], nodes, reused) as arena:
        gpus = {buffer.name: gpus_of(buffer, loaded.record) or (0,) for buffer in loaded.record.buffers}
        needed = {name: layouts[name].nbytes * (2 if name in second else 1) for name in layouts}
        for number, gpu in enumerate(backend.gpus):
            there = {name: placement for name, placement in placements.items() if number in gpus[name]}
            require_memory(gpu, there, needed, oversubscribe=job.oversubscribe)
        arena.pad(padding)
        placed = {name: p.place(arena, layouts[name], gpus[name]) for name, p in placements.items()}
        again = {name: placements[name].place(arena, layouts[name], gpus[name]) for name in second}
        sets = (placed, {**placed, **again}) if strategy.pipelined else (placed,)
        form = PipelinedLoop if strategy.pipelined else FrameLoop
        loop = form(bound, planned, sets, backend, seed=job.seed, ranges=ranges, clock=clock)
        if job.task == "reference" and job.left_seconds is not None:
            for count in loop.iterations.values():
                count.end = time.perf_counter() + max(job.left_seconds, _LEAST_SECONDS)
        inspector = Inspector(bound, planned, sets, layouts, backend)
        hints: dict[str, tuple[str, ...]] = {n: p.hints for n, p in placements.items() if p.hints}
        spent = clock() - begin
        yield PlacedWorkload(bound, loop, planned, inspector, arena, placed, hints, spent)
        wait_for_all(backend)


def afresh(job: Job) -> Callable[[], Loaded]:
    """Imports the job's file again; each call of the result calls the workload's function. Random generators
    begin alike each time, and so does the working directory: a workload that ignores `rng` still repeats.
    What an earlier load held is let go of first."""
    gc.collect()
    back_to_start()
    _seed(job.seed)
    make = prepare(Path(job.file), job.workload, job.assignments)

    def load() -> Loaded:
        back_to_start()
        _seed(job.seed)
        return make()

    return load


def _seed(number: int) -> None:
    random.seed(number)
    np.random.seed(number)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(number)


def _numa_node(job: Job, backend: Backend) -> int | None:
    place = backend.environment().get("pci_bus_id")
    try:
        return chosen_node(job.numa, None if place is None else str(place))
    except ValueError as problem:
        raise UsageError(f"--numa {job.numa}: {problem}", next_step="Omit --numa.") from None
