"""The verdict by what the user wants: objective, memory budget; and that of profiles without a final."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from builders import MIB, cpu_profile, footprint, measured, prediction, profile, vector_add_trace
from every import every

from advisor import api
from advisor.devices.catalogue import load
from advisor.errors import UsageError
from advisor.profiles import reading
from advisor.profiles.conclusions import Preferences
from advisor.profiles.schema import Profile
from advisor.rules.advise import advise, conclude, conclude_again
from advisor.rules.registry import RULES

WHOLE = footprint(pageable=192 * MIB, device=192 * MIB)
HALF = footprint(pinned=192 * MIB)


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


def test_no_rule_proposes_what_is_over_the_budget() -> None:
    rows = (
        measured("pageable", 0.040, footprint=WHOLE),
        measured("pinned", 0.010, footprint=WHOLE, transfer_seconds=0.002),
        measured("zero-copy", 0.020, footprint=HALF, transfer_seconds=0.0),
    )

    for results, budget, proposed in (
        (rows, None, "pinned"),
        (rows, 200, "zero-copy"),
        (rows[:2], 200, None),
    ):
        wanted = Preferences(memory_budget_bytes=budget and budget * MIB)
        found = advise(profile(results=results, preferences=wanted)).advice
        assert {a.strategy for a in found if a.outcome == "advice"} == ({proposed} if proposed else set())


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
