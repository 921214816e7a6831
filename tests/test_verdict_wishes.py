"""The verdict by what the user wants: objective, memory budget; the safe choice where nothing is clear."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from builders import (
    MIB,
    cpu_profile,
    footprint,
    measured,
    predicted,
    prediction,
    profile,
    vector_add_trace,
)
from rendering import shown

from advisor import pipeline
from advisor.devices.catalogue import load
from advisor.errors import UsageError
from advisor.profiles.preferences import Preferences
from advisor.profiles.schema import Measured, Profile, Recommendation
from advisor.report.headlines import headline
from advisor.rules import RULES
from advisor.rules.advise import advise
from advisor.rules.base import Finding, proposal
from advisor.rules.case import cases
from advisor.verdicts.predicted import recommend_predicted

WHOLE = footprint(pageable=192 * MIB, device=192 * MIB)
HALF = footprint(pinned=192 * MIB)
SHARED = np.exp(np.random.default_rng(5).normal(0, 0.5, 200))


def wanted(*rows: Measured, **preferences: object) -> Recommendation:
    chosen = advise(profile(results=rows, preferences=Preferences(**preferences))).recommendation
    assert chosen is not None
    return chosen


def pipelined(median: float, latency: float) -> Measured:
    return measured("pinned-pipelined", median, latency_seconds=latency)


def test_time_is_begin_to_end_and_says_what_throughput_would_see() -> None:
    rows = (measured("pageable", 0.040), measured("pinned", 0.020), pipelined(0.012, 0.024))
    chosen = wanted(*rows)
    assert (chosen.strategy, chosen.verdict, chosen.objective) == ("pinned", "clear", "time")
    assert chosen.speedup == pytest.approx(2.0)
    assert "pinned-pipelined, the next best, 1.20×" in chosen.reason
    assert chosen.steps[-1].startswith("pinned-pipelined finishes 1.67×")
    assert "each 24.0 ms from begin to end: --objective throughput" in chosen.steps[-1]


def test_throughput_is_frames_per_second() -> None:
    rows = (measured("pageable", 0.040), measured("pinned", 0.020), pipelined(0.012, 0.024))
    chosen = wanted(*rows, objective="throughput")
    assert (chosen.strategy, chosen.objective) == ("pinned-pipelined", "throughput")
    assert chosen.speedup == pytest.approx(40 / 12)
    assert "--objective" not in chosen.reason
    assert headline(chosen) == "Use `pinned-pipelined`: 3.33× the frames per second of `pageable`"


def test_frames_that_are_no_more_frequent_are_not_mentioned() -> None:
    assert "--objective" not in wanted(measured("pinned", 0.020), pipelined(0.0201, 0.04)).reason


def test_footprint_looks_at_memory_first_and_at_time_among_equals() -> None:
    rows = (
        measured("pageable", 0.040, footprint=WHOLE),
        measured("pinned", 0.010, footprint=WHOLE),
        measured("zero-copy", 0.030, footprint=HALF),
        measured("managed", 0.035, footprint=HALF),
    )
    chosen = wanted(*rows, objective="footprint")
    assert (chosen.strategy, chosen.verdict) == ("zero-copy", "clear")
    assert chosen.steps[0] == (
        "zero-copy and managed need the least memory, 192 MiB (50 % of the next least)."
    )
    assert "managed, the next best, 1.17×" in chosen.steps[1]
    assert chosen.speedup == pytest.approx(4 / 3), "against the baseline, which memory ruled out"
    assert headline(chosen) == "Use `zero-copy`: the least memory, 1.33× faster than `pageable`"
    kept = wanted(
        rows[0], measured("pinned", 0.010, footprint=footprint(device=400 * MIB)), objective="footprint"
    )
    assert headline(kept) == "Keep `pageable`: the least memory"
    alone = wanted(*rows[:3], objective="footprint")
    assert "zero-copy is the only one left; it takes 30.0 ms a frame, pageable 1.33×" in alone.reason


def test_a_budget_excludes_what_does_not_fit_and_says_so() -> None:
    rows = (
        measured("pageable", 0.040, footprint=WHOLE),
        measured("pinned", 0.010, footprint=WHOLE),
        measured("zero-copy", 0.030, footprint=HALF),
        measured("managed", 0.035, footprint=HALF),
    )
    chosen = wanted(*rows, memory_budget_bytes=200 * MIB)
    assert chosen.strategy == "zero-copy"
    assert chosen.excluded == {"pageable": "needs 384 MiB", "pinned": "needs 384 MiB"}
    assert chosen.steps[0] == ("Over the memory budget of 200 MiB: pageable (384 MiB) and pinned (384 MiB).")
    assert chosen.speedup == pytest.approx(4 / 3)
    exact = wanted(*rows, memory_budget_bytes=384 * MIB)
    assert (exact.strategy, exact.excluded) == ("pinned", {})


def test_nothing_fits_the_budget() -> None:
    rows = (measured("pageable", 0.040, footprint=WHOLE), measured("zero-copy", 0.030, footprint=HALF))
    chosen = wanted(*rows, memory_budget_bytes=MIB)
    assert (chosen.strategy, chosen.verdict, chosen.safest) == (None, "inconclusive", None)
    assert "No strategy fits the memory budget of 1.00 MiB" in chosen.reason
    assert "zero-copy, is 192 MiB" in chosen.reason
    assert "--memory-budget" in chosen.next_step
    assert headline(chosen) == "No strategy fits the memory budget"


def test_the_safe_choice_risks_least_not_the_least_memory() -> None:
    """managed may be twice as slow as the fastest: that it needs half the memory does not make it safe."""
    wild = measured("managed", 0.022, spread=0.9, footprint=HALF)
    rows = (measured("pageable", 0.080), measured("pinned", 0.0200), wild)
    chosen = wanted(*rows)
    assert (chosen.verdict, chosen.strategy, chosen.safest) == ("inconclusive", None, "pinned")
    assert "managed needs the least memory, 192 MiB" in chosen.reason
    assert "managed changes the least code" in chosen.reason
    assert headline(chosen) == (
        "`pinned` is the safe choice: 4.00× faster than `pageable`; `managed` may be as good"
    )
    assert chosen.speedup == pytest.approx(4.0)
    assert chosen.interval[0] < 4 < chosen.interval[1]
    assert headline(wanted(*rows[1:])) == "No clear winner among 2: `pinned` is the safe choice"


def test_equal_risks_go_to_the_smaller_footprint() -> None:
    rows = (
        measured("pageable", 0.080),
        measured("pinned", 0.020, spread=0.2, footprint=WHOLE),
        measured("zero-copy", 0.020, spread=0.2, footprint=HALF),
    )
    assert wanted(*rows).safest == "zero-copy"


def test_the_baseline_stays_where_nothing_is_surely_faster() -> None:
    chosen = wanted(measured("pageable", 0.0206, spread=0.2), measured("pinned", 0.020, spread=0.2))
    assert chosen.safest == "pageable"
    assert "no change of code is surely worth it" in chosen.reason
    assert chosen.next_step.startswith("Keep the code as it is for now.")
    assert headline(chosen) == "No clear winner among 2: keep `pageable` for now"


def test_what_may_be_slower_than_the_baseline_is_not_safe() -> None:
    rows = (
        measured("pageable", 0.0215, spread=0.01),
        measured("pinned", 0.0200, spread=0.01),
        measured("managed", 0.0205, spread=0.5),
    )
    chosen = wanted(*rows)
    assert set(chosen.tied_with) == {"pinned", "managed"}
    assert chosen.steps[0] == "pinned is surely faster than pageable."
    assert chosen.safest == "pinned"


def test_advice_follows_the_safe_choice() -> None:
    rows = (
        measured("pageable", 0.080),
        measured("pinned", 0.0202, spread=0.2, footprint=WHOLE, transfer_seconds=0.001),
        measured("zero-copy", 0.0200, spread=0.3, footprint=HALF, transfer_seconds=0.0),
    )
    run = advise(profile(results=rows))
    assert run.recommendation.strategy is None
    (found,) = [a for a in run.advice if a.rule == "pageable-transfer"]
    assert found.strategy == run.recommendation.safest


def predicted_choice(memory: dict[str, int], seconds: dict[str, float], **preferences: object):
    rows = tuple(predicted(n, s, physical_bytes=memory[n] * MIB) for n, s in seconds.items())
    chosen = recommend_predicted(
        rows, {n: s * SHARED for n, s in seconds.items()}, preferences=Preferences(**preferences)
    )
    assert chosen is not None
    return chosen


def test_predictions_go_by_the_same_wishes() -> None:
    memory = {"pageable": 384, "pinned": 384, "zero-copy": 192, "managed": 192}
    seconds = {"pageable": 0.04, "pinned": 0.01, "zero-copy": 0.02, "managed": 0.03}
    assert predicted_choice(memory, seconds).strategy == "pinned"
    lean = predicted_choice(memory, seconds, objective="footprint")
    assert (lean.strategy, lean.objective, lean.speedup) == ("zero-copy", "footprint", pytest.approx(2.0))
    assert lean.steps[0].startswith("zero-copy and managed need the least memory")
    assert "in 100 % of the draws" in lean.reason
    small = predicted_choice(memory, seconds, memory_budget_bytes=200 * MIB)
    assert (small.strategy, set(small.excluded)) == ("zero-copy", {"pageable", "pinned"})
    none = predicted_choice(memory, seconds, memory_budget_bytes=MIB)
    assert (none.strategy, none.verdict) == (None, "inconclusive")


def test_a_predicted_tie_says_how_near() -> None:
    memory = {"pageable": 384, "pinned": 384, "zero-copy": 192}
    chosen = predicted_choice(memory, {"pageable": 0.04, "pinned": 0.02, "zero-copy": 0.0203})
    assert (chosen.strategy, chosen.verdict) == ("zero-copy", "tie")
    assert "pinned and zero-copy are predicted within 2 % of one another" in chosen.steps[0]
    assert chosen.steps[1].startswith("zero-copy needs the least memory")


def traced(**fields: object) -> Profile:
    return cpu_profile(traffic=vector_add_trace(), predictions=(), **fields)


def test_a_device_is_predicted_again_by_other_wishes_as_it_would_be_at_once() -> None:
    target = (load("rtx-4090"),)
    first = pipeline.conclude(traced(), target)
    other = Preferences(objective="throughput", memory_budget_bytes=1 << 40)
    again = pipeline.conclude_again(first, other)
    assert again == pipeline.conclude(traced(preferences=other), target)
    assert again.predictions[0].recommendation.objective == "throughput"
    assert first.predictions[0].recommendation.strategy != again.predictions[0].recommendation.strategy


def test_the_same_preferences_leave_the_profile_as_it_is() -> None:
    before = profile()
    assert pipeline.conclude_again(before, Preferences()) is before


def test_a_device_outside_the_catalogue_cannot_be_judged_again_without_its_file() -> None:
    before = cpu_profile(predictions=(prediction("My own board"),))
    with pytest.raises(UsageError, match="My own board is not in the catalogue"):
        pipeline.conclude_again(before, Preferences(objective="footprint"))
    silenced = pipeline.conclude_again(before, Preferences(ignored={"pageable-transfer": "--ignore"}))
    assert silenced.predictions == before.predictions


def test_a_budget_that_nothing_fits_still_makes_a_summary() -> None:
    run = advise(profile(preferences=Preferences(memory_budget_bytes=MIB)))
    assert "No strategy fits the memory budget" in shown(run, "txt")


def test_no_rule_proposes_what_is_over_the_budget() -> None:
    rows = (
        measured("pageable", 0.040, footprint=WHOLE),
        measured("pinned", 0.010, footprint=WHOLE, transfer_seconds=0.002),
        measured("zero-copy", 0.020, footprint=HALF, transfer_seconds=0.0),
    )

    def told(*results: Measured, budget: int | None):
        run = advise(profile(results=results, preferences=Preferences(memory_budget_bytes=budget)))
        return next(a for a in run.advice if a.rule == "pageable-transfer"), run

    free, _ = told(*rows, budget=None)
    assert (free.outcome, free.strategy) == ("advice", "pinned")
    small, run = told(*rows, budget=200 * MIB)
    assert (small.outcome, small.strategy) == ("advice", "zero-copy")
    assert {a.strategy for a in run.advice} <= {None, "zero-copy"}
    none, _ = told(*rows[:2], budget=200 * MIB)
    assert (none.outcome, none.strategy, none.snippet) == ("pass", None, None)


def test_a_rule_that_picks_by_itself_is_held_to_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    stubborn = replace(
        RULES[0],
        needs=("rows",),
        judge=lambda rows, limits: Finding("advice", "Use it.", strategy="pinned", snippet="x = 1"),
    )
    monkeypatch.setattr("advisor.rules.advise.RULES", (stubborn,))
    rows = (measured("pageable", 0.04, footprint=HALF), measured("pinned", 0.01, footprint=WHOLE))
    (found,) = advise(profile(results=rows, preferences=Preferences(memory_budget_bytes=200 * MIB))).advice
    assert (found.outcome, found.strategy, found.snippet) == ("pass", None, None)
    assert found.detail.startswith("pinned would be worth it, but it needs 384 MiB")
    (found,) = advise(profile(results=rows)).advice
    assert (found.outcome, set(found.variants)) == ("advice", {"PyTorch", "Numba"})


def test_the_far_end_against_any_rival_counts_not_the_nearest() -> None:
    """managed and registered are near one another, and both may be far behind pinned."""
    rows = (
        measured("pinned", 0.0200, spread=0.8),
        measured("registered", 0.0225, spread=0.01),
        measured("managed", 0.0227, spread=0.01),
    )
    chosen = wanted(*rows)
    assert set(chosen.tied_with) == {"pinned", "registered", "managed"}
    assert chosen.safest == "pinned"


def test_risks_within_the_margin_are_equal() -> None:
    rows = (
        measured("pinned", 0.0200, spread=0.2, footprint=WHOLE),
        measured("zero-copy", 0.0202, spread=0.2, footprint=HALF),
    )
    chosen = wanted(*rows)
    assert (chosen.verdict, chosen.safest) == ("inconclusive", "zero-copy")


def test_a_proposal_fits_the_budget_also_where_nothing_is_recommended() -> None:
    rows = (
        measured("pageable", 0.040, footprint=WHOLE),
        measured("pinned", 0.010, footprint=WHOLE),
        measured("zero-copy", 0.020, footprint=HALF),
    )
    (case,) = cases(profile(results=rows, preferences=Preferences(memory_budget_bytes=200 * MIB)))
    chosen = proposal(case.rows.values(), case.rows["pageable"], None)
    assert chosen is not None
    assert chosen.strategy == "zero-copy"
