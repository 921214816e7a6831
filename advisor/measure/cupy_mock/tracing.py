"""One pass over a workload on the CPU: device stages run as CuPy would run them, and all stages are traced.

What stages keep between frames must be CuPy's kind of array from the first call on, so the pass has a load of
the workload to itself. A stage that goes where only CuPy can follow (a raw kernel, another library) is run in
NumPy and not judged: only what CuPy certainly does is reported. Then the traffic is taken from a run in NumPy
alone, on the load whose stages are timed.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import mean, median
from time import perf_counter
from typing import Any

import numpy as np

from advisor.measure.cupy_mock import checks
from advisor.measure.cupy_mock.arrays import DeviceArray, MockModule
from advisor.measure.cupy_mock.traced import trace_buffer
from advisor.measure.cupy_mock.traffic import TrafficRecorder
from advisor.measure.frames import Action, FrameLoop, Ranges
from advisor.measure.jobs import Job, Problem, TraceRun
from advisor.measure.kept_results import MOST_FRAMES, SECONDS
from advisor.measure.placed_workload import PlacedWorkload
from advisor.measure.sampling import breakdown
from advisor.measure.tasks import counted, iteration_records, slow_seconds
from advisor.measure.verification import RegionViolation
from advisor.profiles.schema import Trace
from advisor.profiles.traces import HostRates, Wait
from advisor.strategies.parts import Region
from advisor.strategies.placement import Placed
from advisor.workloads.binding import no_kernel
from advisor.workloads.stage_code import located as stage_and_line

RATE_BYTES = 64 << 20
"""Bytes past the caches of one core, and a tenth of a second in all on a server."""
_SLOW = 2.0
"""Seconds of a frame after which there is no second one before those that are traced."""


def check(run: PlacedWorkload, seed: int) -> tuple[TraceRun, tuple[Wait, ...]]:
    """Runs set-up, a first frame and traced ones; the trace, which has no times, and calls that wait for the
    GPU. An exception of a stage in NumPy ends the checks there: no trace. Raises `RegionViolation`."""
    judged = _Checks(run, seed)
    try:
        judged.run_frames()
    except Exception:
        judged.skipped |= set(judged.stages)
    result = TraceRun(refused=tuple(judged.refused()), wrong=tuple(judged.wrong.values()))
    if judged.traced is not None and not judged.skipped and not result.wrong:
        result = result.model_copy(update={"trace": judged.traced.trace()})
    return result, tuple(judged.waits())


def trace(job: Job, run: PlacedWorkload, checked: TraceRun, waits: tuple[Wait, ...]) -> TraceRun:
    """Times the stages in NumPy; counts what they read and write where the checks could not. Raises
    `RegionViolation`."""
    bound, loop = run.bound, run.loop
    loop.run_setup()
    loop.first_frame()
    loop.reset()
    seconds = min(job.seconds, 1.0)
    frames = breakdown(loop, perf_counter, seconds, slow_seconds(job))
    iterations = iteration_records(loop.iterations, counted(loop.iterations))
    often = Trace(iterations=iterations)
    times = {
        s.name: median(f[f"{s.side}:{s.name}"] for f in frames) * s.stage.every / often.times(s.stage.loop)
        for s in bound.frame
        if s.stage.cpu is not no_kernel
    }
    traffic = checked.trace
    if traffic is None:
        traced = _Traced(run, job.seed)
        traced.run_frames()
        traffic = traced.trace()
    work = tuple(each.model_copy(update={"seconds": times.get(each.stage)}) for each in traffic.work)
    rates = host_rates() if any(s.side == "host" for s in bound.frame) else None
    changes = {"work": work, "iterations": iterations, "waits": waits, "host_rates": rates}
    return checked.model_copy(update={"trace": traffic.model_copy(update=changes)})


def host_rates(clock: Callable[[], float] = perf_counter, size: int = RATE_BYTES) -> HostRates | None:
    """How fast one thread of this CPU reads and writes memory, its part of a host stage's time: the best of
    three, as calibration measures them; None without the memory for it."""
    try:
        words = np.ones(size // 8, np.uint64)
    except MemoryError:
        return None

    def rate(run: Callable[[], object]) -> float:
        seconds = []
        for _ in range(3):
            before = clock()
            run()
            seconds.append(clock() - before)
        return size / max(min(seconds), 1e-9)

    return HostRates(
        read_bytes_per_second=rate(words.max), write_bytes_per_second=rate(lambda: words.fill(1))
    )


def first_line(stray: RegionViolation, run: PlacedWorkload, seed: int, frames: int) -> str | None:
    """The line where that stage first leaves its part of that buffer; None if those frames stay inside."""
    traced = _Traced(run, seed)
    run.loop.run_setup()
    for index in range(frames):
        for _ in traced.acted(traced.loop.actions(index), index):
            if violation := traced.recorder.strays.get(stray.access[:2]):
                return violation.line
    return None


class _Traced:
    def __init__(self, run: PlacedWorkload, seed: int) -> None:
        self._run = run
        parts = [(stage.name, name, part) for stage in run.bound.frame for name, part in stage.parts.items()]
        self.recorder = TrafficRecorder({part[:2]: part[2] for part in parts if isinstance(part[2], Region)})
        self.placed = {name: self._views(name, each) for name, each in run.placed.items()}
        backend = run.arena.backend
        self.loop = FrameLoop(run.bound, run.plan, [self.placed], backend, seed=seed, ranges=Ranges())
        self._valid: dict[str, float] = {}

    def _views(self, name: str, placed: Placed) -> Placed:
        host, device = (
            trace_buffer(self.recorder, name, a) if isinstance(a, np.ndarray) else a
            for a in (placed.host, placed.device)
        )
        others = {gpu: self._views(name, other) for gpu, other in placed.others.items()}
        return replace(placed, host=host, device=device, others=others)

    def acted(self, actions: Sequence[Action], index: int) -> Iterator[Action]:
        for action in self.loop.in_turn(actions):
            with self.recorder.stage(action.label.partition(":")[2]):
                action.run(index)
            yield action

    def run_frames(self) -> None:
        """Two whole frames, since stages may do other work in some; where lengths differ by frame several,
        and the mean of what was valid."""
        bound, loop = self._run.bound, self._run.loop
        rows = list[dict[str, int]]()
        skipped = {name for s in bound.stages if s.stage.cpu is no_kernel for name in s.use.writes()}
        buffers = bound.workload.buffers
        known = not any(buffer.valid in skipped for buffer in buffers.values())
        end = perf_counter() + SECONDS
        while not rows or (len(rows) < (MOST_FRAMES if rows[0] else 2) and perf_counter() < end):
            loop.to_a_whole_frame()
            for _ in self.acted(self.loop.steady, loop.index):
                pass
            rows.append(self._run.inspector.rows(loop.index) if known else {})
            loop.index += 1
        row_bytes = {name: buffers[name].nbytes / buffers[name].dimensions[0] for name in rows[0]}
        self._valid = {name: size * mean(each[name] for each in rows) for name, size in row_bytes.items()}

    def trace(self) -> Trace:
        """Traffic of the traced frames, without times. Raises `RegionViolation`."""
        bound = self._run.bound
        for stray in self.recorder.strays.values():
            raise stray
        traffic = self.recorder.trace(
            [stage.use for stage in bound.frame],
            {s.name: s.stage.passes for s in bound.frame if s.stage.passes},
            {s.name: s.stage.flops for s in bound.frame if s.stage.flops is not None},
            {name: float(buffer.nbytes) for name, buffer in bound.workload.buffers.items()} | self._valid,
            {s.name for s in bound.frame if s.stage.cpu is not None or set(s.forms.values()) - {"torch"}},
        )
        return traffic.model_copy(update={"valid_bytes": self._valid})


class _Checks:
    def __init__(self, run: PlacedWorkload, seed: int) -> None:
        self._run, self._seed = run, seed
        arrays = {name: placed.device for name, placed in run.placed.items()}
        self._watch = checks.Watch(checks.coverage(), arrays)
        self._xp = MockModule(self._watch)
        stages = enumerate(run.bound.stages)  # without twins, which may have arrays of their own
        alone = [(n, stage) for n, stage in stages if stage.side == "device" and stage.stage.cpu is None]
        self.stages = {s.name: (number, s) for number, s in alone if not s.forms}
        """Stages that the CPU runs in place of the GPU with NumPy for CuPy, and no other library."""
        captured = ((stage, checks.host_arrays(stage.stage.function)) for _, stage in alone)
        self._captured = {stage.name: (stage, arrays) for stage, arrays in captured if arrays}
        self.skipped: set[str] = set()
        """Stages that are not judged any more."""
        self.traced: _Traced | None = None
        self._refused: dict[str, checks.Refusal] = {}
        self.wrong: dict[str, Problem] = {}
        self._waits: Counter[tuple[str, str, str, str]] = Counter()

    def run_frames(self) -> None:
        """Set-up, two frames, from the last of which the waits are kept, and then traced ones."""
        loop = self._run.loop
        with loop.watched(partial(self._checked, self._run.placed)):
            loop.run_setup()
            self._watch.waits.clear()
            begin = perf_counter()
            loop.first_frame()
            if perf_counter() - begin < _SLOW and not self._refused:
                self._watch.waits.clear()
                for action in loop.in_turn(loop.steady):  # all stages, also those of some frames only
                    action.run(loop.index)
                loop.index += 1
            self._waits = +self._watch.waits
            if self.skipped:
                return
            traced = _Traced(self._run, self._seed)
            with traced.loop.watched(partial(self._checked, traced.placed)):
                traced.run_frames()
        self.traced = traced

    def refused(self) -> Iterator[Problem]:
        """Nothing of a program that imports CuPy, which knows nothing of these arrays."""
        for stage, refusal in self._refused.items() if "cupy" not in sys.modules else ():
            buffer = f", buffer {refusal.buffer!r}" if refusal.buffer else ""
            place, version = refusal.place, self._watch.coverage.version
            yield Problem(
                cause="raised",
                message=f"stage {stage!r} fails under CuPy {version} at {place}{buffer}: {refusal}",
                next_step=refusal.write,
                detail=f"{place.file}:{place.line}\n    {place.text}",
            )

    def waits(self) -> Iterator[Wait]:
        for (stage, line, call, write), count in self._waits.items():
            if stage not in self._refused:
                yield Wait(stage=stage, line=line, call=call, write=write, count=count)

    def _checked(self, placed: Mapping[str, Placed], action: Action) -> Action:
        """The action as CuPy would do it on these buffers; as it is where no stage is judged."""
        side, _, name = action.label.partition(":")
        if side != "device" or name not in self.stages.keys() | self._captured.keys():
            return action
        return action.instead(partial(self._run_checked, placed, action, name))

    def _run_checked(self, placed: Mapping[str, Placed], action: Action, name: str, index: int) -> None:
        stage, captured = self._captured.get(name, (None, {}))
        before = checks.sums(captured)
        if name not in self.stages or name in self.skipped or not self._runs(placed, name, index):
            action.run(index)
        after = checks.sums(captured)
        written = next((array for array in captured if after[array] != before[array]), None)
        if stage and written is not None and name not in self._refused | self.wrong:
            array, writer = captured[written], stage_and_line(stage.name, stage.stage.function)
            self.wrong[name] = Problem(
                cause="raised",
                message=f"device stage {writer} writes the NumPy array {written}, {array.dtype} "
                f"{array.shape}, which is not a buffer: its memory and its copies are in no strategy",
                next_step="Declare it as a buffer, and take it as a parameter of the stage, annotated Out or "
                "InOut.",
            )

    def _runs(self, placed: Mapping[str, Placed], name: str, index: int) -> bool:
        number, stage = self.stages[name]
        self._watch.stage = name
        gpu = stage.stage.gpu
        arrays = {each: DeviceArray(placed[each].on(gpu).device, self._watch) for each in stage.access}
        specials = {"xp": self._xp, "frame": index, "stream": self._run.arena.backend.stream}
        specials |= {"gpu": gpu, "gpus": self._run.bound.workload.gpus}
        if "rng" in stage.specials:
            specials["rng"] = np.random.default_rng((self._seed, index, number))
        keywords: dict[str, Any] = {each: specials[each] for each in stage.specials}
        try:
            stage.stage.function(**arrays, **keywords)
            return True
        except checks.Refusal as refusal:
            self._refused[name] = refusal
        except checks.Unknowable:
            pass
        except Exception as error:
            if library_refusal := checks.refused_by_library(error, self._watch):
                self._refused[name] = library_refusal
        self.skipped.add(name)
        return False
