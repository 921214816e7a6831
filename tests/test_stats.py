"""Medians, intervals and their coverage, checked against SciPy and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy  # its parts are imported where they are used
from every import every
from hypothesis import given
from hypothesis import strategies as st

from advisor import stats

times = st.floats(min_value=1e-9, max_value=1e5)
rounds = st.lists(st.lists(times, min_size=1, max_size=12), min_size=1, max_size=6)


def simulated(generator: np.random.Generator, processes: int, frames: int, between: float, within: float):
    """Log-normal frames around 1 s: processes differ by `between`, frames of one process by `within`."""
    levels = generator.normal(0, between, (processes, 1))
    return np.exp(levels + generator.normal(0, within, (processes, frames)))


@given(rounds, st.sampled_from([1e-3, 7.0, 1e3]))
def test_interval_is_finite_positive_holds_the_median_and_scales_with_the_unit(data, factor):
    low, high = stats.median_interval(data, resamples=50)
    assert 0 < low <= stats.median(data) <= high < math.inf
    scaled = [[value * factor for value in frames] for frames in data]
    assert stats.median_interval(scaled, resamples=50) == pytest.approx((low * factor, high * factor))


@given(rounds, rounds)
def test_ratio_is_finite_positive_and_ordered(above, below):
    ratio = stats.ratio_interval(above, below, resamples=50)
    assert 0 < ratio.low <= ratio.value <= ratio.high < math.inf
    assert ratio.value == pytest.approx(stats.median(above) / stats.median(below))


@given(rounds, rounds)
def test_all_resamples_at_once_and_set_by_set_give_the_same(above, below):
    found = []
    for frames in (0, 500):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(stats, "_AT_ONCE", frames)
            found.append(stats.ratio_interval(above, below, resamples=50))
    assert found[0] == found[1]


@every("data", [[[0.5]], [[0.5] * 40], [[0.5] * 40] * 3])
def test_samples_without_spread_have_an_interval_without_width(data):
    assert stats.median_interval(data) == pytest.approx((0.5, 0.5))
    assert stats.ratio_interval([*data, [0.5]], [[0.25]]) == stats.Ratio(2.0, 2.0, 2.0)


def test_a_few_huge_outliers_do_not_move_the_interval():
    calm = [[1.0 + i / 1000 for i in range(100)]] * 3
    disturbed = [[*frames[:-3], 1e6, 1e6, 1e6] for frames in calm]
    assert stats.median_interval(disturbed) == pytest.approx(stats.median_interval(calm), rel=0.02)
    assert stats.median_interval([*calm, []]) == stats.median_interval(calm), "an empty round does not count"
    low, high = stats.median_interval([[1e-9], [1e300]], confidence=0.999)
    assert 0 < low < high < math.inf


@every("data", [[], [[]], [[0.0]], [[-1.0]], [[math.nan]], [[1.0], [math.inf]]])
def test_times_that_are_none_are_refused(data):
    with pytest.raises(ValueError, match="frame times"):
        stats.median_interval(data)


@every("frames", [7, 40, 101])
def test_one_process_is_the_percentile_bootstrap_of_scipy(frames):
    data = np.random.default_rng(frames).lognormal(0, 0.1, frames)
    ours = stats.median_interval([list(data)], resamples=20_000, seed=1)
    theirs = scipy.stats.bootstrap(
        (data,), np.median, method="percentile", n_resamples=20_000, rng=np.random.default_rng(2), axis=-1
    ).confidence_interval
    gap = np.diff(np.sort(data)).max()
    assert ours == pytest.approx(tuple(theirs), abs=gap)
    assert ours[0] < np.median(data) < ours[1]


def test_ratio_holds_the_interval_of_welch_over_processes():
    above, below = ([[1.00], [1.06], [1.11], [1.03]], [[0.50], [0.54], [0.49]])
    logs = [np.log(np.ravel(side)) for side in (above, below)]
    expected = scipy.stats.ttest_ind(*logs, equal_var=False).confidence_interval(0.95)
    centre, half = stats._welch(*logs, 0.95)
    assert (centre - half, centre + half) == pytest.approx(tuple(expected), rel=1e-4)
    ratio = stats.ratio_interval(above, below)
    assert ratio.low <= math.exp(centre - half)
    assert ratio.high >= math.exp(centre + half)


@every("other", [[[1.0] * 20, [1.1] * 20, [0.9] * 20], [[1.0] * 20]])
def test_a_single_process_borrows_the_spread_of_the_other_side_or_a_supposed_one(other):
    ratio = stats.ratio_interval([[2.0] * 20], other)
    assert ratio.low < 1.5
    assert ratio.high > 2.5


def coverage(processes: int, between: float, within: float, frames: int = 100, runs: int = 200):
    """How often the intervals of a median and of a ratio hold the truth, which is 1."""
    generator = np.random.default_rng(5)
    hits = np.zeros(2)
    for seed in range(runs):
        first, second = (simulated(generator, processes, frames, between, within) for _ in range(2))
        low, high = stats.median_interval(first, resamples=500, seed=seed)
        ratio = stats.ratio_interval(first, second, resamples=500, seed=seed)
        hits += [low <= 1 <= high, ratio.low <= 1 <= ratio.high]
    return hits / runs


def test_coverage_of_three_processes():
    interval, ratio = coverage(3, between=0.02, within=0.01)
    assert 0.92 <= interval <= 0.98
    assert 0.93 <= ratio <= 0.99
    assert min(coverage(3, between=0.0, within=0.01)) >= 0.96


def test_coverage_of_one_process():
    assert 0.91 <= coverage(1, between=0.0, within=0.02, frames=50)[0] <= 0.98


def test_a_robust_deviation_is_that_of_normal_noise_and_ignores_outliers() -> None:
    noise = scipy.stats.norm.ppf((np.arange(1001) + 0.5) / 1001, scale=2)
    assert stats.robust_deviation(noise) == pytest.approx(2, rel=0.01)
    assert stats.robust_deviation(np.array([*noise, math.nan, 1e9])) == pytest.approx(2, rel=0.01)
