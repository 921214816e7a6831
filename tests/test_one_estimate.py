"""One estimate: times and ratios that stand side by side agree, and the first row is what `fastest` names."""

from __future__ import annotations

import math

import numpy as np
import pytest
from builders import MIB, final_block, final_record, footprint, measured, profile
from every import every
from hypothesis import given, settings
from hypothesis import strategies as st
from running import missing

from advisor.profiles.conclusions import Objective, Preferences
from advisor.profiles.schema import Profile
from advisor.report import pages
from advisor.report.answering import measured_answer
from advisor.report.recommendations import headline, remark
from advisor.rules import advise
from advisor.verdicts.measured import decided, recommend, speeds
from advisor.verdicts.scores import figures_of


def against_a_mix(ratio: float, noise: float = 0.002, **sizes: int) -> Profile:
    """`pinned` takes that many times as long as the mix; eight processes of four rounds; sizes in MiB."""
    random, seconds = np.random.default_rng(1), {"pageable": 4.0, "pinned": ratio, "hybrid-1": 1.0}
    blocks = tuple(
        final_block(p, r, name, seconds[name] * math.exp(random.normal(0, noise)), place=k)
        for p, r in np.ndindex(8, 4)
        for k, name in enumerate(seconds)
    )
    record = final_record(seconds, processes=8, rounds=32)
    rows = [
        measured(name, 1.0, samples="blocks", footprint=footprint(pinned=sizes.get(name, 64) * MIB))
        for name in seconds
    ]
    rows[-1] = rows[-1].model_copy(update={"placements": {"mask": "zero-copy", "image": "pinned"}})
    out = measured(
        "zero-copy", 9.0, rounds=1, outside="screened out: 9 times", footprint=footprint(pinned=MIB)
    )
    return advise.concluded(profile(results=(*rows, out), blocks=blocks, final=record))


@every(
    ("ratio", "noise", "verdict", "strategy"),
    [
        (1.03, 0.002, "near", "pinned"),  # a preference
        (1.09, 0.002, "fastest", "hybrid-1"),
        (1.05, 0.02, "open", "pinned"),  # neither inside nor outside
        (1.08, 0.06, "open", "pinned"),
        (0.97, 0.002, "fastest", "pinned"),
    ],
)
def test_bounds_are_over_mixes_too(ratio: float, noise: float, verdict: str, strategy: str) -> None:
    run = against_a_mix(ratio, noise)
    chosen = run.recommendation
    assert (chosen.verdict, chosen.strategy) == (verdict, strategy)
    assert run.final is not None
    rows = list(run.measured().values())
    assert decided(run.blocks, rows, run.preferences, run.final).settled == (verdict != "open")
    told = " ".join(pages.render(pages.page_of(run), "txt").split())
    if verdict == "near":
        assert (chosen.faster_mix.strategy, chosen.faster_mix.buffers) == ("hybrid-1", ("mask",))
        assert chosen.faster_mix.ratio == pytest.approx(ratio, rel=0.005)
        assert not missing(told, "simpler than `mask`", "which is 3 % faster")
    if verdict == "open":
        assert chosen.bound is not None
        assert 0.05 < chosen.bound == pytest.approx(chosen.faster_mix.interval[1] - 1)
        assert not missing(told, "`pinned` is simplest", "`mask`", "pinned is", "faster (")
        as_fast = chosen.faster_mix.model_copy(update={"ratio": 1.004, "interval": (0.94, 1.07)})
        doubtful = chosen.model_copy(update={"faster_mix": as_fast})
        assert "leads" in headline(doubtful)
        assert "looks" not in remark(doubtful, 0.95)
    first = measured_answer(run).bars[0].name
    assert verdict != "fastest" or first == strategy


def test_the_least_memory_is_that_of_all_measured_rows() -> None:
    run = against_a_mix(1.03)
    wanted = Preferences(objective="footprint")
    chosen = recommend(run.model_copy(update={"preferences": wanted}))
    assert (chosen.strategy, chosen.verdict) == ("zero-copy", "fastest"), "though screened out for its time"
    assert "least memory" in headline(chosen)
    within = wanted.model_copy(update={"memory_budget_bytes": 512 << 10})
    none_fits = recommend(run.model_copy(update={"preferences": within}))
    assert none_fits.strategy is None


NAMES = ("pageable", "pinned", "zero-copy", "hybrid-1")


@st.composite
def finals(draw: st.DrawFn) -> Profile:
    """Random times, luck, noise and gaps; a mix, and one whose frames overlap."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    processes, rounds = draw(st.integers(2, 4)), draw(st.integers(2, 4))
    levels = random.normal(-4, draw(st.sampled_from([0.003, 0.05, 0.5])), len(NAMES))
    noise = draw(st.sampled_from([0.001, 0.03]))
    logs = levels + random.normal(0, noise, (processes, rounds, len(NAMES)))
    logs += random.normal(0, 0.2, (processes, 1, 1))
    longer = random.uniform(0.5, 0.8, logs.shape)
    left_at = {name: draw(st.integers(1, 2 * processes)) for name in NAMES[1:]}
    blocks = tuple(
        final_block(
            p, r, NAMES[k], math.exp(logs[p, r, k]), place=k,
            latency_seconds=math.exp(logs[p, r, k] + longer[p, r, k]) if NAMES[k] == "pinned" else None,
        )
        for p, r, k in np.ndindex(logs.shape)
        if p < left_at.get(NAMES[k], processes)
    )  # fmt: skip
    record = final_record(NAMES, processes=processes, rounds=processes * rounds)
    rows = [measured(name, 1.0, samples="blocks") for name in NAMES]
    rows[-1] = rows[-1].model_copy(update={"placements": {"a": "pinned", "b": "zero-copy"}})
    objective: Objective = draw(st.sampled_from(["time", "throughput"]))
    made = profile(
        results=tuple(rows), blocks=blocks, final=record, preferences=Preferences(objective=objective)
    )
    return advise.concluded(made)


@settings(max_examples=80, deadline=None)
@given(finals())
def test_ratios_are_those_of_the_times_that_rows_show(run: Profile) -> None:
    chosen, objective = run.recommendation, run.preferences.objective
    assert chosen is not None
    shown = figures_of(list(run.measured().values()), objective)
    for name, ratio in speeds(run).items():
        assert ratio.value == pytest.approx(shown["pageable"] / shown[name], rel=1e-6)
    if chosen.speedup:
        assert chosen.speedup == pytest.approx(shown["pageable"] / shown[chosen.strategy or ""], rel=1e-6)
    order = sorted(shown, key=shown.__getitem__)
    assert chosen.fastest == order[0]
    assert next(iter(chosen.groups))[0] == order[0]
    if chosen.verdict == "fastest":
        assert chosen.strategy == order[0]
    bars = measured_answer(run).bars
    assert [bar.amount for bar in bars] == sorted(bar.amount for bar in bars)
    for bar in bars:
        assert bar.speed in (None, pytest.approx(shown["pageable"] / bar.amount, rel=1e-6))
    if chosen.bound is not None:
        assert shown[chosen.strategy or ""] <= shown[order[0]] * (1 + chosen.bound) * (1 + 1e-9)
