"""What rows of a final say: each one's ratio to the baseline by rounds in common, and its time's interval."""

from __future__ import annotations

import math

import numpy as np
import pytest
from builders import final_block, final_record, measured, profile
from every import every
from test_final_estimate import NAMES, drawn, made

from advisor.profiles.conclusions import Preferences
from advisor.profiles.schema import Profile
from advisor.report.answering import measured_answer, speeds
from advisor.report.profile_page import noise
from advisor.stats import Ratio
from advisor.verdicts.estimate import margins
from advisor.verdicts.measured import recommend

SECONDS = {"pageable": 0.020, "pinned": 0.010, "zero-copy": 0.012, "staged": 0.015}


def held(left: str = "", latency: float | None = None, objective: str = "time") -> Profile:
    """Four processes 30 % apart; `managed` was screened out; `latency` is that of pinned's frames."""
    logs = 0.02 * np.random.default_rng(1).normal(size=(4, 6, len(SECONDS)))
    logs += 0.3 * np.random.default_rng(2).normal(size=(4, 1, 1))
    blocks = [
        final_block(
            int(p), int(r), name, SECONDS[name] * math.exp(logs[p, r, k]), place=int(k),
            latency_seconds=latency * math.exp(logs[p, r, k]) if latency and name == "pinned" else None,
        )
        for p, r, k in np.ndindex(logs.shape)
        for name in [list(SECONDS)[k]]
    ]  # fmt: skip
    record = final_record(SECONDS, processes=4, rounds=24, left={left: "it broke"} if left else {})
    results = tuple(measured(name, seconds) for name, seconds in SECONDS.items())
    run = profile(
        results=(*results, measured("managed", 0.05, rounds=1)), blocks=tuple(blocks), final=record,
        preferences=Preferences(objective=objective),
    )  # fmt: skip
    return run.model_copy(update={"recommendation": recommend(run)})


def compared(run: Profile) -> dict[str, Ratio]:
    """The baseline's time over each row's, of those that were compared."""
    return {name: ratio for name, ratio in speeds(run).items() if not math.isinf(ratio.high)}


def test_each_row_is_compared_by_the_rounds_that_both_stood_in() -> None:
    found = compared(held())
    assert set(found) == set(SECONDS), "the one that was screened out has no rounds"
    for name, seconds in SECONDS.items():
        ratio = found[name]
        assert ratio.low <= 0.020 / seconds <= ratio.high
        assert ratio.high / ratio.low < 1.1, "though processes are 30 % apart"
    chosen, ratio = held().recommendation, found["pinned"]
    assert (chosen.strategy, chosen.speedup) == ("pinned", ratio.value)
    assert chosen.interval == (ratio.low, ratio.high)
    assert set(compared(held(left="zero-copy"))) == set(SECONDS) - {"zero-copy"}


@every(("objective", "expected"), [("time", 0.8), ("throughput", 2.0)])
def test_frames_that_overlap_are_compared_by_the_time_that_is_shown(objective: str, expected: float) -> None:
    run = held(latency=0.025, objective=objective)
    assert compared(run)["pinned"].value == pytest.approx(expected, rel=0.05)


def test_charts_and_tables_say_it() -> None:
    run = held()
    found = compared(run)
    bars = {bar.name: bar for bar in measured_answer(run).bars}
    assert bars["staged"].ratio_between == f"{found['staged'].low:.2f}–{found['staged'].high:.2f}×"
    assert bars["managed"].ratio_between == "", "no rounds in common"
    for by in (run, held(objective="energy")):  # set-up pays off in time, not in joules
        pays = {row.name: row.cells[-1].value for row in noise(by).blocks[0].rows}
        assert (pays["pinned"], pays["managed"]) == ("immediately", "not in the final")


# The interval of a row's own time


def covered(processes: int, apart: float, runs: int = 200) -> float:
    """How often the interval holds the truth, where processes differ by `apart` times what blocks do."""
    noise, hits = 0.04, 0
    for seed in range(runs):
        draw = np.random.default_rng(seed).normal
        shared = draw(0, apart * noise, (processes, 1, 1))
        logs = shared + draw(0, 0.01, (processes, 1, 6)) + draw(0, noise, (processes, 6, 6))
        hits += abs(logs[..., 0].mean()) <= margins(made(logs), NAMES, 0.95)["a"]
    return hits / runs


@every(("processes", "apart", "least"), [(2, 1, 0.95), (2, 2, 0.86), (4, 2, 0.86), (8, 2, 0.9), (8, 3, 0.9)])
def test_the_interval_holds_the_truth(processes: int, apart: float, least: float) -> None:
    assert covered(processes, apart) >= least


def test_one_contestants_two_processes_do_not_decide_its_interval_alone() -> None:
    logs = drawn(1, 2, 6, 6, 0.0, 0.03)
    logs[1, :, 5] = logs[0, :, 5] + 0.15
    found = margins(made(logs), NAMES, 0.95)
    assert found["a"] < found["f"] < 0.2, "Student's with one degree of freedom would be 0.95"


def test_processes_that_differ_widen_it_and_further_ones_narrow_it() -> None:
    apart, many = drawn(3, 4, 6, 6, 0.0, 0.01), drawn(3, 16, 6, 6, 0.0, 0.01)
    calm = apart - apart.mean(axis=(1, 2), keepdims=True)
    for_calm, for_apart, for_many = (margins(made(d), NAMES, 0.95)["a"] for d in (calm, apart, many))
    assert for_apart > max(2 * for_calm, for_many)
    assert margins(made(calm), NAMES, 0.99)["a"] > for_calm
    assert margins(made(np.zeros((1, 1, 1))), NAMES[:1], 0.95) == {"a": 0.0}, "a block alone tells nothing"
