"""The verdict of a final as a pure function of its blocks."""

from __future__ import annotations

import math
from dataclasses import astuple, replace
from typing import Any

import numpy as np
import pytest
from every import every
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.profiles.conclusions import Preferences
from advisor.stats import Ratio
from advisor.verdicts.choice import Contestant, standings
from advisor.verdicts.estimate import Block, paired
from advisor.verdicts.final import Alias, Decision, Pace, Step, decide

MIB = 1 << 20
WANTED = Preferences()
PACE = Pace(process_seconds=2.0, round_seconds=0.5)


def contestant(name: str, mib: int = 64, change: int = 1, **more: bool) -> Contestant:
    return Contestant(name, mib * MIB, change, **more)


def blocks(
    times: dict[str, float], processes: int = 5, rounds: int = 10, noise: float = 0.01, seed: int = 1
) -> list[Block]:
    """With a level of its own for each process and round, and noise of each block."""
    draw = np.random.default_rng(seed).normal
    made = []
    for process in range(processes):
        level = draw(0, 0.1)
        for index in range(rounds):
            now = level + draw(0, 0.05)
            for name, seconds in times.items():
                made.append(Block(process, index, name, seconds * math.exp(now + draw(0, noise))))
    return made


BASE, PINNED, ZERO = (
    contestant("pageable", 128, 0),
    contestant("pinned", 128, 2),
    contestant("zero-copy", 64, 3),
)


def test_near_enough_and_less_memory_is_chosen_and_what_it_saves_is_told():
    times = {"pageable": 0.03, "pinned": 0.02, "zero-copy": 0.0203}
    told = decide(blocks(times), [BASE, PINNED, ZERO], WANTED).verdict
    assert (told.verdict, told.strategy) == ("near", "zero-copy")
    assert 0.015 < told.bound <= 0.05
    assert (told.groups, told.saved_bytes) == ((("pinned", "zero-copy"), ("pageable",)), 64 * MIB)


def test_noise_leaves_it_open_with_the_least_bound_and_the_seconds_that_would_settle_it():
    data = blocks({"pageable": 0.0215, "pinned": 0.02}, processes=2, rounds=4, noise=0.1)
    told = decide(data, [BASE, PINNED], WANTED, pace=PACE)
    assert (told.verdict.verdict, told.verdict.strategy, told.settled) == ("open", "pinned", False)
    assert told.verdict.bound > 0.05
    assert 5 < told.verdict.seconds_more < 500
    assert told.step.processes >= 1


def test_one_process_leaves_it_open_however_many_rounds_it_has():
    data = blocks({"pageable": 0.03, "pinned": 0.02}, processes=1, rounds=60)
    told = decide(data, [BASE, PINNED], WANTED, pace=PACE)
    assert (told.verdict.verdict, told.verdict.bound is None, told.settled) == ("open", False, False)
    assert told.step == Step(processes=2, rounds=30)


def test_one_that_left_is_not_recommended_and_the_others_go_on():
    data = blocks({"pageable": 0.03, "pinned": 0.02, "zero-copy": 0.01})
    data = [b for b in data if b.contestant != "zero-copy" or (b.process, b.round) < (2, 5)]
    told = decide(data, [BASE, PINNED, replace(ZERO, left=True)], WANTED).verdict
    assert (told.verdict, told.strategy) == ("fastest", "pinned")
    assert told.groups == (("pinned",), ("pageable",))


def test_a_dropped_one_stays_outside_though_its_interval_widens():
    data = blocks({"pageable": 0.0211, "pinned": 0.02}, noise=0.05)
    loose, stays = (decide(data, [replace(BASE, dropped=d), PINNED], WANTED) for d in (False, True))
    assert (loose.settled, loose.verdict.tied_with) == (False, ("pageable",))
    assert (stays.settled, stays.dropped) == (True, {"pageable"})


def test_in_doubt_but_not_preferred_is_no_reason_to_go_on():
    """`pageable` may be near enough; it needs more memory than `zero-copy`, so it would not be chosen."""
    data = blocks({"pageable": 0.021, "zero-copy": 0.02}, noise=0.03)
    rows = [BASE, ZERO]
    found = decide(data, rows, WANTED)
    doubtful = over_best(data, rows)["pageable"]
    assert doubtful.low < 1.05 < doubtful.high
    assert (found.verdict.strategy, found.verdict.tied_with, found.settled) == ("zero-copy", (), True)
    more = decide(data, [BASE, replace(ZERO, physical_bytes=128 * MIB)], WANTED)
    assert (more.verdict.tied_with, more.settled) == (("pageable",), False)


def test_no_rivals_noise_vetoes_a_safe_choice():
    """Two that are near, and a third that is 30 % slower with noise of its own in each block."""
    rows, draw = [BASE, PINNED, contestant("managed", 64, 1)], np.random.default_rng(3).normal
    quiet = blocks({"pageable": 0.0202, "pinned": 0.02, "managed": 0.026})
    loud = [
        replace(b, seconds=b.seconds * math.exp(draw(0, 0.2))) if b.contestant == "managed" else b
        for b in quiet
    ]
    calm, noisy = (decide(data, rows, WANTED).verdict for data in (quiet, loud))
    assert noisy.verdict == calm.verdict == "keep"
    assert noisy.bound == pytest.approx(calm.bound, abs=0.005)


def with_alias(shift: float, noise: float = 0.01) -> list[Block]:
    return blocks({"pageable": 0.03, "pinned": 0.02, "again": 0.02 * shift}, rounds=20, noise=noise)


@every(("shift", "kind"), [(1.0, "fastest"), (1.005, "fastest"), (1.06, "untrusted"), (0.94, "untrusted")])
def test_a_run_in_which_one_contestant_differs_from_itself_is_not_trusted(shift, kind):
    told = decide(with_alias(shift), [BASE, PINNED], WANTED, alias=Alias("again", "pinned")).verdict
    assert (told.verdict, told.strategy) == (kind, "pinned")
    assert told.noise[0] < shift < told.noise[1]


def test_the_alias_never_competes_and_is_dropped_with_its_own():
    told = decide(with_alias(0.5), [BASE, PINNED], WANTED, alias=Alias("again", "pinned")).verdict
    assert {name for group in told.groups for name in group} == {"pageable", "pinned"}
    data = [replace(b, contestant={"again": "a"}.get(b.contestant, b.contestant)) for b in with_alias(1.5)]
    dropped = decide(data, [BASE, PINNED], WANTED, alias=Alias("a", "pageable")).dropped
    assert dropped == {"pageable", "a"}


def test_groups_are_within_the_indifference_of_one_another_and_not_a_chain():
    times = {"a": 0.02, "b": 0.0207, "c": 0.0214, "d": 0.03}
    rows = [contestant(name) for name in times]
    told = decide(blocks(times, processes=8, rounds=30, noise=0.005), rows, WANTED).verdict
    assert told.groups == (("a", "b"), ("c",), ("d",))


NAMES = ("pageable", "pinned", "zero-copy", "managed")
seconds = st.floats(min_value=0.015, max_value=0.03)
cells = st.fixed_dictionaries({name: st.lists(seconds, min_size=12, max_size=12) for name in NAMES[:3]})
missing = st.sets(st.tuples(st.integers(0, 11), st.sampled_from(NAMES[:3])), max_size=10)


@st.composite
def finals(draw: st.DrawFn) -> list[Block]:
    """Up to three processes of at most six rounds, with holes; the first two rounds are whole."""
    values, holes, size = draw(cells), draw(missing), draw(st.sampled_from([3, 4, 6]))
    return [
        Block(index // size, index % size, name, times[index])
        for name, times in values.items()
        for index in range(12)
        if index % size < 2 or (index, name) not in holes
    ]


ROWS = [BASE, PINNED, ZERO]


def over_best(data: list[Block], rows: list[Contestant]) -> dict[str, Ratio]:
    """Of each against the best of the others."""
    pairs, by_name = paired(data, [row.name for row in rows]), {row.name: row for row in rows}
    half = pairs.half_widths(0.95, len(rows) - 1, ends=1)
    return {one.contestant.name: one.over_best for one in standings(pairs, by_name, half)}


def concluded(one: Decision) -> tuple[Any, ...]:
    return one.settled, one.dropped, one.verdict.strategy, one.verdict.verdict, one.verdict.groups


@settings(max_examples=80, deadline=None)
@given(finals(), st.sampled_from([1.0, 1e-6, 1000.0, 3.7]), st.permutations(ROWS), st.randoms())
def test_the_unit_and_the_order_of_contestants_and_blocks_do_not_matter(data, unit, rows, random):
    shuffled = [replace(b, seconds=b.seconds * unit) for b in data]
    random.shuffle(shuffled)
    one, other = decide(data, ROWS, WANTED), decide(shuffled, rows, WANTED)
    assert concluded(one) == concluded(other)
    before, after = over_best(data, ROWS), over_best(shuffled, rows)
    for name, ratio in before.items():
        np.testing.assert_allclose(astuple(ratio), astuple(after[name]), rtol=1e-6)


@settings(max_examples=80, deadline=None)
@given(finals())
def test_intervals_hold_their_value_and_no_claim_is_beyond_the_indifference(data):
    found, ratios = decide(data, ROWS, WANTED), over_best(data, ROWS)
    verdict = found.verdict
    assert found.dropped != set(ratios)
    assert verdict.strategy not in found.dropped
    assert ratios[verdict.strategy].low <= 1.05
    assert all(ratio.low <= ratio.value <= ratio.high for ratio in ratios.values())
    assert verdict.verdict == "open" or verdict.bound <= 0.05
    assert sorted(name for group in verdict.groups for name in group) == sorted(ratios)


@settings(max_examples=60, deadline=None)
@given(finals())
def test_the_same_again_in_further_processes_widens_no_bound(data):
    more = [*data, *(replace(b, process=b.process + 100) for b in data)]
    less, wide = over_best(more, ROWS), over_best(data, ROWS)
    assert all(less[name].high <= wide[name].high * (1 + 1e-9) for name in wide)
