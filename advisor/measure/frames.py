"""The frame loop: a plan, the placed buffers and the user's functions made into steps that just run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from time import perf_counter
from typing import Any

import numpy as np
import nvtx

from advisor.measure.sampling import Clock
from advisor.measure.steps import Lines, LoopCount, Marks, call_of, indented, most_rows, valid_rows, written
from advisor.profiles.schema import Loop, Side
from advisor.strategies.backend import Array, Backend, wait_for_all
from advisor.strategies.parts import WHOLE, Bounds, Part
from advisor.strategies.placement import Placed
from advisor.strategies.schedule import Plan, Step, parts
from advisor.workloads.binding import BoundStage, BoundWorkload
from advisor.workloads.bridges import StageBridges


class Ranges:
    """NVTX ranges in the domain `advisor`: strategy:<name> > frame > host:<stage>, to-device, and so on.
    Names are few and made once, since nvtx keeps every distinct message for ever; the frame's index is the
    payload. With no tool attached a range costs about 0.05 µs. Every push is popped in every path."""

    def __init__(self) -> None:
        self._domain: Any = nvtx.get_domain("advisor")
        self._frame = self.attributes("frame")
        if hasattr(self._domain, "push_range"):
            self.push, self.pop = self._domain.push_range, self._domain.pop_range
        else:  # before nvtx 0.2.12, ranges were pushed by functions that take the domain's handle
            from nvtx import _lib

            handle = self._domain.handle
            self.push = lambda attributes: _lib.push_range(attributes, handle)
            self.pop = lambda: _lib.pop_range(handle)

    @property
    def listening(self) -> bool:
        """Whether a tool is attached, which happens when a process starts; otherwise no ranges are made."""
        return self._frame is not None

    def attributes(self, message: str, category: str | None = None) -> Any:
        """What `push` takes for a range of that name; None when no tool listens."""
        more = {} if category is None else {"category": category}
        return self._domain.get_event_attributes(message=message, **more)

    def push_frame(self, index: int) -> None:
        if self._frame is not None:
            self._frame.payload = index
        self.push(self._frame)

    @contextmanager
    def strategy(self, name: str) -> Iterator[None]:
        self.push(self.attributes(f"strategy:{name}"))
        try:
            yield
        finally:
            self.pop()


@dataclass(frozen=True)
class Action:
    label: str
    """The NVTX range: host:<stage>, host-copy, to-device, device:<stage>, to-host, length, synchronize."""
    lines: Lines
    """In its range where a tool listens; `stream$` is the stream of a transfer."""
    on_stream: bool = False
    """Its work is done by the stream, so the stream's clock times it."""
    by_host: bool = False
    """In a transfer the CPU copies too, so the stream's clock does not see all of it."""
    loop: Loop | None = None
    again: bool = False
    gpu: int = 0

    @cached_property
    def run(self) -> Callable[[int], None]:
        return written([self.lines])

    def instead(self, run: Callable[[int], object]) -> Action:
        """The same place in a frame, with other work."""
        return replace(self, lines=Lines(("run$(index)",), {"run$": run}, self.lines.call))

    def around(self, note: Callable[[Callable[[], object], Any], None]) -> Action:
        """The same, but called by `note`, which is also given the stream of a transfer."""
        run, stream = self.run, self.lines.names.get("stream$")
        return self.instead(lambda index: note(lambda: run(index), stream))


Watch = Callable[[Action], Action]
LEAST_HELD = 50e-6
"""Seconds that the stream is held before work is launched: on an H200 a launch takes 5 to 20 µs."""
MOST_HELD = 2e-3
"""A step that takes longer to launch, or that waits itself, has its later launches in its time."""


class FrameLoop:
    """Runs set-up and frames of a bound workload, one frame after the other, on the first set of buffers."""

    overlaps = False
    """After a frame the next one is under way."""
    index = 0
    """The next frame's, where frames run in order: what runs some of them advances it."""

    def __init__(
        self,
        bound: BoundWorkload,
        plan: Plan,
        sets: Sequence[dict[str, Placed]],
        backend: Backend,
        *,
        seed: int,
        ranges: Ranges,
        clock: Clock = perf_counter,
        host_seconds: dict[str, float] | None = None,
    ) -> None:
        self._clock = clock
        self._placed = sets[0]
        self._backend = backend
        self._seed = seed
        self._ranges = ranges
        self._gpus = bound.workload.gpus
        self._buffers = bound.workload.buffers
        self._marks = Marks()
        self._stages = {stage.name: stage for stage in bound.stages}
        self._most_rows = most_rows(bound)
        self._salts = {stage.name: number for number, stage in enumerate(bound.stages)}
        self.host_seconds: dict[str, float] = defaultdict(float) if host_seconds is None else host_seconds
        """Seconds of each host stage since the last reset, by the host's clock."""
        self.iterations = {loop.number: self._count(loop) for loop in bound.loops}
        """Counts of each loop of the frame, since the last reset."""
        self._launching: dict[int, float] = {}
        """Seconds that launching took, by the identity of the action."""
        self.setup = self._actions(plan.setup)
        self.first = self._actions(plan.first)
        actions_of = {steps: self._actions(steps) for steps in plan.period}
        self._phases = tuple(actions_of[steps] for steps in plan.period)
        self._steady = self._in_phases()
        self.latencies: list[float] = []
        """The latency of each frame in seconds, where that differs from the time per frame."""

    @property
    def period(self) -> int:
        """Frames after which the pattern of stages that skip frames repeats."""
        return len(self._phases)

    @property
    def steady(self) -> tuple[Action, ...]:
        return self._phases[0]

    def actions(self, index: int) -> tuple[Action, ...]:
        return self._phases[index % self.period] if index else self.first

    def reset(self) -> None:
        self.latencies.clear()
        self.host_seconds.clear()
        for count in self.iterations.values():
            count.frames.clear()

    def run_setup(self) -> None:
        for action in self.setup:
            action.run(0)

    def first_frame(self) -> None:
        """Frame 0, which also moves what set-up wrote."""
        self._written(self.first)(0)
        self.index = 1

    def frame(self, index: int) -> None:
        """A steady frame. This is what is timed: nothing here but the steps and their ranges."""
        self._steady(index)

    def frame_alone(self, index: int) -> None:
        """A frame after which nothing is under way, so that its results can be read."""
        self._steady(index)

    def next_alone(self) -> int:
        """The next frame, by itself; its index."""
        self.frame_alone(self.index)
        self.index += 1
        return self.index - 1

    def next_period(self) -> None:
        for index in range(self.index, self.index + self.period):
            self.frame(index)
        self.index += self.period

    def to_a_whole_frame(self, before: int = 0) -> None:
        """Runs frames up to one in which all stages run, or so many before it."""
        while (self.index + before) % self.period:
            self.next_alone()

    def timed_frame(self, index: int) -> dict[str, float]:
        """A steady frame with each step timed, for the breakdown and not for the score. Seconds by label.

        The stream's work is timed by its own marks; what the host does, copies in which it takes part among
        it, by its clock. The stream is held while work is launched, so that launching is not charged to it;
        see `MOST_HELD`.
        """
        seconds: defaultdict[str, float] = defaultdict(float)
        marks: list[tuple[str, Any, Any]] = []
        for action in self.in_turn(self._phases[index % self.period]):
            gpu, run = self._backend.gpus[action.gpu], action.run
            if action.by_host:
                wait_for_all(self._backend)
                begin = self._clock()
                run(index)
                wait_for_all(self._backend)
                seconds[action.label] += self._clock() - begin
            elif action.on_stream:
                gpu.hold(min(2 * self._launching.get(id(action), 0.0) + LEAST_HELD, MOST_HELD))
                start, begin = gpu.timestamp(), self._clock()
                run(index)
                self._launching[id(action)] = self._clock() - begin
                marks.append((action.label, start, gpu.timestamp()))
            else:
                begin = self._clock()
                run(index)
                if action.label not in ("synchronize", "length", "order"):
                    seconds[action.label] += self._clock() - begin
        wait_for_all(self._backend)
        for label, start, end in marks:
            seconds[label] += self._backend.seconds_between(start, end)
        return dict(seconds)

    @contextmanager
    def watched(self, watch: Watch) -> Iterator[None]:
        plain = self.setup, self.first, self._phases, self._steady
        self.setup, self.first = (tuple(map(watch, actions)) for actions in (self.setup, self.first))
        watched_of = {id(actions): tuple(map(watch, actions)) for actions in self._phases}
        self._phases = tuple(watched_of[id(actions)] for actions in self._phases)
        self._steady = self._in_phases()
        try:
            yield
        finally:
            self.setup, self.first, self._phases, self._steady = plain

    def _in_phases(self) -> Callable[[int], None]:
        frame_of = {id(actions): self._written(actions) for actions in self._phases}
        frames = [frame_of[id(actions)] for actions in self._phases]
        return frames[0] if len(frames) == 1 else lambda index: frames[index % len(frames)](index)

    def _written(self, actions: Sequence[Action], *, is_frame: bool = True) -> Callable[[int], None]:
        """These steps in order, in the range of a frame if they are one and a tool listens."""
        lines: list[Lines] = []
        for loop, again, row in parts(actions):
            body = [action.lines for action in row]
            if loop is not None and again:
                lines.append(Lines(("while again$():",), {"again$": self.iterations[loop.number].again}))
                body = [*map(indented, body)]
            elif loop is not None:
                lines.append(Lines(("begin$()",), {"begin$": self.iterations[loop.number].begin}))
            lines += body
        if is_frame and self._ranges.listening:
            names = {"push_frame": self._ranges.push_frame, "pop_frame": self._ranges.pop}
            begin = Lines(("push_frame(index)", "try:"), names)
            lines = [begin, *map(indented, lines), Lines(("finally:", "    pop_frame()"), names)]
        return written(lines)

    def in_turn(self, actions: Sequence[Action]) -> Iterator[Action]:
        """The actions as they are done: those of later iterations until the host ends the loop."""
        for loop, again, row in parts(actions):
            if loop is not None and again:
                while self.iterations[loop.number].again():
                    yield from row
            else:
                if loop is not None:
                    self.iterations[loop.number].begin()
                yield from row

    def _count(self, loop: Loop) -> LoopCount:
        placed = self._placed[loop.until]

        def flag() -> bool:
            assert placed.host is not None
            return bool(placed.host.item(0))

        return LoopCount(loop, flag)

    def _actions(self, steps: Iterable[Step]) -> tuple[Action, ...]:
        return tuple(replace(self._action(s), loop=s.loop, again=s.again, gpu=s.gpu) for s in steps)

    def _action(self, step: Step) -> Action:
        if step.action == "host" or step.action == "device":
            return self._stage(self._stages[step.name])
        if step.action == "until":
            assert step.loop is not None
            look = self.iterations[step.loop.number].look
            return self._named("synchronize", Lines(("look$()",), {"look$": look}))
        gpu = self._backend.gpus[step.gpu]
        if step.action == "synchronize":
            return self._named(step.action, Lines(("wait$()",), {"wait$": gpu.synchronize}), step.gpu)
        if step.action == "mark" or step.action == "order":
            lines = (
                self._marks.record(gpu, (step.name, step.gpu))
                if step.action == "mark"
                else self._marks.order(gpu, (step.name, step.source), gpu.stream)
            )
            return self._named("order", lines, step.gpu)
        if step.action == "length":
            return self._named(step.action, self._reading(step.name))
        placed = self._placed[step.name].on(step.gpu)
        bounds = self._bounds(step.part)
        if step.action == "copy-in" or step.action == "copy-out":
            copy = placed.copy_in if step.action == "copy-in" else placed.copy_out
            assert copy is not None
            return self._named("host-copy", Lines(("copy$(bounds$())",), {"copy$": copy, "bounds$": bounds}))
        if step.action == "to-peer":
            assert placed.to_peer is not None
            names = {"cross$": placed.to_peer, "bounds$": bounds}
            crossing = Lines((f"cross$({step.source}, bounds$())",), names)
            return replace(self._named(step.action, crossing, step.gpu), on_stream=True)
        side: Side = "device" if step.action == "to-device" else "host"
        if step.part is not None:
            by = {"move$": placed.move_part, "bounds$": bounds, "stream$": None}
            lines = Lines((f"move$({side!r}, bounds$(), stream$)",), by)
        elif step.overwritten and placed.bring:
            lines = Lines((f"bring$({side!r})",), {"bring$": placed.bring, "stream$": None})
        else:
            lines = self._moving(placed, self._placed[step.name], side)
        action = self._named(step.action, lines, step.gpu)
        return replace(action, on_stream=True, by_host=placed.by_host)

    def _bounds(self, part: Part | None) -> Callable[[], Bounds]:
        if isinstance(part, str):
            length = self._placed[part].length
            return lambda: length.bounds
        constant = WHOLE if part is None else part.bounds
        return lambda: constant

    def _reading(self, length: str) -> Lines:
        placed, most = self._placed[length], self._most_rows[length]

        def read(index: int) -> None:
            assert placed.host is not None
            placed.length.note(valid_rows(length, placed.host, most, index))

        return Lines(("read$(index)",), {"read$": read})

    @staticmethod
    def _moving(on_gpu: Placed, on_host: Placed, side: Side) -> Lines:
        """Moves the buffer; where that makes a new array, stages get that from then on."""
        names = {"move$": on_gpu.to_device if side == "device" else on_gpu.to_host, "stream$": None}
        if not on_gpu.remade:
            return Lines(("move$(stream$)",), names)
        placed = on_gpu if side == "device" else on_host
        return Lines((f"placed$.{side} = move$(stream$)",), {**names, "placed$": placed})

    def _named(self, label: str, lines: Lines, gpu: int | None = None) -> Action:
        """An action in the range of that name, whose category is the GPU if there are several."""
        if self._ranges.listening:
            category = None if gpu is None or self._gpus == 1 else f"gpu{gpu}"
            attributes = self._ranges.attributes(label, category)
            text = ("push$(range$)", "try:", *indented(lines).text, "finally:", "    pop$()")
            names = {"push$": self._ranges.push, "pop$": self._ranges.pop, "range$": attributes}
            lines = replace(lines, text=text, names={**lines.names, **names})
        return Action(label, lines)

    def _stage(self, stage: BoundStage) -> Action:
        """The user's function with its arguments filled in. A host stage's time goes to `host_seconds`, by
        two reads of the host's clock."""
        gpu = self._backend.gpus[stage.stage.gpu]
        function, parameters = stage.implementation(cpu=gpu.xp is np)
        specials = parameters.specials
        with gpu.current():
            bridges = StageBridges(stage, gpu)
            names, arguments = self._buffers_given(stage, bridges)
        constants = {"xp": gpu.xp, "stream": bridges.stream(gpu.stream)}
        constants |= {"gpu": stage.stage.gpu, "gpus": self._gpus}
        names |= {f"{name}_$": value for name, value in constants.items() if name in specials}
        arguments += [f"{name}={name}_$" for name in constants if name in specials]
        names["function$"] = bridges.around(function, takes_stream="stream" in specials)
        before: list[str] = []
        if "frame" in specials:
            arguments.append("frame=index")
        if "rng" in specials:
            seeds = f"{self._seed}, index, {self._salts[stage.name]}"
            if loop := stage.stage.loop:
                names["count$"] = self.iterations[loop.number]
                seeds += ", count$.now"
            names["generator$"] = np.random.default_rng
            before.append(f"rng$ = generator$(({seeds}))")
            arguments.append("rng=rng$")
        call = f"function$({', '.join(arguments)})"
        if stage.side == "host":
            names |= {"clock": perf_counter, "spent": self.host_seconds, "stage$": stage.name}
            lines = (*before, "begin$ = clock()", call, "spent[stage$] += clock() - begin$")
        elif stage.stage.gpu:
            names |= {"enter$": gpu.enter, "leave$": gpu.leave}
            lines = (*before, "enter$()", call, "leave$()")
        else:
            lines = (*before, call)
        label = f"{stage.side}:{stage.name}"
        where = stage.stage.gpu if stage.side == "device" else None
        action = self._named(label, Lines(lines, names, call_of(stage, function, self._buffers)), where)
        return replace(action, on_stream=stage.side == "device")

    def _buffers_given(self, stage: BoundStage, bridges: StageBridges) -> tuple[dict[str, Any], list[str]]:
        """The stage's buffers as keyword arguments, and what their names stand for. Arrays that stay are made
        ready once; those that a move replaces are looked up in every frame."""
        names: dict[str, Any] = {}
        arguments: list[str] = []
        for name, access in stage.access.items():
            placed = self._placed[name] if stage.side == "host" else self._placed[name].on(stage.stage.gpu)
            array = getattr(placed, stage.side)
            if name in bridges.forms:
                view: Callable[[Any], Any] | None = partial(bridges.shared, name)
            else:
                view = _read_only if access == "in" and isinstance(array, np.ndarray) else None
            if not placed.remade:
                names[f"{name}_$"] = view(array) if view else array
                arguments.append(f"{name}={name}_$")
                continue
            names |= {f"{name}_$": placed, f"{name}_view$": view}
            now = f"{name}_$.{stage.side}"
            arguments.append(f"{name}={name}_view$({now})" if view else f"{name}={now}")
        return names, arguments


def _read_only(array: Array) -> Array:
    """A read-only view, for a stage that only reads the array; CuPy has no such arrays."""
    view = array.view()
    view.flags.writeable = False
    return view
