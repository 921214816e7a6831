"""Overlapping frames: the same results as one after the other, however late or early each stream works."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from every import every
from fakes import EVERY_HASTE, Bench, FakeClock, Haste, RecordingBackend, bench
from hypothesis import given, settings
from hypothesis import strategies as st
from mixing import FRESH, SHAPES, Log, device_, host_, in_order, made

from advisor.profiles.schema import AccessMode, Side
from advisor.strategies.schedule import StageUse, obstacle
from advisor.workloads.definition import Buffer, In, Out, Workload, device, host


def run_frames(run: Bench, last: int) -> None:
    """Set-up and frames 0 to `last`, the last one by itself."""
    run.start(last)
    run.loop.frame_alone(last)


def logged(
    strategy: str,
    frame: Sequence[StageUse],
    *,
    setup: Sequence[StageUse] = (),
    external: Sequence[str] = (),
    backend: RecordingBackend | None = None,
    listening: bool = False,
    drive: Callable[[Bench], None] = lambda run: run_frames(run, 6),
) -> Log:
    log: Log = {}
    workload = made(frame, log, setup=setup, external=external)
    with bench(workload, strategy, backend, listening=listening) as run:
        drive(run)
        assert run.backend.idle
    assert not run.backend.live
    return log


@st.composite
def frames(draw: st.DrawFn, roles: Sequence[str] = ("renewed", "weights", "state")) -> list[StageUse]:
    """Each buffer is renewed, only read, or a state that the host leaves alone, so that frames can
    overlap; or `any` of these."""
    role = {name: draw(st.sampled_from(roles)) for name in "abcd"}
    touched = st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["in", "out", "inout"]), min_size=1)
    seen: set[str] = set()
    found: list[StageUse] = []
    for number, access in enumerate(draw(st.lists(touched, min_size=1, max_size=7))):
        side: Side = draw(st.sampled_from(["host", "device"]))
        fitting: dict[str, AccessMode] = {}
        for name, mode in access.items():
            if role[name] == "state" and side == "host":
                continue
            first = "out" if role[name] == "renewed" and name not in seen else mode
            fitting[name] = "in" if role[name] == "weights" else first
            seen.add(name)
        if fitting:
            found.append(StageUse(f"s{number}", side, fitting))
    if all(use.side == "host" for use in found):
        found.append(device_("kernel", a="out" if role["a"] == "renewed" and "a" not in seen else "in"))
    return found


SETUP = [host_("load", a="out", b="out"), device_("init", c="out", d="out")]


@settings(max_examples=80, deadline=None)
@given(frames(), st.sampled_from(EVERY_HASTE), st.sets(st.sampled_from("abcd")), st.booleans())
def test_any_frame_gives_the_same_results_as_one_after_the_other(
    frame: list[StageUse], haste: Haste, external: set[str], listening: bool
) -> None:
    assert obstacle(frame) is None
    given: dict[str, Any] = {"external": sorted(external), "listening": listening}
    log = logged("pinned-pipelined", frame, setup=SETUP, backend=RecordingBackend(haste=haste), **given)
    assert log == in_order(frame, SETUP, 7)


@settings(max_examples=40, deadline=None)
@given(
    frames(("renewed", "weights")),
    st.sampled_from(EVERY_HASTE),
    st.lists(st.tuples(st.sampled_from(["frame", "frame_alone", "timed_frame"]), st.integers(0, 5))),
)
def test_any_order_of_frames_gives_the_same_results(
    frame: list[StageUse], haste: Haste, orders: list[tuple[str, int]]
) -> None:
    """A frame under way is brought did not finish when another one is asked for."""

    def drive(run: Bench) -> None:
        run_frames(run, 3)
        for what, index in orders:
            getattr(run.loop, what)(index)
        run_frames(run, 5)

    expected = logged("pinned", frame, setup=SETUP, drive=drive)
    found = logged("pinned-pipelined", frame, setup=SETUP, drive=drive, backend=RecordingBackend(haste=haste))
    assert {key: value for key, value in found.items() if key in expected} == expected


@every(
    ("shape", "calls"),
    [
        (
            "",
            "produce 4, >stream 1, order main stream 1, kernel, order stream 2 main, <stream 2, "
            "wait stream 2, consume 3",
        ),
        (  # the upload of the next frame is under way meanwhile
            "a host stage between kernels",
            "produce 4, >stream 1, wait stream 2, turn 3, >main, kernel, <main, wait main, end 3, "
            "order main stream 1, kernel, order stream 2 main, <stream 2",
        ),
    ],
)
def test_the_next_frame_is_queued_before_the_host_waits_unless_kernels_follow(shape: str, calls: str) -> None:
    setup, frame = SHAPES.get(shape, ([], FRESH))
    backend = RecordingBackend(haste="lazy")
    on_host = {use.name for use in frame if use.side == "host"}

    class Telling(Log):
        def __setitem__(self, key: tuple[int, str], value: int) -> None:
            if key[1] in on_host:
                backend.calls.append((key[1], key[0]))

    with bench(made(frame, Telling(), setup=setup), "pinned-pipelined", backend) as run:
        run.start(3)
        backend.calls.clear()
        run.loop.frame(3)
        turn = list(backend.calls)
    short = {"copy_to_device": ">", "copy_to_host": "<"}
    words = [short[call[0]] + call[4] if call[0] in short else " ".join(map(str, call)) for call in turn]
    assert ", ".join(words) == calls


def test_latencies_reach_from_a_frames_begin_to_its_end() -> None:
    clock = FakeClock()

    def produce(a: Out, frame: int) -> None:
        clock.advance(1)

    def kernel(xp: Any, a: In, b: Out) -> None:
        xp.copyto(b, a)

    def consume(b: In) -> None:
        clock.advance(10)

    frame = [host(produce), device(kernel), host(consume)]
    workload = Workload({"a": Buffer(4, "f4"), "b": Buffer(4, "f4")}, frame=frame)
    with bench(workload, "pinned-pipelined", clock=clock) as run:
        run_frames(run, 4)
        assert (run.backend.marks["plain"] > 0, run.backend.marks["timed"]) == (True, 0)
        # Frame 1 begins itself and frame 2; each later one has its turn after the one before it.
        assert run.loop.latencies == [1 + 1 + 10, 1 + 10 + 1 + 10, 1 + 10 + 1 + 10, 1 + 10 + 10]


def test_the_breakdown_is_that_of_one_frame_by_itself() -> None:
    backend = RecordingBackend(haste="lazy", copy_seconds=2, kernel_seconds=3)
    with bench(made(FRESH, {}), "pinned-pipelined", backend) as run:
        run_frames(run, 3)
        run.loop.frame(4)
        timed = run.loop.timed_frame(6)
        assert (timed["to-device"], timed["device:kernel"], timed["to-host"]) == (2, 3, 2)
        assert run.backend.idle
