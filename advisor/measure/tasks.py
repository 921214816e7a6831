"""The jobs of a worker: the reference run, the traced run on the CPU, measuring one strategy, and running
a few of its frames for a tracing tool.

Every process runs the frames 0, 1, 2 first and compares its results with the reference run's; where a
frame's results depend on its index alone, frame 2 is run again after the timed frames and compared again.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Literal

import numpy as np

from advisor.devices.gpus import gpu_state
from advisor.errors import WorkloadError
from advisor.measure import footprint, verification
from advisor.measure.frames import FrameLoop
from advisor.measure.host_pages import host_pages
from advisor.measure.jobs import Captured, Description, Job, ReferenceRun, Sample, TraceRun
from advisor.measure.nvtx_ranges import Ranges
from advisor.measure.pipelined import SETS
from advisor.measure.sampling import Limits, Samples, breakdown, sample, warm_up
from advisor.measure.stand import Stand
from advisor.measure.timeline import WATCHED, Recorder
from advisor.measure.traffic import TrafficRecorder
from advisor.measure.verification import Inspector
from advisor.profiles.row_figures import PlaceMemory
from advisor.profiles.schema import PageLocking, WorkloadRecord
from advisor.profiles.system_state import GpuState
from advisor.profiles.traces import Timeline
from advisor.strategies.backend import Backend, PageLocks
from advisor.strategies.placements.base import Placed
from advisor.workloads.binding import no_kernel
from advisor.workloads.loading import Loaded, user_error

PACKAGES = ("numpy", "cupy-cuda12x", "cupy-cuda13x", "cupy", "nvtx", "cuda-bindings")
"""Whose versions the profile keeps."""
COMPARED = 2
"""The frame whose results are compared; every process runs 0, 1 and 2 first."""
_SLOW = 0.1
"""A frame of so many seconds is slow, where it takes a process's sampling time too: one must do."""
_MOST_FRAMES = 15
"""Frames that a process runs at least: where there is no time for them, only those that must be are run."""
_REPEATABLE = "repeatable"
_PERHAPS_RANDOM = (
    "; repeating a frame in one process also changes them. If stages use random numbers, draw them from "
    "the parameter `rng`, which is seeded identically in every process"
)


class ResultsDiffer(Exception):
    """A strategy's results are not the reference run's."""


class StateLeft(Exception):
    """The workload changed the device's state and did not change it back."""


def described(backend: Backend, record: WorkloadRecord) -> Description:
    """What is known before anything of the user's frames is run."""
    packages = {}
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            packages[name] = metadata.version(name)
    return Description(device=backend.device(), gpu=backend.environment(), packages=packages, workload=record)


def reference(job: Job, loaded: Loaded, backend: Backend, run: Stand) -> ReferenceRun:
    """Keeps the results that all strategies must give, and checks the annotations."""
    del loaded
    loop, inspector, kept = run.serial, run.inspector, Path(job.reference)
    loop.run_setup()
    loop.first_frame()
    _require_state(backend)  # what ran elsewhere may look like an output that was forgotten
    for index in range(1, COMPARED + 1):
        loop.frame(index)
    _require_state(backend)
    verification.save_results(inspector.results(), kept)
    wrong = _wrong_results(inspector, Path(job.file))
    inspector.check_annotations(loop, COMPARED)  # first, since a forgotten output makes results wrong
    if wrong:
        raise wrong
    for index in (COMPARED + 1, COMPARED + 2, COMPARED):
        loop.frame(index)
    repeatable = not any(verification.differences(inspector.results(), kept, inspector.lengths()))
    (kept / _REPEATABLE).write_text("yes" if repeatable else "", encoding="utf-8")
    return ReferenceRun(repeatable=repeatable)


def trace(job: Job, loaded: Loaded, backend: Backend, run: Stand) -> TraceRun:
    """Times the stages on this CPU, then runs one frame on arrays that record what is done to them."""
    bound = loaded.bound
    run.serial.run_setup()
    run.serial.first_frame()
    timed = breakdown(
        run.serial.timed_frame, perf_counter, 1, min(job.seconds, 1.0), slow=max(job.seconds, _SLOW)
    )
    seconds = {
        s.name: float(np.median([f[f"{s.side}:{s.name}"] for f in timed]))
        for s in bound.frame
        if s.stage.cpu is not no_kernel
    }
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
        {s.name for s in bound.frame if s.stage.cpu is not None or s.forms},
    )
    return TraceRun(trace=seen)


def _traced(recorder: TrafficRecorder, name: str, placed: Placed) -> Placed:
    def wrap(array: Any) -> Any:
        return None if array is None else recorder.wrap(name, array)

    return replace(placed, host=wrap(placed.host), device=wrap(placed.device))


def measure(job: Job, loaded: Loaded, backend: Backend, run: Stand) -> Sample:
    """Set-up, comparison, warm-up, samples, breakdown, comparison again."""
    loop, kept = run.loop, Path(job.reference)
    begun_seconds, frame_seconds = _first_frames(loop, COMPARED)
    _require_state(backend)
    verified = compare(run.inspector, kept, Path(job.file))
    hurried = job.left_seconds is not None and frame_seconds * _MOST_FRAMES > job.left_seconds
    scored = _scored(job, backend, loop, hurried=hurried)
    count = len(scored.samples.frame_seconds)
    latencies = loop.latencies[-count:]
    host = {stage: seconds / count for stage, seconds in loop.host_seconds.items()}
    after = footprint.read(run.arena.backend)
    state = loaded_gpu(backend.environment().get("pci_bus_id"), job.gpu)
    seen = _looked_at(job, backend, run, scored.index, hurried=hurried)
    pages = host_pages(placed.host for placed in run.placed.values())
    _require_state(backend)
    _check_last(run, seen.index, Path(job.file))
    if verified and not hurried and (kept / _REPEATABLE).read_text(encoding="utf-8"):
        loop.frame(COMPARED - 1)
        loop.frame_alone(COMPARED)
        compare(run.inspector, kept, Path(job.file))
    return Sample(
        frame_seconds=scored.samples.frame_seconds,
        stopped=scored.samples.stopped,
        breakdown=tuple(seen.breakdown),
        host_seconds=host,
        transfer_bytes=_transfer_bytes(run, loaded),
        setup_seconds=run.placing_seconds + begun_seconds,
        footprint=footprint.footprint(run.arena, run.before, after, seen.places),
        latency_seconds=median(latencies) if latencies else None,
        hints=run.hints,
        page_locking=scored.locking,
        cpu_seconds=scored.samples.cpu_seconds,
        host_pages=pages,
        gpu_state=state,
        timeline=seen.timeline,
        verified=verified,
    )


@dataclass(frozen=True)
class _Scored:
    """The frames that count, what page-locking they did, and the next frame's index."""

    samples: Samples
    locking: PageLocking | None
    index: int


def _scored(job: Job, backend: Backend, loop: FrameLoop, *, hurried: bool) -> _Scored:
    """Warms up and times frames; without time left, one frame as it is."""
    clock, index = perf_counter, COMPARED + 1
    if not hurried:
        index = warm_up(loop.frame, clock, index, min(0.2, job.seconds), _slow(job))
    loop.host_seconds.clear()
    with backend.page_locks() as locks:
        limits = Limits(job.seconds, min_frames=1 if hurried else job.min_frames)
        samples = sample(loop.frame, clock, index, limits)
    count = len(samples.frame_seconds)
    return _Scored(samples, _per_frame(locks, count), index + count)


@dataclass(frozen=True)
class _LookedAt:
    """What frames that do not count told, and the next frame's index."""

    breakdown: list[dict[str, float]]
    timeline: Timeline | None
    places: dict[str, PlaceMemory]
    index: int


def _looked_at(job: Job, backend: Backend, run: Stand, index: int, *, hurried: bool) -> _LookedAt:
    """A few frames step by step: their parts, their timeline and the memory they take."""
    loop, seconds = run.loop, min(0.5, job.seconds / 5)
    timed = breakdown(loop.timed_frame, perf_counter, index, seconds, _slow(job))
    index += len(timed) + 1
    if hurried:
        return _LookedAt(timed, None, {}, index)
    timeline = Recorder(backend).timeline(loop, index) if job.timeline else None
    index += WATCHED if job.timeline else 0
    places = footprint.over_frames(loop, index, backend, run.before, job.gpu)
    return _LookedAt(timed, timeline, places, index + footprint.FRAMES)


def _slow(job: Job) -> float:
    """Seconds from which on one frame is enough."""
    return max(job.seconds, _SLOW)


def _first_frames(loop: FrameLoop, last: int) -> tuple[float, float]:
    """Set-up and the frames up to `last`, with nothing under way after it.

    Seconds until frame 0 is done, and those of the last frame.
    """
    begin = perf_counter()
    loop.run_setup()
    loop.first_frame()
    seconds = perf_counter() - begin
    for index in range(1, last):
        loop.frame(index)
    begin = perf_counter()
    loop.frame_alone(last)
    return seconds, perf_counter() - begin


def _per_frame(locks: PageLocks | None, frames: int) -> PageLocking | None:
    if locks is None:
        return None
    return PageLocking(calls=locks.calls / frames, seconds=locks.seconds / frames)


def capture(job: Job, backend: Backend, run: Stand) -> Captured:
    """Set-up, the first frames, then a few steady ones: nothing else, so that a tool's file stays small."""
    _first_frames(run.loop, COMPARED + job.frames)
    backend.synchronize()
    return Captured(frames=job.frames)


def loaded_gpu(pci_bus_id: object, index: int) -> GpuState | None:
    """The GPU's clocks and link while they are still as they were under load; None of a CPU."""
    if pci_bus_id is None:
        return None
    return gpu_state(str(pci_bus_id), index, moment="under-load", process=os.getpid())


def _require_state(backend: Backend) -> None:
    left = backend.disturbed()
    if left:
        raise StateLeft(left)


def compare(inspector: Inspector, kept: Path, path: Path) -> bool:
    """Holds the results against the reference run's; False where that run left none."""
    if not (kept / _REPEATABLE).exists():
        return False
    differences = list(verification.differences(inspector.results(), kept, inspector.lengths()))
    if differences:
        repeatable = (kept / _REPEATABLE).read_text(encoding="utf-8")
        raise ResultsDiffer("; ".join(differences) + ("" if repeatable else _PERHAPS_RANDOM))
    wrong = _wrong_results(inspector, path)
    if wrong:
        raise wrong
    return True


def _check_last(run: Stand, index: int, path: Path) -> None:
    """The user's check after the last frames too: a solver may go wrong late."""
    if run.loop is run.serial and not run.inspector.has_check:
        return  # no frame is in flight, and nobody looks
    while index % SETS:  # the first set is the one that is looked at
        run.loop.frame(index)
        index += 1
    run.loop.frame_alone(index)
    wrong = _wrong_results(run.inspector, path, index)
    if wrong:
        raise wrong


def _wrong_results(inspector: Inspector, path: Path, index: int = COMPARED) -> WorkloadError | None:
    """What the user's check says of the present results; None when it is content."""
    try:
        inspector.run_check(index)
    except Exception as error:
        problem = user_error(f"the workload's check, after frame {index},", error, path)
        return WorkloadError(
            f"{problem.message}: {error}", next_step=problem.next_step, detail=problem.detail
        )
    return None


def _transfer_bytes(run: Stand, loaded: Loaded) -> dict[Literal["to-device", "to-host"], int]:
    """Of a steady frame; what is discarded does not move."""
    sizes = {buffer.name: buffer.bytes for buffer in loaded.record.buffers}
    totals: dict[Literal["to-device", "to-host"], int] = {"to-device": 0, "to-host": 0}
    for step in run.plan.steady:
        if step.overwritten and run.placed[step.name].bring:
            continue
        if step.action == "to-device" or step.action == "to-host":
            totals[step.action] += sizes[step.name]
    return totals
