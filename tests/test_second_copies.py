"""What copies cost a frame, by making them twice in some: on a clock that copies and program advance."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from recorded import Recording

from advisor.measure.recording.calls import Calls, Gpu
from advisor.profiles.crossings import LineLoop
from advisor.verdicts.ceilings import ceilings

FRAMES = """for number in range({frames}):
    gpu.upload()
    gpu.compute()
    gpu.download()
"""


class Machine:
    """An upload of 1 ms, of 0.4 ms when it is made again, that slows down what follows by 0.2 ms; a kernel of
    3 ms; a download of 2 ms that waits for it."""

    def __init__(self, recording: Recording, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
        self.clock, self.copies, self.kernel, self.made = recording.clock, 0, 0.0, 0
        self.again_fails = False
        recording.recorder.doubling.is_possible = True
        for module in ("calls", "recorder"):
            name = f"advisor.measure.recording.{module}.perf_counter"
            monkeypatch.setattr(name, lambda: self.clock.now)
        event = partial(SimpleNamespace, record=lambda _: None)
        gpu = Gpu(wait=lambda _: self.wait(), event=event, free=lambda: options.get("free", 1 << 40))
        unrepeated = options.get("unrepeated")
        again = lambda name, call, args, _: None if name == unrepeated else partial(call, *args)  # noqa: E731
        calls = Calls("cupy", recording.recorder, gpu, again)
        recording.recorder.readers["cupy"] = lambda begin, end: 0.0
        size = lambda *_: 1 << 20  # noqa: E731
        recording.gpu.upload = calls.sized("upload", "up", size, memory="pageable")(self.upload)
        download = calls.sized("download", "down", size, blocks=True, memory="pageable", asynchronous=False)
        recording.gpu.download = download(self.download)
        recording.gpu.compute = self.compute

    def upload(self) -> None:
        self.copies += 1
        self.made += 1
        if self.copies == 2 and self.again_fails:
            raise MemoryError
        self.clock.advance(0.001 if self.copies == 1 else 0.0004)

    def compute(self) -> None:
        self.clock.advance(0.002 + 0.0002 * self.copies)
        self.copies, self.kernel = 0, 0.003

    def download(self) -> None:
        self.wait()
        self.clock.advance(0.002)

    def wait(self) -> None:
        self.clock.advance(self.kernel)
        self.kernel = 0.0


@pytest.fixture
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recording:
    return Recording(tmp_path, monkeypatch)


def loop_of(recording: Recording, frames: int = 500) -> LineLoop:
    recording.run(FRAMES.format(frames=frames))
    (loop,) = recording.record().loops
    return loop


def test_copies_cost_a_frame_their_own_time_and_what_other_lines_lose(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(recording, monkeypatch)
    loop = loop_of(recording)
    assert loop.second_copies is not None
    assert loop.second_copies.seconds == pytest.approx(0.0032)
    assert loop.second_copies.interval_seconds == pytest.approx((0.0032, 0.0032))
    assert loop.frame_seconds == pytest.approx(0.0082)
    assert loop.seconds == pytest.approx(500 * 0.0082 + loop.second_copies.frames * 0.0002, rel=0.01)
    assert machine.made == 500 + loop.second_copies.frames
    run = recording.record()
    assert [c.count for c in run.crossings] == [500, 500]
    assert [c.host_seconds for c in run.crossings] == pytest.approx([0.5, 1.0])
    assert ceilings(run)[0].seconds == pytest.approx(0.0032)


def test_training_and_validation_each_get_second_copies(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    Machine(recording, monkeypatch)
    batches = FRAMES.format(frames=97).replace("\n    ", "\n        ").rstrip()
    parts = "".join(f"    {line}\n" for line in f"{batches}\n{batches}".splitlines())
    recording.run(f"tables = [gpu.upload() for _ in range(64)]\nfor epoch in range(6):\n{parts}")
    training, validation = (loop for loop in recording.record().loops if loop.place.line > 1)
    assert training.second_copies
    assert validation.second_copies


@pytest.mark.parametrize(
    ("options", "frames"),
    [
        pytest.param({"free": 1 << 22}, 500, id="memory is short"),
        pytest.param({"unrepeated": "down"}, 500, id="most of the copies cannot be repeated"),
        pytest.param({}, 100, id="few frames"),
    ],
)
def test_calls_are_summed_where_second_copies_say_nothing(
    recording: Recording, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], frames: int
) -> None:
    Machine(recording, monkeypatch, **options)
    assert loop_of(recording, frames).second_copies is None
    ceiling = ceilings(recording.record())[0]
    assert (ceiling.seconds, ceiling.interval_seconds) == (pytest.approx(0.003), None)


def test_a_script_goes_on_where_a_second_copy_fails(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(recording, monkeypatch)
    machine.again_fails = True
    assert loop_of(recording).second_copies is None
    assert machine.made == 501


def test_second_copies_take_a_tenth_of_the_time_at_most(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    Machine(recording, monkeypatch)
    recording.run("for number in range(4000):\n    gpu.upload()\n    gpu.compute()\n")
    doubling = recording.recorder.doubling
    assert doubling.seconds < 0.1 * recording.clock.now + 0.003
    assert not doubling.is_on
