"""HEAD against BASE in one final: what is claimed, when it ends, which processes, what the page says."""

from __future__ import annotations

import math
import platform
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import cuda_device, final_block, measured, profile, recommendation, vector_add_workload
from every import every
from fakes import RecordingBackend, final_process, job
from rendering import Accepted, markup
from running import REPOSITORY, asked
from simulated_versions import CARD, CHANGED, CPU, SLOW_CARD, simulated

from advisor import api, stats
from advisor.errors import AdvisorError
from advisor.measure.contest import VersionFinal
from advisor.measure.jobs import FinalJob, FinalRound
from advisor.measure.progress import Silent
from advisor.measure.sampling import unpreempted_clock
from advisor.profiles import outputs
from advisor.profiles.figures import Block
from advisor.profiles.files import scratch
from advisor.profiles.schema import WorkloadRecord
from advisor.report.pages import render, versions_page
from advisor.report.versions_page import answer
from advisor.strategies.registry import BASELINE
from advisor.verdicts.comparing.gates import judge, parse_gates
from advisor.verdicts.comparing.results import Results, changed_work
from advisor.verdicts.comparing.versions import VersionComparison, VersionRun, compare_versions, differences
from advisor.verdicts.estimate import Block as Timed
from advisor.verdicts.versions import (
    BASE,
    HEAD,
    NOISE_OF_ONE_ROUND,
    Change,
    Entry,
    Judged,
    Question,
    changes,
    judged,
)
from tests.benchmarks.decisions import Noise

ENTRY = Entry(("pageable", "pinned"))
KINDS = {
    "quiet": Noise(block=0.03, luck=0.005),
    "mid": Noise(process=0.08, block=0.05, luck=0.01),
    "restless": Noise(process=0.12, block=0.08, luck=0.01),
}


COSTS = {"card": CARD, "slow card": SLOW_CARD, "cpu": CPU}


@cache
def runs(
    kind: str,
    share: float,
    seconds: float = 45.0,
    costs: str = "card",
    count: int = 20,
    disturbed: float = 0.0,
) -> list[Judged]:
    with scratch() as folder:
        found = (
            simulated(folder, seed, share, KINDS[kind], seconds, COSTS[costs], disturbed=disturbed)
            for seed in range(count)
        )
        return [final.judged() for final, _ in found]


def claims(found: list[Judged], strategy: str = "pageable") -> float:
    ratios = [each.ratios[strategy] for each in found if strategy in each.ratios]
    return sum(ratio.low > 1 or ratio.high < 1 for ratio in ratios) / len(found)


PAIRS = [("mid", "card"), ("restless", "slow card"), ("quiet", "cpu")]
"""Each noise and each cost once."""


@pytest.mark.parametrize(("kind", "costs"), PAIRS)
def test_the_same_code_is_told_apart_in_at_most_one_of_twenty(kind: str, costs: str) -> None:
    """Blocks that resemble the ones before them among it. At 99 %, with fixed seeds: no luck in here."""
    verdicts = runs(kind, 0.0, costs=costs)
    assert sum(claims(verdicts, strategy) for strategy in ("pageable", "pinned")) <= 1 / 20
    assert sum(not each.trusted for each in verdicts) <= 1


@pytest.mark.parametrize(
    ("kind", "share", "seconds", "least", "costs"),
    [*((kind, 0.05, 45.0, 0.95, costs) for kind, costs in PAIRS), ("quiet", 0.02, 120.0, 0.75, "card")],
)
def test_a_change_is_found(kind: str, share: float, seconds: float, least: float, costs: str) -> None:
    """With what starting costs on a card charged."""
    verdicts = runs(kind, share, seconds, costs)
    assert claims(verdicts) >= least
    ratios = [each.ratios["pageable"] for each in verdicts]
    assert sum(ratio.low <= 1 + share <= ratio.high for ratio in ratios) >= len(verdicts) - 2


def test_what_disturbs_one_block_in_ten_hides_no_change_and_makes_none() -> None:
    """Without a limit for such blocks, 8 of 20 of the changes are found on a card, and 19 of 20 stay open."""
    same, slower = (runs("mid", share, disturbed=0.1) for share in (0.0, 0.05))
    assert claims(same) == 0
    assert sum("pageable" in each.undecided for each in same) <= 1
    assert claims(slower) >= 0.95


def test_processes_that_alternate_claim_no_more(tmp_path: Path) -> None:
    """What a process draws is in the interval: at most 1 in 40 of the same code is told apart."""
    noise = Noise(process=0.15, block=0.03, luck=0.005)
    finals = [simulated(tmp_path, seed, 0.0, noise, 30.0, CPU, apart=True)[0] for seed in range(40)]
    assert claims([final.judged() for final in finals]) <= 1 / 40
    assert finals[0].why_apart == "both have the compiled extension ops"


def test_what_is_open_says_how_long_it_would_take() -> None:
    found = [each for each in runs("restless", 0.02, count=6) if each.open]
    assert len(found) > 3
    assert sum(each.seconds_more is not None for each in found) > len(found) / 2


@pytest.mark.parametrize(("off", "claimed"), [(1.05, True), (3.0, False)])
def test_few_rounds_are_as_noisy_as_the_copies_of_head_show(off: float, claimed: bool) -> None:
    """As of threads that wait for one another on a busy machine: the two rounds of both agree by chance."""
    entry = Entry(("pageable",))
    seconds = {
        "BASE pageable": (0.010, 0.010),
        "HEAD pageable": (0.023 * off, 0.023 / off),
        entry.control: (0.023 / off, 0.023 * off),
    }
    blocks = [Timed(n, 0, name, both[n]) for n in (0, 1) for name, both in seconds.items()]
    assert (judged(blocks, entry, CHANGED, 1.0).ratios["pageable"].low > 1) == claimed


def test_the_second_copy_of_head_sharpens_the_ratio_and_checks_the_run() -> None:
    generator = np.random.default_rng(0)
    names = [*ENTRY.names]

    def seconds(name: str) -> float:
        twice = 1.2 if name == ENTRY.control else 1.0
        return float(0.01 * twice * np.exp(generator.normal(0, 0.01)))

    blocks = [Timed(p, r, n, seconds(n)) for p in range(4) for r in range(6) for n in names]
    found = judged(blocks, ENTRY, Question(), 1.0)
    assert not found.trusted
    assert found.noise.value == pytest.approx(1.2, rel=0.02)
    assert found.ratios["pageable"].value == pytest.approx(1.2**0.5, rel=0.02)
    assert found.ratios["pinned"].value == pytest.approx(1.0, abs=0.02)
    assert judged(blocks, ENTRY, Question(), 1.0, withdrawn=[ENTRY.control]).noise is None


def steps(process: int, number: int, name: str, frame: float = 0.010, **seconds: float) -> Block:
    parts = {label.replace("_", ":", 1): spent for label, spent in seconds.items()}
    return final_block(process, number, name, frame, host_seconds=parts)


def test_parts_of_a_frame_are_told_with_what_is_new_and_gone() -> None:
    entry = Entry(("pinned",))
    told = []
    for process, number in product(range(4), range(5)):
        more = {"host_blend": 0.004 + 1e-6 * number, "host_old": 0.001, "length": 1.0}
        told.append(steps(process, number, "BASE pinned", **more))
        more = {"host_blend": 0.005 + 1e-6 * number, "host_new": 0.002}
        told.append(steps(process, number, "HEAD pinned", **more))
    found = {change.part: change for change in changes(told, entry, "pinned")}
    assert found["host:blend"].seconds == pytest.approx(0.001)
    assert all(found[part].sure for part in ("host:blend", "host:new"))
    assert (found["host:new"].base_seconds, found["host:old"].head_seconds) == (None, None)
    assert found["waiting and launching"].seconds == pytest.approx(-0.002)
    assert changes(told[::2], entry, "pinned") == ()


@every(
    ("apart", "rounds", "factor", "status"),
    [
        (apart, rounds, *case)
        for apart, rounds in product((False, True), (1, 2, 5))
        for case in ((43.0, "failed"), (1.0, "inconclusive"), (1 / 43, "passed"))
    ],
)
def test_few_rounds_tell_a_large_difference_and_have_an_interval_with_ends(
    apart: bool, rounds: int, factor: float, status: str
) -> None:
    """On a busy machine, where a round is 20 % off: the gate fails for 43 times, and is open for the same."""
    generator = np.random.default_rng(3)
    entry = Entry(("pageable",), apart=apart)
    times = {name: 0.01 * (factor if name.startswith(HEAD) else 1.0) for name in entry.names}
    blocks = [
        Timed(0, number, name, seconds * float(np.exp(generator.normal(0, 0.2))))
        for number in range(rounds)
        for name, seconds in times.items()
    ]
    found = judged(blocks, entry, Question((0.05,)), 1.0)
    ratio = found.ratios["pageable"]
    assert ratio.low <= ratio.value <= ratio.high
    assert 1 / 50 < ratio.low / ratio.value < ratio.high / ratio.value < 50
    (ruling,) = judge(
        compared({"pageable": (ratio.value, ratio.low, ratio.high)}, noise=found.noise),
        parse_gates(["slower=5%"]),
    )
    assert ruling.status == status
    base, head = found.seconds["pageable"]
    assert head / base == pytest.approx(ratio.value)


def test_parts_add_up_to_the_frame_beside_them() -> None:
    """Single steps on a busy machine take more than the frame does; too few of them have no interval."""
    entry, generator = Entry(("pinned",)), np.random.default_rng(1)
    told = [
        steps(0, number, f"{version} pinned", 443e-6 * slow, host_a=400e-6 * slow, host_b=289e-6)
        for number in range(2)
        for version in (BASE, HEAD)
        for slow in [float(np.exp(generator.normal(0, 0.5)))]
    ]
    found = changes(told, entry, "pinned", (443e-6, 411e-6))
    assert math.fsum(each.base_seconds or 0 for each in found) == pytest.approx(443e-6)
    assert math.fsum(each.head_seconds or 0 for each in found) == pytest.approx(411e-6)
    assert math.fsum(each.seconds for each in found) == pytest.approx(-32e-6)
    assert {(each.low, each.high, each.sure) for each in found} == {(None, None, False)}
    overlapping = [each.model_copy(update={"latency_seconds": 1e-3}) for each in told]
    assert math.fsum(each.base_seconds or 0 for each in changes(overlapping, entry, "pinned")) > 600e-6


# Who is in which process.


def slower(folder: Path, **so: Any) -> tuple[VersionFinal, list[FinalJob]]:
    """A final without noise whose HEAD takes 1.2 times as long, and its processes' jobs."""
    final, launcher = simulated(folder, 0, 0.2, Noise(0.0, 0.0, 0.0), **so)
    jobs = [session.job for session in launcher.sessions]
    assert all(job.jobs[name].file == f"{name[:4]}.py" for job in jobs for name in job.contestants)
    return final, jobs


def test_versions_share_processes(tmp_path: Path) -> None:
    final, jobs = slower(tmp_path)
    assert {frozenset(job.contestants) for job in jobs} == {frozenset(ENTRY.names)}
    assert final.judged().settled
    final.jobs = {name: each.model_copy(update={"backend": "cpu"}) for name, each in final.jobs.items()}
    base, head = (final.row(version, "pinned", final.judged()) for version in (BASE, HEAD))
    # By the clock of the steps.
    assert base.stage_seconds["a"] == pytest.approx(base.median_seconds, rel=0.01)
    ratio, frames = final.judged().ratios["pinned"].value, (base.median_seconds, head.median_seconds)
    assert (ratio, *frames) == pytest.approx((1.2, 0.012, 0.0144))
    assert changes(final.loop.steps, final.entry, "pinned")[0].seconds == pytest.approx(0.0024, rel=0.01)
    gains = {name: gain.value for name, gain in final.judged().gains.items()}
    assert gains == pytest.approx({"pageable": 1 / 1.2, "pinned": 0.020 / 0.0144})


LEFT_OUT: dict[str, dict[str, Any]] = {
    "all is well": {},
    "one strategy fails in BASE": {"fails": ("BASE pinned",)},
    "each fails in one version": {"fails": ("BASE pageable", "HEAD pinned", "HEAD managed")},
    "HEAD fails": {"fails": ("HEAD",)},
    "BASE fails": {"fails": ("BASE",)},
    "no time for all": {"seconds": 13.0},
    "no time at all": {"seconds": 2.0},
    "HEAD hangs": {"hangs": HEAD},
    "BASE hangs": {"hangs": BASE},
    "a gate on recommendations": {"recommendations": True},
    "BASE breaks by itself": {"breaks": {"BASE pinned"}, "always": True},
    "each breaks by itself": {"breaks": {"BASE pinned", "HEAD pageable"}, "always": True},
    "BASE breaks by itself under each": {"breaks": {"BASE pinned", "BASE pageable"}, "always": True},
}


def test_what_is_not_compared_is_told_or_ends_the_comparison(tmp_path: Path, accepted: Accepted) -> None:
    told = []
    for name, so in LEFT_OUT.items():
        try:
            final, launcher = simulated(tmp_path / name, 0, 0.2, Noise(0.0, 0.0, 0.0), **so)
            ran = {job.strategy for job in launcher.jobs if job.task == "measure" and job.file[:4] == BASE}
            told += [f"{name}: {len(ran)} in BASE, {' and '.join(final.judged().ratios)}", *launcher.notes]
        except AdvisorError as error:
            told += [f"{name}: {type(error).__name__}: {error}"]
    accepted("\n".join([*told, ""]), "versions-left-out.txt")


@pytest.mark.parametrize("told", [False, True], ids=["breaks in company", "compiled extension"])
def test_those_that_cannot_have_a_process_each_side_by_side(tmp_path: Path, told: bool) -> None:
    final, jobs = slower(tmp_path, **{"apart": True} if told else {"breaks": frozenset({"BASE pinned"})})
    alone = [job for job in jobs if len({j.file for j in job.jobs.values()}) == 1]
    assert len(alone) == len(jobs) - (0 if told else 1)
    assert jobs[-1] in alone
    assert final.entry.apart
    assert told or final.why_apart == (
        "BASE pinned failed next to the other version (ops were registered twice)"
    )
    assert {block.contestant for block in final.loop.blocks} == set(ENTRY.names)
    by_round: dict[tuple[int, int], list[int]] = {}
    for block in final.loop.blocks:
        by_round.setdefault((block.process, block.round), []).append(block.place)
    assert all(places == list(range(len(places))) for places in by_round.values())


def test_versions_have_the_same_memory_in_a_round_and_other_in_the_next() -> None:
    """A version whose buffers are larger has its own."""
    file = str(REPOSITORY / "workloads" / "vector_add.py")
    jobs = {n: job(file=file, assignments={"n": n}) for n in ("4096", "8192")}
    names = {"BASE pinned": "4096", "HEAD pinned": "4096", "HEAD pinned (again)": "8192"}
    backend, of = RecordingBackend(), {name: jobs[n] for name, n in names.items()}
    contestants = dict.fromkeys(names, "pinned")
    final = final_process(backend, jobs["4096"], contestants, block_seconds=60.0, jobs=of)
    taken = []
    with final.open:
        for number, place in product((0, 1), range(3)):
            before = backend.names.count("host_alloc")
            final.loaders.clear()  # one file stands for both versions
            final.block(FinalRound(round=number, order=tuple(names), warm_frames=1), place)
            taken.append(backend.names.count("host_alloc") - before)
    assert taken == [3, 0, 3] * 2
    assert not backend.live


@pytest.mark.parametrize(("apart", "at"), [(False, 18.5), (True, 18.9)])
def test_ctrl_c_in_the_final_leaves_what_was_measured(tmp_path: Path, apart: bool, at: float) -> None:
    """All of it, in the middle of a round too."""
    whole, final = (
        simulated(tmp_path / f"{end}", 1, 0.0, KINDS["mid"], apart=apart, interrupted_at=end)[0]
        for end in (math.inf, at)
    )
    blocks = final.loop.blocks
    assert len(blocks) % len(final.entry.names), "the last round is not complete"
    assert blocks == whole.loop.blocks[: len(blocks)]
    assert final.judged().ratios


def test_a_version_that_screening_saw_waiting_for_a_core_is_not_called_slower(tmp_path: Path) -> None:
    """One that takes 40 times as long of a core is, though each was measured in one process alone."""
    final, launcher = simulated(tmp_path, 1, 0.0, KINDS["mid"], 7.0, CPU)
    assert (final.screened, bool(final.why_apart), launcher.clock() < 7.0) == (True, True, True)
    assert final.judged().open == ("pageable",), "both versions were measured: it stays open"
    row = final.rows[HEAD][BASELINE]
    assert final.row(HEAD, BASELINE, final.judged()) == row, "with its frames"
    for times, claimed in ((1.2, False), (40.0, True), (None, True)):
        waited = {
            "median_seconds": 40 * row.median_seconds,
            "cpu_seconds": times and times * row.median_seconds,
        }
        rows = {**final.rows, HEAD: {BASELINE: row.model_copy(update=waited)}}
        again = replace(final, rows=rows)
        again._compare_screening()
        ratio = again.judged().ratios[BASELINE]
        assert (ratio.low > 1) == claimed, ratio
        assert again.judged().supposed == NOISE_OF_ONE_ROUND


def test_the_clock_stands_still_without_a_cpu(tmp_path: Path) -> None:
    file = tmp_path / "schedstat"
    file.write_text("100 5000000000 3\n")
    clock = unpreempted_clock(str(file))
    begin, first = time.perf_counter(), clock()
    file.write_text("100 7000000000 3\n")
    assert -2.1 < clock() - first < time.perf_counter() - begin - 1.9
    assert unpreempted_clock(str(tmp_path / "none"))() > 0


# What the frames mean.


def workload(n: int = 1 << 20, **changes: Any) -> WorkloadRecord:
    return vector_add_workload(n).model_copy(update=changes)


def test_frames_of_different_work_say_what_changed() -> None:
    assert changed_work(workload(), workload()) == ()
    assert changed_work(workload(), workload(2048)) == (
        "`n` is 2048 instead of 1048576",
        "`a`, `b`, `c` are 510 times smaller",
    )
    base = workload(1000, parameters={})
    assert changed_work(base, workload(1200, parameters={})) == ("`a`, `b`, `c` are 20 % larger",)


def test_what_a_change_of_code_may_bring_is_told() -> None:
    before = workload()
    added = before.buffers[0].model_copy(update={"name": "extra"})
    halves = tuple(b.model_copy(update={"dtype": "float16"}) for b in before.buffers[:1])
    buffers, parameters = (*halves, *before.buffers[2:], added), {**before.parameters, "tile": 8}
    now = workload(name="blend", buffers=buffers, parameters=parameters)
    assert changed_work(before, now) == ()
    assert differences(before, now) == (
        "The workloads have different names: vector_add in BASE, blend in HEAD.",
        "New parameter in HEAD: tile.",
        "New buffer in HEAD: extra.",
        "Only BASE has the buffer b.",
        "`a` is float16 instead of float32.",
    )


# The page.

EVEN, SLOWER = (1.0, 0.99, 1.01), (1.07, 1.05, 1.09)


def compared(ratios: Mapping[str, tuple[float, float, float]], **changes: Any) -> VersionComparison:
    question = changes.pop("question", Question())
    found = {name: stats.Ratio(*ends) for name, ends in ratios.items()}
    waiting = tuple(name for name, ratio in found.items() if not question.answered(ratio))
    noise, processes = changes.pop("noise", stats.Ratio(*EVEN)), changes.pop("processes", 4)
    used = tuple(name for name in found if name in question.strategies) or tuple(found)
    undecided = tuple(name for name in used if question.undecided(found[name]))
    told = Judged(found, noise, waiting, processes, 24, spread=0.031, used=used, undecided=undecided)
    rows = {
        name: (measured(name, 0.010), measured(name, 0.010 * ratio.value)) for name, ratio in found.items()
    }
    blend = Change("host:blend", 0.004, 0.0044, 0.0003, 0.0005)
    idle = Change("to-device", 0.001, 0.0011, -0.0001, 0.0003)
    run = VersionRun(
        judged=replace(told, seconds_more=changes.pop("seconds_more", None)),
        question=question,
        rows=rows,
        changes=dict.fromkeys(rows, (blend, idle)),
        versions=("w.py at merge base with origin/main, 0123456789", "w.py in the working tree"),
        **changes,
    )
    sides = [
        profile(recommendation=recommendation("pinned"), results=tuple(pair[side] for pair in rows.values()))
        for side in (0, 1)
    ]
    return compare_versions(sides[0], sides[1], run, Results())


ANSWERS: dict[str, Any] = {
    "slower": {"pinned": SLOWER},
    "faster": {"pinned": (0.93, 0.91, 0.95)},
    "a factor": {"pinned": (2.4, 2.2, 2.6)},
    "the same": {"pinned": EVEN, "pageable": EVEN},
    "open": ({"pinned": (1.0, 0.95, 1.05)}, {"seconds_more": 41.0}),
    "the same within 5 %": ({"pinned": (1.0, 0.96, 1.04)}, {"seconds_more": 41.0}),
    "open for good": ({"pinned": (1.0, 0.96, 1.04)}, {"question": Question((), 0.03, 0.03)}),
    "open for the gate": ({"pinned": (1.0, 0.97, 1.03)}, {"question": Question((0.02,))}),
    "below the gate": ({"pinned": (0.99, 0.94, 1.04)}, {"question": Question((0.05,))}),
    "both": {"pinned": EVEN, "pageable": SLOWER},
    "touches 1": {"pinned": (1.03, 1.0, 1.06)},
    "few blocks": ({"pinned": (1.1, 1e-9, 1e300)}, {"processes": 1}),
    "interrupted": (
        {"pinned": (1.0, 0.95, 1.05)},
        {"processes": 1, "notes": ("Interrupted after round 3 of the final.",)},
    ),
    "untrusted": ({"pinned": SLOWER}, {"noise": stats.Ratio(1.05, 1.03, 1.07)}),
}


def test_answers_read_as_accepted_and_are_the_first_line(accepted: Accepted) -> None:
    told = {}
    for name, given in ANSWERS.items():
        ratios, changes = given if isinstance(given, tuple) else (given, {})
        comparison = compared(ratios, **dict(changes))
        told[name] = answer(comparison)
        page = versions_page(comparison)
        assert render(page, "verdict") == told[name]
        assert " ".join(render(page, "txt").split()).startswith(told[name])
    accepted("".join(f"{name}: {line}\n" for name, line in told.items()), "answers_of_versions.txt")


@pytest.mark.parametrize("form", ["html", "md", "txt"])
def test_the_page_looks_as_accepted(form: str, accepted: Accepted) -> None:
    found = compared(
        {"pageable": SLOWER, "pinned": (1.01, 0.97, 1.06)},
        apart="both have the compiled extension fast",
        left={"BASE zero-copy": "the process was killed by SIGBUS"},
        notes=("HEAD is the working tree, with uncommitted changes: w.py.",),
        seconds_more=41.0,
        preparing_seconds=12.3,
    )
    page = versions_page(found, judge(found, parse_gates(["slower=2%", "slower=5%", "footprint=+10%"])))
    accepted(markup(render(page, form)), f"versions.{form}")


@pytest.mark.parametrize(
    ("low", "high", "used", "status"),
    [
        (0.97, 1.09, ("pinned", "zero-copy"), "inconclusive"),
        (0.97, 1.09, ("pinned",), "passed"),
        (1.06, 1.09, ("pinned",), "failed"),
        (0.97, 1.09, ("managed",), "inconclusive"),
    ],
)
def test_a_strategy_that_the_code_does_not_use_fails_a_gate_but_leaves_none_open(
    low: float, high: float, used: tuple[str, ...], status: str
) -> None:
    ratios = {"pinned": EVEN, "zero-copy": (1.07, low, high)}
    result = compared(ratios, question=Question((0.05,), strategies=used))
    (ruling,) = judge(result, parse_gates(["slower=5%"]))
    assert ruling.status == status
    assert all("zero-copy" in reason for reason in ruling.reasons)
    assert result.run.judged.decided == (status != "inconclusive")


def test_one_that_was_chosen_from_fewer_is_not_known_to_be_recommended_still() -> None:
    found, gates = compared({"pageable": EVEN, "pinned": EVEN}), parse_gates(["recommendation-changes"])
    (ruling,) = judge(found, gates)
    assert ruling.status == "passed"
    head = found.head.model_copy(update={"results": (*found.head.results, measured("zero-copy", 0.02))})
    (ruling,) = judge(compare_versions(found.base, head, found.run, Results()), gates)
    assert ruling.status == "inconclusive"
    assert "BASE ran under 2 strategies, HEAD under 3" in ruling.reasons[0]


@every(
    ("strategies", "changes", "told"),
    [
        (("pinned",), {}, True),
        (("pinned", "zero-copy"), {}, False),
        (("zero-copy",), {}, False),
        (("pinned",), {"device": cuda_device().model_copy(update={"name": "Another GPU"})}, False),
        (("pinned",), {"workload": workload(2048)}, False),
    ],
)
def test_what_a_baseline_promised_is_told_with_what_head_gains(
    strategies: tuple[str, ...], changes: Any, told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The baseline has the name of the revision; the user says which strategy HEAD uses."""
    found = compared({"pageable": EVEN, "pinned": EVEN})
    judged = replace(found.run.judged, gains={"pinned": stats.Ratio(1.69, 1.65, 1.73)})
    found = replace(found, run=replace(found.run, judged=judged))
    saved = profile(
        results=(measured("pageable", 0.040), measured("pinned", 0.020)),
        recommendation=recommendation("pinned"),
    ).model_copy(update=changes)
    monkeypatch.chdir(tmp_path)
    outputs.write(outputs.baseline_folder("main"), "profile.json", saved.to_json())
    sides = nullcontext((None, None, ("", ""), ""))
    monkeypatch.setattr(api, "_sides", lambda *_: sides)
    monkeypatch.setattr(api.advise, "concluded", lambda profile: profile)
    monkeypatch.setattr(api.pipeline, "compare_versions", lambda *_, **__: found)
    (tmp_path / "w.py").touch()
    settings = asked("w.py", strategies=strategies)
    result = api.run_versions(settings, Silent(), "w.py", None, against="main")
    line = "From pageable in BASE to pinned in HEAD: promised 2.00×"
    page = render(versions_page(result), "md").replace("`", "")
    assert (line in " ".join(page.split())) == told
    assert result.promise is None or result.promise.got.value == 1.69


FREES = """
import resource
import numpy as np
from advisor.measure.final_worker import keep_freed_memory
np.ones(20 << 20, np.uint8)
keep_freed_memory()
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for frame in range(20):
    before = faults()
    np.ones(3 << 20, np.uint8)
    taken = faults() - before
print(taken)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the rule is glibc's")
def test_what_one_version_frees_changes_no_page_fault_of_the_other() -> None:
    ended = subprocess.run([sys.executable, "-c", FREES], capture_output=True, text=True, check=True)
    assert int(ended.stdout) < 50
