"""The plan: counted by hand for the cases users write, and simulated for all others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import cycle, groupby, product
from typing import Literal

import numpy as np
import pytest
from every import every
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from mixing import device_ as device
from mixing import host_ as host

from advisor.errors import WorkloadError
from advisor.profiles.schema import AccessMode, Loop, Side
from advisor.strategies.parts import Region
from advisor.strategies.planning import plan
from advisor.strategies.schedule import Plan, StageUse, Step, Traits

COPIES = Traits(moves="copies", blocking=True)
ASYNC = Traits(moves="copies")
ZERO_COPY = Traits(moves="never", kernels_reach_host_memory=True)
EXCLUSIVE = Traits(moves="never", kernels_reach_host_memory=True, exclusive=True)
PREFETCHED = Traits(moves="prefetches", kernels_reach_host_memory=True)
STAGED = Traits(moves="copies", blocking=True, staged_uploads=True)
ONE_SIDED = Traits(moves="never")


def spelled(steps: Sequence[Step]) -> str:
    """Steps in one word each: `produce`, `>a` to the device, `<a` to the host, `|` synchronize, and the
    host's copies of foreign data, `+a` in and `-a` out."""
    marks = {"to-device": ">", "to-host": "<", "synchronize": "|", "copy-in": "+", "copy-out": "-"}
    return " ".join(marks.get(step.action, "") + step.name for step in steps)


PRODUCE = host("produce", a="out")
COMPUTE = device("compute", a="in", b="out")
CONSUME = host("consume", b="in")
FRESH = [PRODUCE, COMPUTE, CONSUME]


def test_fresh_data_prefetched() -> None:
    planned = plan([], FRESH, dict.fromkeys("ab", PREFETCHED))
    # In the first frame nothing holds b yet, and a is first touched where it is written.
    assert spelled(planned.first) == "produce >a compute <b | consume"
    assert spelled(planned.steady) == "<a | produce >a >b compute <b | consume"
    moves = [(step.action, step.name) for step in planned.steady if step.overwritten]
    assert moves == [("to-host", "a"), ("to-device", "b")], "and not a and b where they are read"


IN_FLIGHT = [PRODUCE, device("k", a="in")]
TWICE = [PRODUCE, device("k", a="in"), host("load", b="out"), device("k2", b="in"), host("again", a="out")]
TAKE = [device("k", a="out", b="out"), host("take", b="in"), host("look", a="in")]
AGAIN = [*IN_FLIGHT, host("again", a="out"), device("k2", a="in")]
BOTH_READ = [
    *IN_FLIGHT[:1],
    host("look", a="in"),
    device("f", a="in"),
    host("peek", a="in"),
    device("g", a="in"),
]


@every(
    ("frame", "traits", "steps"),
    [
        (FRESH, dict.fromkeys("ab", COPIES), "produce >a compute <b consume"),
        (FRESH, dict.fromkeys("ab", ASYNC), "produce >a compute <b | consume"),
        (FRESH, dict.fromkeys("ab", ZERO_COPY), "produce compute | consume"),
        # Zero-copy waits where one side writes what the other reads or writes, and else works beside kernels.
        ([device("k", a="out"), host("read", a="in")], {"a": ZERO_COPY}, "k | read"),
        ([*IN_FLIGHT, host("look", a="in")], {"a": ZERO_COPY}, "produce k look |"),
        ([*IN_FLIGHT, host("other", h="out")], {"a": ZERO_COPY, "h": ONE_SIDED}, "produce k other |"),
        # A buffer in upload may be read; who overwrites it waits.
        (AGAIN, {"a": ASYNC}, "produce >a k | again >a k2 |"),
        # The stream is in order: a blocking copy ends what ran before it, a staged upload ends nothing.
        (TWICE, {"a": ZERO_COPY, "b": COPIES}, "produce k load >b k2 again |"),
        (TWICE, {"a": ZERO_COPY, "b": STAGED}, "produce k load >b k2 | again"),
        (TAKE, {"a": ZERO_COPY, "b": STAGED}, "k <b take look"),
        # Each buffer moves once for all that read it, and none that is overwritten unread.
        (
            [device("k", a="out", b="out"), host("take", a="in", b="in")],
            {"a": ASYNC, "b": ASYNC},
            "k <a <b | take",
        ),
        (BOTH_READ, {"a": ASYNC}, "produce look >a f peek g |"),
        # Foreign memory is free while its own copy is in use.
        (AGAIN, {"a": replace(ASYNC, foreign=True)}, "produce +a >a k again | +a >a k2 |"),
    ],
)
def test_a_steady_frame(frame: list[StageUse], traits: dict[str, Traits], steps: str) -> None:
    assert spelled(plan([], frame, traits).steady) == steps


@every(
    ("setup", "frame"),
    [([], [device("k", a="in")]), ([], [host("h", a="inout")]), ([device("k", a="in")], [PRODUCE])],
)
def test_reading_before_anything_is_written(setup: list[StageUse], frame: list[StageUse]) -> None:
    reader = (setup or frame)[0].name
    with pytest.raises(WorkloadError) as raised:
        plan(setup, frame, {"a": COPIES})
    assert raised.value.message == f"stage {reader!r} reads buffer 'a' before any stage has written it"
    assert "setup" in raised.value.next_step


def test_a_buffer_nobody_writes_is_current_nowhere() -> None:
    assert plan([], [PRODUCE], {"a": COPIES, "b": COPIES}).current(0) == {"a": {"host"}, "b": frozenset()}


# The specification: a tiny machine on which plans are executed.


class Broken(Exception):
    """A stage saw old data, touched memory in use, or the frame ended with work in flight."""


Place = Literal["foreign", "host", "device"]
PLACES: tuple[Place, ...] = ("foreign", "host", "device")


SHAPE = (3, 2)
"""Of buffers; "n", which may be the length of others, has one element."""


@cache
def elements(name: str, part: Region | int | None = None) -> tuple[str, ...]:
    """The elements of a buffer by name, those of a region, or those of so many rows."""
    if name == "n":
        return ("n.0",)
    numbers = np.arange(math.prod(SHAPE)).reshape(SHAPE)
    chosen = numbers[part.index] if isinstance(part, Region) else numbers[:part]
    return tuple(f"{name}.{number}" for number in chosen.flat)


def rows(version: int) -> int:
    """The length that a version of it is."""
    return (version * version // 3 + version) % (SHAPE[0] + 1)


@dataclass
class Machine:
    """Three memories with a version number for each element: foreign memory, the program's own that the host
    sees, and the device's. Work on the stream happens when the host waits, no earlier.

    Each stage leaves a new version in what it writes. `newest` is what a program run strictly in order
    would hold. What lies beyond the length of a buffer when a stage writes it is nothing from then on.
    """

    placed: Mapping[str, Traits]
    memory: dict[tuple[str, Place], int] = field(default_factory=dict)
    place: dict[str, Side] = field(default_factory=dict)
    newest: dict[str, int] = field(default_factory=dict)
    queue: list[tuple[str, Mapping[str, int], Mapping[str, int], str]] = field(default_factory=list)
    versions: int = 0
    told: int = 0
    """The length that the host read last."""

    def __post_init__(self) -> None:
        self.traits = {each: traits for name, traits in self.placed.items() for each in elements(name)}

    def run(self, steps: Iterable[Step], stages: Mapping[str, StageUse]) -> None:
        for step in steps:
            if step.action in ("host", "device"):
                self.stage(stages[step.name])
            elif step.action == "synchronize":
                self.drain()
            elif step.action == "length":
                self.read_length()
            elif step.action == "until":
                self.stage(StageUse("until", "host", {step.name: "in"}))
            else:
                self.transfer(step)
        if self.queue:
            raise Broken("the frame ends with work in flight")
        for name, version in self.newest.items():
            if version not in {self.memory.get((name, place)) for place in PLACES}:
                raise Broken(f"the newest {name} is lost")

    def transfer(self, step: Step) -> None:
        moved = elements(step.name, self.told if isinstance(step.part, str) else step.part)
        for name in moved:
            if step.action in ("copy-in", "copy-out"):
                self.copy(name, inwards=step.action == "copy-in", sized=isinstance(step.part, str))
            else:
                self.move(name, "device" if step.action == "to-device" else "host")
        traits = self.placed[step.name]
        staged = step.action == "to-device" and traits.staged_uploads
        if step.action in ("to-device", "to-host") and traits.blocking and not staged:
            self.drain()

    def read_length(self) -> None:
        self.touch_from_host("reading the length", {} if self.traits["n.0"].foreign else {"n.0": "in"})
        self.told = rows(self.memory[self.key("n.0", "host")])

    def move(self, name: str, side: Side) -> None:
        traits = self.traits[name]
        if traits.moves == "prefetches":
            self.place[name] = side
            self.queue.append(("migrate", {}, {}, name))
            return
        if side == "device" and traits.staged_uploads:
            # It is in the staging memory when the call returns, as it is at that moment.
            self.queue.append(("staged copy", {}, {name: self.memory.get((name, "host"), 0)}, name))
            return
        self.queue.append((f"copy to {side}", {}, {}, name))

    def copy(self, name: str, *, inwards: bool, sized: bool) -> None:
        """The host's copy between foreign memory and our own."""
        access: Mapping[str, AccessMode] = {name: "out" if inwards else "in"}
        self.touch_from_host(f"copying {name}", access, () if sized else None)
        source, target = (name, "foreign"), (name, "host")
        if inwards:
            self.memory[target] = self.memory.get(source, 0)
        else:
            self.memory[source] = self.memory.get(target, 0)

    def key(self, name: str, side: Side) -> tuple[str, Place]:
        """Where a side finds a buffer: host stages foreign data in foreign memory; copied buffers have two
        memories of our own, all others one."""
        if side == "host" and self.traits[name].foreign:
            return name, "foreign"
        return name, side if self.traits[name].moves == "copies" else "host"

    def stage(self, stage: StageUse) -> None:
        held = {name: elements(name, self.part(stage, name)) for name in stage.access}
        needs = {
            each: self.newest[each] for name in stage.reads() for each in held[name] if each in self.newest
        }
        touched = {each: mode for name, mode in stage.access.items() for each in held[name]}
        gives = {}
        for name in sorted(stage.writes(), key=lambda name: name != "n"):
            self.versions += 1
            part = self.part(stage, name)
            for each in elements(name) if isinstance(stage.parts.get(name), str) else ():
                self.newest.pop(each, None)
            for each in elements(name, part):
                self.newest[each] = gives[each] = self.versions
        placed = [each for name in stage.access for each in self.on_pages(stage, name)]
        if stage.side == "device":
            self.require_place(stage.name, "device", placed)
            self.queue.append(("kernel", needs, gives, stage.name))
            return
        touched = {**dict.fromkeys(gives, "out"), **touched}
        own = {each: mode for each, mode in touched.items() if not self.traits[each].foreign}
        self.touch_from_host(stage.name, own, [each for each in placed if each in own])
        self.work(stage.name, "host", needs, gives)

    def on_pages(self, stage: StageUse, name: str) -> list[str]:
        """What must be at the side of the stage: whole pages; with a length faults cost no more than time."""
        part = stage.parts.get(name)
        if isinstance(part, str):
            return []
        migrates = self.placed[name].moves == "prefetches" and not self.placed[name].foreign
        return elements(name, part.contiguous if part and migrates else part)

    def part(self, stage: StageUse, name: str) -> Region | int | None:
        """What it touches of a buffer: as many rows as the length says that a strict program would hold."""
        part = stage.parts.get(name)
        return rows(self.newest.get("n.0", 0)) if isinstance(part, str) else part

    def require_place(self, who: str, side: Side, names: Iterable[str]) -> None:
        for name in names:
            if self.traits[name].moves == "prefetches" and self.place.setdefault(name, side) != side:
                raise Broken(f"{who} would fault on {name}")

    def touch_from_host(
        self, who: str, access: Mapping[str, AccessMode], placed: Iterable[str] | None = None
    ) -> None:
        """The host touches memory of our own that it sees."""
        self.require_place(who, "host", access if placed is None else placed)
        if any(self.traits[name].exclusive for name in access) and self.queue:
            raise Broken(f"{who} touches managed memory while the device is at work")
        written = {name for name, mode in access.items() if mode != "in"}
        for item in self.queue:
            reads, writes = self.host_memory_used(*item)
            if writes & set(access) or reads & written:
                raise Broken(f"{who} touches memory in use")

    def host_memory_used(
        self, action: str, needs: Mapping[str, int], gives: Mapping[str, int], name: str
    ) -> tuple[set[str], set[str]]:
        """Buffers whose host side the work in flight reads, and those whose host side it changes."""
        if action == "kernel":
            reached = {buffer for buffer, traits in self.traits.items() if traits.moves != "copies"}
            return reached & set(needs), reached & set(gives)
        if action == "staged copy":
            return set(), set()
        return ({name}, set()) if action == "copy to device" else (set(), {name})

    def work(self, name: str, side: Side, needs: Mapping[str, int], gives: Mapping[str, int]) -> None:
        for buffer, version in needs.items():
            if self.memory.get(self.key(buffer, side)) != version:
                raise Broken(f"{name} sees an old {buffer}")
        for buffer, version in gives.items():
            self.memory[self.key(buffer, side)] = version

    def drain(self) -> None:
        for action, needs, gives, name in self.queue:
            if action == "kernel":
                self.work(name, "device", needs, gives)
            elif action == "staged copy":
                self.memory[name, "device"] = gives[name]
            elif action == "copy to device":
                self.memory[name, "device"] = self.memory.get((name, "host"), 0)
            elif action == "copy to host":
                self.memory[name, "host"] = self.memory.get((name, "device"), 0)
        self.queue.clear()


COUNTS = [(1,), (2,), (3,), (3, 1, 1, 2)]
"""Of iterations of the loops that a run comes to, in turn."""


def in_turn(steps: Sequence[Step], counts: Iterator[int]) -> Iterator[Step]:
    """The steps as they are done, with as many iterations of each loop."""
    for (loop, again), part in groupby(steps, key=lambda step: (step.loop, step.again)):
        done = list(part)
        for _ in range(next(counts) - 1 if again else 1):
            assert loop is None or sum(step.action == "until" for step in done) == 1
            yield from done


def execute(
    planned: Plan, stages: Sequence[StageUse], traits: Mapping[str, Traits], whole: Iterable[str] = ()
) -> None:
    """Set-up, the first frame and three periods, for each of the counts. Raises `Broken`. whole: buffers that
    are where the plan says after each frame."""
    by_name = {stage.name: stage for stage in stages}
    for machine, iterations in ((Machine(traits), cycle(counts)) for counts in COUNTS):
        machine.run(in_turn(planned.setup, iterations), by_name)
        for index, steps in enumerate((planned.first, *(*planned.period[1:], planned.period[0]) * 3)):
            machine.run(in_turn(steps, iterations), by_name)
            for name in whole if index else ():
                assert planned.current(index)[name]
                for each, side in product(elements(name), planned.current(index)[name]):
                    assert machine.memory[machine.key(each, side)] == machine.newest[each]


NAMES = ("a", "b", "c", "n")
OWN = [COPIES, STAGED, ASYNC, ZERO_COPY, EXCLUSIVE, PREFETCHED, replace(PREFETCHED, exclusive=True)]
SHARED = [*OWN, *(replace(traits, foreign=True) for traits in OWN)]


REGIONS = [
    None,
    *(Region(bounds, SHAPE) for bounds in (((0, 1), (0, 2)), ((0, 3), (1, 2)), ((1, 3), (0, 2)))),
    Region(((1, 2), (0, 1)), SHAPE),
]
Stages = tuple[list[StageUse], list[StageUse]]
"""Set-up and frame."""
PREPARE = host("prepare", **dict.fromkeys(NAMES, "out"))


@st.composite
def with_regions(draw: st.DrawFn) -> Stages:
    """Stages that touch regions of some buffers."""

    def parted(stage: StageUse) -> StageUse:
        drawn = {name: draw(st.sampled_from(REGIONS)) for name in stage.access if name not in whole}
        return replace(stage, parts={name: part for name, part in drawn.items() if part})

    setup, frame = draw(stage_lists("s", 2)), draw(frames(5))
    whole = {"n", *(stage.loop.until for stage in frame if stage.loop)}
    return [PREPARE, *map(parted, setup)], [parted(stage) for stage in frame]


@st.composite
def with_lengths(draw: st.DrawFn) -> Stages:
    """Stages that go by the length of some buffers."""
    sized = draw(st.sets(st.sampled_from("abc"), min_size=1))

    def parted(stage: StageUse) -> StageUse:
        return replace(stage, parts={name: "n" for name in stage.access if name in sized})

    setup, frame = draw(stage_lists("s", 2)), draw(frames(6))
    flags = {stage.loop.until for stage in frame if stage.loop}
    assume(flags.isdisjoint(sized))  # a flag that ends a loop is one element, which no length cuts
    return [parted(PREPARE), *map(parted, setup)], [parted(stage) for stage in frame]


@st.composite
def whole_buffers(draw: st.DrawFn) -> Stages:
    return [PREPARE, *draw(stage_lists("s", 2))], draw(frames(6))


@st.composite
def stage_lists(draw: st.DrawFn, prefix: str, most: int) -> list[StageUse]:
    modes: list[AccessMode] = ["in", "out", "inout"]
    accesses = draw(
        st.lists(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(modes), min_size=1), max_size=most)
    )
    sides: list[Side] = [draw(st.sampled_from(["host", "device"])) for _ in accesses]
    every = st.sampled_from([1, 1, 1, 2, 3] if prefix == "f" else [1])
    return [
        StageUse(f"{prefix}{i}", side, access, draw(every))
        for i, (side, access) in enumerate(zip(sides, accesses, strict=True))
    ]


@st.composite
def frames(draw: st.DrawFn, most: int) -> list[StageUse]:
    """Stages, of which some in a row may be in a loop: one that a buffer they write ends."""
    stages = draw(stage_lists("f", most))
    begin = draw(st.integers(0, len(stages)))
    end = draw(st.integers(begin, len(stages)))
    flags = sorted({name for stage in stages[begin:end] for name in stage.writes()})
    if not flags:
        return stages
    loop = Loop(number=0, until=draw(st.sampled_from(flags)), at_most=9)
    body = [replace(stage, every=1, loop=loop) for stage in stages[begin:end]]
    return [*stages[:begin], *body, *stages[end:]]


FOREIGN_MIGRATING = replace(PREFETCHED, foreign=True)
LOOP = Loop(number=0, until="c", at_most=9)
LOOKED_AT = [device("d0", b="inout"), host("look", b="in"), device("d1", b="in")]
TRAITS = st.fixed_dictionaries({name: st.sampled_from(SHARED) for name in NAMES})


def can_be_shortened(frame: list[StageUse], traits: Mapping[str, Traits]) -> bool:
    """Whether every step is needed. With lengths some move nothing; in loops, memory that migrates goes where
    later iterations leave it."""
    parts = [part for stage in frame for part in stage.parts.values()]
    migrates = any(each.foreign and each.moves == "prefetches" for each in traits.values())
    looped = any(stage.loop for stage in frame)
    return not any(isinstance(part, str) for part in parts) and not (looped and (parts or migrates))


@settings(max_examples=200, deadline=None)
@example(
    ([PREPARE, device("s0", b="out")], [device("f0", b="in"), host("f1", b="in")]),
    {"a": COPIES, "b": FOREIGN_MIGRATING, "c": COPIES, "n": COPIES},
)
@example(  # the host's copy leaves b there after the first iteration alone
    (
        [PREPARE, device("s0", b="out")],
        [replace(each, loop=LOOP) for each in (device("f0", b="in", c="out"), host("f1", b="in"))],
    ),
    {"a": COPIES, "b": FOREIGN_MIGRATING, "c": COPIES, "n": COPIES},
)
@example(  # and here after the later ones, since the length that is written makes the host's b old
    (
        [replace(PREPARE, parts={"b": "n"})],
        [
            *(replace(each, parts={"b": "n"}) for each in LOOKED_AT),
            replace(host("h0", b="in"), parts={"b": "n"}, loop=LOOP),
            replace(host("h1", n="out", c="out"), loop=LOOP),
        ],
    ),
    {"a": COPIES, "b": FOREIGN_MIGRATING, "c": COPIES, "n": COPIES},
)
@given(st.one_of(whole_buffers(), with_regions(), with_lengths()), TRAITS)
def test_every_stage_sees_the_newest_data_and_no_step_can_be_left_out(
    stages: Stages, traits: dict[str, Traits]
) -> None:
    setup, frame = stages
    planned, every_stage = plan(setup, frame, traits), [*setup, *frame]
    parted = any(stage.parts for stage in every_stage)
    execute(planned, every_stage, traits, () if parted else NAMES)
    for without in shortened(planned) if can_be_shortened(every_stage, traits) else ():
        with pytest.raises((Broken, KeyError)):
            execute(without, every_stage, traits)


def shortened(planned: Plan) -> Iterator[Plan]:
    """The plan without each of the steps that are no stages."""
    for i in unstaged(planned.setup):
        yield replace(planned, setup=planned.setup[:i] + planned.setup[i + 1 :])
    for i in unstaged(planned.first):
        yield replace(planned, first=planned.first[:i] + planned.first[i + 1 :])
    for frame, steps in enumerate(planned.period):
        for i in unstaged(steps):
            less = steps[:i] + steps[i + 1 :]
            yield replace(planned, period=(*planned.period[:frame], less, *planned.period[frame + 1 :]))


def unstaged(steps: Sequence[Step]) -> list[int]:
    return [i for i, step in enumerate(steps) if step.action not in ("host", "device", "until")]
