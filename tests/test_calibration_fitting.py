"""Rates and latencies from noisy times."""

from __future__ import annotations

import numpy as np
import pytest
from every import every
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.calibration.bench import Spread, fit, fit_repeats, inverse, positive, rates, spread
from advisor.calibration.host_memory import sizes

SIZES = sizes(256 << 20)
LATENCIES = st.floats(1e-6, 50e-6)
RATES = st.floats(0.5e9, 400e9)
SEEDS = st.integers(0, 2**32 - 1)


def noisy(latency: float, rate: float, noise: float, repeats: int, seed: int) -> list[list[float]]:
    """Times by size, each off by a factor that is rarely more than 1 + 2 * noise."""
    generator = np.random.default_rng(seed)
    factors = np.exp(generator.normal(0, noise, (len(SIZES), repeats)))
    return [
        [(latency + size / rate) * f for f in row] for size, row in zip(SIZES, factors.tolist(), strict=True)
    ]


def test_the_sizes_are_steps_of_four_up_to_the_largest() -> None:
    assert sizes(1 << 20) == [4096, 16384, 65536, 262144, 1 << 20]
    assert sizes(1 << 19) == [4096, 16384, 65536, 262144, 1 << 19]
    assert (SIZES[0], SIZES[-1]) == (4096, 256 << 20)


@given(LATENCIES, RATES)
def test_exact_times_give_latency_and_rate_back(latency: float, rate: float) -> None:
    intercept, slope = fit(SIZES, [latency + size / rate for size in SIZES])
    assert intercept == pytest.approx(latency, rel=1e-4)
    assert 1 / slope == pytest.approx(rate, rel=1e-6)


@given(LATENCIES, RATES, SEEDS)
@settings(max_examples=60, deadline=None)
def test_noisy_times_give_them_back_within_the_noise(latency: float, rate: float, seed: int) -> None:
    wait, slope = fit_repeats(SIZES, noisy(latency, rate, 0.02, 9, seed))
    assert 1 / slope.value == pytest.approx(rate, rel=0.05)
    # The shortest copy has 4096 / rate beside the latency, and noise on both.
    assert wait.value == pytest.approx(latency, rel=0.06, abs=0.06 * 4096 / rate)
    assert slope.low <= slope.value <= slope.high
    assert slope.repeats == 9


@given(LATENCIES, RATES, SEEDS)
@settings(max_examples=40, deadline=None)
def test_a_repeat_that_was_disturbed_does_not_move_the_figures(
    latency: float, rate: float, seed: int
) -> None:
    times = noisy(latency, rate, 0.01, 15, seed)
    for row in times:
        row[seed % 15] *= 50
    wait, slope = fit_repeats(SIZES, times)
    assert 1 / slope.value == pytest.approx(rate, rel=0.05)
    assert slope.high < 1.2 / rate
    assert wait.value == pytest.approx(latency, rel=0.06, abs=0.06 * 4096 / rate)


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=30))
def test_a_spread_holds_its_value_and_stays_within_the_repeats(values: list[float]) -> None:
    found = spread(values)
    assert min(values) * (1 - 1e-12) <= found.low <= found.value <= found.high <= max(values) * (1 + 1e-12)
    assert found.value == np.median(values)
    assert found.repeats == len(values)


def test_ranges_of_spreads_and_rates() -> None:
    assert spread([float(n) for n in range(1, 12)]) == Spread(6.0, 2.0, 10.0, 11)
    assert rates(100.0, [10.0, 20.0, 10.0, 10.0, 10.0]).value == 10.0
    assert rates(100.0, [10.0, 20.0]).low < 7.0
    assert inverse(Spread(0.5, 0.25, 1.0, 3)) == Spread(2.0, 1.0, 4.0, 3)
    assert positive(Spread(2.0, -1.0, 3.0, 5)) == Spread(2.0, 1.0, 3.0, 5)
    assert inverse(Spread(0.5, -0.1, 1.0, 5)) == Spread(2.0, 1.0, 2.0, 5)


@every(
    ("wrong", "reason"),
    [
        (lambda: rates(1.0, [1.0, 0.0]), "below the clock's resolution"),
        (lambda: rates(1.0, [1.0, -1.0]), "below the clock's resolution"),
        (lambda: spread([]), "nothing was measured"),
        (lambda: fit([1, 1], [1.0, 2.0]), "a fit needs at least two sizes"),
        (lambda: inverse(Spread(-1.0, -2.0, 1.0, 3)), "does not increase with the size"),
        (lambda: positive(Spread(0.0, -1.0, 1.0, 3)), "not distinguishable from zero"),
    ],
)
def test_what_is_no_figure_is_refused(wrong: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        wrong()  # type: ignore[operator]
