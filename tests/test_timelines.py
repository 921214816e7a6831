"""A frame's timeline: what our own events record, the lines it is drawn on, and the Trace Event format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import builders
import jsonschema
import pytest
from fakes import FakeClock, RecordingBackend, bench
from running import advisor as command

from advisor import Buffer, In, Out, Workload, device, host
from advisor.measure.timeline import MOST_SPANS, Recorder
from advisor.nsys import chrome
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
        timeline = Recorder(run.backend, FakeClock(step=1.0)).timeline(run.loop, 3)
    assert timeline
    return timeline


def test_the_steps_of_one_frame_in_order() -> None:
    timeline = recorded("pageable")
    assert timeline.source == "events"
    assert [(s.track, s.label) for s in timeline.spans if s.track == "host"] == [
        ("host", "host:produce"),
        ("host", "host:consume"),
    ]
    assert all(0 <= s.begin_seconds < s.end_seconds <= timeline.frame_seconds for s in timeline.spans)


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
        timeline = Recorder(run.backend, FakeClock(step=1.0)).timeline(run.loop, 3)
        assert len(run.loop.latencies) - before == 3, "three frames, all ended"
        run.loop.frame_alone(6)
    assert timeline
    assert {"host:produce", "synchronize", "host:consume"} <= {s.label for s in timeline.spans}


def test_the_loop_is_as_before_after_it_was_watched() -> None:
    for strategy in ("pinned", "pinned-pipelined"):
        with bench(adding(), strategy, RecordingBackend()) as run:
            run.loop.run_setup()
            run.loop.first_frame()
            recorder = Recorder(run.backend, FakeClock(step=1.0))
            first = recorder.timeline(run.loop, 3)
            assert first
            seen = len(recorder._seen)
            run.loop.frame_alone(6)
            run.loop.frame_alone(7)
            assert len(recorder._seen) == seen, "nobody looks on any more"


def test_a_clock_that_stands_still_gives_no_timeline() -> None:
    with bench(adding(), "pageable", RecordingBackend()) as run:
        run.loop.first_frame()
        assert Recorder(run.backend, FakeClock()).timeline(run.loop, 3) is None


def test_a_frame_of_very_many_steps_is_cut_and_says_so() -> None:
    buffers = {name: Buffer(64, "f4") for name in "ab"}
    many = [host(produce), *(device(_named(i)) for i in range(MOST_SPANS + 20)), host(consume)]
    with bench(Workload(buffers, frame=many), "zero-copy", RecordingBackend(kernel_seconds=1)) as run:
        run.loop.first_frame()
        timeline = Recorder(run.backend, FakeClock(step=1.0)).timeline(run.loop, 3)
    assert timeline
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


# The Trace Event format

NUMBER, TEXT = {"type": "number", "minimum": 0}, {"type": "string", "minLength": 1}
COMPLETE = {
    "properties": {"ph": {"const": "X"}, "name": TEXT, "cat": TEXT, "ts": NUMBER, "dur": NUMBER},
    "required": ["name", "cat", "ph", "ts", "dur", "pid", "tid"],
}
METADATA = {
    "properties": {
        "ph": {"const": "M"},
        "name": {
            "enum": [
                "process_name",
                "process_labels",
                "process_sort_index",
                "thread_name",
                "thread_sort_index",
            ]
        },
    },
    "required": ["name", "ph", "pid", "tid", "args"],
}
FORMAT = {
    "type": "object",
    "required": ["traceEvents"],
    "properties": {
        "displayTimeUnit": {"enum": ["ms", "ns"]},
        "traceEvents": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "pid": {"type": "integer"},
                    "tid": {"type": "integer"},
                    "args": {"type": "object"},
                },
                "oneOf": [COMPLETE, METADATA],
            },
        },
    },
}
"""The parts of the format's description that apply: complete events and metadata, times in microseconds."""


def traced_profile() -> Any:
    timeline = Timeline(
        source="events",
        frame_seconds=0.004,
        spans=(
            span("host", 0, 0.001, "host:produce"),
            span("copy", 0.001, 0.0035),
            span("copy", 0.002, 0.004),
        ),
    )
    return builders.profile(results=(builders.measured("pinned", 0.004, timeline=timeline),))


def test_the_file_is_as_the_format_describes_it() -> None:
    written = chrome.trace_events(traced_profile())
    jsonschema.validate(written, FORMAT)
    events = [e for e in written["traceEvents"] if e["ph"] == "X"]
    assert [(e["name"], e["ts"], e["dur"]) for e in events] == [
        ("host:produce", 0, pytest.approx(1000)),
        ("x", pytest.approx(1000), pytest.approx(2500)),
        ("x", pytest.approx(2000), pytest.approx(2000)),
    ]
    assert len({e["tid"] for e in events}) == 3, "the copies overlap, so each has its line"
    names = {
        (e["pid"], e["tid"]): e["args"]["name"] for e in written["traceEvents"] if e["name"] == "thread_name"
    }
    assert all((e["pid"], e["tid"]) in names for e in events)


def test_the_schema_of_the_test_refuses_what_the_format_does() -> None:
    event = {"name": "x", "cat": "c", "ph": "X", "ts": 1, "dur": 1, "pid": 1, "tid": 1}
    jsonschema.validate({"traceEvents": [event]}, FORMAT)
    for wrong in ({"ts": "1"}, {"dur": -1}, {"ph": "Q"}, {"pid": "a"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"traceEvents": [{**event, **wrong}]}, FORMAT)


def test_profile_writes_the_file_when_asked(tmp_path: Path) -> None:
    file = Path(__file__).parents[1] / "workloads" / "vector_add.py"
    quick = ("--no-gpu", "--set", "n=4096", "--rounds", "1", "--max-seconds", "30")
    done = command("profile", file, *quick, "--trace", "chrome", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    written = json.loads((tmp_path / "out" / "frames.trace.json").read_text())
    jsonschema.validate(written, FORMAT)
    assert "frames.trace.json" in done.stderr
    processes = [e["args"]["name"] for e in written["traceEvents"] if e["name"] == "process_name"]
    assert processes == [f"{name} (on this CPU, not on a GPU)" for name in ("pageable", "zero-copy")]
