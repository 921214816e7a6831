"""Quantiles of a frame resampled by blocks, and Student's quantile far out."""

from __future__ import annotations

import numpy as np
import pytest
import scipy  # its parts are imported where they are used
from every import every
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor import stats


@every(("probability", "fewest"), [(0.95, 59), (0.99, 299)])
def test_the_largest_frame_is_an_upper_bound_from_so_many_on(probability, fewest):
    assert stats.fewest_frames(probability) == fewest
    assert 1 - probability**fewest >= 0.95 > 1 - probability ** (fewest - 1)


@every(("probability", "fewest"), [(0.95, 59), (0.99, 299)])
def test_too_few_frames_have_no_quantile(probability, fewest):
    frames = np.random.default_rng(1).lognormal(0, 0.1, 2 * fewest)
    assert stats.quantile_by_blocks(frames[: fewest - 1].reshape(-1, 1), probability) is None
    assert stats.quantile_by_blocks(frames.reshape(-1, 2), probability)
    assert stats.quantile_by_blocks([list(frames)] * 2, probability) is None, "two blocks are too few"
    assert stats.quantile_by_blocks([list(frames)], probability) is None, "one block tells nothing of others"


@every(("count", "probability"), [(59, 0.95), (200, 0.95), (299, 0.99), (5000, 0.99)])
def test_ranks_are_those_of_the_binomial(count, probability):
    first, last = stats._quantile_ranks(count, probability, 0.95)
    below = scipy.stats.binom(count, probability)
    assert below.cdf(last) >= 0.95 > below.cdf(last - 1)
    assert below.cdf(first) <= 0.05 < below.cdf(first + 1)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.floats(1e-6, 1e3), min_size=15, max_size=30), min_size=20, max_size=30))
def test_a_quantile_lies_between_its_bounds_and_scales(blocks):
    found = stats.quantile_by_blocks(blocks, 0.95)
    doubled = stats.quantile_by_blocks([[2 * x for x in block] for block in blocks], 0.95)
    if found and doubled:
        value, low, high = found
        assert low <= value <= high
        assert value == np.quantile(np.concatenate(blocks), 0.95, method="inverted_cdf")
        assert doubled == pytest.approx(tuple(2 * x for x in found))
    else:
        assert found is doubled


def missed(between: float, *, whole: bool, runs: int = 300) -> tuple[float, float]:
    """How often the truth lies above the upper and below the lower bound, by blocks or by frames alone."""
    generator = np.random.default_rng(2)
    truth = np.exp(np.hypot(between, 0.05) * scipy.stats.norm.ppf(0.95))
    counts = np.zeros(2)
    for _ in range(runs):
        blocks = np.exp(generator.normal(0, between, (40, 1)) + generator.normal(0, 0.05, (40, 20)))
        found = stats.quantile_by_blocks(blocks if whole else blocks.reshape(-1, 1), 0.95)
        assert found
        counts += [truth > found[2], truth < found[1]]
    return counts[0] / runs, counts[1] / runs


@every("between", [0.0, 0.05])
def test_bounds_by_blocks_cover(between):
    above, below = missed(between, whole=True)
    assert above <= 0.075
    assert below <= 0.085


def test_bounds_by_frames_would_not_cover():
    above, below = missed(0.05, whole=False)
    assert above > 0.15
    assert below > 0.1


@every("tail", [0.025, 0.00125, 1e-4])
@every("freedom", [1, 1.5, 2, 4.3, 12, 200])
def test_students_upper_quantile(tail, freedom):
    assert stats.student_upper(tail, freedom) == pytest.approx(scipy.stats.t.isf(tail, freedom), rel=2e-3)
