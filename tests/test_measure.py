"""Sampling on a clock that only frames move."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
from every import every
from fakes import FakeClock

from advisor.measure import sampling
from advisor.profiles.figures import FrameFigures


class Frames:
    """Frames that take as long as told; remembers the indices it was requested."""

    def __init__(self, *seconds: float, period: int = 1, clock: FakeClock | None = None) -> None:
        self.clock = clock or FakeClock()
        self.clock.advance(1000.0)
        self.index, self.period, self.seconds = 7, period, seconds
        self.indices: list[int] = []
        self.collecting: list[bool] = []

    def frame(self, index: int) -> None:
        self.clock.advance(self.seconds[len(self.indices) % len(self.seconds)])
        self.indices.append(index)
        self.collecting.append(gc.isenabled())

    def timed_frame(self, index: int) -> dict[str, float]:
        self.frame(index)
        return {"often": float(index), **({} if index % self.period else {"seldom": 3.0})}

    def sample(self, seconds: float, least: int = 5) -> sampling.Samples:
        return sampling.sample(self, self.clock, seconds, least)

    @property
    def in_order(self) -> int:
        """How many ran, each index once and in order from 7 on."""
        assert self.indices == [*range(7, self.index)]
        return len(self.indices)


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    yield
    gc.enable()


@every(("quicker", "seconds", "count"), [(7, 9.0, 1 + 2 + 4 + 8 + 16), (60, 1.5, 3)])
def test_warm_up_goes_on_while_frames_get_quicker_and_ends_in_time(
    quicker: int, seconds: float, count: int
) -> None:
    frames = Frames(*(1.0 / 2**i for i in range(quicker)), *[1 / 64] * 40)
    sampling.warm_up(frames, frames.clock, seconds)
    assert frames.in_order == count


@every(
    ("curves", "frames"),
    [
        ([[1.0] * 10], 0),
        ([[2.0, 1.5, *[1.0] * 8], [20.0, 15.0, *[10.0] * 8]], 2),
        ([[1.0, 1.0, 5.0, *[1.0] * 97]], 0),  # a single slow one
        ([[3.0, 1.0]], 1),
        ([[1.03, *[1.0] * 9], [0.97, *[1.0] * 9]], 0),  # noise
        ([[1.0]], 0),
        ([], 0),
        ([[2.0, 1.5, *[1.0] * 8], [90.0, 50.0]], 2),  # cut short
        ([[2.0 if n % 5 == at else 1.0 for n in range(40)] for at in range(5)], 0),  # slow ones all along
        ([[1.4] * 8 + [1.0] * 7 + [1.1] + [1.0] * 24], 9),  # a slow one later
        ([[1 + 0.7**n for n in range(100)]], 9),
        ([[2.0] * 6 + [1.0] * 94], 7),
    ],
)
def test_frames_have_settled_once_they_are_as_quick_as_later_ones(
    curves: list[list[float]], frames: int
) -> None:
    assert sampling.settled(curves) == frames


@every(
    ("count", "seconds", "period", "ran"),
    [(20, 0.25, 1, 20), (20, 1.0, 1, 6), (2, 30.0, 1, 1), (40, 1.0, 2, 6), (8, 30.0, 4, 4)],
)
def test_frames_that_are_timed_together_end_after_so_many_seconds(
    count: int, seconds: float, period: int, ran: int
) -> None:
    """The clock takes 1 ms each time: it is read a few times only."""
    frames = Frames(seconds, period=period, clock=FakeClock(step=0.001))
    spent, frames_run = sampling.timed_together(frames, frames.clock, count, most=5.0)
    assert frames_run == frames.in_order == ran
    assert seconds * ran <= spent <= seconds * ran + 0.001 * (sampling.CLOCK_READINGS + 1)


@pytest.mark.parametrize(("seconds", "count"), [(0.5, 1), (0.49, 3)])
def test_one_slow_frame_warms_up_and_one_is_broken_down(seconds: float, count: int) -> None:
    warm, broken_down = Frames(seconds), Frames(seconds)
    sampling.warm_up(warm, warm.clock, 0.1, slow=0.5)
    sampling.breakdown(broken_down, broken_down.clock, 0.1, slow=0.5)
    assert (warm.in_order, broken_down.in_order) == (count, count if count == 1 else count + 1)


@every(
    ("lengths", "seconds", "samples"),
    [((60.0,), 1.0, (60.0,) * 5), ((1.0, 2.0, 3.0, 1.5, 2.5), 1e9, (1.0, 2.0, 3.0, 1.5, 2.5) * 200)],
)
def test_frames_are_sampled_five_times_at_least_and_a_thousand_times_at_most(
    lengths: tuple[float, ...], seconds: float, samples: tuple[float, ...]
) -> None:
    assert Frames(*lengths).sample(seconds).frame_seconds == samples


def test_a_sample_of_frames_that_differ_is_the_mean_of_a_period() -> None:
    frames = Frames(1.0, 2.0, 3.0, period=3)
    assert frames.sample(7.0, 1).frame_seconds == (2.0, 2.0)
    assert frames.sample(1.0, 3).frame_seconds == (2.0, 2.0, 2.0)
    assert frames.in_order == 15


def test_garbage_is_collected_before_the_first_frame_and_the_collector_rests() -> None:
    class Garbage:
        def __init__(self) -> None:
            self.itself = self

    left = weakref.ref(Garbage())
    frames = Frames(1.0)
    frames.frame = lambda index: frames.collecting.append(gc.isenabled() or left() is not None)
    frames.clock.step = 1.0
    frames.sample(3.0)
    assert frames.collecting
    assert not any(frames.collecting)
    assert gc.isenabled()


@every(("seconds", "period", "count"), [(100.0, 1, 3), (0.125, 1, 7), (0.001, 1, 10), (0.125, 3, 3)])
def test_the_breakdown_has_three_to_ten_periods(seconds: float, period: int, count: int) -> None:
    frames = Frames(seconds, period=period)
    parts = sampling.breakdown(frames, frames.clock, 1.0)
    assert frames.in_order == (1 + count) * period, "the first warms up"
    starts = range(7 + period, frames.index, period)
    assert parts == [{"often": at + (period - 1) / 2, "seldom": 3.0 / period} for at in starts]


def test_what_frames_spend_is_their_mean() -> None:
    assert FrameFigures.model_fields.keys() == sampling.COUNTERS.keys()
    total, frames = iter((10.0, 40.0)), Frames(1.0)
    taken = sampling.sample(frames, frames.clock, 5.0, counters={"cpu_seconds": lambda: next(total)})
    assert taken.spent == {"cpu_seconds": 30.0 / frames.in_order}
