"""A frame's timeline: what our own events record, the lines it is drawn on."""

from __future__ import annotations

from typing import Any

from fakes import FakeClock, RecordingBackend, bench

from advisor import Buffer, In, Out, Workload, device, host
from advisor.measure.tasks import MOST_SPANS
from advisor.measure.tasks import timeline as timeline_of
from advisor.profiles.traces import Span, Timeline, lanes


def produce(a: Out, frame: int) -> None:
    a.fill(frame)


def add(xp: Any, a: In, b: Out) -> None:
    xp.add(a, 1, out=b)


def consume(b: In) -> None:
    b.sum()


def adding() -> Workload:
    buffers = {name: Buffer(64, "f4") for name in "ab"}
    return Workload(buffers, frame=[host(produce), device(add), host(consume)])


def span(track: Any, begin: float, end: float, label: str = "x", **fields: Any) -> Span:
    return Span(track=track, label=label, begin_seconds=begin, end_seconds=end, **fields)


def recorded(strategy: str, **options: float) -> Timeline:
    """Of a backend whose stream takes its own time, on a clock that moves when it is looked at."""
    with bench(adding(), strategy, RecordingBackend(**options)) as run:  # type: ignore[arg-type]
        run.loop.run_setup()
        run.loop.first_frame()
        timeline = timeline_of(run.loop, run.backend, 3, FakeClock(step=1.0))
    assert timeline
    return timeline


def test_work_on_the_stream_is_timed_by_the_streams_marks() -> None:
    """The stream's clock stands at 0 when the watching starts, as the host's does but for a look at it."""
    timeline = recorded("pageable", copy_seconds=2.0, kernel_seconds=5.0)
    times = [(s.label, s.end_seconds - s.begin_seconds) for s in timeline.spans if s.track != "host"]
    assert ("device:add", 5.0) in times
    assert ("to-device", 2.0) in times
    assert {label for label, _ in times} <= {"device:add", "to-device", "to-host"}


def test_overlapping_frames_are_seen_for_one_period() -> None:
    with bench(adding(), "pinned-pipelined", RecordingBackend()) as run:
        run.loop.run_setup()
        run.loop.first_frame()
        before = len(run.loop.latencies)
        timeline = timeline_of(run.loop, run.backend, 3, FakeClock(step=1.0))
        assert len(run.loop.latencies) - before == 3, "three frames, all ended"
        run.loop.frame_alone(6)
    assert {"host:produce", "synchronize", "host:consume"} <= {s.label for s in timeline.spans}


def test_the_loop_is_as_before_after_it_was_watched() -> None:
    for strategy in ("pinned", "pinned-pipelined"):
        with bench(adding(), strategy, RecordingBackend()) as run:
            run.loop.run_setup()
            run.loop.first_frame()
            clock = FakeClock(step=1.0)
            assert timeline_of(run.loop, run.backend, 3, clock)
            before = clock.now
            run.loop.frame_alone(6)
            run.loop.frame_alone(7)
            assert clock.now == before, "nobody looks on any more"


def test_a_frame_of_very_many_steps_is_cut_and_says_so() -> None:
    buffers = {name: Buffer(64, "f4") for name in "ab"}
    many = [host(produce), *(device(_named(i)) for i in range(MOST_SPANS + 20)), host(consume)]
    with bench(Workload(buffers, frame=many), "zero-copy", RecordingBackend(kernel_seconds=1)) as run:
        run.loop.first_frame()
        timeline = timeline_of(run.loop, run.backend, 3, FakeClock(step=1.0))
    assert len(timeline.spans) == MOST_SPANS
    assert timeline.left_out > 0


def _named(number: int) -> Any:
    def stage(xp: Any, a: In, b: Out) -> None:
        xp.add(a, 1, out=b)

    stage.__name__ = f"stage{number}"
    return stage


def test_what_overlaps_is_drawn_on_lines_of_its_own() -> None:
    up, down, later = span("copy", 0, 2), span("copy", 1, 3), span("copy", 2, 4)
    drawn = lanes(Timeline(source="nsys", frame_seconds=4, spans=(down, later, span("host", 0, 4), up)))
    assert drawn == [("host", [span("host", 0, 4)]), ("copies", [up, later]), ("copies", [down])]
