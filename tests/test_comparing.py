"""Two profiles held against one another: what differs, what the intervals say, what is refused."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from builders import (
    advice,
    cpu_profile,
    cuda_device,
    failed,
    gpu_state,
    measured,
    predicted,
    prediction,
    profile,
    recommendation,
    script_profile,
    skipped,
    vector_add_workload,
)
from every import every
from rendering import Accepted, refusals

from advisor.profiles.conclusions import Preferences
from advisor.profiles.reading import load
from advisor.profiles.schema import Profile
from advisor.profiles.system_state import Environment
from advisor.report.comparison_page import comparison_page
from advisor.report.pages import render
from advisor.verdicts.comparing.comparisons import Comparison, compare, recommended
from advisor.verdicts.comparing.conditions import conditions, differing
from advisor.verdicts.comparing.rows import host_noise, outcome, ratio_of
from advisor.verdicts.comparing.versions import promised_speed

DATA = Path(__file__).parent / "data"
LATER = "2026-02-02T03:04:05+00:00"


def later(**fields: Any) -> Profile:
    return profile(**{"created": LATER, **fields})


def outcomes(found: Comparison) -> dict[str, str]:
    return {row.strategy: row.outcome for row in found.rows}


def test_overlapping_frames_count_as_the_objective_of_head_counts_them() -> None:
    rows = (measured("pageable", 0.040), measured("pinned-pipelined", 0.012, latency_seconds=0.024))
    base, head = profile(results=rows), later(results=rows)
    assert [row.head_seconds for row in compare(base, head).devices[0].rows] == [0.040, 0.024]
    by_rate = head.model_copy(update={"preferences": Preferences(objective="throughput")})
    assert [row.base_seconds for row in compare(base, by_rate).devices[0].rows] == [0.040, 0.012]


def test_two_real_runs_of_one_workload_cannot_be_told_apart() -> None:
    """On a shared H200 processes differ by a third: a comparison that finds a change here would be wrong."""
    again = load(DATA / "h200-vector_add-again.json")
    found = compare(load(DATA / "h200-vector_add.json"), again)
    assert set(outcomes(found).values()) <= {"cannot tell", "same"}
    assert len(found.rows) == len(again.measured())
    assert differing(found.conditions) == ()
    assert found.devices[0].recommended.change == "cannot tell"
    assert (found.devices[0].drift.together, found.devices[0].drift.alone) == (False, {})


def test_predictions_are_compared_by_their_ranges_and_never_with_measurements() -> None:
    def of(likely: float) -> Profile:
        rows = (predicted("pageable", 0.040), predicted("pinned", likely, spread=0.1), skipped("managed"))
        return cpu_profile(created=LATER, predictions=(prediction(results=rows),))

    found = compare(of(0.010), of(0.020))
    assert found.predicted
    assert [d.basis for d in found.devices] == ["predicted"]
    assert outcomes(found) == {"pageable": "same", "pinned": "slower"}, "an unchanged prediction is the same"
    pinned = found.rows[1].ratio
    assert (pinned.low, pinned.high) == (pytest.approx(0.018 / 0.011), pytest.approx(0.022 / 0.009))
    assert outcomes(compare(of(0.010), of(0.011)))["pinned"] == "cannot tell"


EMPTY = profile(results=(failed("pageable", "ended with a bus error"), skipped()))
ADD = later(workload=vector_add_workload().model_copy(update={"name": "add"}))
PINNED = later(results=(measured("pinned", 1.0), failed("pageable")))
REFUSED: dict[str, tuple[Profile, ...]] = {
    "predicted and measured": (cpu_profile(), profile()),
    "measured and predicted": (profile(), cpu_profile()),
    "a frame and a run": (profile(), script_profile()),
    "a run and a frame": (script_profile(), later()),
    "nothing in BASE": (EMPTY, profile()),
    "nothing in HEAD": (profile(), EMPTY),
    "no rows in HEAD": (profile(), later(results=())),
    "nothing predicted in BASE": (cpu_profile(predictions=()), cpu_profile()),
    "no strategy in both": (profile(results=(measured("pageable", 1.0),)), PINNED),
    "no device in both": tuple(cpu_profile(predictions=(prediction(name),)) for name in "ab"),
}


def test_what_has_no_ratio_is_an_error_and_no_pass(accepted: Accepted) -> None:
    """Whatever is said; another workload's may be compared where that is asked for."""
    calls = {name: partial(compare, *pair, anyway=True) for name, pair in REFUSED.items()}
    calls["another workload"] = partial(compare, profile(), ADD)
    calls["a strategy that is not there"] = partial(compare, profile(), later(), strategies=["pined"])
    accepted(refusals(calls), "pairs-refused.txt")
    assert len(compare(profile(), ADD, anyway=True).rows) == 2


def environment(**fields: Any) -> Environment:
    parts: dict[str, Any] = {"system": "Linux 6.1", "machine": "x86_64", "python": "3.11.7"}
    return Environment(**{**parts, **fields})


@every(
    ("fields", "what"),
    [
        ({"device": cuda_device("coherent")}, {"device"}),
        ({"workload": vector_add_workload(4)}, {"parameters"}),
        ({"workload": vector_add_workload().model_copy(update={"sha256": "1" * 64})}, {"workload's code"}),
        ({"environment": environment(packages={"numpy": "2.0"})}, {"numpy"}),
        ({"environment": environment(python="3.12.1")}, {"Python"}),
        ({"environment": environment(gpu={"cuda_driver": "13.0"})}, set()),  # not known of BASE
        ({"method": profile().method.model_copy(update={"rounds": 1})}, {"method"}),
        ({"tool": profile().tool.model_copy(update={"version": "9"})}, {"advisor's version"}),
        ({}, set()),
    ],
)
def test_what_differs_is_said(fields: dict[str, Any], what: set[str]) -> None:
    base, head = profile(environment=environment()), later(**{"environment": environment(), **fields})
    assert {each.what for each in differing(conditions(base, head))} == what


@every(("hertz", "status"), [(2_520, "same"), (2_410, "same"), (2_390, "differs"), (None, "not known")])
def test_clocks_under_load_may_differ_by_the_margin(hertz: int | None, status: str) -> None:
    """5 % below 2520 MHz is 2400 MHz; the idle clocks before are not looked at."""

    def at(mhz: int | None, idle: int) -> Profile:
        hertz = {"before": idle * 1_000_000, "under-load": mhz and mhz * 1_000_000}
        states = (gpu_state(when, sm_hertz=value) for when, value in hertz.items())
        return profile(environment=environment(gpu_readings=tuple(states)))

    (found,) = [c for c in conditions(at(2_520, 210), at(hertz, 900)) if c.what == "clocks"]
    assert found.status == status
    assert found.base == "2520 MHz"


def test_new_and_gone_advice_by_rule_on_whatever_was_measured() -> None:
    base = profile(advice=(advice("a"), advice("b"), advice("c", outcome="pass")))
    head = later(
        workload=vector_add_workload(4),
        device=cuda_device().model_copy(update={"name": "Other"}),
        advice=(advice("a", "Other"), advice("c", "Other"), advice("b", "Other", outcome="not-applicable")),
    )
    found = compare(base, head)
    assert [a.rule for a in found.new_advice] == ["c"]
    assert [a.rule for a in found.gone_advice] == ["b"]


A, B = recommendation("a"), recommendation("b")
NEAR, OPEN = (recommendation("a", verdict=verdict, tied_with=("b",)) for verdict in ("near", "open"))
BET, UNTRUSTED = recommendation("b", verdict="open"), recommendation("a", verdict="untrusted")
WHOLE, OTHER = profile(recommendation=A), profile(recommendation=B)
FEW = OTHER.model_copy(update={"results": OTHER.results[:1]})
HALF = OTHER.model_copy(update={"notes": ("Interrupted after 1 of 6 measurements.",)})


@every(
    ("base", "head", "change"),
    [
        *(
            (make(recommendation=one), make(recommendation=other), change)
            for one, other, make, change in (
                (A, A, profile, "same"),
                (A, B, profile, "changed"),
                (NEAR, B, profile, "cannot tell"),
                (A, OPEN, profile, "cannot tell"),
                (OPEN, OPEN, profile, "cannot tell"),
                (A, BET, prediction, "cannot tell"),
                (A, B, prediction, "changed"),
                (BET, B, prediction, "same"),
                (UNTRUSTED, A, profile, "cannot tell"),
                (None, A, profile, "cannot tell"),
            )
        ),
        *((*pair, "cannot tell") for pair in ((WHOLE, FEW), (FEW, WHOLE), (WHOLE, HALF), (HALF, WHOLE))),
    ],
)
def test_the_recommendation_changed_only_where_both_sides_say_so(
    base: Profile, head: Profile, change: str
) -> None:
    assert recommended(base, head).change == change


def test_notes_say_whose_they_are() -> None:
    base, head = profile(notes=("x", "y")), later(notes=("y", "z"))
    assert compare(base, head).notes == ("BASE: x", "Both: y", "HEAD: z")
    assert "same run" in compare(base, base).notes[0]


# Draws of the same simulated devices

DRAWN = " ".join(str(600 + 8 * i) for i in range(100))


@every(("factor", "expected"), [(1.5, "slower"), (1 / 1.5, "faster"), (1.04, "cannot tell")])
def test_predictions_of_the_same_devices_are_compared_draw_by_draw(factor: float, expected: str) -> None:
    """The ranges overlap by far. What both share cancels, the noise of this CPU's timing does not."""
    base, head = (predicted("pinned", 0.040 * f, spread=0.4, draws=DRAWN) for f in (1.0, factor))
    found = ratio_of(base, head, 0.95)
    assert outcome(found) == expected
    assert found.low < found.value < found.high
    assert found.value == pytest.approx(factor)  # as the times beside it
    apart = ratio_of(*(row.model_copy(update={"draws": None}) for row in (base, head)), 0.95)
    assert outcome(apart) == "cannot tell"


@every(
    ("spread", "busy", "seconds"),
    [(None, None, 0.25), (None, 0.4, 0.75), (0.02, None, 0.13), (0.4, None, 0.4), (3.0, None, 3.0)],
)
def test_host_stages_differ_between_runs_as_much_as_between_processes(
    spread: float | None, busy: float | None, seconds: float
) -> None:
    """At least as on a quiet machine; more on a busy one where too few tell."""
    row = predicted("pinned", 1.0, terms={"host:consume": 1.0}, host_spread=spread, cpu_busy=busy)
    assert host_noise(row) == pytest.approx(seconds, abs=4e-6)


def test_the_strategy_that_the_code_uses_now_is_held_against_what_was_promised() -> None:
    rows = (measured("pageable", 0.040), measured("pinned", 0.020))
    base = profile(results=rows, recommendation=recommendation("pinned"))
    head = later(results=(measured("pageable", 0.030), measured("pinned", 0.025)))
    assert promised_speed(compare(base, head)) is None
    kept = promised_speed(compare(base, head, strategies=["pinned"]))
    assert kept is not None
    assert (kept.promised.value, kept.got.value) == (2.0, pytest.approx(1.6))
    assert promised_speed(compare(base, head, strategies=["pageable"])) is None
    other = head.model_copy(update={"device": head.device.model_copy(update={"name": "Another GPU"})})
    assert promised_speed(compare(base, other, strategies=["pinned"])) is None
    page = comparison_page(compare(base, head, strategies=["pinned"]))
    assert "From `pageable` in BASE to `pinned` in HEAD: promised 2.00×" in render(page, "md")
    (row,) = (row for row in page.records if row.get("promised"))
    assert (row["side"], row["strategy"]) == ("HEAD", "pinned")
    assert (row["promised"], row["got"]) == (2.0, kept.got.value)
    assert "promised" not in comparison_page(compare(base, head)).records[0]
