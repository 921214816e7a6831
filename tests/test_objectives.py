"""Verdicts by the 99th percentile and by energy, from blocks; and a row's figures beside its time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from builders import final_block, final_record, measured, profile
from every import every
from fakes import FakeClock
from running import FakeSession
from test_contest import contest

from advisor import stats
from advisor.measure.contest import NO_TIME, TAIL_FRAMES, Contest
from advisor.measure.jobs import FinalJob
from advisor.measure.progress import Silent
from advisor.measure.results import OUTSIDE, figures
from advisor.profiles.conclusions import Preferences, Recommendation
from advisor.profiles.figures import Block, Energy, FinalRecord, Quantile
from advisor.profiles.schema import Measured
from advisor.report.recommendations import headline
from advisor.rules.advise import advise
from advisor.verdicts.estimate import times
from advisor.verdicts.final import Step
from advisor.verdicts.measured import decided, recommend
from advisor.verdicts.scores import rounds_of_a_score, scores, timed_again


def window(process: int, round_: int, name: str, joules: float, seconds: float = 2.0) -> Block:
    """100 frames that take so much above 50 W."""
    energy = Energy(joules=100 * joules + 50 * seconds, idle_watts=50.0, source="a fake")
    return final_block(process, round_, name, seconds, frames=100, energy=energy)


def frames_of(process: int, round_: int, name: str, frames: list[float], **fields: object) -> Block:
    return final_block(
        process, round_, name, sum(frames), frames=len(frames), frame_seconds=tuple(frames), **fields
    )


def drawn(
    tails: Mapping[str, float], processes: int = 4, rounds: int = 12, seed: int = 1, frames: int = 100
) -> list[Block]:
    """Frames of 10 ms whose slowest two in a hundred take so many times as long, in processes that differ."""
    generator = np.random.default_rng(seed)
    made = []
    for process in range(processes):
        level = 0.010 * np.exp(generator.normal(0, 0.08))
        for number in range(rounds):
            here = level * np.exp(generator.normal(0, 0.02))
            for name, tail in tails.items():
                seconds = here * np.exp(generator.normal(0, 0.01, frames))
                seconds *= 1 - 0.02 * (tail - 1)  # all have the same mean
                seconds[generator.random(frames) < 0.02] *= tail
                made.append(frames_of(process, number, name, seconds.tolist()))
    return made


def record(*names: str) -> FinalRecord:
    return final_record(names, processes=4, rounds=40, frames=100, process_seconds=1.0, round_seconds=0.5)


def verdict(blocks: list[Block], objective: str, *rows: Measured) -> Recommendation:
    names = tuple(dict.fromkeys(b.contestant for b in blocks)) or ("pageable", "pinned")
    results = rows or tuple(measured(name, 0.010) for name in names)
    run = profile(
        results=results, blocks=tuple(blocks), final=record(*names),
        preferences=Preferences(objective=objective),
    )  # fmt: skip
    found = recommend(run)
    assert found is not None
    return found


# latency-p99


def test_percentiles_are_of_as_many_rounds_as_an_upper_bound_needs() -> None:
    blocks = drawn({"pinned": 3.0, "zero-copy": 2.0}, processes=2, rounds=7)
    assert rounds_of_a_score(blocks, "latency-p99") == 3
    assert rounds_of_a_score(blocks, "time") == 1
    found = scores(blocks, "latency-p99")
    assert {(score.process, score.round) for score in found} == {(p, r) for p in (0, 1) for r in (0, 1)}
    of_first = sorted(s for b in blocks[:6] if b.contestant == "pinned" for s in b.frame_seconds)
    assert found[0].seconds == of_first[296]
    assert scores(blocks[:4], "latency-p99") == []
    late = [frames_of(0, r, "pipelined", [0.01] * 100, frame_latencies=(0.02,) * 100) for r in range(3)]
    assert [score.seconds for score in scores(late, "latency-p99")] == [0.02], "of overlapping frames, delays"


def test_the_shorter_tail_wins_where_the_means_are_equal() -> None:
    blocks = drawn({"pinned": 4.0, "zero-copy": 2.0}, rounds=30)
    found = verdict(blocks, "latency-p99")
    assert (found.strategy, found.verdict, found.objective) == ("zero-copy", "fastest", "latency-p99")
    assert headline(found).startswith("Use `zero-copy`: every other is worse")
    assert verdict(blocks, "time").verdict in ("near", "open")


def test_false_claims_about_tails_are_few() -> None:
    """b's tail is 20 % longer; whoever claims that it is near enough, or the fastest, is wrong."""
    claimed = [
        verdict(drawn({"a": 2.0, "b": 2.4}, processes=3, rounds=9, seed=seed), "latency-p99")
        for seed in range(40)
    ]
    wrong = [found for found in claimed if found.strategy == "b" and found.verdict != "open"]
    assert len(wrong) <= 1
    assert sum(found.verdict != "open" for found in claimed) > 5, "some are decided"


def test_too_few_rounds_for_a_percentile_ask_for_as_many_as_it_takes() -> None:
    rows = [measured("pinned", 0.01), measured("zero-copy", 0.01)]
    blocks = drawn({"pinned": 2.0, "zero-copy": 2.0}, processes=2, rounds=2)
    found = decided(blocks, rows, Preferences(objective="latency-p99"), record("pinned", "zero-copy"))
    assert (found.settled, found.step) == (False, Step(2, 3))


@every("objective", ["latency-p99", "energy"])
def test_without_a_figure_it_is_open_and_says_what_is_missing(objective: str) -> None:
    found = verdict([frames_of(0, 0, name, [0.01] * 5) for name in ("pageable", "pinned")], objective)
    assert (found.verdict, found.strategy) == ("open", None)
    assert headline(found) in (
        "Undecided: too few frames were timed for a 99th percentile",
        "Undecided: no energy was measured",
    )
    assert "--max-seconds" in found.next_step


def test_separate_processes_have_percentiles_where_their_frames_are_enough() -> None:
    rows = tuple(measured(n, t, frames=400) for n, t in (("pageable", 0.04), ("pinned", 0.02)))
    chosen = advise(profile(results=rows, preferences=Preferences(objective="latency-p99"))).recommendation
    assert (chosen.strategy, chosen.verdict) == ("pinned", "fastest")
    few = advise(profile(preferences=Preferences(objective="latency-p99"))).recommendation
    assert (few.strategy, few.verdict) == (None, "open")


def test_a_row_shows_the_percentile_that_the_verdict_counts() -> None:
    blocks = drawn({"pageable": 3.0, "pinned": 2.0})
    p99 = Quantile(seconds=1, low_seconds=0.9, high_seconds=1.1)
    run = profile(
        results=tuple(measured(name, 0.01, samples="blocks", p99=p99) for name in ("pageable", "pinned")),
        blocks=tuple(blocks), final=record("pageable", "pinned"),
        preferences=Preferences(objective="latency-p99"),
    )  # fmt: skip
    shown = {name: row.p99.seconds for name, row in timed_again(run).measured().items()}
    assert shown == times(scores(blocks, "latency-p99"))
    assert {row.p99.high_seconds for row in timed_again(run).measured().values()} == {1.1}


# energy


def windows(joules: Mapping[str, float], spread: float, rounds: int = 3) -> list[Block]:
    generator = np.random.default_rng(4)
    return [
        window(process, number, name, mean * float(np.exp(generator.normal(0, spread))))
        for process in range(3)
        for number in range(rounds)
        for name, mean in joules.items()
    ]


def test_the_least_energy_is_chosen() -> None:
    rows = [
        measured("pageable", 0.010, energy=figures([], windows({"x": 0.6}, 0), "")["energy"]),
        measured("pinned", 0.012, energy=figures([], windows({"x": 0.4}, 0), "")["energy"]),
    ]
    found = verdict(windows({"pageable": 0.6, "pinned": 0.4}, 0), "energy", *rows)
    assert (found.strategy, found.verdict) == ("pinned", "fastest")
    assert found.speedup == pytest.approx(1.5, rel=0.02)
    assert headline(found) == "Use `pinned`: `pageable` takes 1.50× the energy (1.47 to 1.53)"
    assert "takes 400 mJ a frame above idle power" in found.reason


# A row's figures


@every(("frames", "absent"), [(5, {"p95", "p99"}), (20, {"p99"}), (100, set())])
def test_a_rows_percentiles_have_bounds_and_its_cpu_time_is_the_mean_of_the_blocks(
    frames: int, absent: set[str]
) -> None:
    generator = np.random.default_rng(3)
    blocks = [
        frames_of(0, r, "a", generator.normal(1, 0.01, frames).tolist(), cpu_seconds=0.002 * (r + 1))
        for r in range(10)
    ]
    found = figures(blocks, [], NO_TIME)
    for name, share in (("p95", 0.95), ("p99", 0.99)):
        bounds = stats.quantile_by_blocks([block.frame_seconds for block in blocks], share)
        row = found[name]
        assert (row and (row.seconds, row.low_seconds, row.high_seconds)) == bounds
        assert (bounds is None) == (name in absent)
    assert found["absent"].keys() == absent | {"energy"}
    assert found["absent"]["energy"] == NO_TIME
    reason = "200 frames were kept; an upper bound needs the equivalent of 299"
    assert frames != 20 or found["absent"]["p99"].startswith(reason)
    assert found["cpu_seconds"] == pytest.approx(0.011)
    assert "cpu_seconds" not in figures([frames_of(0, 0, "a", [0.01])], [], ""), "that of the screening stays"


def test_energy_is_above_the_idle_power_and_says_how_much_that_was() -> None:
    found = figures([], [window(0, 0, "a", 0.5), window(1, 0, "a", 0.7)], "")["energy"]
    assert found.joules == pytest.approx(0.6)
    assert (found.idle_watts, found.seconds, found.frames) == (50.0, 4.0, 200)
    assert found.watts == pytest.approx(50 + 120 / 4)
    nothing = figures([], [window(0, 0, "a", -0.1)], "")
    assert nothing["energy"] is None
    assert nothing["absent"]["energy"] == "not distinguishable from the idle power"


# In a contest


def contested(directory: Path, objective: str) -> tuple[Contest, dict[str, Measured]]:
    """A contest of 80 seconds, and its rows."""
    clock, seconds = FakeClock(), {"pageable": 0.030, "pinned": 0.010, "zero-copy": 0.014}
    joules = {"pageable": 0.9, "pinned": 0.5, "zero-copy": 0.3}

    def session(final: FinalJob) -> FakeSession:
        return FakeSession(final, seconds, wait=clock.advance, joules=joules)

    rows = {**seconds, "managed": 0.05}
    made = contest(directory, rows, session, clock, max_seconds=90.0, objective=objective)
    made.run(clock() + 80.0, Silent(), lambda _: None)
    return made, {row.strategy: row for row in made.results(tuple(made.rows.values()))}


def test_after_the_final_every_contestant_has_its_energy(tmp_path: Path) -> None:
    made, rows = contested(tmp_path, "time")
    assert contested(tmp_path, "latency-p99")[0].frames == TAIL_FRAMES > made.frames
    assert {name: bool(row.energy) for name, row in rows.items()} == {
        "pageable": True, "pinned": True, "zero-copy": True, "managed": False,
    }  # fmt: skip
    assert rows["pinned"].energy.joules == pytest.approx(0.5, rel=0.01)
    assert rows["managed"].absent["energy"] == OUTSIDE
    assert all(block.energy is None for block in made.loop.blocks), "windows are no blocks"
    assert rows["pinned"].cpu_seconds == pytest.approx(0.0025, rel=0.01)


def test_where_energy_is_the_objective_blocks_are_windows(tmp_path: Path) -> None:
    made, rows = contested(tmp_path, "energy")
    assert all(block.energy for block in made.loop.blocks)
    assert made.windows.blocks == []
    assert rows["zero-copy"].energy.joules == pytest.approx(0.3, rel=0.01)
    assert rows["zero-copy"].p95 is None
    wanted = Preferences(objective="energy")
    found = decided(made.loop.blocks, list(rows.values()), wanted, made.record())
    assert found.verdict.strategy == "zero-copy"
