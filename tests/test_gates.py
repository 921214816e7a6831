"""`--fail-if`: fails where the interval says so, passes where it says the opposite, else is inconclusive."""

from __future__ import annotations

from functools import partial
from typing import Any

import builders
from builders import cpu_profile, failed, footprint, measured, predicted, prediction, profile, skipped
from every import every
from hypothesis import given, settings
from hypothesis import strategies as st
from rendering import Accepted, refusals
from running import missing
from test_comparing import LATER, later

from advisor.errors import UsageError
from advisor.profiles.schema import Measured, Profile
from advisor.verdicts.comparing.comparisons import compare, require_gateable
from advisor.verdicts.comparing.gates import judge, parse_gates, require_of_profiles


def ruled(text: str, base: Profile, head: Profile, **options: Any) -> tuple[str, tuple[str, ...]]:
    (ruling,) = judge(compare(base, head, **options), parse_gates([text]))
    return ruling.status, ruling.reasons


def one(seconds: float, **fields: Any) -> tuple[Measured, ...]:
    return (measured("pinned", seconds, **fields),)


def test_a_gate_given_twice_is_one() -> None:
    assert len(parse_gates(["slower=5%", "slower=+5.0%", "slower=6%"])) == 2


NO_GATES = (
    *("", "slower", "slower=", "slower=5", "slower=-5%", "slower=5%%", "slower=nan%", "slower=inf%"),
    *("slower=1e3%", "slower=\N{ARABIC-INDIC DIGIT FIVE}%", "faster=5%", "footprint", "footprint=-10%"),
    *("recommendation-changes=1", "slower=9999999%"),
)


def test_what_is_no_gate_is_refused_with_what_is(accepted: Accepted) -> None:
    calls = {f"--fail-if {text!a}": partial(parse_gates, [text]) for text in NO_GATES}
    calls["results-differ of profiles"] = partial(require_of_profiles, parse_gates(["results-differ"]))
    for name, head in (
        ("the same run", profile()),
        ("another device", later(device=builders.cuda_device("coherent"))),
    ):
        found = compare(profile(), head)
        sides = (found.base, found.head, found.conditions)
        calls[name] = partial(require_gateable, *sides, anyway=False)
        require_gateable(*sides, anyway=True)
    accepted(refusals(calls), "gates-refused.txt")


@settings(deadline=None)
@given(st.text(max_size=30))
def test_any_text_is_a_gate_or_refused(text: str) -> None:
    try:
        (gate,) = parse_gates([text])
    except UsageError:
        return
    assert parse_gates([gate.text]) == (gate,)


@every(
    ("seconds", "spread", "status"),
    [(0.020, 0.004, "passed"), (0.030, 0.004, "failed"), (0.0225, 0.5, "inconclusive")],
)
def test_slower_by_the_whole_interval(seconds: float, spread: float, status: str) -> None:
    head = later(results=one(seconds, spread=spread))
    told, reasons = ruled("slower=5%", profile(results=one(0.020, spread=spread)), head)
    assert told == status
    assert bool(reasons) == (status != "passed")


def test_footprint_is_accounted_and_needs_no_interval() -> None:
    base, grown = footprint(pinned=100), footprint(pinned=111)
    sides = profile(results=one(0.02, footprint=base)), later(results=one(0.02, footprint=grown))
    assert ruled("footprint=+11%", *sides)[0] == "passed"
    told, reasons = ruled("footprint=+10%", *sides)
    assert told == "failed"
    assert len(reasons) == 1
    assert not missing(reasons[0], "`pinned`", "100 B", "111 B")


@every("gate", ["slower=5%", "footprint=+10%"])
def test_a_strategy_that_fails_now_fails_the_gate_and_a_missing_one_is_open(gate: str) -> None:
    head = later(results=(measured("pageable", 0.040), failed("pinned", "results differ")))
    told, reasons = ruled(gate, profile(), head)
    assert told == "failed"
    assert not missing(reasons[0], "`pinned`", "results differ")
    for rows in ((), (skipped("pinned", "the run was interrupted"),)):
        told, reasons = ruled(gate, profile(), later(results=(measured("pageable", 0.040), *rows)))
        assert told == "inconclusive"
        assert "`pinned`" in reasons[0]
    base = profile(results=head.results)
    told, reasons = ruled(gate, base, head, strategies=("pageable", "pinned"))
    assert (told, "in BASE and HEAD" in reasons[0]) == ("inconclusive", True), "named, it fails in both"


def test_predicted_gates_are_judged_by_ranges_and_say_so() -> None:
    def of(likely: float, *names: str) -> Profile:
        rows = (predicted("pageable", 0.040), predicted("pinned", likely, spread=0.1))
        made = tuple(prediction(name, results=rows) for name in names)
        return cpu_profile(created=LATER, predictions=made)

    for base, likely, status, reason in (
        (of(0.010, "a"), 0.030, "failed", "(predicted ranges); limit +5 %"),
        (of(0.010, "a"), 0.011, "inconclusive", "`pinned`"),
        (of(0.010, "a"), 0.010, "passed", ""),
        (of(0.010, "a", "b"), 0.010, "inconclusive", "b "),
    ):
        told, reasons = ruled("slower=5%", base, of(likely, "a"))
        assert (told, reason in "".join(reasons)) == (status, True)


def test_what_is_far_beyond_the_limit_fails_however_few_the_rounds() -> None:
    for factor, status in ((1.5, "inconclusive"), (3.0, "failed")):
        sides = [one(seconds, spread=0.95, rounds=2, frames=3) for seconds in (0.020, 0.020 * factor)]
        told, reasons = ruled("slower=5%", profile(results=sides[0]), later(results=sides[1]))
        assert told == status, reasons
    assert reasons == ("`pinned`: 3.00× the time of BASE; limit +5 %",)
