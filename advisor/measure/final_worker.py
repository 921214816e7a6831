"""A process of the final: all contestants, a block of frames each, round by round as the parent asks.

For each block the workload's function is called again and its buffers are placed again behind an allocation
of random size, so that no contestant keeps one lucky placement, and no state, graph or binding holds old
addresses. Versions of the code share a placement: in one round those under one strategy have the same memory,
where their buffers are alike. Where the function and its set-up take longer than a block (a model is loaded),
that is done once for each contestant, all side by side, and blocks alternate between them.
"""

from __future__ import annotations

import ctypes
import gc
import math
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import Any

from advisor.devices.energy import Meter, Unmetered, metering
from advisor.measure import jobs, sampling
from advisor.measure.backends import CpuBackend, open_backend
from advisor.measure.fork_server import die_with_parent, end_if_forked
from advisor.measure.frames import FrameLoop, Ranges
from advisor.measure.kept_results import LEAST_FRAMES, KeptResults
from advisor.measure.namespaces import Namespace, start_here
from advisor.measure.placed_workload import PlacedWorkload, afresh, place
from advisor.measure.processes import tell_where_on_request
from advisor.measure.tasks import compared, counted, first_frames
from advisor.measure.worker import problem_of
from advisor.profiles.figures import MOST_FRAMES, Block, Energy, GpuEnergy
from advisor.strategies.arena import ReusedAllocations
from advisor.strategies.backend import Backend, wait_for_all
from advisor.workloads.loading import Loaded

_PADDING = 1 << 20
"""Bytes of the largest allocation that a block's buffers lie behind; enough to move them to other pages."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGEST_KEPT = 32 << 20
STEPS_SECONDS = 0.005
"""After a block the steps of a version's frame are timed three times, once where that takes as long."""
WARM_SHARE = 0.4
"""Share of a capped block's seconds that the frames before it take at most."""
LONGEST_BLOCK = 10
"""Times `block_seconds` after which the block of a version ends, however few its frames: one that is far
slower than the other would take all of the time."""


@dataclass
class Final:
    """The contestants of one process. `load` imports the file of a job's workload, for a function that calls
    the workload's."""

    job: jobs.FinalJob
    backend: Backend
    load: Callable[[jobs.Job], Callable[[], Loaded]]
    clock: sampling.Clock
    meter: Callable[[str | None], AbstractContextManager[Meter]] = metering
    sleep: Callable[[float], None] = time.sleep
    power: tuple[tuple[Meter, ...], tuple[float, ...]] | None = None
    """Where blocks are windows for energy: what counts that of each GPU, and its idle power in watts."""
    compared: set[str] = field(default_factory=set)
    resident: dict[str, PlacedWorkload] = field(default_factory=dict)
    """Contestants that stay placed between blocks, since their set-up takes longer than a block."""
    open: ExitStack = field(default_factory=ExitStack)
    reused: ReusedAllocations = field(default_factory=ReusedAllocations)
    setup_seconds: list[float] = field(default_factory=list)
    """Seconds of each call of the function with its set-up."""

    def __post_init__(self) -> None:
        self.needed = 0
        self.loaders = {} if self.job.jobs else {_code(self.job.base): self.load(self.job.base)}
        """By the code of a job: calls the workload's function."""
        self.open.callback(self.reused.clear)
        self.spaces = {_code(job): Namespace(job.tree) for job in self.job.jobs.values()}
        self.random = random.Random(f"{self.job.base.seed}-{self.job.process}")
        repeated = KeptResults(Path(self.job.base.reference)).repeated()
        self.repeatable = repeated.iterations.keys() if repeated else ()
        """Loops whose counts can be compared."""

    def within(self, name: str) -> AbstractContextManager[None]:
        """Runs the contestant's code, with modules of its own if it is a version of the code."""
        space = self.spaces.get(_code(self.job.job_of(name)))
        return space.entered() if space else nullcontext()

    def block(self, request: jobs.FinalRound, place: int) -> jobs.BlockDone:
        """One block of the contestant at that place of the round. Raises what the workload raises, and
        `Unmetered` where windows for energy are asked for in vain."""
        name = request.order[place]
        if self.job.energy_seconds and self.power is None:
            self.power = self._metered()
        with self._ready(name, request.round) as ready, sampling.quiet():
            loop, most = ready.loop, self._most() * WARM_SHARE
            warming = sampling.timed_block(loop, self.clock, request.warm_frames, most=most)
            loop.reset()
            first = loop.index
            figures = self._window(loop) if self.power else self._timed(loop)
            frames = loop.index - first
            latencies = loop.latencies
            host = {stage: spent / frames for stage, spent in loop.host_seconds.items()}
            ran = {name: mean(counts) for name, counts in counted(loop.iterations).items()}
            if loop.overlaps:  # the next one is under way
                loop.next_alone()
            steps = self._steps(loop) if self.job.jobs else {}
        block = Block(
            process=self.job.process,
            round=request.round,
            place=place,
            contestant=name,
            latency_seconds=sum(latencies) / len(latencies) if latencies else None,
            frame_latencies=tuple(latencies[:MOST_FRAMES]),
            host_seconds=host,
            iterations={name: often for name, often in ran.items() if name in self.repeatable},
            **figures,
        )
        return jobs.BlockDone(block=block, warming_seconds=tuple(warming), steps=steps)

    def _most(self) -> float:
        if self.job.capped:
            return self.job.block_seconds
        return LONGEST_BLOCK * self.job.block_seconds if self.job.jobs else math.inf

    def _steps(self, loop: FrameLoop) -> dict[str, float]:
        slow = 0.0 if self.job.base.backend == "cpu" else STEPS_SECONDS
        frames = sampling.breakdown(loop, self.clock, 0.0, slow)
        return {label: mean(frame[label] for frame in frames) for label in frames[0]}

    def _timed(self, loop: FrameLoop) -> dict[str, Any]:
        """Figures of the block."""
        spending, frames, most = sampling.Spending(), self.job.frames, self._most()
        if self.job.jobs:
            spent, frames = sampling.timed_together(loop, self.clock, frames, most=most)
            seconds = [spent]
        else:
            seconds = sampling.timed_block(loop, self.clock, frames, most=most)
            frames = len(seconds)
        times = {"seconds": sum(seconds), "frame_seconds": tuple(seconds[:MOST_FRAMES])}
        return {"frames": frames, **times, **spending.per_frame(frames)}

    def _window(self, loop: FrameLoop) -> dict[str, Any]:
        """The same of a window between two ticks of the counter, before and after which frames run too."""
        assert self.power is not None
        meters, idle = self.power
        measured = sampling.window(loop.next_period, meters, self.clock, self.job.energy_seconds)
        each = tuple(GpuEnergy(joules=j, idle_watts=w) for j, w in zip(measured.joules, idle, strict=True))
        together = f", of {len(each)} GPUs together" if len(each) > 1 else ""
        joules = sum(measured.joules)
        source = f"{meters[0].source}{together}"
        gpus = each if together else ()
        frames = measured.runs * loop.period
        energy = Energy(joules=joules, idle_watts=sum(idle), source=source, gpus=gpus)
        return {"frames": frames, "seconds": measured.seconds, "frame_seconds": (), "energy": energy}

    def _metered(self) -> tuple[tuple[Meter, ...], tuple[float, ...]]:
        """A meter for each GPU, open for the life of the process, and the power while nothing runs."""
        if self.job.base.backend == "cpu":
            raise Unmetered("the CPU device has no energy counter")
        meters = []
        for gpu in self.backend.gpus:
            place = gpu.environment().get("pci_bus_id")
            counting = self.meter(None if place is None else str(place))
            meters.append(self.open.enter_context(counting))
        wait_for_all(self.backend)
        return tuple(meters), sampling.idle_watts(meters, self.clock, self.sleep)

    @contextmanager
    def _ready(self, name: str, number: int) -> Iterator[PlacedWorkload]:
        if name in self.resident:
            yield self.resident[name]
            return
        with ExitStack() as stack:
            ready = self._placed(name, number, stack)
            yield ready
            count = len(self.job.contestants)
            if len(self.setup_seconds) < count or min(self.setup_seconds) <= self.job.block_seconds:
                return  # function and set-up take less than a block, once all is compiled
            free = self.backend.free_memory()
            if free is None or self.needed * count < free / 2:
                self.resident[name] = ready
                self.open.push(stack.pop_all())

    def _shared(self, job: jobs.Job, loaded: Loaded, number: int) -> ReusedAllocations | None:
        """Where the memory of this round's last version under that strategy is; None where that is too much
        to hold beside what is placed, and for strategies, which share no place."""
        if not self.job.jobs:
            return None
        alike = [buffer.bytes for buffer in loaded.record.buffers]
        free = self.backend.free_memory()
        fits = free is None or sum(alike) * 2 < free / 2
        self.reused.use_for((number, job.strategy, *alike) if fits else None)
        return self.reused if fits else None

    def _placed(self, name: str, number: int, stack: ExitStack) -> PlacedWorkload:
        job = self.job.job_of(name)
        ranges = Ranges()
        stack.enter_context(ranges.strategy(job.strategy))
        padding = self.random.randrange(1, _PADDING)
        comparing = self.job.compare if name not in self.compared else 0
        if comparing or _code(job) not in self.loaders:
            self.loaders[_code(job)] = self.load(job)
        begin = self.clock()
        loaded = self.loaders[_code(job)]()
        seconds = self.clock() - begin
        clock = self.clock if self.job.jobs else perf_counter
        reused = self._shared(job, loaded, number)
        workload = stack.enter_context(
            place(job, loaded, self.backend, ranges, padding=padding, clock=clock, reused=reused)
        )
        self.needed = sum(buffer.bytes for buffer in loaded.record.buffers) * 2
        if comparing:
            first, _ = compared(job, workload, comparing, math.inf)
            self.compared.add(name)
        else:
            first = first_frames(workload.loop, most=LEAST_FRAMES)
        self.setup_seconds.append(seconds + first.setup_seconds)
        return workload


def _code(job: jobs.Job) -> tuple[str, str | None]:
    return job.file, job.workload


def _attempt(final: Final, request: jobs.FinalRound, place: int) -> jobs.Message:
    name = request.order[place]
    try:
        with final.within(name):
            done = final.block(request, place)
            return done.model_copy(update={"kept_setup": bool(final.resident)})
    except Unmetered as problem:
        return jobs.Unmeasurable(reason=str(problem))
    except BaseException as error:  # of the user's code, of the device, or ours
        job = final.job.job_of(name)
        broken = False
        cause = problem_of(error, job, Path(job.file))
        try:
            wait_for_all(final.backend)
        except Exception:  # some errors leave CUDA unusable for the rest of the process
            broken = True
        return jobs.Left(contestant=name, problem=cause, broken=broken)


def main(arguments: list[str]) -> None:
    job_file, parent_id, descriptor = arguments
    die_with_parent(int(parent_id))
    start_here()
    job = jobs.FinalJob.model_validate_json(Path(job_file).read_text(encoding="utf-8"))
    tell_where_on_request(Path(job.directory))
    link, worker = Connection(int(descriptor)), os.getpid()
    if job.jobs:
        keep_freed_memory()
    backend = open_backend(job.base.backend, job.base.gpu)
    clock: sampling.Clock = perf_counter
    if job.jobs and isinstance(backend, CpuBackend):
        clock = backend.clock = sampling.unpreempted_clock()
    final = Final(job, backend, afresh, clock)
    gc.collect()
    gc.freeze()  # what is there now stays: the collections before blocks need not look at it
    link.send_bytes(b"ready")
    with final.open, suppress(EOFError):  # the parent has closed its end
        while True:
            request = jobs.FinalRound.model_validate_json(link.recv_bytes())
            for place in range(len(request.order)):
                answer = _attempt(final, request, place)
                end_if_forked(worker)
                link.send_bytes(answer.model_dump_json().encode())
            final.reused.clear()


def keep_freed_memory() -> None:
    """Fixes which freed arrays glibc keeps, at what its own rule comes to once 32 MiB were freed. By that
    rule (mallopt(3)) a version that frees a large array spares the other one in its process the page faults
    of every temporary: with 25 % more elements a stage took 6 times as long, and a frame 2.5 times."""
    with suppress(AttributeError, OSError):  # another C library has no such rule
        libc = ctypes.CDLL(None)
        libc.mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT)
        libc.mallopt(_TRIM_THRESHOLD, 2 * _LARGEST_KEPT)
