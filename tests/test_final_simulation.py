"""Finals with a known truth: claims are seldom wrong. `python -m tests.benchmarks.decisions` prints more."""

from __future__ import annotations

from functools import cache

import pytest

from tests.benchmarks.decisions import Noise, Run, run, summary

KINDS = {
    "quiet": (4, Noise(block=0.02, luck=0.0)),
    "lucky": (4, Noise(block=0.02, luck=0.02)),
    "two, lucky": (2, Noise(block=0.03, luck=0.02)),
    "six, uneven luck": (6, Noise(block=0.04, luck=0.01, even=False)),
    "restless": (4, Noise(process=0.12, block=0.06, luck=0.01)),
    "host stages": (4, Noise(process=0.12, block=0.06, luck=0.01, host=0.5)),
}


@cache
def runs(kind: str) -> list[Run]:
    count, noise = KINDS[kind]
    return [run(seed, count, noise) for seed in range(80)]


@pytest.mark.parametrize("kind", KINDS)
def test_at_most_one_claim_in_forty_is_wrong_and_the_choice_is_good(kind):
    """The promise of each bound: 2.5 % of decided runs. The seeds are fixed: no luck in here."""
    found = summary(runs(kind))
    assert found.false <= 0.025
    assert found.within >= 0.95
    assert found.untrusted <= 0.025


def test_of_all_runs_together_far_fewer_are_wrong():
    every = [one for kind in KINDS for one in runs(kind)]
    found = summary(every)
    assert found.false <= 0.01
    assert found.within >= 0.99
    assert found.decided > 0.85


def test_quiet_machines_decide_sooner_and_always_and_luck_raises_the_number_of_processes():
    quiet, restless, lucky = (summary(runs(kind)) for kind in ("quiet", "restless", "lucky"))
    assert quiet.decided == 1
    assert quiet.seconds < 0.75 * restless.seconds
    assert lucky.processes > quiet.processes + 1


def test_seconds_more_are_of_the_right_size():
    """Runs left open after 12 s, given as long as they said: most are decided then."""
    noise, left = Noise(block=0.05, luck=0.005), []
    for seed in range(40):
        first = run(seed, 3, noise, seconds=12.0)
        more = first.decision.verdict.seconds_more
        if first.decision.verdict.verdict == "open" and more and more < 120:
            left.append(run(seed, 3, noise, seconds=12.0 + 1.5 * more))
    assert len(left) > 10
    assert summary(left).decided > 0.7
