"""The jobs of a worker: measuring one strategy, and running a few of its frames for a tracing tool. The
reference run is in reference.py, the traced run on the CPU in cupy_mock/tracing.py.

Every process runs each frame once, in order, from 0 on, as a program does; the first ones are compared with
the reference run's.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Literal, NamedTuple

from advisor.devices.gpus import gpu_state
from advisor.errors import WorkloadError
from advisor.measure import footprint
from advisor.measure.footprint import host_pages
from advisor.measure.frames import Action, FrameLoop
from advisor.measure.jobs import Done, Job, Sample
from advisor.measure.kept_results import LEAST_FRAMES, MOST_FRAMES, SECONDS, KeptResults, nans
from advisor.measure.placed_workload import PlacedWorkload
from advisor.measure.sampling import Clock, breakdown, sample, warm_up
from advisor.measure.steps import LoopCount, named
from advisor.measure.verification import Inspector
from advisor.profiles.figures import Iterations, PageLocking, PlaceMemory
from advisor.profiles.traces import Span, Timeline, track
from advisor.strategies.backend import Backend, wait_for_all
from advisor.strategies.registry import BASELINE
from advisor.workloads.loading import Loaded, user_error

Look = Callable[[int, bool], None]
"""Is given the index of the frame that ended, and whether nothing is under way."""


class ResultsDiffer(Exception):
    """A strategy's results are not the reference run's."""


class FirstFrames(NamedTuple):
    """What the first frames took."""

    setup_seconds: float
    first_seconds: float
    last_seconds: float


def first_frames(
    loop: FrameLoop, look: Look = lambda *_: None, *, most: int, seconds: float = SECONDS
) -> FirstFrames:
    """Set-up, then frames from 0 on with a look after each: as many as so many seconds hold, two at least.
    Nothing is under way after the last one."""
    begin = perf_counter()
    loop.run_setup()
    ready = perf_counter()
    loop.first_frame()
    began = perf_counter()
    look(0, True)
    while True:
        index = loop.index
        last = index + 1 >= max(most, LEAST_FRAMES) or perf_counter() >= began + seconds
        started = perf_counter()
        (loop.frame_alone if last else loop.frame)(index)
        spent = perf_counter() - started
        look(index, last or not loop.overlaps)
        loop.index += 1
        if last:
            return FirstFrames(ready - begin, began - ready, spent)


_BEFORE = 3
"""Frames before those that a tracing tool looks at."""
_SLOW = 0.1
"""A frame of so many seconds is slow, where it takes a process's sampling time too: one must do."""
_MOST_FRAMES = 15
"""Frames that a process runs at least: where there is no time for them, only those that must be are run."""
_COMPARING = 3
"""Seconds of frames that are compared for each second of samples, up to `SECONDS`."""
_SAME_STRATEGY = (
    "; the reference run was under this strategy too, so results differ between runs: if stages draw random "
    "numbers, take them from the parameter `rng`, which gives the same in every process"
)


class StateLeft(Exception):
    """The workload changed the device's state and did not change it back."""


Counts = Mapping[str, Sequence[int]]
"""By loop, in the words of `named`: its iterations in frames 0, 1, 2 and so on."""


def counted(counts: Mapping[int, LoopCount]) -> Counts:
    return {named(count.loop): tuple(count.frames) for count in counts.values()}


def capped(counts: Mapping[int, LoopCount]) -> dict[str, int]:
    """The loops that their limit ended in every frame so far, and that limit."""
    capped = (c for c in counts.values() if c.frames and min(c.frames) == c.loop.at_most)
    return {named(count.loop): count.loop.at_most for count in capped}


def unlike(counts: Counts, reference: Counts) -> dict[str, int]:
    """The first frame in which each loop ran another number of times."""
    pairs = {name: zip(ran, reference.get(name, ()), strict=False) for name, ran in counts.items()}
    first = {name: next((i for i, (a, b) in enumerate(both) if a != b), None) for name, both in pairs.items()}
    return {name: frame for name, frame in first.items() if frame is not None}


def iteration_records(counts: Mapping[int, LoopCount], first: Counts) -> tuple[Iterations, ...]:
    """The profile's record: the counts of the first frames, and the mean of those since a reset."""
    return tuple(
        Iterations(
            number=count.loop.number,
            until=count.loop.until,
            counts=tuple(first.get(named(count.loop), ())),
            mean=sum(count.frames) / len(count.frames),
        )
        for count in counts.values()
    )


def measure(
    job: Job, loaded: Loaded, backend: Backend, run: PlacedWorkload, before: footprint.Reading
) -> Sample:
    """before: memory that was in use before the buffers were placed."""
    loop = run.loop
    first, verified = compared(job, run)
    first_counts = counted(loop.iterations)
    require_state(backend)
    hurried = job.left_seconds is not None and first.last_seconds * _MOST_FRAMES > job.left_seconds
    if not hurried:
        warm_up(loop, perf_counter, min(0.2, job.seconds), slow_seconds(job))
    loop.reset()
    with backend.page_locks() as locks:  # without time left, one frame as it is
        samples = sample(loop, perf_counter, job.seconds, 1 if hurried else job.min_frames)
    count = len(samples.frame_seconds) * loop.period
    locked = PageLocking(calls=locks.calls / count, seconds=locks.seconds / count) if locks else None
    latencies = loop.latencies[-count:]
    host = {stage: seconds / count for stage, seconds in loop.host_seconds.items()}
    iterations = iteration_records(loop.iterations, first_counts)
    after = footprint.read(run.arena.backend)
    bus_id = backend.environment().get("pci_bus_id")  # while clocks and link are as they were under load
    state = bus_id and gpu_state(str(bus_id), moment="under-load", process=os.getpid())
    nan = _late_nan(job, run, loop.next_alone())
    steps, places = _step_by_step(job, backend, run, before, hurried=hurried)
    pages = host_pages(placed.host for placed in run.placed.values())
    require_state(backend)
    if run.bound.check and (late := wrong_results(run.inspector, Path(job.file), loop.next_alone())):
        raise late  # a solver may go wrong after the first frames
    return Sample(
        **samples.spent,
        **steps,
        frame_seconds=samples.frame_seconds,
        page_locking=locked,
        host_seconds=host,
        transfer_bytes=_transfer_bytes(run, loaded, [each.mean for each in iterations]),
        setup_seconds=run.placing_seconds + first.setup_seconds + first.first_seconds,
        footprint=footprint.footprint(run.arena, before, after, places),
        latency_seconds=median(latencies) if latencies else None,
        hints=run.hints,
        host_pages=pages,
        gpu_state=state or None,
        verified=verified and not nan,
        nan=nan,
        iterations=iterations,
    )


def _step_by_step(
    job: Job, backend: Backend, run: PlacedWorkload, before: footprint.Reading, *, hurried: bool
) -> tuple[dict[str, Any], dict[str, PlaceMemory]]:
    """A few frames that do not count: their parts and timeline, and their memory."""
    loop = run.loop
    timed = breakdown(loop, perf_counter, min(0.5, job.seconds / 5), slow_seconds(job))
    fields: dict[str, Any] = {"breakdown": tuple(timed)}
    if hurried:
        return fields, {}
    if job.timeline:
        loop.to_a_whole_frame(before=1)
        fields["timeline"] = timeline(loop, backend)
    loop.to_a_whole_frame()
    return fields, footprint.over_frames(loop, backend, before, job.gpu)


def slow_seconds(job: Job) -> float:
    """Seconds from which on one frame is enough."""
    return max(job.seconds, _SLOW)


def capture(job: Job, backend: Backend, run: PlacedWorkload) -> Done:
    """Set-up, the first frames, then a few steady ones: nothing else, so that a tool's file stays small."""
    first_frames(run.loop, most=_BEFORE + job.frames, seconds=math.inf)
    backend.synchronize()
    return Done()


def require_state(backend: Backend) -> None:
    if left := backend.disturbed():
        raise StateLeft(left)


def comparing_seconds(job: Job) -> float:
    left = math.inf if job.left_seconds is None else job.left_seconds / _MOST_FRAMES
    return min(SECONDS, _COMPARING * job.seconds, max(left, 0.0))


def compared(
    job: Job, run: PlacedWorkload, most: int = MOST_FRAMES, seconds: float | None = None
) -> tuple[FirstFrames, bool]:
    """Runs the first frames and compares the results of each, and how often its loops ran, with the reference
    run's; False where results could not be compared. Raises `ResultsDiffer`, and `WorkloadError` where the
    user's check refuses the last one's results."""
    reference = KeptResults(Path(job.reference))
    repeated = reference.repeated()
    frames = min(most, repeated.frames) if repeated else LEAST_FRAMES
    inspector, lengths = run.inspector, run.inspector.lengths()
    same = _SAME_STRATEGY if job.strategy == BASELINE else ""

    def look(index: int, alone: bool) -> None:
        if repeated is None or index >= repeated.frames:
            return
        counts = counted(run.loop.iterations)
        other = [
            f"in frame {frame}, {name} ran {counts[name][frame]} iterations; the reference run "
            f"ran {repeated.iterations[name][frame]}"
            for name, frame in unlike(counts, repeated.iterations).items()
        ]
        if other:
            raise ResultsDiffer(f"{'; '.join(other)}{same}")
        results = inspector.results(index, alone=alone)
        alike = {name: r for name, r in results.items() if index < repeated.unlike.get(name, MOST_FRAMES)}
        if sentences := reference.differences(index, alike, lengths):
            raise ResultsDiffer(f"{'; '.join(sentences.values())}{same}")

    limit = comparing_seconds(job) if seconds is None else seconds
    first = first_frames(run.loop, look, most=frames, seconds=limit)
    if repeated and (wrong := wrong_results(run.inspector, Path(job.file), run.loop.index - 1)):
        raise wrong
    return first, repeated is not None and not repeated.unlike


def _late_nan(job: Job, run: PlacedWorkload, index: int) -> dict[str, str]:
    """Results that have NaN after that frame and had none in the reference run, and how many, in words."""
    repeated = KeptResults(Path(job.reference)).repeated()
    results = run.inspector.results(index) if repeated else {}
    counts = {name: nans(array) for name, array in results.items()}
    return {
        name: f"{count} of {size} elements after frame {index}"
        for name, (count, size) in counts.items()
        if count and repeated and name not in repeated.nan
    }


def wrong_results(inspector: Inspector, path: Path, index: int) -> WorkloadError | None:
    """What the user's check says of the results of that frame; None when it is content."""
    try:
        inspector.run_check(index)
    except Exception as error:
        wrong = user_error(f"the workload's check, after frame {index},", error, path)
        wrong.message = f"{wrong.message}: {error}"
        return wrong
    return None


def _transfer_bytes(
    run: PlacedWorkload, loaded: Loaded, iterations: Sequence[float]
) -> dict[Literal["to-device", "to-host"], int]:
    """The average of a steady frame; what is discarded does not move."""
    buffers = {buffer.name: buffer for buffer in loaded.record.buffers}
    lengths = {b.name: run.placed[b.valid].length.mean / b.shape[0] for b in buffers.values() if b.valid}
    valid = {name: buffers[name].bytes * share for name, share in lengths.items()}
    totals: dict[Literal["to-device", "to-host"], float] = {"to-device": 0, "to-host": 0}
    for step in chain(*run.plan.period):
        discarded = step.overwritten and step.part is None and run.placed[step.name].bring
        if not discarded and (step.action == "to-device" or step.action == "to-host"):
            totals[step.action] += step.moved(buffers[step.name], valid) * step.times(iterations)
    frames = len(run.plan.period)
    return {direction: round(count / frames) for direction, count in totals.items()}


MOST_SPANS = 300


def timeline(loop: FrameLoop, backend: Backend, clock: Clock = perf_counter) -> Timeline | None:
    """Runs three frames, and takes the middle one, so that of frames that overlap all of one period is seen;
    None where the clock saw no time pass. The host's steps are timed by its clock, the stream's by marks. The
    two are fitted at one mark, right after a wait: on a GPU they agree within a few microseconds."""
    executed: list[tuple[Action, float, float, tuple[Any, Any] | None]] = []
    wait_for_all(backend)
    anchors, zero = [gpu.timestamp() for gpu in backend.gpus], clock()

    def note(action: Action, call: Callable[[], object], stream: Any) -> None:
        gpu = backend.gpus[action.gpu]
        mark, begin = gpu.timestamp(stream) if action.on_stream else None, clock()
        call()
        end = clock()
        executed.append((action, begin, end, (mark, gpu.timestamp(stream)) if action.on_stream else None))

    with loop.watched(lambda action: action.around(partial(note, action))):
        loop.frame(loop.index)
        start = clock()
        loop.frame(loop.index + 1)
        stop = clock()
        loop.index += 2
        loop.next_alone()
    wait_for_all(backend)
    spans: list[Span] = []
    for action, begin, end, marks in executed:
        if marks:
            gpu, anchor = backend.gpus[action.gpu], anchors[action.gpu]
            begin, end = (zero + gpu.seconds_between(anchor, mark) for mark in marks)
        begin, end = max(begin, start) - start, min(end, stop) - start
        if begin < end:
            span = Span(track=track(action.label), label=action.label, begin_seconds=begin, end_seconds=end)
            several = marks and len(anchors) > 1
            spans.append(span.model_copy(update={"gpu": action.gpu}) if several else span)
    spans.sort(key=lambda span: (span.begin_seconds, span.end_seconds))
    shown, rest = tuple(spans[:MOST_SPANS]), len(spans[MOST_SPANS:])
    if not spans:
        return None
    return Timeline(source="events", frame_seconds=stop - start, spans=shown, left_out=rest)
