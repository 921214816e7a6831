"""Sampling on a clock that only frames move."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fakes import FakeClock

from advisor.measure.sampling import (
    CLOCK_READINGS,
    COUNTERS,
    Samples,
    breakdown,
    sample,
    settled,
    timed_together,
    warm_up,
)
from advisor.profiles.figures import FrameFigures


class Frames:
    """Frames that take as long as told; remembers the indices it was requested."""

    def __init__(self, *seconds: float) -> None:
        self.clock = FakeClock()
        self.clock.advance(1000.0)
        self.seconds = seconds
        self.indices: list[int] = []
        self.collecting: list[bool] = []

    def __call__(self, index: int) -> None:
        self.clock.advance(self.seconds[len(self.indices) % len(self.seconds)])
        self.indices.append(index)
        self.collecting.append(gc.isenabled())

    def sample(self, seconds: float, first: int = 0, **how: Any) -> Samples:
        return sample(self, self.clock, first, seconds, **how)


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    yield
    gc.enable()


WIDE = (1.0, 2.0, 3.0, 1.5, 2.5)
FOREVER = 1e9


def test_warm_up_goes_on_while_frames_get_quicker() -> None:
    frames = Frames(*(1.0 / 2**i for i in range(7)), *[1 / 64] * 40)
    assert warm_up(frames, frames.clock, 3, 9.0) == 3 + 1 + 2 + 4 + 8 + 16
    assert frames.indices == [*range(3, 34)]


def test_warm_up_ends_in_time() -> None:
    frames = Frames(*(1.0 / 2**i for i in range(60)))
    assert warm_up(frames, frames.clock, 3, 1.5) == 6


@pytest.mark.parametrize(
    ("curves", "frames"),
    [
        ([[1.0] * 10], 0),
        ([[2.0, 1.5, *[1.0] * 8], [20.0, 15.0, *[10.0] * 8]], 2),
        ([[1.0, 1.0, 5.0, *[1.0] * 97]], 0),
        ([[3.0, 1.0]], 1),
        ([[1.03, *[1.0] * 9], [0.97, *[1.0] * 9]], 0),
        ([[1.0]], 0),
        ([], 0),
        ([[2.0, 1.5, *[1.0] * 8], [90.0, 50.0]], 2),
    ],
    ids=[
        "from the first",
        "after two",
        "a single slow one",
        "two",
        "noise",
        "one frame",
        "nobody",
        "cut short",
    ],
)
def test_frames_have_settled_once_they_are_as_quick_as_later_ones(
    curves: list[list[float]], frames: int
) -> None:
    assert settled(curves) == frames


@pytest.mark.parametrize(
    ("count", "seconds", "period", "ran"),
    [(20, 0.25, 1, 20), (20, 1.0, 1, 6), (2, 30.0, 1, 1), (40, 1.0, 2, 6), (8, 30.0, 4, 4)],
    ids=["quick", "cut short", "one slow frame", "whole periods", "a period"],
)
def test_frames_that_are_timed_together_end_after_so_many_seconds(
    count: int, seconds: float, period: int, ran: int
) -> None:
    """The clock takes 1 ms each time: it is read a few times only."""
    frames = Frames(seconds)
    frames.clock = FakeClock(step=0.001)
    spent, frames_run = timed_together(frames, frames.clock, 7, count, most=5.0, period=period)
    assert frames_run == ran
    assert frames.indices == [*range(7, 7 + ran)]
    assert seconds * ran <= spent <= seconds * ran + 0.001 * (CLOCK_READINGS + 1)


@pytest.mark.parametrize(("seconds", "count"), [(0.5, 1), (0.49, 3)])
def test_one_slow_frame_warms_up_and_one_is_broken_down(seconds: float, count: int) -> None:
    frames, indices = Frames(seconds), list[int]()
    assert warm_up(frames, frames.clock, 3, 0.1, slow=0.5) == 3 + count
    _, after = breakdown(timed(frames.clock, seconds, indices), frames.clock, 3, 0.1, slow=0.5)
    assert indices == [*range(3, 3 + (count if count == 1 else count + 1))]
    assert after == indices[-1] + 1


def test_slow_frames_are_five_at_least() -> None:
    samples = Frames(60.0).sample(1.0)
    assert samples.frame_seconds == (60.0,) * 5


def test_enough_frames() -> None:
    samples = Frames(*WIDE).sample(FOREVER)
    assert len(samples.frame_seconds) == 1000


def test_the_garbage_collector_rests_and_comes_back() -> None:
    frames = Frames(1.0)
    frames.sample(3.0)
    assert not any(frames.collecting)
    assert gc.isenabled()


def test_garbage_is_collected_before_the_first_frame() -> None:
    class Garbage:
        def __init__(self) -> None:
            self.itself = self

    left = weakref.ref(Garbage())
    gone: list[bool] = []
    sample(lambda index: gone.append(left() is None), FakeClock(step=1.0), 0, 1.0)
    assert all(gone)


def timed(clock: FakeClock, seconds: float, indices: list[int]) -> Callable[[int], dict[str, float]]:
    def frame(index: int) -> dict[str, float]:
        clock.advance(seconds)
        indices.append(index)
        return {"frame": float(index)}

    return frame


@pytest.mark.parametrize(("seconds", "count"), [(100.0, 3), (0.125, 7), (0.001, 10)])
def test_the_breakdown_has_three_to_ten_frames(seconds: float, count: int) -> None:
    clock, indices = FakeClock(), list[int]()
    frames, after = breakdown(timed(clock, seconds, indices), clock, 40, 1.0)
    assert after == 41 + count
    assert indices == [*range(40, 41 + count)]
    assert frames == [{"frame": float(index)} for index in indices[1:]], "the first warms up"


def test_every_figure_of_a_frame_has_its_counter() -> None:
    assert FrameFigures.model_fields.keys() == COUNTERS.keys()


def test_what_frames_spend_is_their_mean() -> None:
    total, clock = iter((10.0, 40.0)), FakeClock(step=1.0)
    counters = {"cpu_seconds": lambda: next(total)}
    taken = sample(lambda _: None, clock, 0, 5.0, counters=counters)
    assert taken.spent == {"cpu_seconds": 30.0 / len(taken.frame_seconds)}
