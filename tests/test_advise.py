"""The verdict over measured rows, from separate processes and from a final, and what it says."""

from __future__ import annotations

from functools import partial
from itertools import product

import numpy as np
import pytest
from builders import (
    MIB,
    apart,
    cpu_profile,
    failed,
    final_block,
    final_record,
    footprint,
    measured,
    prediction,
    profile,
    skipped,
)
from every import every
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.profiles.conclusions import Preferences, Recommendation
from advisor.profiles.figures import Block, Row
from advisor.profiles.schema import Measured
from advisor.rules.advise import advise
from advisor.stats import EQUIVALENCE
from advisor.verdicts.choice import Contestant, break_tie, code_change
from advisor.verdicts.measured import recommend

HALF = footprint(pinned=192 * MIB)


def verdict(*rows: Measured, **fields: object) -> Recommendation:
    chosen = advise(profile(results=rows, **fields)).recommendation
    assert chosen is not None
    return chosen


def test_the_fastest_is_named_with_what_it_gains():
    chosen = verdict(measured("pageable", 0.040), measured("pinned", 0.020), measured("managed", 0.030))
    assert (chosen.strategy, chosen.verdict, chosen.bound) == ("pinned", "fastest", 0.0)
    assert (chosen.baseline, chosen.tied_with) == ("pageable", ())
    assert chosen.speedup == pytest.approx(2.0)
    low, high = chosen.interval
    assert 1.95 < low <= 2.0 <= high < 2.05


def test_near_enough_goes_to_the_smaller_footprint_and_says_what_it_saves():
    chosen = verdict(
        measured("pageable", 0.040), measured("pinned", 0.0200), measured("zero-copy", 0.0203, footprint=HALF)
    )
    assert (chosen.strategy, chosen.verdict, chosen.tied_with) == ("zero-copy", "near", ("pinned",))
    assert chosen.groups == (("pinned", "zero-copy"), ("pageable",))
    assert (chosen.fastest, chosen.saved_bytes) == ("pinned", 192 * MIB)
    assert chosen.bound == pytest.approx(0.015, abs=1e-6)
    assert chosen.speedup == pytest.approx(40 / 20.3, rel=1e-3)


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


def test_open_names_what_looks_best_all_that_may_be_and_what_to_do():
    chosen = verdict(
        measured("pageable", 0.080),
        apart("pinned", 0.018, 0.020, 0.022),
        apart("managed", 0.0185, 0.0205, 0.0225),
    )
    assert (chosen.strategy, chosen.verdict, chosen.tied_with) == ("pinned", "open", ("managed",))
    assert chosen.bound > EQUIVALENCE
    assert chosen.speedup == pytest.approx(4.0, rel=0.01)
    assert "--max-seconds" in chosen.next_step


def test_one_process_each_decides_nothing_and_claims_no_interval():
    chosen = verdict(measured("pageable", 0.040, rounds=1), measured("pinned", 0.020, rounds=1))
    assert (chosen.strategy, chosen.verdict, chosen.bound) == ("pinned", "open", None)
    assert chosen.tied_with == ("pageable",)
    assert (chosen.speedup, chosen.interval) == (pytest.approx(2.0), None)


def test_results_that_were_not_compared_are_said():
    rows = (measured("pageable", 0.040), measured("pinned", 0.020, verified=False))
    assert "not be compared" in verdict(*rows).reason
    assert "not be compared" not in verdict(rows[0], measured("pinned", 0.020)).reason


# A final


SECONDS = {"pageable": 0.040, "pinned": 0.020, "zero-copy": 0.019}


def blocks(seconds: dict[str, float], processes: int = 3, **latency: float) -> tuple[Block, ...]:
    """Five rounds a process; processes and rounds differ by a third, contestants of one round by 0.2 %."""
    made = []
    for process, number in product(range(processes), range(5)):
        for place, (name, time) in enumerate(seconds.items()):
            noise = (1 + 0.3 * ((process + number) % 2)) * (
                1 + 0.002 * ((process + 2 * number + 3 * place) % 3 - 1)
            )
            more = {"latency_seconds": latency.get(name.replace("-", "_")), "frame_seconds": (time,) * 10}
            made.append(final_block(process, number, name, 10 * time * noise, place=place, frames=10, **more))
    return tuple(made)


final = partial(final_record, SECONDS, frames=10)

ROWS = tuple(measured(name, seconds) for name, seconds in SECONDS.items())


def test_blocks_of_a_final_decide_what_processes_alone_could_not():
    """The rows, on the other hand, are of processes that differ by a third."""
    rows = tuple(apart(name, 0.8 * s, s, 1.2 * s) for name, s in SECONDS.items())
    assert verdict(*rows).verdict == "open"
    chosen = verdict(*rows, final=final(), blocks=blocks(SECONDS), preferences=Preferences(indifference=0.02))
    assert (chosen.strategy, chosen.verdict) == ("zero-copy", "fastest")
    assert chosen.speedup == pytest.approx(40 / 19, rel=0.01)


def test_a_strategy_that_differs_from_itself_is_told():
    seconds = {**SECONDS, "pinned (again)": 0.022}
    told = final(contestants={**{n: n for n in SECONDS}, "pinned (again)": "pinned"}, alias="pinned (again)")
    chosen = verdict(*ROWS, final=told, blocks=blocks(seconds))
    assert chosen.verdict == "untrusted"
    assert chosen.noise[0] < 1.1 < chosen.noise[1]
    same = verdict(*ROWS, final=told, blocks=blocks({**seconds, "pinned (again)": 0.020}))
    assert same.verdict != "untrusted"


def test_frames_that_overlap_count_by_their_latency_or_by_their_rate():
    rows = (measured("pageable", 0.040), measured("pinned-pipelined", 0.030, latency_seconds=0.050))
    seconds = {row.strategy: row.median_seconds for row in rows}
    told = {
        "final": final(contestants={name: name for name in seconds}),
        "blocks": blocks(seconds, pinned_pipelined=0.050),
    }
    apart_of_old = {objective: Preferences(objective=objective) for objective in ("time", "throughput")}
    for fields in (told, {}):
        by = {o: verdict(*rows, **fields, preferences=p).strategy for o, p in apart_of_old.items()}
        assert by == {"time": "pageable", "throughput": "pinned-pipelined"}


def test_nothing_measured_has_no_recommendation():
    assert advise(profile(results=(skipped(), failed()))).recommendation is None
    assert recommend(profile(results=())) is None


def test_the_cpu_device_has_no_recommendation_and_its_rows_are_not_judged():
    advised = advise(cpu_profile(predictions=()))
    assert advised.recommendation is None
    assert advised.advice == ()


def test_each_predicted_device_is_advised_only_without_a_gpu():
    advised = advise(cpu_profile())
    assert {item.device for item in advised.advice} == {p.device.name for p in cpu_profile().predictions}
    both = advise(profile(predictions=(prediction(),)))
    assert {item.device for item in both.advice} == {"Test discrete"}


def test_unknown_strategies_of_another_version_are_judged_last():
    assert code_change(Row(strategy="pinned")) < code_change(Row(strategy="from-the-future"))
    rows = (measured("pinned", 0.02), measured("from-the-future", 0.02))
    assert verdict(*rows).strategy == "pinned"


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
    chosen = verdict(*made)
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
