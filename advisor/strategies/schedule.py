"""Which side holds the current copy of each buffer, and what must happen between the stages.

`plan` is a pure function of the stages' annotations and of how each buffer is placed. It inserts the
transfers and synchronisations that are needed and no others: data is moved when a side reads what the
other side wrote last, and the host waits when it touches memory that work in flight still uses.
The model predicts from the same plan that the worker runs.
Whether frames can overlap, and what there must be two of then, follows from the annotations alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import chain, groupby
from typing import Literal, TypeAlias

from advisor.errors import WorkloadError
from advisor.profiles.schema import AccessMode, Loop, Side, WorkloadRecord
from advisor.strategies.loops import Places, State, merged, strayed

Action = Literal["host", "device", "copy-in", "copy-out", "to-device", "to-host", "synchronize", "until"]


@dataclass(frozen=True)
class Traits:
    """What the schedule must know of a placement."""

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


@dataclass(frozen=True)
class StageUse:
    """A stage as the schedule sees it: its side, and what it does to each buffer."""

    name: str
    side: Side
    access: Mapping[str, AccessMode]
    every: int = 1
    """It runs in the frames whose index this divides."""
    loop: Loop | None = None
    """Stages in a row with the same loop are its body."""

    def reads(self) -> list[str]:
        """Buffers whose contents it needs, in order."""
        return [name for name, mode in self.access.items() if mode != "out"]

    def writes(self) -> list[str]:
        """Buffers it changes, in order."""
        return [name for name, mode in self.access.items() if mode != "in"]


_Parts: TypeAlias = tuple[str, Side, tuple[tuple[str, AccessMode], ...], int, Loop | None]
"""A stage's fields, that have a hash."""


@dataclass(frozen=True)
class Step:
    """One action of a frame: `name` is a stage for host and device, a buffer for everything that moves one.

    copy-in and copy-out are the host's copies between foreign memory and the program's own. until: the host
    looks at the buffer that ends a loop.
    """

    action: Action
    name: str = ""
    overwritten: bool = False
    """Of a buffer that is moved: the stage that waits for it writes all of it, so its contents may stay."""
    loop: Loop | None = None
    """It is done in the first iteration of that loop or, `again`, in each later one. Of both the steps stand
    in a row, with an `until` among them."""
    again: bool = False

    def times(self, iterations: Sequence[float]) -> float:
        """How often it is done in its frame, given how often each loop runs."""
        return iterations[self.loop.number] - 1 if self.loop and self.again else 1.0


@dataclass(frozen=True)
class Plan:
    """Set-up, the first frame (which also moves what set-up wrote), and every frame after it.

    Frames differ where stages run in some only: then frame i has the steps of `period[i % len(period)]`.
    """

    setup: tuple[Step, ...]
    first: tuple[Step, ...]
    period: tuple[tuple[Step, ...], ...]
    holders: tuple[Mapping[str, frozenset[Side]], ...]
    """After each of these frames: the sides that hold each buffer's newest contents; empty where nothing
    wrote it."""

    @cached_property
    def kinds(self) -> Mapping[tuple[Step, ...], int]:
        """The different frames of a period, that of all stages first, and how often each occurs in it."""
        return Counter(self.period)

    @property
    def steady(self) -> tuple[Step, ...]:
        """The steps of a frame in which all stages run."""
        return self.period[0]

    def current(self, index: int = 0) -> Mapping[str, frozenset[Side]]:
        """The sides that hold each buffer's newest contents after that frame."""
        return self.holders[index % len(self.holders)]


def plan(setup: Sequence[StageUse], frame: Sequence[StageUse], traits: Mapping[str, Traits]) -> Plan:
    """The steps of set-up, of the first and of the steady frame.

    Raises `WorkloadError` when a stage reads a buffer that nothing has written yet.
    """
    return _planned(tuple(map(_parts, setup)), tuple(map(_parts, frame)), tuple(traits.items()))


def _parts(stage: StageUse) -> _Parts:
    return stage.name, stage.side, tuple(stage.access.items()), stage.every, stage.loop


@lru_cache(maxsize=256)
def _planned(
    setup: tuple[_Parts, ...], frame: tuple[_Parts, ...], placed: tuple[tuple[str, Traits], ...]
) -> Plan:
    """Kept, since a report asks for the same plan of many sizes of the buffers."""
    traits, stages = dict(placed), [_stage(parts) for parts in frame]
    tracker, length = _Tracker(traits), frames_of_a_period(stages)
    before = tracker.run(map(_stage, setup))
    frames, holders = [], []
    for index in range(3 * length):
        frames.append(tracker.frame([stage for stage in stages if index % stage.every == 0]))
        holders.append({name: frozenset(tracker.newest(name)) for name in traits})
    first, period = frames[0], tuple(frames[2 * length :])
    # Uploads after the first frame that no later one needs, so that steady frames can follow the first: a
    # copy out to foreign memory that happens once leaves memory that migrates with the host.
    beyond = Counter(chain(*frames[1 : length + 1])) - Counter(chain(*period))
    if settling := [step for step in beyond if step.action == "to-device"]:
        waited = (Step("synchronize"),)
        settling = list(dict.fromkeys(replace(step, loop=None, again=False) for step in settling))
        first = (*(first[:-1] if first[-1:] == waited else first), *settling, *waited)
    return Plan(before, first, period, tuple(holders[2 * length :]))


def _stage(parts: _Parts) -> StageUse:
    name, side, access, every, loop = parts
    return StageUse(name, side, dict(access), every, loop)


def frames_of_a_period(frame: Iterable[StageUse]) -> int:
    """After so many frames, stages that run in some only begin anew."""
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
        )
        for s in workload.stages
        if s.phase == phase
    ]


@dataclass
class _Tracker:
    """Holds where each buffer is current and what is in flight, from one stage to the next."""

    traits: Mapping[str, Traits]
    current: Places = field(default_factory=dict)
    foreign: Places = field(default_factory=dict)
    """Of buffers in foreign memory: host where that memory is current, device where our own is."""
    being_read: set[str] = field(default_factory=set)
    being_written: set[str] = field(default_factory=set)
    in_flight: bool = False
    steps: list[Step] = field(default_factory=list)
    known: dict[Hashable, tuple[tuple[Step, ...], Places, Places]] = field(default_factory=dict)

    def frame(self, stages: Sequence[StageUse]) -> tuple[Step, ...]:
        """`run`, but once alone for the same stages with everything in the same places before them."""
        places = (tuple((name, *held) for name, held in at.items()) for at in (self.current, self.foreign))
        before = (*(stage.name for stage in stages), *places)
        if before not in self.known:
            self.known[before] = self.run(stages), dict(self.current), dict(self.foreign)
        steps, current, foreign = self.known[before]
        self.current, self.foreign = dict(current), dict(foreign)
        return steps

    def run(self, stages: Iterable[StageUse]) -> tuple[Step, ...]:
        self.steps = []
        for loop, body in groupby(stages, key=lambda stage: stage.loop):
            if loop is None:
                self._in_a_row(body)
            else:
                self._repeated(loop, list(body))
        if self.in_flight:
            self._synchronize()
        return tuple(self.steps)

    def _in_a_row(self, stages: Iterable[StageUse]) -> None:
        for stage in stages:
            self._require_written(stage)
            own = self._own(stage)
            if stage.side == "host":
                self._host(own, Step("host", stage.name))
            else:
                self._device(own)

    def _repeated(self, loop: Loop, body: Sequence[StageUse]) -> None:
        """The first iteration, and one that may follow any other: what is where, and under way, before it
        holds after the first iteration as well as after a later one, and so does what is left behind."""
        before = self.steps
        first = self._iteration(loop, body)
        began = after = self._state()
        while True:
            again = self._iteration(loop, body)
            both = merged(after, self._state())
            self._resume(both)
            if both == after:
                break
            after = both
        first += (Step("to-device" if to == {"device"} else "to-host", n) for n, to in strayed(began, after))
        marked = [replace(step, loop=loop) for step in first]
        marked += [replace(step, loop=loop, again=True) for step in again]
        self.steps = [*before, *marked]

    def _iteration(self, loop: Loop, body: Sequence[StageUse]) -> list[Step]:
        """The steps of the stages and of the look at the buffer that ends the loop, which the host reads."""
        self.steps = []
        self._in_a_row(body)
        look = self._own(StageUse("", "host", {loop.until: "in"}))
        self._host(look, Step("until", loop.until))
        return self.steps

    def _state(self) -> State:
        current, foreign = dict(self.current), dict(self.foreign)
        return current, foreign, set(self.being_read), set(self.being_written), self.in_flight

    def _resume(self, state: State) -> None:
        current, foreign, being_read, being_written, self.in_flight = state
        self.current, self.foreign = dict(current), dict(foreign)
        self.being_read, self.being_written = set(being_read), set(being_written)

    def newest(self, name: str) -> set[Side]:
        """The sides whose stages would find the newest contents."""
        places = self.foreign if self.traits[name].foreign else self.current
        return places.get(name, set())

    def _own(self, stage: StageUse) -> StageUse:
        """The stage with the host copies made that it needs, and as it touches the program's own memory."""
        own = dict(stage.access)
        for name, mode in stage.access.items():
            if not self.traits[name].foreign:
                continue
            if mode != "out" and stage.side not in self.foreign[name]:
                # To the host touching our own memory, a copy in is one more stage that writes it.
                coming = stage.side == "device"
                copying = StageUse(name, "host", {name: "out" if coming else "in"})
                self._host(copying, Step("copy-in" if coming else "copy-out", name))
            alone = mode != "in"
            self.foreign[name] = {stage.side} if alone else self.foreign[name] | {stage.side}
            if stage.side == "host":
                del own[name]
        return replace(stage, access=own)

    def _require_written(self, stage: StageUse) -> None:
        for name in stage.reads():
            if not self.newest(name):
                raise WorkloadError(
                    f"stage {stage.name!r} reads buffer {name!r} before any stage has written it",
                    next_step=f"Fill {name!r} in an earlier stage or in setup=[...], or annotate it Out "
                    "where the stage overwrites all of it.",
                )

    def _host(self, stage: StageUse, step: Step) -> None:
        for name in self._to_move(stage):
            self.steps.append(Step("to-host", name, stage.access[name] == "out"))
            if self.traits[name].blocking:
                self._settle()
            else:
                self.being_written.add(name)
        if any(self._must_wait(name, mode) for name, mode in stage.access.items()):
            self._synchronize()
        self.steps.append(step)
        self._record(stage)

    def _device(self, stage: StageUse) -> None:
        for name in self._to_move(stage):
            self.steps.append(Step("to-device", name, stage.access[name] == "out"))
            if self.traits[name].staged_uploads:
                continue
            if self.traits[name].blocking:
                self._settle()
            else:
                self.being_read.add(name)
        self.steps.append(Step("device", stage.name))
        self.in_flight = True
        for names, pending in ((stage.reads(), self.being_read), (stage.writes(), self.being_written)):
            pending.update(name for name in names if self.traits[name].kernels_reach_host_memory)
        self._record(stage)

    def _to_move(self, stage: StageUse) -> list[str]:
        """Buffers that must come to the stage's side first."""
        copied = [n for n in stage.reads() if self.traits[n].moves == "copies"]
        migrated = [n for n in stage.access if self.traits[n].moves == "prefetches"]
        return [n for n in (*copied, *migrated) if self.current.get(n) and stage.side not in self.current[n]]

    def _record(self, stage: StageUse) -> None:
        written = set(stage.writes())
        for name in stage.access:
            alone = name in written or self.traits[name].moves == "prefetches"
            self.current[name] = {stage.side} if alone else self.current[name] | {stage.side}

    def _must_wait(self, name: str, mode: AccessMode) -> bool:
        return (
            name in self.being_written
            or (mode != "in" and name in self.being_read)
            or (self.traits[name].exclusive and self.in_flight)
        )

    def _synchronize(self) -> None:
        self.steps.append(Step("synchronize"))
        self._settle()

    def _settle(self) -> None:
        self.being_read.clear()
        self.being_written.clear()
        self.in_flight = False


def obstacle(frame: Sequence[StageUse]) -> str | None:
    """Why a frame cannot begin before the last one has ended, or None."""
    if not any(stage.side == "device" for stage in frame):
        return "no stage runs on the device"
    if all(stage.every > 1 for stage in frame if stage.side == "device"):
        return "no device stage runs in every frame"
    if ended := next((stage.loop for stage in frame if stage.loop), None):
        return f"the host ends the loop until {ended.until!r} within a frame, so frames cannot overlap"
    renewed = set(renewed_each_frame(frame))
    written = {name for stage in frame for name in stage.writes()}
    for stage in frame:
        for name in stage.access:
            if stage.side == "host" and name in written and name not in renewed:
                return (
                    f"host stage {stage.name!r} uses buffer {name!r}, which carries data between frames, "
                    "so frames cannot overlap"
                )
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
        if first.access[name] == "out" and all(other.every % first.every == 0 for other in others)
    ]


def doubled(frame: Sequence[StageUse]) -> list[str]:
    """Buffers of which overlapping frames need two: renewed each frame, and touched by the host.

    What only kernels touch is safe alone: kernels of successive frames run in order.
    """
    on_host = {name for stage in frame if stage.side == "host" for name in stage.access}
    return [name for name in renewed_each_frame(frame) if name in on_host]
