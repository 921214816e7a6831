"""The verdict over predicted rows: how often the bet would be won decides it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from builders import MIB, predicted, skipped
from every import every
from hypothesis import given
from hypothesis import strategies as st
from running import missing

from advisor.profiles.conclusions import Recommendation
from advisor.verdicts.predicted import recommend_predicted

SHARED = np.exp(np.linspace(-1, 1, 200))
"""An uncertainty that all strategies share: a factor of e either way."""


def verdict(likely: dict[str, float], draws: dict[str, Any], **rows: Any) -> Recommendation:
    made = [
        predicted(n, s, physical_bytes=rows.get(n.replace("-", "_"), 384 * MIB)) for n, s in likely.items()
    ]
    found = recommend_predicted(made, {n: np.asarray(d) for n, d in draws.items()})
    assert found is not None
    return found


def test_what_all_share_cancels_out() -> None:
    chosen = verdict({"pageable": 0.04, "pinned": 0.02}, {"pageable": 0.04 * SHARED, "pinned": 0.02 * SHARED})
    assert (chosen.strategy, chosen.verdict, chosen.tied_with) == ("pinned", "near", ())
    assert chosen.speedup == pytest.approx(2.0)
    assert chosen.interval == pytest.approx((2.0, 2.0))
    assert "in all simulations" in chosen.reason
    assert "predicted" in chosen.reason
    assert "advisor profile" in chosen.next_step


@every(("lost", "expected"), [(10, "near"), (11, "open")])
def test_near_needs_95_percent_of_the_draws(lost: int, expected: str) -> None:
    pageable = np.full(200, 0.04)
    pageable[:lost] = 0.01
    rows = {"pageable": 0.04, "managed": 0.2, "pinned": 0.02}
    chosen = verdict(rows, {"pageable": pageable, "managed": np.full(200, 0.2), "pinned": np.full(200, 0.02)})
    assert (chosen.strategy, chosen.verdict) == ("pinned", expected)
    assert (chosen.bound is None) == (expected == "open")
    if expected == "open":
        assert chosen.tied_with == ("pageable",)
        assert not missing(chosen.reason, "94 %", "pageable")


def test_a_tie_is_broken_by_memory_then_code() -> None:
    likely = {"pinned": 0.020, "zero-copy": 0.0205, "managed": 0.0205, "pageable": 0.025}
    chosen = verdict(
        likely,
        {name: seconds * SHARED for name, seconds in likely.items()},
        zero_copy=192 * MIB,
        managed=192 * MIB,
    )
    assert (chosen.strategy, chosen.verdict) == ("managed", "near")
    assert chosen.tied_with == ("pinned", "zero-copy")
    assert not missing(chosen.reason, "managed", "5 %", "all simulations")


@every(
    ("slow", "seconds", "strategy"),
    [(90, 0.0215, "managed"), (110, 0.0215, "pinned"), (90, 0.1, "pinned"), (110, 0.1, "pinned")],
)
def test_an_equal_is_one_on_half_of_the_devices_and_on_average(
    slow: int, seconds: float, strategy: str
) -> None:
    managed = np.full(200, 0.0205)
    managed[:slow] = seconds
    likely = {"pinned": 0.020, "managed": 0.0205}
    chosen = verdict(likely, {"pinned": np.full(200, 0.02), "managed": managed}, managed=192 * MIB)
    assert (chosen.strategy, chosen.verdict) == (strategy, "open" if strategy == "managed" else "near")


@every(
    ("gain", "saved", "strategy"),
    [(1.01, 200 << 10, "pageable"), (1.01, 3 << 20, "zero-copy"), (1.06, 200 << 10, "zero-copy")],
)
def test_code_changes_for_time_or_memory_that_shows(gain: float, saved: int, strategy: str) -> None:
    likely = {"pageable": 0.02 * gain, "zero-copy": 0.02}
    slow = np.where(np.arange(200) < 110, 0.03, 0.02 * gain)
    draws = {"pageable": slow, "zero-copy": np.full(200, 0.02)}
    chosen = verdict(likely, draws, pageable=8 * MIB, zero_copy=8 * MIB - saved)
    assert chosen.strategy == strategy
    if strategy == "pageable":
        assert chosen.speedup == 1.0


def test_the_baseline_has_a_speedup_of_exactly_one() -> None:
    chosen = verdict({"pageable": 0.02, "pinned": 0.1}, {"pageable": 0.02 * SHARED, "pinned": 0.1 / SHARED})
    assert chosen.strategy == "pageable"
    assert (chosen.speedup, chosen.interval) == (1.0, (1.0, 1.0))
    surely = {"pageable": 0.02 * SHARED, "pinned": 0.1 * SHARED}
    kept = verdict({"pageable": 0.02, "pinned": 0.1}, surely)
    assert (kept.strategy, kept.verdict, kept.bound) == ("pageable", "keep", 0.0)


def test_the_bound_and_the_average_loss() -> None:
    lost = np.full(200, 0.02 / 1.03)
    lost[:10] = 0.05
    draws = {"pageable": lost, "pinned": np.full(200, 0.02), "managed": np.full(200, 0.2)}
    near = verdict({"pageable": 0.04, "pinned": 0.02, "managed": 0.2}, draws)
    assert (near.strategy, near.verdict) == ("pinned", "near")
    assert near.bound == pytest.approx(0.03)
    managed = np.full(200, 0.018)
    managed[:80] = 0.08
    found = verdict({"pinned": 0.02, "managed": 0.018}, {"pinned": np.full(200, 0.02), "managed": managed})
    assert (found.strategy, found.verdict) == ("pinned", "open")
    assert recommend_predicted([skipped()], {}) is None
    alone = recommend_predicted([predicted("pinned", 0.02), skipped("pageable")], {"pinned": 0.02 * SHARED})
    assert (alone.strategy, alone.speedup, alone.verdict) == ("pinned", None, "near")
    assert alone.reason


@given(st.lists(st.floats(1e-6, 1.0), min_size=2, max_size=5), st.integers(0, 2**32 - 1))
def test_the_interval_holds_the_speedup_and_the_chosen_loses_least(likely: list[float], seed: int) -> None:
    names = ("pageable", "pinned", "zero-copy", "managed", "system")[: len(likely)]
    generator = np.random.default_rng(seed)
    draws = {n: s * np.exp(generator.normal(0, 0.5, 200)) for n, s in zip(names, likely, strict=True)}
    chosen = verdict(dict(zip(names, likely, strict=True)), draws)
    assert chosen.speedup is not None
    assert chosen.interval[0] <= chosen.speedup <= chosen.interval[1]
    fastest = np.min(list(draws.values()), axis=0)
    losses = {name: float(np.mean(seconds / fastest)) for name, seconds in draws.items()}
    best = min(losses, key=losses.__getitem__)
    times = dict(zip(names, likely, strict=True))
    as_fast = chosen.strategy == "pageable" and times["pageable"] <= 1.05 * times[best]
    assert losses[chosen.strategy or ""] <= 1.05 * losses[best] or as_fast
