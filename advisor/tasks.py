"""The three jobs of a worker: the reference run, the traced run on the CPU, and measuring one strategy.

Every process runs the frames 0, 1, 2 first and compares its results with the reference run's; where a
frame's results depend on its index alone, frame 2 is run again after the timed frames and compared again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from advisor import footprint, verify
from advisor.backends import Backend
from advisor.errors import WorkloadError
from advisor.frames import FrameLoop
from advisor.jobs import Cell, Job, ReferenceRun, TraceRun
from advisor.loading import Loaded, user_error
from advisor.measure import Limits, breakdown, sample, warm_up
from advisor.model.traffic import TrafficRecorder
from advisor.placements.arena import Arena
from advisor.placements.base import Layout, Placed
from advisor.ranges import Ranges
from advisor.schedule import Plan, plan
from advisor.strategies import by_name
from advisor.verify import Inspector

COMPARED = 2
"""The frame whose results are compared; every process runs 0, 1 and 2 first."""
_REPEATABLE = "repeatable"
_PERHAPS_RANDOM = (
    "; repeating a frame in one process changes them too: if stages draw random numbers, "
    "take them from the parameter `rng`, which gives the same in every process"
)


class ResultsDiffer(Exception):
    """A strategy's results are not the reference run's."""


@dataclass(frozen=True)
class Stand:
    """A workload on its buffers, ready to run."""

    loop: FrameLoop
    plan: Plan
    inspector: Inspector
    arena: Arena
    placed: dict[str, Placed]
    before: footprint.Reading
    placing_seconds: float


@contextmanager
def stand(job: Job, loaded: Loaded, backend: Backend, ranges: Ranges) -> Iterator[Stand]:
    """Places the buffers and plans the frames; frees everything at the end, whatever happens."""
    bound, device = loaded.bound, backend.device()
    placements = by_name(job.strategy).placements(loaded.record)
    uses = [[stage.use for stage in stages] for stages in (bound.setup, bound.frame)]
    planned = plan(uses[0], uses[1], {name: p.traits(device) for name, p in placements.items()})
    layouts = {name: Layout(b.dimensions, b.element) for name, b in bound.workload.buffers.items()}
    before = footprint.read(backend)
    begin = time.perf_counter()
    with Arena(backend) as arena:
        placed = {name: placement.place(arena, layouts[name]) for name, placement in placements.items()}
        loop = FrameLoop(bound, planned, placed, backend, seed=job.seed, ranges=ranges)
        inspector = Inspector(bound, planned, placed, layouts, backend)
        yield Stand(loop, planned, inspector, arena, placed, before, time.perf_counter() - begin)
        backend.synchronize()


def reference(job: Job, loaded: Loaded, backend: Backend, run: Stand) -> ReferenceRun:
    """Keeps the results that all strategies must give, and checks the annotations."""
    del loaded, backend
    loop, inspector, kept = run.loop, run.inspector, Path(job.reference)
    loop.run_setup()
    loop.first_frame()
    for index in range(1, COMPARED + 1):
        loop.frame(index)
    verify.save_results(inspector.results(), kept)
    wrong = _wrong_results(inspector, Path(job.file))
    inspector.check_annotations(loop, COMPARED)  # first, since a forgotten output makes results wrong
    if wrong:
        raise wrong
    for index in (COMPARED + 1, COMPARED + 2, COMPARED):
        loop.frame(index)
    repeatable = not any(verify.differences(inspector.results(), kept))
    (kept / _REPEATABLE).write_text("yes" if repeatable else "", encoding="utf-8")
    return ReferenceRun(repeatable=repeatable)


def trace(job: Job, loaded: Loaded, backend: Backend, run: Stand) -> TraceRun:
    """Times the stages on this CPU, then runs one frame on arrays that record what is done to them."""
    bound = loaded.bound
    run.loop.run_setup()
    run.loop.first_frame()
    timed = breakdown(run.loop.timed_frame, time.perf_counter, 1, min(job.seconds, 1.0))
    seconds = {s.name: float(np.median([f[f"{s.side}:{s.name}"] for f in timed])) for s in bound.frame}
    recorder = TrafficRecorder()
    traced = {name: _traced(recorder, name, placed) for name, placed in run.placed.items()}
    loop = FrameLoop(bound, run.plan, traced, backend, seed=job.seed, ranges=Ranges())
    for action in loop.steady:
        with recorder.stage(action.label.partition(":")[2]):
            loop.act(action, COMPARED)
    seen = recorder.trace(
        [stage.use for stage in bound.frame],
        {s.name: s.stage.passes for s in bound.frame if s.stage.passes},
        {s.name: s.stage.flops for s in bound.frame if s.stage.flops is not None},
        {buffer.name: buffer.bytes for buffer in loaded.record.buffers},
        seconds,
    )
    return TraceRun(trace=seen)


def _traced(recorder: TrafficRecorder, name: str, placed: Placed) -> Placed:
    def wrap(array: Any) -> Any:
        return None if array is None else recorder.wrap(name, array)

    return replace(placed, host=wrap(placed.host), device=wrap(placed.device))


def measure(job: Job, loaded: Loaded, backend: Backend, run: Stand) -> Cell:
    """Set-up, comparison, warm-up, samples, breakdown, comparison again."""
    del backend
    clock, loop, kept = time.perf_counter, run.loop, Path(job.reference)
    begin = clock()
    loop.run_setup()
    loop.first_frame()
    setup_seconds = clock() - begin + run.placing_seconds
    for index in range(1, COMPARED + 1):
        loop.frame(index)
    verified = _compare(run.inspector, kept, Path(job.file))
    index = warm_up(loop.frame, clock, COMPARED + 1, min(0.2, job.seconds / 5))
    samples = sample(loop.frame, clock, index, Limits(job.seconds))
    index += len(samples.frame_seconds)
    taken = footprint.footprint(run.arena, run.before, footprint.read(run.arena.backend))
    timed = breakdown(loop.timed_frame, clock, index, min(0.5, job.seconds / 5))
    if verified and (kept / _REPEATABLE).read_text(encoding="utf-8"):
        loop.frame(COMPARED)
        _compare(run.inspector, kept, Path(job.file))
    return Cell(
        frame_seconds=samples.frame_seconds,
        stopped=samples.stopped,
        breakdown=tuple(timed),
        transfer_bytes=_transfer_bytes(run.plan, loaded),
        setup_seconds=setup_seconds,
        footprint=taken,
        verified=verified,
    )


def _compare(inspector: Inspector, kept: Path, path: Path) -> bool:
    """Holds the results against the reference run's; False where that run left none."""
    if not (kept / _REPEATABLE).exists():
        return False
    differences = list(verify.differences(inspector.results(), kept))
    if differences:
        repeatable = (kept / _REPEATABLE).read_text(encoding="utf-8")
        raise ResultsDiffer("; ".join(differences) + ("" if repeatable else _PERHAPS_RANDOM))
    wrong = _wrong_results(inspector, path)
    if wrong:
        raise wrong
    return True


def _wrong_results(inspector: Inspector, path: Path) -> WorkloadError | None:
    """What the user's check says of the present results; None when it is content."""
    try:
        inspector.run_check(COMPARED)
    except Exception as error:
        problem = user_error("the workload's check", error, path)
        return WorkloadError(
            f"{problem.message}: {error}", next_step=problem.next_step, detail=problem.detail
        )
    return None


def _transfer_bytes(planned: Plan, loaded: Loaded) -> dict[Literal["to-device", "to-host"], int]:
    sizes = {buffer.name: buffer.bytes for buffer in loaded.record.buffers}
    totals: dict[Literal["to-device", "to-host"], int] = {"to-device": 0, "to-host": 0}
    for step in planned.steady:
        if step.action == "to-device" or step.action == "to-host":
            totals[step.action] += sizes[step.name]
    return totals
