"""The model against published figures, with fixed bounds: the goals it is held to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import accuracy
import left_out
import numpy as np
import published_cases
import pytest
from accuracy import Held
from calibrated import LeftOut, factors
from every import every
from left_out import Fit
from outcomes import Outcome, summary

from advisor.model import measured as shipped
from advisor.model.machines import defaults
from advisor.model.predict import predict


@pytest.fixture(scope="module")
def held() -> Held:
    return accuracy.held()


@pytest.fixture(scope="module")
def without_family(held: Held) -> LeftOut:
    return LeftOut(held.fit)


GOALS = {
    "right_share": (0.9, 1.0), "regret_mean": (0.0, 0.02), "ratio_error_median": (0.0, 0.2),
    "inside_share": (0.8, 0.91), "width_median": (1.0, 3.0),
}  # fmt: skip


def require(goals: Mapping[str, tuple[float, float]], group: Sequence[Outcome]) -> None:
    """Each figure of the group's summary lies between its two ends."""
    reached = summary(group)
    assert {
        n: reached[n] for n, (least, most) in goals.items() if not least <= (reached[n] or -1) <= most
    } == {}


def test_the_goals_are_reached_on_families_left_out(held: Held) -> None:
    require(GOALS, held.without)


def test_families_left_out_are_chosen_no_worse_than_by_the_rule_of_three_lines(held: Held) -> None:
    found = summary(held.without)
    assert (found["right_share"] or 0) >= (found["rule_right_share"] or 1)
    assert (found["regret_mean"] or 1) <= (found["rule_regret_mean"] or 0)


def test_the_package_carries_what_the_model_reaches(held: Held) -> None:
    assert shipped.PATH.read_text(encoding="utf-8") == accuracy.shipped(held)


# Leaving out


def test_a_device_left_out_is_its_specification_alone(held: Held, without_family: LeftOut) -> None:
    entry = without_family.machine(held.without[0].case).entry
    known = {name for name, figure in entry.figures if figure is not None}
    assert known <= set(left_out.SPECIFIED)
    assert "memory_bytes" in known


def test_what_was_read_of_a_family_falls_out_with_it() -> None:
    """A figure of several families takes the middle of its range; one of it alone that of all devices."""
    among = defaults()
    turing, all_devices = left_out.without_family(among, "Turing"), among.layers[0].figures
    share = turing.layers[0].figures["launch_seconds"]
    assert share.value == share.prior == pytest.approx((3.5e-6 * 8e-6) ** 0.5)
    (at,) = (i for i, layer in enumerate(among.layers) if layer.compute_capabilities == ("7.5",))
    assert "link_again_share" not in turing.layers[at].figures
    assert turing.layers[0].figures["link_again_share"] == all_devices["link_again_share"]
    assert left_out.without_family(among, "Ada").layers[at] == among.layers[at]


def test_the_file_holds_what_the_cases_tell(held: Held) -> None:
    values = np.exp(held.fit.without(None, None) - held.fit.start)
    assert values == pytest.approx(np.ones(len(values)), rel=0.03)
    for key, count in zip(held.fit.keys, held.fit.behind(), strict=True):
        i, name = key
        assert held.fit.among.layers[i].figures[name].figures == max(count, 1), key


def test_the_file_holds_what_left_out_figures_leave_unexplained(held: Held, without_family: LeftOut) -> None:
    for (i, name), ends in factors(without_family.scores, held.fit.among).items():
        figure = held.fit.among.layers[i].figures[name]
        assert (figure.low, figure.high) == pytest.approx((ends["low"], ends["high"]), rel=0.1), name


@every("family", ["Pascal", "Ampere", "Ada", "Hopper", "Grace", "Orin", "Jetson Nano and TX"])
def test_no_constant_of_all_devices_hangs_on_one_family(held: Held, family: str) -> None:
    """But Turing, of which half of all figures are."""
    without = held.fit.without(family, None) - held.fit.start
    for (layer, name), change in zip(held.fit.keys, without, strict=True):
        assert layer or abs(change) <= 0.4, name


def test_figures_of_one_device_move_the_constants_without_another() -> None:
    """Published times twice as long, and faults are predicted longer where that device's family is kept."""
    cases = [case for case in published_cases.cases() if case.source == "CUDA sample UnifiedMemoryPerf"]
    slower = [
        replace(case, figures=tuple(replace(f, published=2 * f.published) for f in case.figures))
        if case.device == "rtx-2060"
        else case
        for case in cases
    ]
    as_is, changed = Fit(cases), Fit(slower)
    at = as_is.keys.index((0, "fault_seconds"))
    kept, left = "Jetson Nano and TX", "Turing"
    assert changed.without(kept, None)[at] > as_is.without(kept, None)[at] + 0.05
    assert changed.without(left, None)[at] == pytest.approx(as_is.without(left, None)[at])


def test_what_we_measured_is_predicted_from_either_entry(held: Held) -> None:
    goals = {
        "cases": (9, 9), "figures": (9 * 12, 9 * 12), "right_share": (0.9, 1.0), "inside_share": (0.9, 1.0),
        "ratio_median": (0.85, 1.1), "ratio_error_median": (0.0, 0.25),
    }  # fmt: skip
    for group in held.ours.values():
        require(goals, group)


def test_what_is_marked_is_what_the_program_would_recommend(held: Held) -> None:
    for o in (o for group in held.ours.values() for o in group):
        chosen = predict(o.case.profile, o.case.entry).recommendation
        assert o.recommended == chosen.strategy, o.case.name


@pytest.mark.parametrize("page", accuracy.PAGES, ids=lambda page: page.name)
def test_the_pages_show_these_tables(held: Held, page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert accuracy.documented(held, text) == text
