"""The model against published figures, with fixed bounds: the goals it is held to."""

from __future__ import annotations

import json
from collections.abc import Callable

import accuracy
import fitted
import measured
import numpy as np
import published
import published_cases
import pytest
from accuracy import Outcome, outcome, summary

from advisor.devices.catalogue import load
from advisor.model import accuracy as shipped
from advisor.model.predict import predict
from advisor.profiles.schema import Profile


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return [outcome(case) for case in published.cases()]


@pytest.fixture(scope="module")
def ours() -> dict[str, list[Outcome]]:
    return accuracy.groups_measured()


@pytest.mark.parametrize("group", ["all", "unquoted", "discrete"])
def test_the_goals_are_reached(outcomes: list[Outcome], group: str) -> None:
    found = summary(accuracy.groups(outcomes)[group])
    assert found["right_share"] is not None
    assert found["right_share"] >= 0.9
    assert found["ratio_error_median"] is not None
    assert found["ratio_error_median"] <= 0.25
    assert found["inside_share"] is not None
    assert found["inside_share"] >= 0.8


@pytest.mark.parametrize(
    ("group", "low", "high"),
    [("discrete", 0.8, 1.1), ("coherent", 0.8, 1.1), ("tegra-coherent", 0.8, 1.1), ("all", 0.8, 1.1)],
)
def test_times_are_not_far_off_to_one_side(
    outcomes: list[Outcome], group: str, low: float, high: float
) -> None:
    found = summary(accuracy.groups(outcomes)[group])
    assert found["ratio_median"] is not None
    assert low <= found["ratio_median"] <= high
    assert found["ratio_90"] is not None
    assert found["ratio_90"] <= 1.4


def test_strategies_are_in_the_published_order(outcomes: list[Outcome]) -> None:
    found = summary(accuracy.groups(outcomes)["discrete"])
    assert found["rank_correlation"] is not None
    assert found["rank_correlation"] >= 0.9


def test_every_published_row_of_the_sample_is_used(outcomes: list[Outcome]) -> None:
    used = [
        f.published for o in outcomes if o.case.source.endswith("UnifiedMemoryPerf") for f in o.case.figures
    ]
    assert len(used) == 2 * 7 * 8
    assert min(used) == pytest.approx(13e-6)
    assert max(used) == pytest.approx(163.723e-3)


def test_the_package_carries_what_the_model_reaches(
    outcomes: list[Outcome], ours: dict[str, list[Outcome]]
) -> None:
    assert shipped.PATH.read_text(encoding="utf-8") == accuracy.shipped(outcomes, ours)


def test_every_class_with_cases_has_its_error(outcomes: list[Outcome]) -> None:
    found = shipped.by_class()
    assert set(found) == {"discrete", "coherent", "tegra", "tegra-io-coherent", "tegra-coherent"}
    assert sum(row.cases for row in found.values()) == len(outcomes)
    assert 0 < len(accuracy.groups(outcomes)["unquoted"]) < len(outcomes)
    assert found["discrete"].choices >= 17


def test_what_we_measured_is_predicted_from_either_entry(ours: dict[str, list[Outcome]]) -> None:
    for group in ours.values():
        found = summary(group)
        assert found["cases"] == 9
        assert found["figures"] == 9 * 12
        assert found["right_share"] is not None
        assert found["right_share"] >= 0.9
        assert found["inside_share"] is not None
        assert found["inside_share"] >= 0.9
        assert found["ratio_median"] is not None
        assert 0.85 <= found["ratio_median"] <= 1.1
        assert found["ratio_error_median"] is not None
        assert found["ratio_error_median"] <= 0.25


def test_what_is_marked_is_what_the_program_would_recommend(ours: dict[str, list[Outcome]]) -> None:
    for o in (o for group in ours.values() for o in group):
        chosen = predict(o.case.profile, load(o.case.device)).recommendation
        assert chosen is not None
        assert o.recommended == chosen.strategy, o.case.name


def test_frames_that_overlap_count_begin_to_end(ours: dict[str, list[Outcome]]) -> None:
    extracts = {e.name: e for e in measured.extracts()}
    for o in ours[accuracy.CALIBRATED]:
        (figure,) = (f for f in o.case.figures if f.strategy == "pinned-pipelined")
        row = extracts[o.case.name].rows["pinned-pipelined"]
        assert figure.published == row.latency_seconds
        assert figure.interval is not None
        longer = figure.published / row.median
        assert longer > 1.5
        assert figure.interval == pytest.approx((row.low * longer, row.high * longer))


def test_what_we_measured_is_never_mixed_with_what_was_published(ours: dict[str, list[Outcome]]) -> None:
    carried = json.loads(shipped.PATH.read_text(encoding="utf-8"))
    assert set(carried["measured_by_us"]) == set(ours)
    assert not set(carried["by_class"]) & set(ours)
    assert not {case.name for case in published.cases()} & {o.case.name for o in ours[accuracy.CALIBRATED]}


def test_a_choice_that_the_noise_hides_is_not_wrong() -> None:
    figures = (
        published_cases.Figure("pageable", "pageable", 1.0, interval=(0.8, 1.3)),
        published_cases.Figure("pinned", "pinned", 1.5, interval=(1.2, 1.9)),
    )
    case = published_cases.Case("made up", "t4", published_cases.touched(1e9, "in"), figures, "nowhere")
    assert accuracy.is_right(outcome(case)) is True


def test_the_document_shows_these_tables(outcomes: list[Outcome], ours: dict[str, list[Outcome]]) -> None:
    text = accuracy.DOCUMENT.read_text(encoding="utf-8")
    assert accuracy.documented(outcomes, ours, text) == text


@pytest.mark.parametrize(("name", "parameter", "_"), fitted.PARAMETERS)
def test_no_parameter_hangs_on_one_card(
    name: str, parameter: Callable[[published_cases.Case], float | None], _: object
) -> None:
    found = fitted.by_card(parameter)
    taken = fitted.taken(name, found)
    assert len(found) >= 2
    assert taken == pytest.approx(fitted.mean(list(found.values())), rel=0.05)
    for card in found:
        others = fitted.mean([value for device, value in found.items() if device != card])
        assert others == pytest.approx(taken, rel=0.2)


def test_ranges_hold_on_each_card_when_it_is_left_out() -> None:
    cards = fitted.coverage()
    for card in ("rtx-2060", "gtx-1650-super"):
        least = fitted.least_factor([held for device, held in cards.items() if device != card])
        assert least <= fitted.COMMON
        assert np.mean(cards[card](fitted.COMMON)) >= 0.8


def test_a_wrong_choice_counts_as_wrong() -> None:
    profile: Profile = published_cases.touched(1e9, "in")
    times = {"pageable": 1.0, "pinned": 2.0}
    figures = tuple(published_cases.Figure(name, name, seconds) for name, seconds in times.items())
    found = outcome(published_cases.Case("made up", "t4", profile, figures, "nowhere"))
    assert found.recommended == "pinned"
    assert accuracy.is_right(found) is False
    assert accuracy.inside(found) == [False, False]
    (error,) = accuracy.ratio_errors(found)
    assert error > 1
