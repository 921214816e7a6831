"""The three jobs of a worker on the recording backend: what they check, and what a sample holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from every import every
from fakes import FakeClock, RecordingBackend, attempted, bench
from rendering import Accepted
from test_frames import FRESH

from advisor import Workload
from advisor.errors import NothingMeasured
from advisor.measure.backends.cuda_calls import ManagedCallFailed
from advisor.measure.jobs import Description, Problem, Sample
from advisor.measure.tasks import MOST_SPANS
from advisor.measure.tasks import timeline as timeline_of
from advisor.profiles.traces import Span, Timeline, lanes
from advisor.strategies.registry import STRATEGIES

SOURCE = """
from advisor import Buffer, In, InOut, Out, Workload, device, host, workload

@workload
def w(external: bool = False) -> Workload:
    def load(w: Out) -> None:
        w.fill(2)
    def produce(a: Out, frame: int) -> None:
        a.fill(frame)
    def compute(xp, a: In, w: In, b: Out) -> None:
        xp.multiply(a, w, out=b)
    def consume(b: In) -> None:
        b.sum()
    buffers = {"a": Buffer(16, "f4", external=external), "b": Buffer(16, "f4"), "w": Buffer(16, "f4")}
    return Workload(buffers, [host(produce), device(compute), host(consume)], setup=[host(load)])
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "w.py"
    path.write_text(SOURCE, encoding="utf-8")
    return path


class Leaving(RecordingBackend):
    """A device on which the workload changes something at its n-th kernel."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self._kernels = at

    def _call(self, name: str, *arguments: Any) -> None:
        super()._call(name, *arguments)
        self._kernels -= name == "kernel"
        if self._kernels <= 0:
            self.left = "it left another stream current"


def left(task: str, file: Path, strategy: str, backend: RecordingBackend, **changes: Any) -> Any:
    """What a worker leaves of a task."""
    return attempted(file, strategy, file.parent, backend=backend, task=task, **changes)


def measured(file: Path, strategy: str, backend: RecordingBackend | None = None, **changes: Any) -> Sample:
    left("reference", file, "pageable", RecordingBackend(), assignments=changes.get("assignments", {}))
    backend = backend or RecordingBackend(haste="lazy")
    sample = left("measure", file, strategy, backend, **changes)
    assert isinstance(sample, Sample), sample
    assert not backend.live
    return sample


@pytest.mark.parametrize("external", ["false", "true"])
@pytest.mark.parametrize("strategy", [strategy.name for strategy in STRATEGIES])
def test_every_strategy_is_measured_and_verified(strategy: str, external: str, file: Path) -> None:
    sample = measured(file, strategy, assignments={"external": external})
    assert sample.verified
    assert len(sample.frame_seconds) >= 5
    assert (sample.latency_seconds is not None) == (strategy == "pinned-pipelined")
    copies = strategy not in ("pageable", "staged", "registered", "zero-copy-registered", "system")
    labels = {label for frame in sample.breakdown for label in frame}
    assert ("host-copy" in labels) == (copies and external == "true")
    assert sample.cpu_seconds is not None
    assert 0 <= sample.cpu_seconds < 1
    assert sample.host_pages.bytes == 3 * 64
    assert sample.footprint.places.keys() == {"host", "gpu0"}


@pytest.mark.parametrize(("left", "frames", "watched"), [(1e9, 5, True), (0.0, 1, False)])
def test_where_no_time_is_left_only_the_frames_that_must_be_are_run(
    left: float, frames: int, watched: bool, file: Path
) -> None:
    sample = measured(file, "pinned", left_seconds=left, timeline=True, seconds=1e-6)
    assert (len(sample.frame_seconds), sample.timeline is not None) == (frames, watched)
    assert sample.verified


class Locking(RecordingBackend):
    """A device on which every kernel comes with a call that locks pages for 1 ms."""

    def _call(self, name: str, *arguments: Any) -> None:
        super()._call(name, *arguments)
        if name == "kernel":
            self.locks.add(0.001)


def test_what_the_timed_frames_lock_is_told_per_frame(file: Path) -> None:
    sample = measured(file, "pinned", Locking())
    assert sample.page_locking.calls == 1.0
    assert sample.page_locking.seconds == pytest.approx(0.001)


def test_the_hints_that_were_given_are_told(file: Path) -> None:
    assert measured(file, "managed-advised").hints == {
        "a": ("prefer-device", "accessed-by-host"),
        "b": ("prefer-device", "accessed-by-host"),
        "w": ("read-mostly",),
    }
    assert measured(file, "managed-prefetch").hints == {}


@pytest.mark.parametrize(
    ("task", "strategy", "at"),
    [
        *(("reference", "pageable", at) for at in (1, 3)),
        *(("measure", strategy, 7) for strategy in ("pinned", "pinned-pipelined")),
    ],
)
def test_a_state_left_behind_ends_a_process_however_late(
    task: str, strategy: str, at: int, file: Path, all_frames: None
) -> None:
    left("reference", file, "pageable", RecordingBackend())
    backend = Leaving(at)
    problem = left(task, file, strategy, backend)
    assert (problem.cause, "another stream" in problem.message) == ("state", True)
    assert not backend.live


def test_the_description_comes_before_the_first_frame(file: Path) -> None:
    backend = RecordingBackend(fail_at=1)
    outcome = left("reference", file, "pageable", backend)
    assert isinstance(outcome, Problem)
    text = (file.parent / "description.json").read_text(encoding="utf-8")
    described = Description.model_validate_json(text)
    assert described.device == backend.device()
    assert described.gpu == {"cuda_runtime": "13.0"}
    assert [buffer.name for buffer in described.workload.buffers] == ["a", "b", "w"]


class Refusing(RecordingBackend):
    """A device that fails at a prefetch, or has no memory left."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self._error = error
        self.free_bytes = self.free_bytes if error else 100

    def prefetch(self, *arguments: Any) -> None:
        raise self._error or AssertionError


FAILURES: dict[str, RecordingBackend] = {
    "state": Leaving(1),
    "device": Refusing(ManagedCallFailed("NotSupported (801)")),
    "wrong": Refusing(NothingMeasured("prefetch needs cuda-bindings")),
    "memory": Refusing(),
}


def test_a_devices_failure_and_a_changed_state_are_no_bugs_of_ours(file: Path, accepted: Accepted) -> None:
    told = ""
    for cause, backend in FAILURES.items():
        outcome = left("measure", file, "managed-prefetch", backend)
        assert isinstance(outcome, Problem)
        told += f"{outcome.cause}: {outcome.message}\n  next: {outcome.next_step}\n"
        assert outcome.cause == cause
    accepted(told, "device-problems.txt")


# A frame's timeline: what our own events record, the lines it is drawn on


def span(track: Any, begin: float, end: float, label: str = "x", **fields: Any) -> Span:
    return Span(track=track, label=label, begin_seconds=begin, end_seconds=end, **fields)


def test_work_on_the_stream_is_timed_by_the_streams_marks() -> None:
    """The stream's clock stands at 0 when the watching starts, as the host's does but for a look at it."""
    with bench(FRESH, "pageable", RecordingBackend(copy_seconds=2.0, kernel_seconds=5.0)) as run:
        run.start()
        timeline = timeline_of(run.loop, run.backend, FakeClock(step=1.0))
    times = [(s.label, s.end_seconds - s.begin_seconds) for s in timeline.spans if s.track != "host"]
    assert ("device:double", 5.0) in times
    assert ("to-device", 2.0) in times
    assert {label for label, _ in times} <= {"device:double", "to-device", "to-host"}


@every(("strategy", "latencies"), [("pinned", 0), ("pinned-pipelined", 3)])
def test_overlapping_frames_are_seen_for_one_period_and_nobody_looks_on_afterwards(
    strategy: str, latencies: int
) -> None:
    with bench(FRESH, strategy, RecordingBackend()) as run:
        run.start()
        clock, before = FakeClock(step=1.0), len(run.loop.latencies)
        timeline = timeline_of(run.loop, run.backend, clock)
        assert {"host:produce", "synchronize", "host:consume"} <= {s.label for s in timeline.spans}
        assert len(run.loop.latencies) - before == latencies, "three frames, all ended"
        now = clock.now
        run.loop.next_alone()
        run.loop.next_alone()
        assert clock.now == now
        assert run.loop.index == 6


def test_a_frame_of_very_many_steps_is_cut_and_says_so() -> None:
    first, kernel, last = FRESH.frame_stages
    many = Workload(FRESH.buffers, frame=[first, *[kernel] * (MOST_SPANS + 20), last])
    with bench(many, "zero-copy", RecordingBackend(kernel_seconds=1)) as run:
        run.loop.first_frame()
        timeline = timeline_of(run.loop, run.backend, FakeClock(step=1.0))
    assert len(timeline.spans) == MOST_SPANS
    assert timeline.left_out > 0


def test_what_overlaps_is_drawn_on_lines_of_its_own() -> None:
    up, down, later = span("copy", 0, 2), span("copy", 1, 3), span("copy", 2, 4)
    drawn = lanes(Timeline(source="nsys", frame_seconds=4, spans=(down, later, span("host", 0, 4), up)))
    assert drawn == [("host", [span("host", 0, 4)]), ("copies", [up, later]), ("copies", [down])]
