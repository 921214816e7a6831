"""What the recorders of libraries share: times of a call, and callables that are replaced."""

from __future__ import annotations

from typing import Any

import pytest

from advisor.measure.recording import calls as calls_module
from advisor.measure.recording.calls import Calls, Gpu, replace
from advisor.measure.recording.recorder import Depth
from advisor.measure.recording.records import Event


class Heard:
    """A recorder that keeps events, on a machine with a GPU."""

    has_gpu = listens = recording = True
    depth = Depth()

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.launches: list[tuple[int, ...]] = []

    def is_sampled(self, event: Event) -> bool:
        event.created = Slow.now
        return event.call != "untimed"

    def crossed(self, event: Event) -> None:
        self.events.append(event)

    def launched(self, reads: tuple[int, ...] = ()) -> None:
        self.launches.append(reads)


class Slow(Gpu):
    """Three seconds of kernels are ahead of each wait; the clock is the test's."""

    now = 0.0

    def synchronize(self, stream: Any = None) -> None:
        Slow.now += 3.0

    def mark(self, stream: Any = None) -> Any:
        return Slow.now


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> tuple[Heard, Calls]:
    monkeypatch.setattr(calls_module, "perf_counter", lambda: Slow.now)
    recorder = Heard()
    return recorder, Calls("cupy", recorder, Slow())  # type: ignore[arg-type]


def takes(seconds: float) -> Any:
    def call() -> str:
        Slow.now += seconds
        return "result"

    return call


def test_waiting_for_kernels_is_no_time_of_the_copy(heard: tuple[Heard, Calls]) -> None:
    _, calls = heard
    event = calls.event("download", "timed")
    assert calls.run(event, takes(0.5), (), {}, blocks=True) == "result"
    assert (event.kernel_seconds, event.host_seconds) == (3.0, 0.5)
    assert event.marks is not None
    assert event.marks[1] - event.marks[0] == 0.5


def test_a_synchronization_is_all_waiting(heard: tuple[Heard, Calls]) -> None:
    recorder, calls = heard
    calls.synchronizing("synchronize")(takes(2.0))()
    (event,) = recorder.events
    assert (event.kind, event.kernel_seconds, event.host_seconds) == ("wait", 2.0, 0.0)


def test_launches_are_a_sample_where_nobody_listens(heard: tuple[Heard, Calls]) -> None:
    recorder, calls = heard
    recorder.listens = False
    launch = calls.launching(lambda args: args)(lambda *_: None)
    for number in range(62):
        launch(number)
    assert recorder.launches == [(0,), (31,)]


def test_methods_of_compiled_classes_are_replaced() -> None:
    device = pytest.importorskip("cupy").cuda.Device
    original = device.synchronize
    replace(device, "synchronize", lambda call: lambda self: ("replaced", call is original))
    try:
        assert device(0).synchronize() == ("replaced", True)
    finally:
        replace(device, "synchronize", lambda _: original)
