"""The frame loop: what a stage is given, what runs in which order, and how it is timed and marked."""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from typing import Any

import numpy as np
import pytest
from every import every
from fakes import EVERY_HASTE, FakeClock, Haste, RecordingBackend, bench
from hypothesis import given, settings
from hypothesis import strategies as st
from mixing import in_order
from test_pipelined import SETUP, frames, logged

from advisor.measure.backends import CpuBackend
from advisor.measure.frames import LEAST_HELD
from advisor.strategies.registry import STRATEGIES
from advisor.strategies.schedule import StageUse
from advisor.workloads.definition import Buffer, In, InOut, Out, Workload, device, host


def buffers(*names: str, **parts: Any) -> dict[str, Buffer]:
    return {name: Buffer(8, np.float32, **parts) for name in names}


def produce(a: Out, frame: int) -> None:
    a.fill(frame)


def double(xp: Any, a: In, b: Out) -> None:
    xp.multiply(a, 2, out=b)


def consume(b: In) -> None:
    b.sum()


FRESH = Workload(buffers("a", "b"), frame=[host(produce), device(double), host(consume)])


def test_steps_in_order_with_the_labels_of_their_ranges() -> None:
    with bench(FRESH, "pinned") as run:
        steps = ["host:produce", "to-device", "device:double", "to-host", "synchronize", "host:consume"]
        assert [action.label for action in run.loop.steady] == steps
        assert [action.on_stream for action in run.loop.steady] == [False, True, True, True, False, False]
        run.backend.calls.clear()
        run.loop.frame(7)
        assert run.backend.names == ["copy_to_device", "kernel", "copy_to_host", "synchronize"]
        assert run.ranges.seen == [("frame 7",), *(("frame 7", step) for step in steps)]
        assert run.ranges.depth == 0


@settings(max_examples=20, deadline=None)
@given(
    frames(("renewed", "weights", "state", "any")),
    st.sampled_from(EVERY_HASTE),
    st.sets(st.sampled_from("abcd")),
    st.booleans(),
    st.booleans(),
)
def test_every_strategy_computes_the_same(
    frame: list[StageUse], haste: Haste, external: set[str], concurrent: bool, listening: bool
) -> None:
    """Copies come early and late."""
    given: dict[str, Any] = {"external": sorted(external), "listening": listening}
    for strategy in STRATEGIES:
        if not strategy.pipelined:
            backend = RecordingBackend(haste=haste)
            backend._device.attributes["concurrent_managed_access"] = int(concurrent)
            log = logged(strategy.name, frame, setup=SETUP, backend=backend, **given)
            assert log == in_order(frame, SETUP, 7), strategy.name


def test_names_of_buffers_and_stages_are_no_names_of_the_frame_that_is_written_out() -> None:
    """Whatever a workload calls things, the frame's own names stay what they are."""
    names = ("index", "clock", "spent", "function", "begin", "move", "frame_0", "made", "été")
    seen: list[list[int]] = []
    text = f"def fill(frame, {', '.join(names)}):\n" + "".join(
        f"    {name}.fill(frame + {n})\n" for n, name in enumerate(names)
    )
    scope: dict[str, Any] = {}
    exec(text, scope)
    fill = scope["fill"]
    fill.__annotations__ = dict.fromkeys(names, Out) | {"frame": int}

    def double(xp: Any, index: InOut, spent: InOut) -> None:
        xp.multiply(index, 2, out=index)
        xp.multiply(spent, 2, out=spent)

    def look(index: In, clock: In, spent: In, function: In, begin: In, move: In) -> None:
        seen.append([int(each[0]) for each in (index, clock, spent, function, begin, move)])

    workload = Workload(buffers(*names), frame=[host(fill), device(double), host(look)])
    for strategy in ("pinned", "staged", "zero-copy"):
        with bench(workload, strategy, listening=False) as run:
            run.loop.first_frame()
            run.loop.frame(5)
    assert seen == [[0, 1, 4, 3, 4, 5], [10, 6, 14, 8, 9, 10]] * 3


def test_random_numbers_depend_on_seed_frame_and_stage_alone() -> None:
    drawn: dict[tuple[int, str, int], set[float]] = defaultdict(set)

    def one(a: Out, rng: np.random.Generator, frame: int) -> None:
        drawn[seed, "one", frame].add(rng.random())

    def two(a: InOut, rng: np.random.Generator, frame: int) -> None:
        drawn[seed, "two", frame].add(rng.random())

    def noop(a: In) -> None: ...

    workload = Workload(buffers("a"), frame=[host(one), host(two), device(noop)])
    for seed, strategy in product((0, 1), STRATEGIES):
        with bench(workload, strategy.name, seed=seed) as run:
            run.loop.first_frame()
            for index in (1, 2, 1):
                run.loop.frame_alone(index)
    assert [len(values) for values in drawn.values()] == [1] * 12
    assert len(set.union(*drawn.values())) == 12


def test_in_arrays_are_read_only_on_the_host() -> None:
    def read(a: In) -> None:
        assert not a.flags.writeable
        a[0] = 1

    def write(a: Out) -> None:
        assert a.flags.writeable
        a.fill(0)

    def change(a: InOut) -> None:
        a += 1

    with bench(Workload(buffers("a"), frame=[host(write), host(change), host(read)])) as run:
        with pytest.raises(ValueError, match="read-only"):
            run.loop.first_frame()
        host_array = run.placed["a"].host
        assert host_array.flags.writeable
        assert (host_array == 1).all()


def test_without_a_gpu_device_stages_get_numpy_and_the_twin_runs() -> None:
    got: list[Any] = []

    def kernel(xp: Any, a: In, b: Out) -> None:
        raise AssertionError("this needs a GPU")

    def twin(a: In, b: Out, stream: Any) -> None:
        got.append((a.flags.writeable, stream.ptr))
        np.multiply(a, 3, out=b)

    def plain(xp: Any, b: InOut) -> None:
        got.append(xp)

    def check(b: In) -> None:
        got.append(float(b[0]))

    workload = Workload(
        buffers("a", "b"), frame=[host(produce), device(kernel, cpu=twin), device(plain), host(check)]
    )
    with bench(workload, "zero-copy", CpuBackend()) as run:
        run.loop.frame(2)
    assert got == [(False, 0), np, 6.0]


@every("strategy", ["pageable", "pinned-pipelined"])
@every("side", [host, device])
def test_ranges_are_closed_when_a_stage_raises(side: Any, strategy: str) -> None:
    def fail(b: In) -> None:
        raise KeyError("of the user")

    failing = Workload(buffers("a", "b"), frame=[host(produce), device(double), side(fail)])
    with bench(failing, strategy) as run:
        for go in (run.loop.first_frame, lambda: run.loop.frame(1), lambda: run.loop.timed_frame(1)):
            with pytest.raises(KeyError):
                go()
            assert run.ranges.depth == 0
        assert f"{side.__name__}:fail" in run.ranges.seen[-1]


def test_a_timed_frame_adds_up() -> None:
    clock = FakeClock()

    def slow(a: Out) -> None:
        clock.advance(5)

    def twice(xp: Any, a: In, b: Out) -> None:
        xp.multiply(a, 2, out=b)
        xp.multiply(b, 2, out=b)

    def read(b: In) -> None:
        clock.advance(0.5)

    workload = Workload(buffers("a", "b"), frame=[host(slow), device(twice), host(read)])
    backend = RecordingBackend(haste="lazy", copy_seconds=2, kernel_seconds=3)
    with bench(workload, "pinned", backend, clock=clock) as run:
        run.loop.first_frame()
        clock.now = 100
        parts = {"host:slow": 5, "to-device": 2, "device:twice": 6, "to-host": 2, "host:read": 0.5}
        assert run.loop.timed_frame(1) == parts
        assert run.ranges.seen[-1] == ("host:read",)
    for strategy in ("pageable", "staged"):  # a look at the clock takes a second, and so does their copy
        backend = RecordingBackend(haste="lazy", copy_seconds=2, kernel_seconds=3)
        with bench(FRESH, strategy, backend, clock=FakeClock(step=1.0)) as run:
            timed = run.loop.timed_frame(1)
            assert (timed["to-device"], timed["device:double"], timed["to-host"]) == (1, 3, 1)


def test_the_stream_is_held_for_twice_as_long_as_launching_took() -> None:
    clock = FakeClock()

    def slowly_launched(xp: Any, a: In, b: Out) -> None:
        clock.advance(1e-4)
        xp.multiply(a, 2, out=b)

    workload = Workload(buffers("a", "b"), frame=[host(produce), device(slowly_launched)])
    backend = RecordingBackend(haste="lazy")
    with bench(workload, "zero-copy", backend, clock=clock) as run:
        run.loop.first_frame()
        assert "hold" not in backend.names, "scored frames are as they are"
        run.loop.timed_frame(1)
        run.loop.timed_frame(2)
    held = [call[1] for call in backend.calls if call[0] == "hold"]
    assert held == pytest.approx([LEAST_HELD, LEAST_HELD + 2e-4])


@every("haste", ["lazy", "eager"])
def test_contents_that_are_overwritten_are_discarded_and_results_are_the_same(haste: Haste) -> None:
    backend = RecordingBackend(haste=haste)
    backend.discards = True
    with bench(FRESH, "managed-prefetch", backend) as run:
        run.start(4)
        assert {"discard", "prefetch"} <= set(backend.names)
        want = {name: placed.host.copy() for name, placed in run.placed.items() if placed.host is not None}
    with bench(FRESH, "managed-prefetch", RecordingBackend(haste=haste)) as run:
        run.start(4)
        for name, placed in run.placed.items():
            assert np.array_equal(want[name], placed.host)
