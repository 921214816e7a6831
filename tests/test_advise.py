"""The verdict over measured rows, from separate processes and from a final, and what it says."""

from __future__ import annotations

import numpy as np
from builders import MIB, cpu_profile, failed, footprint, measured, prediction, profile, skipped
from every import every
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.rules.advise import advise
from advisor.stats import EQUIVALENCE
from advisor.verdicts.choice import Contestant, break_tie
from advisor.verdicts.measured import recommend


@every(
    ("rows", "winner"),
    [
        ([("a", 1.0, 100, 2), ("b", 1.04, 100, 1)], "b"),
        ([("a", 1.0, 1010 * MIB, 1), ("b", 1.04, 1000 * MIB, 2)], "a"),  # 1 % of memory is rounding
        ([("a", 1.0, 1011 * MIB, 1), ("b", 1.04, 1000 * MIB, 2)], "b"),
        ([("pageable", 1.04, 12 * MIB, 0), ("b", 1.0, 10 * MIB, 2)], "pageable"),  # 2 MiB pay for no change
        ([("pageable", 1.0, 12 * MIB + 1, 0), ("b", 1.04, 10 * MIB, 2)], "b"),
        ([("pageable", 1.04, 64, 0), ("b", 1.0, 96, 0), ("c", 1.02, 32, 3)], "pageable"),
        ([("a", 1.0, 12 * MIB, 1), ("b", 1.04, 10 * MIB, 2)], "b"),  # between two changes they count
        ([("a", 1.0, 100, 1), ("b", 1.04, 100, 1)], "a"),
        ([("a", 1.0, 0, 1), ("b", 1.04, 0, 0)], "b"),
    ],
)
def test_tie_break(rows, winner):
    candidates = [Contestant(name, size, change) for name, _, size, change in rows]
    assert break_tie(candidates, {name: seconds for name, seconds, *_ in rows}).name == winner


def test_nothing_measured_has_no_recommendation():
    assert advise(profile(results=(skipped(), failed()))).recommendation is None
    assert recommend(profile(results=())) is None


def test_each_predicted_device_is_advised_only_without_a_gpu():
    advised = advise(cpu_profile())
    assert {item.device for item in advised.advice} == {p.device.name for p in cpu_profile().predictions}
    both = advise(profile(predictions=(prediction(),)))
    assert {item.device for item in both.advice} == {"Test discrete"}


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.lists(st.floats(1e-6, 10), min_size=1, max_size=5), min_size=1, max_size=3),
            st.integers(0, 1 << 40),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_any_rows_get_a_verdict_that_is_consistent(rows):
    made = [
        measured(
            ("pageable", "pinned", "zero-copy", "managed")[i],
            float(np.median([seconds for frames in rounds for seconds in frames])),
            frame_seconds=tuple(seconds for frames in rounds for seconds in frames),
            frames_per_round=tuple(map(len, rounds)),
            footprint=footprint(pageable=memory),
        )
        for i, (rounds, memory) in enumerate(rows)
    ]
    chosen = advise(profile(results=tuple(made))).recommendation
    names = {row.strategy for row in made}
    assert "nan" not in chosen.reason
    assert "inf" not in chosen.reason
    assert chosen.strategy in names - set(chosen.tied_with)
    assert set(chosen.tied_with) <= names
    assert sorted(name for group in chosen.groups for name in group) == sorted(names)
    if chosen.interval:
        low, high = chosen.interval
        assert low <= chosen.speedup <= high
    if len(made) > 1 and chosen.verdict != "open":
        assert chosen.bound <= EQUIVALENCE
        assert len(made[0].rounds) > 1 or any(len(row.rounds) > 1 for row in made)
    if chosen.verdict == "keep":
        assert chosen.strategy == "pageable"
    if len(made) > 1 and chosen.verdict == "fastest":
        assert chosen.bound == 0
