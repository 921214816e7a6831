"""Stages and placements as the schedule sees them, and the steps of a plan (planning.py makes them).

Whether frames can overlap, and what there must be two of then, follows from the annotations alone. Work on
different GPUs overlaps where no buffer orders it.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import chain, groupby, takewhile
from typing import Literal, Protocol, TypeAlias, TypeVar

from advisor.profiles.schema import AccessMode, BufferRecord, Loop, Side, WorkloadRecord
from advisor.strategies.parts import Cells, Part, Region, buffer_of

Action = Literal[
    "host", "device", "copy-in", "copy-out", "to-device", "to-host", "to-peer", "length", "synchronize",
    "until", "mark", "order",
]  # fmt: skip
Place: TypeAlias = str
"""Where a buffer is current: `host`, `device` (the first GPU), `device1` (the second) and so on."""


def place_of(side: Side, gpu: int) -> Place:
    return side if side == "host" or not gpu else f"{side}{gpu}"


def gpu_of(place: Place) -> int:
    return int(place.removeprefix("device") or 0)


@dataclass(frozen=True)
class Traits:
    moves: Literal["copies", "prefetches", "never"]
    """copies: two memories. prefetches: one memory that migrates on request. never: one memory."""
    blocking: bool = False
    """A copy returns only when it is done, and with it all that was on the stream before it."""
    kernels_reach_host_memory: bool = False
    """Kernels work on the memory the host sees, so the host must wait for them before touching it."""
    exclusive: bool = False
    """The host may not touch it while any kernel runs (managed memory without concurrent access)."""
    staged_uploads: bool = False
    """A copy to the device leaves the host memory free at once, although the stream is still at work."""
    foreign: bool = False
    """Host stages use memory that is not the program's own: the host copies in and out of it."""
    peer: bool = False
    """What one GPU holds and another needs crosses between them; else it goes through the host."""


@dataclass(frozen=True)
class StageUse:
    """A stage as the schedule sees it: where it runs, and what it does to each buffer."""

    name: str
    side: Side
    access: Mapping[str, AccessMode]
    every: int = 1
    loop: Loop | None = None
    """Stages in a row with the same loop are its body."""
    parts: Mapping[str, Part] = field(default_factory=dict)
    """By buffer, the part that it touches, if not all."""
    gpu: int = 0

    def __hash__(self) -> int:
        return hash((self.name, self.side, *self.access.items(), self.every, self.loop, *self.parts.items()))

    @property
    def place(self) -> Place:
        return place_of(self.side, self.gpu)

    def reads(self) -> list[str]:
        return [name for name, mode in self.access.items() if mode != "out"]

    def writes(self) -> list[str]:
        return [name for name, mode in self.access.items() if mode != "in"]

    def lengths(self) -> list[str]:
        """Buffers that say how much is valid of those that it touches."""
        return [part for part in self.parts.values() if isinstance(part, str)]


@dataclass(frozen=True)
class Step:
    """One action of a frame: `name` is a stage for host and device, a buffer for everything that moves one.

    copy-in and copy-out are the host's copies between foreign memory and the program's own. length: the host
    reads how much is valid of the buffers whose length this is. until: the host looks at the buffer that ends
    a loop. mark and order: the stream of one GPU waits for what that of another has done up to the mark; the
    name is the mark's number.
    """

    action: Action
    name: str = ""
    overwritten: bool = False
    """The stage that waits for the moved buffer writes all of it, so its contents need not move."""
    part: Part | None = None
    """The part of the buffer that is moved, if not all."""
    loop: Loop | None = None
    """It is done in the first iteration of that loop or, `again`, in each later one. Of both the steps stand
    in a row, with an `until` among them."""
    again: bool = False
    gpu: int = 0
    """The GPU whose stream it is on, or waits for; of a transfer that which it leaves or reaches."""
    source: int = 0

    def times(self, iterations: Sequence[float]) -> float:
        """How often it is done in its frame, given how often each loop runs."""
        return iterations[self.loop.number] - 1 if self.loop and self.again else 1.0

    def moved(self, buffer: BufferRecord, valid_bytes: Mapping[str, float]) -> float:
        """Bytes of the buffer that it moves, given how much is valid of those that have a length."""
        if isinstance(self.part, Region):
            return buffer.bytes * self.part.share
        return valid_bytes.get(buffer.name, buffer.bytes) if self.part else buffer.bytes


@dataclass(frozen=True)
class Plan:
    """Set-up, the first frame (which also moves what set-up wrote), and every frame after it. Frames differ
    where stages run in some only: then frame i has the steps of `period[i % len(period)]`."""

    setup: tuple[Step, ...]
    first: tuple[Step, ...]
    period: tuple[tuple[Step, ...], ...]
    holders: tuple[Mapping[str, frozenset[Place]], ...]
    """After each of these frames: the places that hold the newest contents of each buffer, or of each of its
    cells; empty where nothing wrote it."""
    cells: Cells

    @cached_property
    def kinds(self) -> Mapping[tuple[Step, ...], int]:
        """The different frames of a period, that of all stages first, and how often each occurs in it."""
        return Counter(self.period)

    @property
    def steady(self) -> tuple[Step, ...]:
        return self.period[0]

    def current(self, index: int) -> Mapping[str, frozenset[Place]]:
        """The places that hold each buffer's newest contents after that frame."""
        return self.holders[index % len(self.holders)]


def frames_of_a_period(frame: Iterable[StageUse]) -> int:
    return math.lcm(*(stage.every for stage in frame))


def stage_uses(workload: WorkloadRecord, phase: Literal["setup", "frame"]) -> list[StageUse]:
    """The stages of a recorded workload, for planning without its code."""
    return [
        StageUse(
            s.name,
            s.side,
            {b.name: b.access[s.name] for b in workload.buffers if s.name in b.access},
            s.every,
            s.loop,
            {b.name: part for b in workload.buffers if (part := _part_of(b, s.name))},
            s.gpu,
        )
        for s in workload.stages
        if s.phase == phase
    ]


def _part_of(buffer: BufferRecord, stage: str) -> Part | None:
    """The part that the stage touches; None for all of it, and for nothing."""
    if stage in buffer.regions:
        return Region(buffer.regions[stage], buffer.shape)
    return buffer.valid if stage in buffer.access else None


def share_of(buffer: BufferRecord, stage: str) -> float:
    part = _part_of(buffer, stage)
    return part.share if isinstance(part, Region) else 1.0


def obstacle(frame: Sequence[StageUse]) -> str | None:
    """Why a frame cannot begin before the last one has ended, or None."""
    if not any(stage.side == "device" for stage in frame):
        return "no stage runs on the device"
    if any(stage.gpu for stage in frame):
        return "stages run on several GPUs, and frames overlap on one only"
    if all(stage.every > 1 for stage in frame if stage.side == "device"):
        return "no device stage runs in every frame"
    if ended := next((stage.loop for stage in frame if stage.loop), None):
        return f"the frame has a loop that the host ends (until={ended.until!r}), so frames cannot overlap"
    renewed = set(renewed_each_frame(frame))
    written = {name for stage in frame for name in stage.writes()}
    for stage in frame:
        for name in (*stage.lengths(), *(stage.access if stage.side == "host" else ())):
            if name in written and name not in renewed:
                who = f"host stage {stage.name!r} uses" if stage.side == "host" else "the host needs"
                return f"{who} buffer {name!r}, which carries data between frames, so frames cannot overlap"
    return None


def renewed_each_frame(frame: Sequence[StageUse]) -> list[str]:
    """Buffers that each frame which uses them overwrites before it reads them."""
    users: dict[str, list[StageUse]] = {}
    for stage in frame:
        for name in stage.access:
            users.setdefault(name, []).append(stage)
    return [
        name
        for name, (first, *others) in users.items()
        if first.access[name] == "out"
        and not isinstance(first.parts.get(name), Region)
        and all(other.every % first.every == 0 for other in others)
    ]


def doubled(frame: Sequence[StageUse]) -> list[str]:
    """Buffers of which overlapping frames need two: renewed each frame, and touched by the host. What only
    kernels touch is safe alone: kernels of successive frames run in order."""
    on_host = {name for stage in frame if stage.side == "host" for name in stage.access}
    on_host |= {name for stage in frame for name in stage.lengths()}
    return [name for name in renewed_each_frame(frame) if name in on_host]


Places: TypeAlias = dict[str, set[Place]]
Pending: TypeAlias = dict[str, set[int]]
"""Buffers, and the GPUs whose streams are at work on their host memory."""


@dataclass(kw_only=True)
class State:
    """Locations and pending work between two stages of a frame."""

    current: Places = field(default_factory=dict)
    """Where each buffer is current, in the program's own memory."""
    foreign: Places = field(default_factory=dict)
    """By buffer in foreign memory: host where that memory is current, device where our own is."""
    writer: Places = field(default_factory=dict)
    """The place where it was written last, which holds more than what was valid when it moved."""
    known_lengths: Places = field(default_factory=dict)
    """Lengths that the host has read since they were written."""
    being_read: Pending = field(default_factory=dict)
    being_written: Pending = field(default_factory=dict)
    in_flight: set[int] = field(default_factory=set)
    """GPUs that the host has not waited for since it gave them a kernel."""

    def copy(self) -> State:
        return State(**{each.name: copy(getattr(self, each.name)) for each in fields(State)})


def merged(one: State, other: State) -> State:
    """The state after either: the sides that are current in both, and all that may be under way."""

    def common(before: Places, after: Places) -> Places:
        return {name: (before.get(name, set()) & sides) or sides for name, sides in after.items()}

    moving = moved_between(one, other)
    coming = {name: {gpu_of(to)} for name, to in moving if to != "host"}
    leaving = {name: {0} for name, to in moving if to == "host"}
    return State(
        current=common(one.current, other.current),
        foreign=common(one.foreign, other.foreign),
        writer=other.writer,
        known_lengths={n: at for n, at in other.known_lengths.items() if n in one.known_lengths},
        being_read=_either(one.being_read, other.being_read, coming),
        being_written=_either(one.being_written, other.being_written, leaving),
        in_flight=one.in_flight.union(other.in_flight, *coming.values(), *leaving.values()),
    )


def _either(*pending: Pending) -> Pending:
    return {n: set[int]().union(*(each.get(n, ()) for each in pending)) for n in chain(*pending)}


def add(pending: Pending, name: str, gpu: int) -> None:
    """Records that this GPU's stream also uses the buffer's host memory."""
    pending[name] = pending.get(name, set()) | {gpu}


def migration(name: str, to: Place) -> Step:
    return Step("to-host", name) if to == "host" else Step("to-device", name, gpu=gpu_of(to))


def moved_between(one: State, other: State) -> list[tuple[str, Place]]:
    """Memory that migrates and lies elsewhere after one than after the other, and where after the other."""
    return [
        (name, min(places))
        for name, places in other.current.items()
        if not places & one.current.get(name, set())
    ]


class InLoop(Protocol):
    """An item of a frame, or of a loop in it."""

    @property
    def loop(self) -> Loop | None: ...
    @property
    def again(self) -> bool:
        """It is of the iterations after the first."""


InARow = TypeVar("InARow", bound=InLoop)


def parts(steps: Sequence[InARow]) -> Iterator[tuple[Loop | None, bool, list[InARow]]]:
    """The steps in a row that are done equally often: the loop, whether again, and they."""
    for (loop, again), row in groupby(steps, key=lambda step: (step.loop, step.again)):
        yield loop, again, list(row)


Memory: TypeAlias = tuple[str, Place]
"""A buffer's memory in a place; of a buffer with one memory for all, the place is empty."""


@dataclass(frozen=True)
class _Use:
    """Use of a memory by a step: its GPU, its place in the list of steps, and whether it wrote."""

    gpu: int
    at: int
    wrote: bool


@dataclass
class Streams:
    """The steps that GPUs were given, each GPU's in order, since the host waited for it last. A step that
    touches what another GPU has written, or overwrites what another reads, comes after that: its stream waits
    for a mark behind the other's step, and the host for nothing."""

    uses: defaultdict[Memory, list[_Use]] = field(default_factory=lambda: defaultdict(list))
    after: dict[tuple[int, int], int] = field(default_factory=dict)
    """For a GPU and another: the last step of the other that its stream has waited for."""
    last: dict[int, int] = field(default_factory=dict)
    marks: dict[int, int] = field(default_factory=dict)
    """Steps behind which there is a mark, and its number."""

    def add(
        self, steps: list[Step], step: Step, reads: Collection[Memory], writes: Collection[Memory]
    ) -> None:
        """Appends the step to the list, behind the waits that it needs."""
        for other, at in sorted(self._awaited(step.gpu, reads, writes).items()):
            last = _end_of_row(steps, at)
            number = self.marks.setdefault(last, len(self.marks))
            self.after[step.gpu, other] = last
            steps.append(Step("order", str(number), gpu=step.gpu, source=other))
        steps.append(step)
        self.last[step.gpu] = len(steps) - 1
        for memory in reads:
            self.uses[memory].append(_Use(step.gpu, len(steps) - 1, wrote=False))
        for memory in writes:
            self.uses[memory] = [_Use(step.gpu, len(steps) - 1, wrote=True)]

    def _awaited(self, gpu: int, reads: Collection[Memory], writes: Collection[Memory]) -> dict[int, int]:
        """For each other GPU, the last of its steps that must be over first."""
        latest: dict[int, int] = {}
        for memory in (*reads, *writes):
            for use in self.uses.get(memory, ()):
                matters = use.gpu != gpu and (use.wrote or memory in writes)
                if matters and use.at > self.after.get((gpu, use.gpu), -1):
                    latest[use.gpu] = max(use.at, latest.get(use.gpu, -1))
        return latest

    def settle(self, gpu: int) -> set[int]:
        """The host has waited for that GPU: which are done with it, since it came after their last step."""
        done = {gpu} | {o for o, last in self.last.items() if self.after.get((gpu, o), -1) >= last}
        for memory, uses in self.uses.items():
            self.uses[memory] = [use for use in uses if use.gpu not in done]
        return done

    def marked(self, steps: list[Step]) -> list[Step]:
        """The steps with their marks, after which none of them is waited for any more."""
        marks = []
        for at, step in enumerate(steps):
            marks.append(step)
            if at in self.marks:
                marks.append(Step("mark", str(self.marks[at]), gpu=step.gpu))
        self.uses.clear()
        self.after.clear()
        self.last.clear()
        self.marks.clear()
        return marks


def _end_of_row(steps: list[Step], at: int) -> int:
    """The last of the moves of one buffer, part by part, that begin there: one mark does for them."""
    kinds = [(s.action, s.gpu, s.source, buffer_of(s.name)) for s in steps[at:]]
    alike = takewhile(lambda kind: kind == kinds[0], kinds[1:] if steps[at].action != "device" else ())
    return at + sum(1 for _ in alike)
