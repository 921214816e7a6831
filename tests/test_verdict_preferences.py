"""The verdict by what the user wants: objective, memory budget; and that of profiles without a final."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from builders import (
    MIB,
    apart,
    cpu_profile,
    footprint,
    measured,
    predicted,
    prediction,
    profile,
    vector_add_trace,
)
from every import every
from rendering import shown

from advisor import api
from advisor.devices.catalogue import load
from advisor.errors import UsageError
from advisor.profiles import reading
from advisor.profiles.conclusions import Preferences, Recommendation
from advisor.profiles.schema import Measured, Profile
from advisor.rules.advise import advise, conclude, conclude_again
from advisor.rules.registry import RULES
from advisor.verdicts.predicted import recommend_predicted

WHOLE = footprint(pageable=192 * MIB, device=192 * MIB)
HALF = footprint(pinned=192 * MIB)
SHARED = np.exp(np.random.default_rng(5).normal(0, 0.5, 200))


def wanted(*rows: Measured, **preferences: object) -> Recommendation:
    chosen = advise(profile(results=rows, preferences=Preferences(**preferences))).recommendation
    assert chosen is not None
    return chosen


BOTH_WAYS = (
    measured("pageable", 0.040),
    measured("pinned", 0.020),
    measured("pinned-pipelined", 0.012, latency_seconds=0.024),
)


def test_time_is_begin_to_end_and_throughput_is_frames_per_second() -> None:
    chosen = wanted(*BOTH_WAYS)
    assert (chosen.strategy, chosen.verdict, chosen.objective) == ("pinned", "fastest", "time")
    assert chosen.speedup == pytest.approx(2.0)
    assert chosen.groups == (("pinned",), ("pinned-pipelined",), ("pageable",))
    rate = wanted(*BOTH_WAYS, objective="throughput")
    assert (rate.strategy, rate.objective) == ("pinned-pipelined", "throughput")
    assert rate.speedup == pytest.approx(40 / 12)


LEAN = (
    measured("pageable", 0.040, footprint=WHOLE),
    measured("pinned", 0.010, footprint=WHOLE),
    measured("zero-copy", 0.030, footprint=HALF),
    measured("managed", 0.035, footprint=HALF),
)


def test_footprint_looks_at_memory_first_and_at_time_among_equals() -> None:
    chosen = wanted(*LEAN, objective="footprint")
    assert (chosen.strategy, chosen.verdict) == ("zero-copy", "fastest")
    assert chosen.groups == (("zero-copy",), ("managed",)), "pinned is faster, and needs more"
    assert chosen.speedup == pytest.approx(4 / 3), "against the baseline, which memory ruled out"
    assert chosen.excluded == {}, "excluded is for the budget"
    large = measured("pinned", 0.010, footprint=footprint(device=400 * MIB))
    kept = wanted(LEAN[0], large, objective="footprint")
    assert (kept.strategy, kept.verdict) == ("pageable", "keep")


def test_a_budget_excludes_what_does_not_fit_and_says_so() -> None:
    chosen = wanted(*LEAN, memory_budget_bytes=200 * MIB)
    assert chosen.strategy == "zero-copy"
    assert chosen.excluded == {"pageable": "needs 384 MiB", "pinned": "needs 384 MiB"}
    assert chosen.speedup == pytest.approx(4 / 3)
    exact = wanted(*LEAN, memory_budget_bytes=384 * MIB)
    assert (exact.strategy, exact.excluded) == ("pinned", {})


def test_an_open_choice_risks_least_and_is_not_the_least_memory() -> None:
    """managed may be far slower than the fastest: half the memory does not make it the choice."""
    wild = apart("managed", 0.015, 0.022, 0.030, footprint=HALF)
    rows = (measured("pageable", 0.080), apart("pinned", 0.0199, 0.0200, 0.0201), wild)
    chosen = wanted(*rows)
    assert (chosen.verdict, chosen.strategy, chosen.tied_with) == ("open", "pinned", ("managed",))
    assert chosen.speedup == pytest.approx(4.0, rel=1e-3)


def test_advice_follows_an_open_choice() -> None:
    rows = (
        measured("pageable", 0.080),
        apart("pinned", 0.0200, 0.0202, 0.0204, footprint=WHOLE, transfer_seconds=0.001),
        apart("zero-copy", 0.0150, 0.0208, 0.0300, footprint=HALF, transfer_seconds=0.0),
    )
    run = advise(profile(results=rows))
    assert (run.recommendation.verdict, run.recommendation.strategy) == ("open", "pinned")
    (found,) = [a for a in run.advice if a.rule == "pageable-transfer"]
    assert found.strategy == "pinned"


def predicted_choice(memory: dict[str, int], seconds: dict[str, float], **preferences: object):
    rows = tuple(predicted(n, s, physical_bytes=memory[n] * MIB) for n, s in seconds.items())
    chosen = recommend_predicted(
        rows, {n: s * SHARED for n, s in seconds.items()}, preferences=Preferences(**preferences)
    )
    assert chosen is not None
    return chosen


def test_predictions_go_by_the_same_preferences() -> None:
    memory = {"pageable": 384, "pinned": 384, "zero-copy": 192, "managed": 192}
    seconds = {"pageable": 0.04, "pinned": 0.01, "zero-copy": 0.02, "managed": 0.03}
    assert predicted_choice(memory, seconds).strategy == "pinned"
    lean = predicted_choice(memory, seconds, objective="footprint")
    assert (lean.strategy, lean.objective, lean.speedup) == ("zero-copy", "footprint", pytest.approx(2.0))
    assert "in all simulations" in lean.reason
    small = predicted_choice(memory, seconds, memory_budget_bytes=200 * MIB)
    assert (small.strategy, set(small.excluded)) == ("zero-copy", {"pageable", "pinned"})
    none = predicted_choice(memory, seconds, memory_budget_bytes=MIB)
    assert (none.strategy, none.verdict) == (None, "open")


def test_a_predicted_tie_is_told() -> None:
    memory = {"pageable": 384, "pinned": 384, "zero-copy": 192}
    chosen = predicted_choice(memory, {"pageable": 0.04, "pinned": 0.02, "zero-copy": 0.0203})
    assert (chosen.strategy, chosen.verdict) == ("zero-copy", "near")
    assert chosen.tied_with == ("pinned",)
    assert chosen.steps[1:3] == (
        "pinned and zero-copy are predicted equally fast.",
        "It needs 192 MiB less than pinned.",
    )


def traced(**fields: object) -> Profile:
    return cpu_profile(traffic=vector_add_trace(), predictions=(), **fields)


def test_a_device_is_predicted_again_by_other_preferences_as_it_would_be_at_once() -> None:
    target = (load("rtx-4090"),)
    first = conclude(traced(), target)
    other = Preferences(objective="throughput", memory_budget_bytes=1 << 40)
    again = conclude_again(first, other)
    assert again == conclude(traced(preferences=other), target)
    assert again.predictions[0].recommendation.objective == "throughput"
    assert first.predictions[0].recommendation.strategy != again.predictions[0].recommendation.strategy


DATA = Path(__file__).parent / "data"
UNJUDGED = sorted(DATA.glob("h200-*.json"))


@every("path", UNJUDGED, ids=lambda path: path.stem)
def test_a_profile_without_a_final_has_its_verdict_from_its_processes(path: Path) -> None:
    read = reading.load(path)
    assert read.recommendation is None
    assert (read.final, read.blocks) == (None, ())
    again = conclude_again(read, read.preferences)
    made = again.recommendation
    assert made.strategy in read.measured()
    assert again == advise(read)
    assert again.predictions == read.predictions
    assert conclude_again(again, again.preferences) is again
    assert api.load(path) == api.Profile.of(again)
    if made.verdict != "open":
        assert all(len(row.rounds) > 1 for row in read.measured().values())
        assert made.bound is not None


def test_profiles_without_verdicts_are_compared_by_those_that_are_made() -> None:
    found = api.compare(DATA / "h200-reread-1.json", DATA / "h200-reread-64.json")
    told = found.devices[0].recommended
    assert (told.base, told.head, told.change) == ("zero-copy", "pinned", "changed")


def test_a_device_outside_the_catalogue_cannot_be_judged_again_without_its_file() -> None:
    before = cpu_profile(predictions=(prediction("My own board"),))
    with pytest.raises(UsageError, match="My own board"):
        conclude_again(before, Preferences(objective="footprint"))
    silenced = conclude_again(before, Preferences(ignored={"pageable-transfer": "--ignore"}))
    assert silenced.predictions == before.predictions


def test_a_budget_that_nothing_fits_still_makes_a_summary() -> None:
    run = advise(profile(preferences=Preferences(memory_budget_bytes=MIB)))
    assert "--memory-budget" in shown(run, "txt")


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


def test_a_rule_that_picks_by_itself_is_held_to_the_budget() -> None:
    stubborn = replace(
        RULES[0],
        judge=lambda case, limits: case.swap(case.rows["pageable"], case.rows["pinned"], "Use it.", ()),
    )
    rows = (measured("pageable", 0.04, footprint=HALF), measured("pinned", 0.01, footprint=WHOLE))
    wanted = Preferences(memory_budget_bytes=200 * MIB)
    (found,) = advise(profile(results=rows, preferences=wanted), (stubborn,)).advice
    assert (found.outcome, found.strategy, found.snippet) == ("pass", None, None)
    assert "384 MiB" in found.detail
    (found,) = advise(profile(results=rows), (stubborn,)).advice
    assert (found.outcome, set(found.variants)) == ("advice", {"PyTorch", "Numba"})
