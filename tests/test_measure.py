"""Sampling on a clock that only frames move."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fakes import FakeClock

from advisor.measure.sampling import (
    COUNTERS,
    Limits,
    Samples,
    breakdown,
    sample,
    settled,
    warm_up,
)
from advisor.profiles.row_figures import FrameFigures
from advisor.stats import median_half_width


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

    def sample(self, limits: Limits, first: int = 0, **how: Any) -> Samples:
        return sample(self, self.clock, first, limits, **how)


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    yield
    gc.enable()


WIDE = (1.0, 2.0, 3.0, 1.5, 2.5)
"""So much noise that no number of frames in a test is precise."""
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
    ],
    ids=["from the first", "after two", "a single slow one", "two", "noise", "one frame", "nobody"],
)
def test_frames_have_settled_once_they_are_as_quick_as_later_ones(
    curves: list[list[float]], frames: int
) -> None:
    assert settled(curves) == frames


def test_warm_up_has_three_frames_at_least() -> None:
    frames = Frames(10.0)
    assert warm_up(frames, frames.clock, 3, 2.0) == 6
    assert frames.indices == [3, 4, 5]


@pytest.mark.parametrize(("seconds", "count"), [(0.5, 1), (0.49, 3)])
def test_one_slow_frame_warms_up_and_one_is_broken_down(seconds: float, count: int) -> None:
    frames, indices = Frames(seconds), list[int]()
    assert warm_up(frames, frames.clock, 3, 0.1, slow=0.5) == 3 + count
    _, after = breakdown(timed(frames.clock, seconds, indices), frames.clock, 3, 0.1, slow=0.5)
    assert indices == [*range(3, 3 + (count if count == 1 else count + 1))]
    assert after == indices[-1] + 1


def test_samples_are_the_frames_own_times() -> None:
    frames = Frames(0.25, 0.5, 1.0)
    samples = frames.sample(Limits(seconds=1.0), first=7)
    assert samples.frame_seconds == (0.25, 0.5, 1.0, 0.25, 0.5)
    assert frames.indices == [7, 8, 9, 10, 11]


def test_time_between_frames_does_not_count() -> None:
    clock = FakeClock(step=1.0)
    samples = sample(lambda index: clock.advance(0.5), clock, 0, Limits(seconds=20))
    assert set(samples.frame_seconds) == {1.5}
    assert samples.stopped == "time is up"
    assert len(samples.frame_seconds) == 8, "the time that is up is that on the wall"


def test_time_is_up() -> None:
    samples = Frames(*WIDE).sample(Limits(seconds=20.0))
    assert samples.stopped == "time is up"
    assert sum(samples.frame_seconds) >= 20
    assert sum(samples.frame_seconds[:-1]) < 20


def test_slow_frames_are_five_at_least() -> None:
    samples = Frames(60.0).sample(Limits(seconds=1.0))
    assert (samples.frame_seconds, samples.stopped) == ((60.0,) * 5, "time is up")


def test_the_least_number_of_frames_can_be_set() -> None:
    assert len(Frames(60.0).sample(Limits(seconds=1.0, min_frames=3)).frame_seconds) == 3


def test_enough_frames() -> None:
    samples = Frames(*WIDE).sample(Limits(seconds=FOREVER, max_frames=37))
    assert (len(samples.frame_seconds), samples.stopped) == (37, "37 frames")


def test_precise() -> None:
    samples = Frames(1.0, 1.001).sample(Limits(seconds=FOREVER))
    assert (len(samples.frame_seconds), samples.stopped) == (10, "precise")


def test_precise_means_the_interval_of_the_median() -> None:
    samples = Frames(1.0, 1.01, 1.02, 0.99).sample(Limits(seconds=FOREVER))
    assert samples.stopped == "precise"
    times = samples.frame_seconds
    assert median_half_width(times) <= 0.005 < median_half_width(times[: len(times) // 2])


def test_a_confidence_that_is_asked_for_costs_frames() -> None:
    noise = (1.0, 1.01, 1.02, 0.99, 1.03, 0.98)
    usual = Frames(*noise).sample(Limits(seconds=FOREVER))
    surer = Frames(*noise).sample(Limits(seconds=FOREVER, confidence=0.999))
    assert len(usual.frame_seconds) < len(surer.frame_seconds)


def noisy_frames() -> Frames:
    """Two speeds in turn for long: more frames do not narrow the interval."""
    return Frames(1.0, 2.0)


def test_the_noise_is_stable() -> None:
    samples = noisy_frames().sample(Limits(seconds=FOREVER))
    assert samples.stopped == "noise is stable"
    assert 100 <= len(samples.frame_seconds) < 1000


def test_noise_that_still_shrinks_goes_on() -> None:
    samples = noisy_frames().sample(Limits(seconds=FOREVER, improvement=-1.0))
    assert samples.stopped == "1000 frames"


def stops_at(widths: dict[int, float], **limits: Any) -> tuple[int, list[int]]:
    """Frames taken where the interval has these widths, each from so many frames on; and when it is asked."""
    looks: list[int] = []

    def width(times: list[float], confidence: float) -> float:
        assert confidence == 0.95
        looks.append(len(times))
        return widths[max(count for count in widths if count <= len(times))]

    samples = Frames(1.0).sample(Limits(seconds=FOREVER, **limits), half_width=width)
    assert samples.stopped == ("noise is stable" if len(samples.frame_seconds) < 1000 else "1000 frames")
    return len(samples.frame_seconds), looks


def test_looking_at_the_interval_costs_little() -> None:
    count, looks = stops_at({0: 0.1}, improvement=-1.0)
    assert count == 1000
    assert looks == [10, 15, 22, 33, 49, 73, 109, 163, 244, 366, 549, 823]


def test_stable_is_judged_against_half_as_many_frames() -> None:
    # At 109 frames the look at 49 counts, not those at 33 or 73; at 163 frames that at 73.
    widths = {0: 0.1, 49: 0.2, 73: 0.1, 109: 0.095, 163: 0.091, 244: 0.05}
    assert stops_at(widths)[0] == 163


@pytest.mark.parametrize(("narrower", "stops"), [(0.0901, 109), (0.0899, 244)])
def test_stable_means_less_than_a_tenth_narrower(narrower: float, stops: int) -> None:
    assert stops_at({0: 0.1, 109: narrower})[0] == stops


def test_noise_is_not_called_stable_before_100_frames() -> None:
    assert stops_at({0: 0.1}, min_frames=30)[0] == 100


def test_the_garbage_collector_rests_and_comes_back() -> None:
    frames = Frames(1.0)
    frames.sample(Limits(seconds=3.0))
    assert not any(frames.collecting)
    assert gc.isenabled()


def test_a_garbage_collector_that_was_off_stays_off() -> None:
    gc.disable()
    Frames(1.0).sample(Limits(seconds=3.0))
    assert not gc.isenabled()


def test_the_garbage_collector_comes_back_after_an_error() -> None:
    def fail(index: int) -> None:
        raise KeyError

    with pytest.raises(KeyError):
        sample(fail, FakeClock(), 0, Limits(seconds=1.0))
    assert gc.isenabled()


def test_garbage_is_collected_before_the_first_frame() -> None:
    class Garbage:
        def __init__(self) -> None:
            self.itself = self

    left = weakref.ref(Garbage())
    gone: list[bool] = []
    sample(lambda index: gone.append(left() is None), FakeClock(step=1.0), 0, Limits(seconds=1.0))
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
    taken = sample(lambda _: None, clock, 0, Limits(seconds=5.0), counters=counters)
    assert taken.spent == {"cpu_seconds": 30.0 / len(taken.frame_seconds)}
