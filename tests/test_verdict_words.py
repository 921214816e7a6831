"""The words of every kind of verdict: the headline, what it rests on, and what to do next."""

from __future__ import annotations

from typing import Any

from every import every

from advisor.profiles.conclusions import Preferences, Recommendation
from advisor.report.recommendations import headline
from advisor.verdicts.reasons import with_reason

SECONDS = {"pageable": 0.040, "pinned": 0.020, "zero-copy": 0.0203}


def made(verdict: Any, strategy: str | None = "pinned", **fields: Any) -> Recommendation:
    return Recommendation(strategy=strategy, verdict=verdict, reason="", **fields)


@every(
    ("verdict", "fields", "expected", "next_step"),
    [
        ("fastest", {"bound": 0.0}, "Use `pinned`: every other is slower", "Change the code to pinned."),
        (
            "near",
            {"bound": 0.014},
            "Use `pinned`: no other is more than 1.4 % faster",
            "Change the code to pinned.",
        ),
        (
            "near",
            {"bound": 0.00001},
            "Use `pinned`: no other is more than 0.1 % faster",
            "Change the code to pinned.",
        ),
        (
            "keep",
            {"bound": 0.03, "strategy": "pageable"},
            "Keep `pageable`: no other gains more than 3.0 %",
            "Keep the code unchanged.",
        ),
        (
            "open",
            {"bound": 0.08, "seconds_more": 40.0},
            "Undecided: `pinned` leads; another may be 8.0 % faster",
            "Run again with more --max-seconds.",
        ),
        (
            "open",
            {"bound": 0.08},
            "Undecided: `pinned` leads; another may be 8.0 % faster",
            "Run again with more --max-seconds.",
        ),
        (
            "open",
            {},
            "Undecided: `pinned` leads; too few measurements to tell more",
            "Run again with more --max-seconds.",
        ),
        (
            "untrusted",
            {"bound": 0.0, "noise": (1.05, 1.12)},
            "This run cannot be trusted: a strategy measured twice differs from itself",
            "Close other programs and run again. The advice lists what varied.",
        ),
        (
            "open",
            {"strategy": None, "excluded": {"pinned": "needs 384 MiB"}},
            "No strategy fits the memory budget",
            "Raise --memory-budget, or make the workload's buffers smaller.",
        ),
        (
            "open",
            {"strategy": None},
            "No strategy is left to recommend",
            "Check why each strategy left the final, then run again.",
        ),
    ],
)
def test_each_kind_has_its_words(verdict: str, fields: dict[str, Any], expected: str, next_step: str) -> None:
    recommendation = made(verdict, **fields)
    assert headline(recommendation) == expected
    assert with_reason(recommendation, SECONDS, Preferences()).next_step == next_step


@every(
    ("verdict", "expected"),
    [
        ("fastest", "Use `pinned`: every other{} is slower"),
        ("near", "Use `pinned`: no other{} is more than 2.0 % faster"),
        ("keep", "Keep `pinned`: no other{} gains more than 2.0 %"),
        ("open", "Undecided: `pinned` leads; another{} may be 2.0 % faster"),
    ],
)
def test_the_fastest_of_those_that_memory_left_is_not_called_the_fastest_of_all(
    verdict: str, expected: str
) -> None:
    lean = made(verdict, bound=0.02, objective="footprint")
    assert headline(lean) == expected.format(" of those with the least memory")
    fitting = made(verdict, bound=0.02, excluded={"managed": "needs 1.00 GiB"})
    assert headline(fitting) == expected.format(" that fits the memory budget")


def test_the_reason_tells_time_equals_memory_and_noise() -> None:
    chosen = made(
        "near",
        "zero-copy",
        bound=0.02,
        speedup=1.97,
        interval=(1.95, 1.99),
        baseline="pageable",
        groups=(("pinned", "zero-copy"), ("pageable",)),
        saved_bytes=192 << 20,
        fastest="pinned",
        excluded={"managed": "needs 1.00 GiB"},
    )
    found = with_reason(chosen, SECONDS, Preferences(memory_budget_bytes=1 << 29), unchecked=["zero-copy"])
    assert found.steps == (
        "zero-copy takes 20.3 ms a frame; pageable takes 1.97× (1.95× to 1.99×) the time.",
        "pinned and zero-copy are equally fast.",
        "It needs 192 MiB less than pinned.",
        "The results of zero-copy could not be compared.",
        "Over the memory budget of 512 MiB: managed.",
    )
    assert found.reason == " ".join(found.steps)
    noisy = with_reason(made("untrusted", noise=(1.05, 1.12)), SECONDS, Preferences())
    assert noisy.steps[-1] == (
        "The control, one strategy measured under two names, differs from itself: "
        "1.05× to 1.12× its own time."
    )


def test_what_costs_more_memory_saves_none() -> None:
    costly = made("near", bound=0.02, saved_bytes=-1, fastest="zero-copy")
    assert "less" not in with_reason(costly, SECONDS, Preferences()).reason
