"""Differences of pairs and Hsu's intervals, held against SciPy and against simulated coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy  # its parts are imported where they are used
from every import every
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor import stats
from advisor.verdicts import estimate
from advisor.verdicts.choice import Contestant, standings
from advisor.verdicts.estimate import Block, Pairs, paired, unpaired
from advisor.verdicts.final import Pace, Step, first_step, next_step, seconds_for

NAMES = tuple("abcdef")


def made(logs: np.ndarray) -> list[Block]:
    """Blocks of logarithms, shape (processes, rounds, contestants); NaN is no block."""
    return [
        Block(int(p), int(r), NAMES[k], float(np.exp(logs[p, r, k])))
        for p, r, k in np.argwhere(np.isfinite(logs))
    ]


def drawn(seed: int, processes: int, rounds: int, count: int, luck: float, noise: float) -> np.ndarray:
    draw = np.random.default_rng(seed).normal
    shared = draw(0, 0.1, (processes, 1, 1)) + draw(0, 0.05, (processes, rounds, 1))
    return shared + draw(0, luck, (processes, 1, count)) + draw(0, noise, (processes, rounds, count))


def test_where_a_block_is_a_process_it_is_the_paired_t_test():
    logs = drawn(1, 12, 1, 2, 0.02, 0.03)
    pairs = paired(made(logs), NAMES[:2])
    expected = scipy.stats.ttest_rel(logs[:, 0, 0], logs[:, 0, 1]).confidence_interval(0.95)
    half = pairs.half_widths(0.95, 1)[0, 1]
    found = (pairs.difference[0, 1] - half, pairs.difference[0, 1] + half)
    assert found == pytest.approx(tuple(expected), rel=1e-3)
    assert pairs.freedom[0, 1] == 11


def test_much_luck_counts_processes_and_little_counts_rounds():
    lucky = drawn(2, 6, 9, 2, 0.1, 0.01)
    calm = np.tile(drawn(3, 1, 9, 2, 0.0, 0.3), (6, 1, 1))
    gap = lucky[..., 0] - lucky[..., 1]
    assert paired(made(lucky), NAMES[:2]).error[0, 1] == pytest.approx(gap.mean(1).std(ddof=1) / math.sqrt(6))
    gap = calm[..., 0] - calm[..., 1]
    pooled = gap.std(ddof=1) / math.sqrt(54)
    assert paired(made(calm), NAMES[:2]).error[0, 1] == pytest.approx(pooled)


def test_one_with_processes_of_its_own_widens_its_own_pairs_alone():
    logs = drawn(8, 6, 10, 5, 0.01, 0.02)
    logs[..., 4] += np.random.default_rng(9).normal(0, 0.1, (6, 1))
    company, both = paired(made(logs), NAMES[:4]), paired(made(logs), NAMES[:5], alone=NAMES[4])
    assert both.error[:4, :4] == pytest.approx(company.error, rel=0.1)
    assert both.error[4, :4].min() > 2 * both.error[:4, :4].max()
    assert both.freedom[4, :4].max() == 5 + stats.SUPPOSED_WEIGHT, "nothing of the others' luck"
    assert both.luck > 3 * company.luck, "so the next step has more processes"
    supposed = paired(made(logs[:1]), NAMES[:5], alone=NAMES[4])
    assert supposed.luck == pytest.approx(stats.SUPPOSED_PROCESSES)


def test_gaps_change_nothing_for_those_that_have_none():
    logs = drawn(8, 4, 5, 3, 0.01, 0.02)
    holes = logs.copy()
    holes[2:, 1:, 2] = np.nan
    pairs = paired(made(holes), NAMES[:3])
    seen = holes[np.isfinite(holes[..., 2])]
    beside = (seen[:, :2].mean(axis=1) - seen[:, 2]).mean()
    gap = beside + (holes[..., 0] - holes[..., 1]).mean() / 2
    assert pairs.difference[0, 2] == pytest.approx(gap), "least squares, also through the other one"
    assert pairs.difference[2, 0] == -pairs.difference[0, 2]
    alone = paired(made(holes), NAMES[:2])
    assert pairs.difference[0, 1] == alone.difference[0, 1]
    assert (pairs.processes, pairs.rounds) == (4, 20)


def test_between_is_unbiased_with_unequal_processes():
    share = np.array([0.1, 0.2, 0.3, 0.4])[:, None, None]
    values = np.random.default_rng(9).normal(0, 1, (20_000, 4))
    spread = [estimate._between((v - v @ share[:, 0, 0])[:, None, None], share)[0].item() for v in values]
    assert np.mean(spread) == pytest.approx(0.1**2 + 0.2**2 + 0.3**2 + 0.4**2, rel=0.03)


def test_luck_is_found_and_none_is_not():
    none, some = (
        np.median([paired(made(drawn(s, 12, 15, 4, luck, 0.03)), NAMES[:4]).luck for s in range(20)])
        for luck in (0.0, 0.02)
    )
    assert (none < 0.006, some) == (True, pytest.approx(0.02, rel=0.15))


def test_fewer_than_two_rounds_in_common_tell_nothing():
    logs = drawn(1, 2, 3, 3, 0.0, 0.01)
    logs[:, :, 2] = np.nan
    logs[0, 0, 2] = 0.0
    pairs = paired(made(logs), NAMES[:4])
    assert np.isinf(pairs.error[0]).tolist() == [False, False, True, True]
    assert np.all(np.isfinite(pairs.difference))


@every("seconds", [0.0, -1.0, math.nan, math.inf])
def test_a_time_that_is_none_is_refused(seconds):
    with pytest.raises(ValueError, match="positive and finite"):
        paired([Block(0, 0, "a", seconds)], ["a"])


def test_two_unpaired_sides_of_three_have_the_error_of_the_t_test():
    runs = {"a": [[1.0], [1.1], [1.3]], "b": [[2.0], [2.1], [2.4]]}
    pairs = unpaired(runs)
    logs = [np.log([frames[0] for frames in side]) for side in runs.values()]
    assert pairs.error[0, 1] == pytest.approx(scipy.stats.ttest_ind(*logs)._standard_error)
    assert pairs.difference[0, 1] == pytest.approx(np.log(1.1 / 2.1)), "of what the rows show"
    assert pairs.freedom[0, 1] == 2


def apart(means: np.ndarray, error: np.ndarray) -> Pairs:
    return Pairs(NAMES[: len(means)], means[:, None] - means, error, 0 * error + 500, 0, 0, 5, 50)


def covered(truth: np.ndarray, scale: np.ndarray, runs: int = 4000) -> tuple[float, float]:
    """How often all upper ends hold at once, and how often the lower end of a contestant does, the least."""
    draw, count = np.random.default_rng(11).normal, len(truth)
    rows = {name: Contestant(name, 0, 0) for name in NAMES}
    error = np.sqrt(scale[:, None] ** 2 + scale**2)
    np.fill_diagonal(error, 0.0)
    others = ~np.eye(count, dtype=bool)
    over = np.exp(np.where(others, truth[:, None] - truth, -np.inf).max(axis=1))
    upper, lower = 0, np.zeros(count)
    for _ in range(runs):
        pairs = apart(truth + draw(0, scale), error)
        found = standings(pairs, rows, pairs.half_widths(0.95, count - 1, ends=1))
        upper += all(max(0.0, o - 1) <= one.bound + 1e-12 for o, one in zip(over, found, strict=True))
        lower += [one.over_best.low <= o + 1e-12 for o, one in zip(over, found, strict=True)]
    return upper / runs, float(lower.min()) / runs


@every(
    ("truth", "scale", "most"),
    [
        # The rivals far from the best, so that no bound is cut off at 0: Bonferroni costs little of 95 %.
        *(((0, *[0.3] * rivals), [0.01] * (1 + rivals), 0.97) for rivals in (1, 3, 5)),
        *(
            (truth, (0.01, 0.02, 0.005, 0.03), 1)
            for truth in ((0, 0.01, 0.03, 0.08), (0, 0, 0.02, 0.02), (0, 0.05, 0.05, 0.05))
        ),
    ],
)
def test_hsus_ends_hold_together_and_are_not_wider_than_that_needs(truth, scale, most):
    upper, lower = covered(np.array(truth), np.array(scale))
    assert 0.94 <= upper <= most
    assert lower >= 0.94


@every(("dropped", "slower", "bound"), [(False, 0.1, 0.02), (False, 0.01, 1 - 0.01), (True, 0.01, 0.02)])
def test_one_that_is_surely_slower_than_another_widens_no_bound(dropped, slower, bound):
    """That of `a` beside its equal `b` and a `c` that hardly shares a round with `a`."""
    pairs = apart(np.array([0, 0, slower]), np.array([[0, 0.01, 0.5], [0.01, 0, 0.01], [0.5, 0.01, 0]]))
    rows = {name: Contestant(name, 0, 0, dropped=dropped and name == "c") for name in NAMES[:3]}
    assert standings(pairs, rows, 2 * pairs.error)[0].bound == pytest.approx(math.expm1(bound))


def pairs_of(luck: float, processes: int = 4, rounds: int = 24, noise: float = 0.04) -> Pairs:
    none = np.zeros((2, 2))
    return Pairs(("a", "b"), none, none, none + 5, luck, noise, processes, rounds)


PACE = Pace(process_seconds=2.0, round_seconds=0.5)


@every(
    ("pairs", "step"),
    [
        # More luck asks for more processes with fewer rounds.
        *zip(
            map(pairs_of, (0.0, 0.01, 0.02, 0.04)),
            (Step(2, 12), Step(3, 8), Step(6, 4), Step(8, 3)),
            strict=True,
        ),
        # It doubles the rounds, and no process has more than twice those before.
        (pairs_of(0.0, 5, 50), Step(3, 17)),
        (pairs_of(0.0, 2, 2), Step(1, 2)),
        (pairs_of(0.5, 2, 6), Step(4, 2)),
    ],
)
def test_the_next_step(pairs, step):
    assert next_step(pairs, PACE) == step


def test_the_first_step_leaves_time_for_four_looks():
    step = first_step(60.0, PACE)
    assert step == Step(2, 5)
    total = [step]
    for _ in range(3):
        done = pairs_of(0.0, sum(s.processes for s in total), sum(s.processes * s.rounds for s in total))
        total.append(next_step(done, PACE))
    spent = sum(s.processes * (2.0 + 0.5 * s.rounds) for s in total)
    assert 50 < spent <= 61
    assert first_step(7.0, PACE) == Step(2, 3)
    assert first_step(5.9, PACE) == Step(2, 1), "two processes, if it is one round in each"
    assert seconds_for(2.0, pairs_of(0.02), PACE) == pytest.approx(6 * 2.0 + 24 * 0.5), "as the next step"


# Quantiles of a frame resampled by blocks, and Student's quantile far out


@every(("probability", "fewest"), [(0.95, 59), (0.99, 299)])
def test_the_largest_frame_is_an_upper_bound_from_so_many_on(probability, fewest):
    assert stats.fewest_frames(probability) == fewest
    assert 1 - probability**fewest >= 0.95 > 1 - probability ** (fewest - 1)
    frames = np.random.default_rng(1).lognormal(0, 0.1, 2 * fewest)
    assert stats.quantile_by_blocks(frames[: fewest - 1].reshape(-1, 1), probability) is None
    assert stats.quantile_by_blocks(frames.reshape(-1, 2), probability)
    assert stats.quantile_by_blocks([list(frames)] * 2, probability) is None, "two blocks are too few"
    assert stats.quantile_by_blocks([list(frames)], probability) is None, "one block tells nothing of others"


@every(("count", "probability"), [(59, 0.95), (200, 0.95), (299, 0.99), (5000, 0.99)])
def test_ranks_are_those_of_the_binomial(count, probability):
    first, last = stats._quantile_ranks(count, probability)
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


@every(("share", "between", "shape"), [(0.95, 0, (40, 20)), (0.95, 0.05, (40, 20)), (0.99, 0.05, (20, 100))])
def test_bounds_by_blocks_cover(share, between, shape):
    """How often the truth lies above the upper and below the lower bound."""
    generator = np.random.default_rng(2)
    truth = np.exp(np.hypot(between, 0.05) * scipy.stats.norm.ppf(share))
    missed = np.zeros(2)
    for _ in range(300):
        blocks = np.exp(generator.normal(0, between, (shape[0], 1)) + generator.normal(0, 0.05, shape))
        if found := stats.quantile_by_blocks(blocks, share):
            missed += [truth > found[2], truth < found[1]]
    assert missed.max() / 300 <= 0.05


@every("tail", [0.025, 0.00125, 1e-4])
@every("freedom", [1, 1.5, 2, 4.3, 12, 200])
def test_students_upper_quantile(tail, freedom):
    assert stats.student_upper(tail, freedom) == pytest.approx(scipy.stats.t.isf(tail, freedom), rel=2e-3)
