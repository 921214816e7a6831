"""Verdicts: clear, tie, inconclusive, and what each says."""

from __future__ import annotations

import pytest
from builders import (
    MIB,
    cpu_profile,
    cuda_device,
    failed,
    footprint,
    measured,
    prediction,
    profile,
    skipped,
)
from hypothesis import given
from hypothesis import strategies as st

from advisor.profiles.schema import Measured, Profile
from advisor.rules import duplicate_allocation
from advisor.rules.advise import Candidate, advise, candidates, recommend
from advisor.verdicts.ties import LEAST_SAVING, Equal, break_tie

HALF = footprint(pinned=192 * MIB)
HALF_MANAGED = footprint(managed=192 * MIB)


def verdict(*rows: Measured, **fields: object):
    chosen = advise(profile(results=rows, **fields)).recommendation
    assert chosen is not None
    return chosen


def test_clear_names_the_fastest_with_its_speedup_and_the_next_best():
    chosen = verdict(measured("pageable", 0.040), measured("pinned", 0.020), measured("managed", 0.030))
    assert (chosen.strategy, chosen.verdict, chosen.baseline) == ("pinned", "clear", "pageable")
    assert chosen.speedup == pytest.approx(2.0)
    low, high = chosen.interval
    assert 1.95 < low <= 2.0 <= high < 2.05
    assert "20.0 ms" in chosen.reason
    assert "managed, the next best, 1.50×" in chosen.reason
    assert "pageable 2.00×" in chosen.reason
    assert chosen.next_step == "Change the code to pinned."


def test_nothing_beats_the_baseline():
    chosen = verdict(measured("pageable", 0.020), measured("pinned", 0.030))
    assert (chosen.strategy, chosen.speedup, chosen.interval) == ("pageable", 1.0, (1.0, 1.0))
    assert "Nothing beats the baseline" in chosen.reason
    assert chosen.next_step == "Keep the code as it is."


def test_a_tie_goes_to_the_smaller_footprint_and_says_by_how_much():
    chosen = verdict(
        measured("pageable", 0.040),
        measured("pinned", 0.0200),
        measured("zero-copy", 0.0203, footprint=HALF),
    )
    assert (chosen.strategy, chosen.verdict, chosen.tied_with) == ("zero-copy", "tie", ("pinned",))
    assert chosen.speedup == pytest.approx(40 / 20.3, rel=1e-3)
    assert "pinned and zero-copy are equally fast: the fastest, pinned, takes 20.0 ms" in chosen.reason
    assert "the others are within 2 % of it (5 % counts as equal)" in chosen.reason
    assert [step[:9] for step in chosen.steps] == ["pinned an", "zero-copy"]
    assert "zero-copy needs the least memory, 192 MiB (50 % of the next least)" in chosen.reason


def test_a_tie_in_memory_goes_to_the_smaller_change_of_code():
    chosen = verdict(
        measured("zero-copy", 0.0200, footprint=HALF),
        measured("managed", 0.0203, footprint=HALF_MANAGED),
        measured("pageable", 0.040),
    )
    assert (chosen.strategy, chosen.tied_with) == ("managed", ("zero-copy",))
    assert "All need the same memory, 192 MiB; managed changes the least code." in chosen.reason
    assert "managed changes the least code" in chosen.reason


def test_a_tie_with_the_baseline_keeps_the_baseline():
    chosen = verdict(measured("pageable", 0.0203), measured("pinned", 0.0200))
    assert (chosen.strategy, chosen.verdict, chosen.speedup) == ("pageable", "tie", 1.0)
    assert "Nothing beats the baseline by more than that." in chosen.reason


@pytest.mark.parametrize(
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
    assert break_tie([Equal(*row) for row in rows])[0] == winner


def test_a_tie_says_which_difference_of_memory_counts_as_none():
    equals = [Equal("pageable", 1.0, 145 << 10, 0), Equal("zero-copy", 1.0, 75 << 10, 2)]
    winner, why = break_tie(equals)
    assert winner == "pageable"
    assert why == "70.0 KiB of memory that another would save are no reason to leave pageable"
    least = {t.name: t.default for t in duplicate_allocation.RULE.thresholds}["bytes"]
    assert least == LEAST_SAVING, "what counts as equal must not be worth advice"


def test_inconclusive_has_no_winner_but_says_what_is_certain_and_what_to_do():
    chosen = verdict(
        measured("pageable", 0.080),
        measured("pinned", 0.020, spread=0.2),
        measured("managed", 0.0205, spread=0.2),
    )
    assert (chosen.strategy, chosen.verdict, chosen.speedup) == (None, "inconclusive", pytest.approx(4.0))
    assert chosen.tied_with == ("pinned", "managed")
    assert "They cannot be told apart: against pinned at 20.0 ms a frame" in chosen.reason
    assert "managed takes 1.0" in chosen.reason
    assert "Both are surely faster than pageable, at least 3." in chosen.steps[0]
    assert chosen.steps[0].endswith("×: pinned and managed.")
    assert chosen.safest == "pinned", "the faster one, as far as one can tell"
    assert "pinned is the safe choice" in chosen.reason
    assert chosen.next_step.startswith("Take pinned to be safe.")
    assert "--rounds 10" in chosen.next_step
    assert "nvidia-smi" in chosen.next_step


def test_the_next_step_fits_the_device_and_what_was_tried():
    rows = (
        measured("pinned", 0.020, spread=0.3, rounds=12, frames=3),
        measured("managed", 0.0205, spread=0.3, rounds=12, frames=3),
    )
    chosen = verdict(*rows, device=cuda_device("tegra-io-coherent"))
    assert "--rounds 36" in chosen.next_step
    assert "jetson_clocks" in chosen.next_step


def test_contenders_that_may_be_slower_than_the_baseline_claim_nothing_about_it():
    chosen = verdict(measured("pageable", 0.0206, spread=0.2), measured("pinned", 0.020, spread=0.2))
    assert chosen.tied_with == ("pinned", "pageable")
    assert "faster than pageable" not in chosen.reason


def test_a_process_that_differs_makes_the_others_uncertain():
    """One of three processes is 30 % off: frames say it is clear, processes that it is not."""
    calm, odd = [0.020 + i * 1e-6 for i in range(50)], [0.026 + i * 1e-6 for i in range(50)]
    restless = measured("pinned", 0.020, frame_seconds=(*calm, *calm, *odd), frames_per_round=(50, 50, 50))
    assert verdict(restless, measured("managed", 0.0215)).verdict == "inconclusive"
    steady = measured("pinned", 0.020, frame_seconds=tuple(calm * 3), frames_per_round=(50, 50, 50))
    assert verdict(steady, measured("managed", 0.0215)).verdict == "clear"


def test_far_below_the_margin_is_not_a_tie():
    """A row whose interval reaches far below the fastest may well be the fastest."""
    wide = Candidate("pinned", ((0.010, 0.0201, 0.0202),), MIB, 1)
    chosen = recommend([wide, Candidate("managed", ((0.02,) * 9,), MIB, 1)])
    assert chosen.verdict == "inconclusive"


def test_a_single_strategy_is_compared_with_nothing():
    chosen = verdict(measured("pinned", 0.020), skipped("managed"), failed("pageable"))
    assert (chosen.strategy, chosen.verdict, chosen.speedup, chosen.baseline) == (
        "pinned",
        "clear",
        None,
        None,
    )
    assert "the only strategy with figures" in chosen.reason


def test_one_process_each_is_said():
    rows = (measured("pageable", 0.040, rounds=1), measured("pinned", 0.020, rounds=1))
    assert "in one process only" in verdict(*rows).reason
    assert "in one process only" not in verdict(measured("pageable", 0.040), measured("pinned", 0.020)).reason


def test_results_that_were_not_compared_are_said():
    rows = (measured("pageable", 0.040), measured("pinned", 0.020, verified=False))
    assert "The results of pinned could not be compared." in verdict(*rows).reason


def test_nothing_measured_has_no_recommendation():
    assert advise(profile(results=(skipped(), failed()))).recommendation is None
    assert recommend([]) is None


def test_the_cpu_device_has_no_recommendation_and_its_rows_are_not_judged():
    advised = advise(cpu_profile(predictions=()))
    assert advised.recommendation is None
    assert advised.advice == ()


def test_each_predicted_device_is_advised_only_without_a_gpu():
    advised = advise(cpu_profile())
    assert {item.device for item in advised.advice} == {p.device.name for p in cpu_profile().predictions}
    both = advise(profile(predictions=(prediction(),)))
    assert {item.device for item in both.advice} == {"Test discrete"}


def test_advise_changes_nothing_else_and_is_saved_and_read_back(tmp_path):
    before = profile()
    after = advise(before)
    same = after.model_copy(update={"recommendation": None, "advice": ()})
    assert same == before
    assert Profile.model_validate_json(after.model_dump_json()) == after
    assert advise(after) == after


def test_unknown_strategies_of_another_version_are_judged_last():
    rows = (measured("pinned", 0.02), measured("from-the-future", 0.02))
    known, unknown = candidates(profile(results=rows))
    assert known.code_change < unknown.code_change
    assert verdict(*rows).strategy == "pinned"


@given(
    st.lists(
        st.tuples(
            st.lists(st.lists(st.floats(1e-6, 10), min_size=1, max_size=5), min_size=1, max_size=3),
            st.integers(0, 1 << 40),
            st.integers(0, 3),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_any_rows_get_a_verdict_that_is_consistent(rows):
    made = [
        Candidate(f"s{i}" if i else "pageable", tuple(map(tuple, rounds)), memory, change)
        for i, (rounds, memory, change) in enumerate(rows)
    ]
    chosen = recommend(made)
    names = {candidate.strategy for candidate in made}
    assert chosen.reason
    assert "nan" not in chosen.reason
    assert set(chosen.tied_with) <= names
    if chosen.verdict == "inconclusive":
        assert chosen.strategy is None
        assert len(chosen.tied_with) > 1
    else:
        assert chosen.strategy in names - set(chosen.tied_with)
        low, high = chosen.interval
        assert low <= chosen.speedup <= high
    if chosen.verdict == "clear":
        assert chosen.strategy == min(made, key=lambda c: c.seconds).strategy
