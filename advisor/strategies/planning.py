"""The plan of a workload: where each buffer is current, and what must happen between the stages.

`plan` is a pure function of the stages' annotations and of how each buffer is placed. It inserts the
transfers and synchronisations that are needed and no others: data is moved when a side reads what the
other side wrote last, and the host waits when it touches memory that work in flight still uses.
The model predicts from the same plan that the worker runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain, groupby

from advisor.errors import WorkloadError
from advisor.profiles.schema import AccessMode, Loop, WorkloadRecord
from advisor.strategies import schedule
from advisor.strategies.parts import NAME_THE_LENGTH, Cells, Part, Region, buffer_of
from advisor.strategies.schedule import Memory, Place, Places, Plan, StageUse, State, Step, Streams, Traits


def plan(setup: Sequence[StageUse], frame: Sequence[StageUse], traits: Mapping[str, Traits]) -> Plan:
    """The steps of set-up, of the first and of the steady frame. Raises `WorkloadError` when a stage reads a
    buffer that nothing has written yet."""
    # What migrates on request comes in whole pages, so that of a column all that lies between comes too.
    pages = {name for name, trait in traits.items() if trait.moves == "prefetches" and not trait.foreign}

    def in_pages(stage: StageUse) -> StageUse:
        regions = {n: p.contiguous for n, p in stage.parts.items() if isinstance(p, Region) and n in pages}
        return replace(stage, parts={**stage.parts, **regions})

    return _planned(tuple(map(in_pages, setup)), tuple(map(in_pages, frame)), tuple(traits.items()))


def plan_of(workload: WorkloadRecord, traits: Mapping[str, Traits]) -> Plan:
    """The plan of a recorded workload."""
    return plan(schedule.stage_uses(workload, "setup"), schedule.stage_uses(workload, "frame"), traits)


@lru_cache(maxsize=256)
def _planned(
    setup: tuple[StageUse, ...], frame: tuple[StageUse, ...], placed: tuple[tuple[str, Traits], ...]
) -> Plan:
    """Kept, since a report asks for the same plan of many sizes of the buffers."""
    cells = Cells.among(stage.parts for stage in (*setup, *frame))

    def in_cells(stage: StageUse) -> StageUse:
        """The stage's use of cells in place of buffers; its parts are the lengths that it goes by."""
        lengths = {buffer: part for buffer, part in stage.parts.items() if isinstance(part, str)}
        return replace(stage, access=cells.touched(stage.access, stage.parts), parts=lengths)

    first_stages, stages = (list(map(in_cells, part)) for part in (setup, frame))
    several = any(stage.gpu for stage in (*first_stages, *stages))
    tracker = _Tracker(traits=cells.each(dict(placed)), several=several)
    length = schedule.frames_of_a_period(stages)
    tracker.lengths = dict(chain(*(stage.parts.items() for stage in (*first_stages, *stages))))
    before = tracker.run(first_stages)
    frames, holders = [], []
    for index in range(3 * length):
        frames.append(tracker.frame([stage for stage in stages if index % stage.every == 0]))
        holders.append({name: frozenset(tracker.newest(name)) for name in tracker.traits})
    first, period = frames[0], tuple(frames[2 * length :])
    # Uploads after the first frame that no later one needs, so that steady frames can follow the first: a
    # copy out to foreign memory that happens once leaves memory that migrates with the host.
    beyond = Counter(chain(*frames[1 : length + 1])) - Counter(chain(*period))
    if settling := _settling(beyond, set(tracker.lengths.values())):
        waited = (Step("synchronize"),)
        first = (*(first[:-1] if first[-1:] == waited else first), *settling, *waited)
    boxes = {steps: tuple(_in_boxes(steps, cells)) for steps in (before, first, *period)}
    of_period = tuple(boxes[steps] for steps in period)
    return Plan(boxes[before], boxes[first], of_period, tuple(holders[2 * length :]), cells)


def _settling(steps: Iterable[Step], lengths: Container[Part]) -> list[Step]:
    """The uploads among these steps, and what the host must read before to know how much they move."""
    settling: dict[Step, None] = {}
    for step in steps:
        reads = step.action == "length" or (step.action == "to-host" and step.name in lengths)
        if step.action == "length":
            settling[Step("synchronize", step.name)] = None
        if reads or step.action in ("to-device", "to-peer"):
            settling[replace(step, loop=None, again=False)] = None
    return [Step("synchronize") if step.action == "synchronize" else step for step in settling]


def _in_boxes(steps: Iterable[Step], cells: Cells) -> Iterator[Step]:
    """The cells of a buffer that move one after the other in as few steps as can be."""
    for step, row in groupby(steps, lambda step: replace(step, name=buffer_of(step.name))):
        if step.action in ("host", "device") or step.name not in cells.of:
            yield from row
        else:
            boxes = cells.boxes(each.name for each in row)
            yield from (replace(step, part=box, overwritten=False) for box in boxes)


@dataclass(kw_only=True)
class _Tracker(State):
    traits: Mapping[str, Traits]
    several: bool
    """Whether stages run on several GPUs."""
    streams: Streams = field(default_factory=Streams)
    lengths: Mapping[str, Part] = field(default_factory=dict)
    """By buffer, the buffer that holds its length."""
    steps: list[Step] = field(default_factory=list)
    known: dict[Hashable, tuple[tuple[Step, ...], tuple[Places, ...]]] = field(default_factory=dict)

    @property
    def places(self) -> tuple[Places, ...]:
        return self.current, self.foreign, self.writer, self.known_lengths

    def frame(self, stages: Sequence[StageUse]) -> tuple[Step, ...]:
        """`run`, but once alone for the same stages with everything in the same places before them."""
        places = (tuple((name, *current) for name, current in at.items()) for at in self.places)
        before = (*(stage.name for stage in stages), *places)
        if before not in self.known:
            self.known[before] = self.run(stages), tuple(map(dict, self.places))
        steps, after = self.known[before]
        for at, then in zip(self.places, after, strict=True):
            at.clear()
            at.update(then)
        return steps

    def run(self, stages: Iterable[StageUse]) -> tuple[Step, ...]:
        self.steps = []
        for loop, body in groupby(stages, key=lambda stage: stage.loop):
            if loop is None:
                self._in_a_row(body)
            else:
                self._repeated(loop, list(body))
        self._synchronize(self.in_flight)
        return tuple(self.streams.marked(self.steps))

    def _in_a_row(self, stages: Iterable[StageUse]) -> None:
        for stage in stages:
            self._require_written(stage)
            self._learn_lengths(stage)
            own = self._own(stage)
            if stage.side == "host":
                self._host(own, Step("host", stage.name))
            else:
                self._device(own)
            self._note_lengths(stage)

    def _repeated(self, loop: Loop, body: Sequence[StageUse]) -> None:
        """The first iteration, and one that may follow any other: what is where, and under way, before it
        holds after the first iteration as well as after a later one, and so does what is left behind."""
        if self.several:
            self._synchronize(self.in_flight)
        before = self.streams.marked(self.steps)
        first = self._iteration(loop, body)
        began = after = self.copy()
        while True:
            again = self._iteration(loop, body)
            both = schedule.merged(after, self.copy())
            vars(self).update(vars(both.copy()))
            if both == after:
                break
            after = both
        first += (schedule.migration(name, to) for name, to in schedule.moved_between(began, after))
        marked = [replace(step, loop=loop) for step in first]
        marked += [replace(step, loop=loop, again=True) for step in again]
        self.steps = [*before, *marked]

    def _iteration(self, loop: Loop, body: Sequence[StageUse]) -> list[Step]:
        """The steps of the stages and of the look at the buffer that ends the loop, which the host reads."""
        self.steps = []
        self._in_a_row(body)
        look = self._own(StageUse("", "host", {loop.until: "in"}))
        self._host(look, Step("until", loop.until))
        if self.several:
            self._synchronize(self.in_flight)
        return self.streams.marked(self.steps)

    def newest(self, name: str) -> set[Place]:
        """The places whose stages would find the newest contents."""
        own = self.current.get(name, set())
        if not self.traits[name].foreign:
            return own
        sides = self.foreign.get(name, set())
        return (sides & {"host"}) | ((own - {"host"} or {"device"}) if "device" in sides else set())

    def _own(self, stage: StageUse) -> StageUse:
        """The stage with the host copies made that it needs, and as it touches the program's own memory."""
        own = dict(stage.access)
        for name, mode in stage.access.items():
            if not self.traits[name].foreign:
                continue
            if mode != "out" and stage.side not in self.foreign[name]:
                # To the host touching our own memory, a copy in is one more stage that writes it.
                coming, part = stage.side == "device", stage.parts.get(name)
                parts = {} if part is None else {name: part}
                copying = StageUse(name, "host", {name: "out" if coming else "in"}, parts=parts)
                self._host(copying, Step("copy-in" if coming else "copy-out", name, part=part))
            alone = mode != "in"
            self.foreign[name] = {stage.side} if alone else self.foreign[name] | {stage.side}
            if stage.side == "host":
                del own[name]
        return replace(stage, access=own)

    def _require_written(self, stage: StageUse) -> None:
        for name in stage.reads():
            if not self.newest(name):
                name = buffer_of(name)
                raise WorkloadError(
                    f"stage {stage.name!r} reads buffer {name!r} before any stage has written it",
                    next_step=f"Fill {name!r} in an earlier stage or in setup=[...], or annotate it Out "
                    f"where the stage overwrites all of it. {NAME_THE_LENGTH}",
                )

    def _host(self, stage: StageUse, step: Step) -> None:
        for name in self._to_move(stage):
            self._to_host(name, stage)
        self._synchronize(set().union(*(self._awaited(name, mode) for name, mode in stage.access.items())))
        self.steps.append(step)
        self._record(stage)

    def _device(self, stage: StageUse) -> None:
        moving = self._to_move(stage)
        for name in moving:
            traits = self.traits[name]
            if traits.moves == "copies" and not traits.peer and "host" not in self.current[name]:
                self.in_flight.add(self._to_host(name, stage))
                self.current[name] = self.current[name] | {"host"}
        for name in moving:
            self._to_device(name, stage)
        used = ([self._memory(n, stage.place) for n in names] for names in (stage.reads(), stage.writes()))
        self.streams.add(self.steps, Step("device", stage.name, gpu=stage.gpu), *used)
        self.in_flight.add(stage.gpu)
        for names, pending in ((stage.reads(), self.being_read), (stage.writes(), self.being_written)):
            for name in names:
                if self.traits[name].kernels_reach_host_memory:
                    schedule.add(pending, name, stage.gpu)
        self._record(stage)

    def _to_host(self, name: str, stage: StageUse) -> int:
        traits = self.traits[name]
        gpu = min(schedule.gpu_of(at) for at in self.current[name] if at != "host")
        step = Step("to-host", name, stage.access[name] == "out", self._part(name, stage), gpu=gpu)
        origin = self._memory(name, schedule.place_of("device", gpu))
        self.streams.add(self.steps, step, [origin], [self._memory(name, "host")])
        if traits.blocking:
            self._settle(gpu)
        else:
            schedule.add(self.being_written, name, gpu)
        return gpu

    def _to_device(self, name: str, stage: StageUse) -> None:
        traits, places = self.traits[name], self.current[name]
        step = Step("to-device", name, stage.access[name] == "out", self._part(name, stage), gpu=stage.gpu)
        crosses = traits.peer and "host" not in places
        if crosses:
            step = replace(step, action="to-peer", source=min(map(schedule.gpu_of, places)))
        origin = schedule.place_of("device", step.source) if crosses else "host"
        self.streams.add(self.steps, step, [self._memory(name, origin)], [self._memory(name, stage.place)])
        if crosses or traits.staged_uploads:
            return
        if traits.blocking:
            self._settle(stage.gpu)
        else:
            schedule.add(self.being_read, name, stage.gpu)

    def _memory(self, name: str, place: Place) -> Memory:
        return name, place if self.traits[name].moves == "copies" else ""

    def _to_move(self, stage: StageUse) -> list[str]:
        copied = [n for n in stage.reads() if self.traits[n].moves == "copies"]
        migrated = [n for n in stage.access if self.traits[n].moves == "prefetches"]
        return [n for n in (*copied, *migrated) if self.current.get(n) and stage.place not in self.current[n]]

    def _part(self, name: str, stage: StageUse) -> Part | None:
        """The part to copy; all of an overwritten buffer where a part of that length would cost a copy."""
        part = stage.parts.get(name)
        if not isinstance(part, str) or stage.access[name] != "out":
            return part
        return part if "host" in self.newest(part) and part not in stage.writes() else None

    def _learn_lengths(self, stage: StageUse) -> None:
        """The host reads the lengths of what must move; they come to it first where the device wrote them."""
        own = {name: mode for name, mode in stage.access.items() if not self.traits[name].foreign}
        moved = self._to_move(replace(stage, access=own))
        moved += [n for n in stage.reads() if n not in own and stage.side not in self.foreign[n]]
        for length in dict.fromkeys(self._part(name, stage) for name in moved):
            if isinstance(length, str) and length not in self.known_lengths:
                looking = StageUse(stage.name, "host", {length: "in"})
                self._require_written(looking)
                self._host(self._own(looking), Step("length", length))
                self.known_lengths[length] = {"host"}

    def _note_lengths(self, stage: StageUse) -> None:
        """Records that no more of the buffer has moved than was valid before its length changed."""
        written = stage.writes()
        for name in written:
            self.writer[name] = {stage.place}
            self.known_lengths.pop(name, None)
        for name, length in self.lengths.items():
            if length not in written or name in written or name not in self.writer:
                continue
            traits, alone = self.traits[name], self.writer[name]
            if traits.foreign:
                self.foreign[name] = alone & {"host"} or {"device"}
            if traits.moves == "copies" and ("host" not in alone or not traits.foreign):
                self.current[name] = alone

    def _record(self, stage: StageUse) -> None:
        written = set(stage.writes())
        for name in stage.access:
            alone = name in written or self.traits[name].moves == "prefetches"
            self.current[name] = {stage.place} if alone else self.current[name] | {stage.place}

    def _awaited(self, name: str, mode: AccessMode) -> set[int]:
        """The GPUs that the host waits for before it touches the buffer."""
        writing, reading = self.being_written.get(name, set()), self.being_read.get(name, set())
        kernels = self.in_flight if self.traits[name].exclusive else set()
        return writing | kernels | (reading if mode != "in" else set())

    def _synchronize(self, gpus: Iterable[int]) -> None:
        """The host waits for them; the last one first, which may have come after the others."""
        done: set[int] = set()
        for gpu in sorted(gpus, reverse=True):
            if gpu not in done:
                self.steps.append(Step("synchronize", gpu=gpu))
                done |= self._settle(gpu)

    def _settle(self, gpu: int) -> set[int]:
        """The host has waited for that GPU; those that are done with it."""
        done = self.streams.settle(gpu)
        self.in_flight -= done
        for pending in (self.being_read, self.being_written):
            for name, gpus in [*pending.items()]:
                pending[name] = gpus - done
        return done
