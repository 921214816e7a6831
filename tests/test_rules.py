"""Each rule: cases that fire it and near ones that must not, on integrated and discrete devices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import (
    MIB,
    catalogue_device,
    cuda_device,
    failed,
    footprint,
    profile,
    skipped,
    vector_add_workload,
)
from every import every
from judging import bet, figures, predicted_run, read, row, says, verdict_of, workload

from advisor.profiles.schema import MemoryClass, Profile, Trace
from advisor.rules.advise import advise, apply, cases
from advisor.rules.base import Kind, passed
from advisor.rules.registry import RULES, by_id

JETSONS = ("tegra", "tegra-io-coherent", "tegra-coherent")
CARDS = ("discrete", "discrete-hmm")


PAGEABLE = row("pageable", 0.040, kernels=0.002, copies=0.020)
PINNED = row("pinned", 0.020, kernels=0.002, copies=0.010)
MANAGED = row("managed", 0.012, kernels=0.002)
SLOW_ZERO_COPY = row("zero-copy", 0.030, kernels=0.025)
FAST_ZERO_COPY = row("zero-copy", 0.011, kernels=0.002)


# zero-copy-reread


def on_orin(run: Profile) -> Profile:
    return run.model_copy(update={"device": cuda_device("tegra-io-coherent")})


@every("memory_class", ["tegra", "tegra-io-coherent"])
def test_reread_on_a_jetson_proposes_the_cached_managed_memory(memory_class: MemoryClass):
    run = profile(
        device=cuda_device(memory_class), results=(PAGEABLE, PINNED, SLOW_ZERO_COPY, MANAGED), traffic=read(8)
    )
    found = says("zero-copy-reread", run)
    assert (found.outcome, found.strategy) == ("advice", "managed")
    assert "PCIe" not in found.detail
    assert found.gain.seconds_per_frame == pytest.approx(0.018)
    assert found.gain.basis == "measured"
    shown = {item.label: (item.value, item.unit, item.predicted) for item in found.evidence}
    assert shown["reads of a by add"] == (8.0, "count", False)
    assert shown["zero-copy: kernels"] == (0.025, "seconds", False)
    assert shown["managed: kernels"] == (0.002, "seconds", False)
    assert "managed_empty" in found.snippet


def test_reread_on_thor():
    rows = (PAGEABLE, PINNED, SLOW_ZERO_COPY)
    thor = cuda_device("tegra-coherent")
    found = verdict_of("zero-copy-reread", *rows, on=thor, traffic=read(8))
    assert (found.outcome, found.strategy) == ("advice", "pinned")
    found = verdict_of("zero-copy-reread", *rows, MANAGED, on=thor, traffic=read(8))
    assert found.strategy == "managed"
    assert "not cached" in found.detail
    rows = (PAGEABLE, SLOW_ZERO_COPY, row("zero-copy-registered", 0.010, kernels=0.002))
    found = verdict_of("zero-copy-reread", *rows, on="tegra-coherent", traffic=read(8))
    assert found.strategy == "zero-copy-registered"
    assert "L2" in found.detail
    orin = profile(device=cuda_device("tegra-io-coherent"), results=rows, traffic=read(8))
    assert says("zero-copy-reread", orin).outcome == "pass"


@every("memory_class", CARDS)
def test_reread_on_a_card_proposes_one_copy(memory_class: MemoryClass):
    run = profile(
        device=cuda_device(memory_class), results=(PAGEABLE, PINNED, SLOW_ZERO_COPY), traffic=read(8)
    )
    found = says("zero-copy-reread", run)
    assert (found.outcome, found.strategy) == ("advice", "pinned")
    assert "512 MiB" in found.detail
    assert found.title != says("zero-copy-reread", on_orin(run)).title


@every("memory_class", [*JETSONS, *CARDS])
def test_data_read_once_or_again_at_no_cost_passes_with_the_figure(memory_class: MemoryClass):
    for zero_copy, passes, figure in (
        (SLOW_ZERO_COPY, 1, ("reads of a by add", 1.0)),
        (FAST_ZERO_COPY, 8, ("zero-copy: one frame", 0.011)),
    ):
        rows = (PAGEABLE, PINNED, zero_copy, MANAGED)
        found = verdict_of("zero-copy-reread", *rows, on=memory_class, traffic=read(passes))
        assert (found.outcome, found.strategy) == ("pass", None)
        assert figure in figures(found).items()


def test_what_is_not_blamed_on_re_reads():
    def outcome(passes: float) -> str:
        rows = (PAGEABLE, PINNED, SLOW_ZERO_COPY)
        return verdict_of("zero-copy-reread", *rows, traffic=read(passes)).outcome

    assert [outcome(1.4), outcome(1.5)] == ["pass", "advice"]
    slow_host = row("zero-copy", 0.030, kernels=0.0024)
    run = profile(device=cuda_device("tegra"), results=(PAGEABLE, slow_host, MANAGED), traffic=read(8))
    assert says("zero-copy-reread", run).outcome == "pass"
    slower = row("zero-copy", 0.030, kernels=0.0026)
    run = profile(device=cuda_device("tegra"), results=(PAGEABLE, slower, MANAGED), traffic=read(8))
    assert says("zero-copy-reread", run).outcome == "advice"
    noisy = row("pinned", 0.029, kernels=0.002, copies=0.010, spread=0.5)
    run = profile(results=(PAGEABLE, noisy, SLOW_ZERO_COPY), traffic=read(8))
    assert says("zero-copy-reread", run).outcome == "pass"


def test_on_a_card_the_copies_count_for_the_other_side():
    through_link = row("zero-copy", 0.030, kernels=0.014)
    rows = (PAGEABLE, PINNED, through_link)
    assert verdict_of("zero-copy-reread", *rows, traffic=read(8)).outcome == "pass"
    jetson = cuda_device("tegra-io-coherent")
    found = verdict_of("zero-copy-reread", *rows, on=jetson, traffic=read(8))
    assert (found.outcome, found.strategy) == ("advice", "pinned")


def test_declared_passes_win_over_traced_ones():
    workload = vector_add_workload()
    stages = tuple(
        s.model_copy(update={"passes": {"a": 8.0}}) if s.name == "add" else s for s in workload.stages
    )
    run = profile(
        workload=workload.model_copy(update={"stages": stages}),
        results=(PAGEABLE, PINNED, SLOW_ZERO_COPY),
        traffic=read(1),
    )
    assert figures(says("zero-copy-reread", run))["reads of a by add"] == 8


@every("traffic", [None, read(1, "assumed")])
def test_unknown_passes_are_judged_by_the_kernels(traffic: Trace | None):
    jetson = cuda_device("tegra-io-coherent")
    found = verdict_of("zero-copy-reread", SLOW_ZERO_COPY, MANAGED, on=jetson, traffic=traffic)
    assert (found.outcome, found.strategy) == ("advice", "managed")
    assert "declare `passes`" in found.detail
    found = verdict_of("zero-copy-reread", FAST_ZERO_COPY, MANAGED, on=jetson, traffic=traffic)
    assert found.outcome == "pass"
    assert "zero-copy: kernels" in figures(found)


def weights_run(memory_class: MemoryClass) -> Profile:
    """The buffer a is written by set-up alone and read once in each frame."""
    workload = vector_add_workload()
    a, *others = workload.buffers
    setup = workload.stages[0].model_copy(update={"name": "load", "phase": "setup"})
    resident = a.model_copy(update={"access": {"load": "out", "add": "in"}})
    return profile(
        workload=workload.model_copy(
            update={"buffers": (resident, *others), "stages": (setup, *workload.stages)}
        ),
        device=cuda_device(memory_class),
        results=(PAGEABLE, PINNED, SLOW_ZERO_COPY),
        traffic=read(1),
    )


def test_data_that_no_frame_renews_is_re_read_through_the_link():
    found = says("zero-copy-reread", weights_run("discrete"))
    assert found.outcome == "advice"
    frame, once = found.snippet.split("# Once, after set-up")
    assert "a_device.set(a, stream=stream)" in once
    assert "a_device.set(" not in frame
    assert "b_device.set(b, stream=stream)" in frame
    assert "b_device.set(" not in once
    assert says("zero-copy-reread", weights_run("tegra-io-coherent")).outcome == "pass"


def test_the_baseline_in_use_is_no_advice():
    run = profile(
        results=(row("pageable", 0.010, kernels=0.002, copies=0.005), SLOW_ZERO_COPY), traffic=read(8)
    )
    found = says("zero-copy-reread", run)
    assert (found.outcome, found.strategy) == ("pass", None)
    assert figures(found)["pageable: one frame"] == 0.010


@every(
    ("memory_class", "results", "reason"),
    [
        ("discrete", (PAGEABLE, skipped("zero-copy", "cannot map host memory")), "cannot map host memory"),
        ("discrete", (PAGEABLE, failed("zero-copy", "ended with a bus error")), "ended with a bus error"),
        ("discrete", (PAGEABLE, PINNED), "zero-copy"),
        ("coherent", (PINNED, SLOW_ZERO_COPY), ""),
    ],
)
def test_reread_does_not_apply_without_zero_copy_or_over_a_coherent_link(memory_class, results, reason):
    found = verdict_of("zero-copy-reread", *results, on=memory_class, traffic=read(8))
    assert found.outcome == "not-applicable"
    assert reason in found.detail


def test_the_proposal_is_the_recommended_strategy_where_that_helps():
    pinned = row("pinned", 0.0121, kernels=0.002, copies=0.001, footprint=footprint(pinned=100 * MIB))
    run = profile(
        device=cuda_device("tegra-io-coherent"),
        results=(PAGEABLE, pinned, SLOW_ZERO_COPY, MANAGED),
        traffic=read(8),
    )
    assert advise(run).recommendation.strategy == "pinned"
    assert {advice.strategy for advice in advise(run).advice if advice.outcome == "advice"} == {"pinned"}


# pageable-transfer


@every("memory_class", [*CARDS, "coherent"])
def test_pageable_copies_on_a_card(memory_class: MemoryClass):
    found = verdict_of("pageable-transfer", PAGEABLE, PINNED, on=memory_class)
    assert (found.outcome, found.strategy) == ("advice", "pinned")
    assert found.title == by_id("pageable-transfer").text.title
    assert ("may stage" in found.detail) == (memory_class == "coherent")
    assert found.gain.seconds_per_frame == pytest.approx(0.020)
    assert found.gain.bytes is None
    assert figures(found)["pageable: copies"] == 0.020
    assert figures(found)["pageable: rate of the copies"] == pytest.approx(192 * MIB / 0.020)
    assert "pinned_empty" in found.snippet


@every("memory_class", JETSONS)
def test_on_a_jetson_the_point_is_that_no_copy_is_needed(memory_class: MemoryClass):
    rows = (PAGEABLE, PINNED, FAST_ZERO_COPY)
    found = verdict_of("pageable-transfer", *rows, on=memory_class)
    assert (found.outcome, found.strategy) == ("advice", "zero-copy")
    assert found.title != by_id("pageable-transfer").text.title
    assert figures(found)["pinned: copies"] == 0.010
    assert "mapped_empty" in found.snippet


def test_pageable_copies_where_no_strategy_is_copy_free():
    rows = (PAGEABLE, PINNED, row("zero-copy", 0.050, kernels=0.045))
    found = verdict_of("pageable-transfer", *rows, on="tegra-io-coherent")
    assert found.strategy == "pinned"
    assert found.title == by_id("pageable-transfer").text.title
    found = verdict_of("pageable-transfer", PINNED, failed("pageable", "ran out of memory"))
    assert found.outcome == "not-applicable"
    assert "ran out of memory" in found.detail
    overlapped = row("pinned-pipelined", 0.013, kernels=0.002, copies=0.010, latency_seconds=0.050)
    found = verdict_of("pageable-transfer", PAGEABLE, PINNED, overlapped)
    assert found.strategy == "pinned"
    assert verdict_of("pageable-transfer", PAGEABLE, overlapped).outcome == "pass"


@every("memory_class", ["tegra-io-coherent", "discrete"])
@every(
    ("rows", "copies", "against"),
    [
        ((row("pageable", 0.040, kernels=0.030, copies=0.0036), PINNED), 0.0036, None),
        ((row("pageable", 0.040, kernels=0.030), PINNED), 0, None),
        ((PAGEABLE, row("pinned", 0.041, kernels=0.002, copies=0.010)), 0.020, 0.041),
        ((PAGEABLE, row("pinned", 0.038, kernels=0.002, copies=0.010, spread=0.5)), 0.020, 0.038),
        ((PAGEABLE, row("pinned", 0.020, kernels=0.002, copies=0.021)), 0.020, 0.020),
        ((PAGEABLE,), 0.020, None),
    ],
)
def test_pageable_transfer_passes(memory_class: MemoryClass, rows, copies, against):
    found = verdict_of("pageable-transfer", *rows, on=memory_class)
    assert found.outcome == "pass"
    assert figures(found)["pageable: copies"] == copies
    assert figures(found).get("pinned: one frame") == against


# duplicate-allocation


@every("memory_class", JETSONS)
def test_copies_on_a_shared_dram_hold_everything_twice(memory_class: MemoryClass):
    rows = (PAGEABLE, PINNED, FAST_ZERO_COPY, MANAGED)
    found = verdict_of("duplicate-allocation", *rows, on=memory_class)
    assert (found.outcome, found.strategy) == ("advice", "zero-copy")
    assert found.gain.bytes == 192 * MIB
    assert found.gain.basis == "measured"
    held = {"pageable: memory": 384 * MIB, "zero-copy: memory": 192 * MIB, "managed: memory": 192 * MIB}
    assert figures(found).items() >= held.items()


def test_coherent_devices_share_a_dram_only_when_integrated():
    rows = (PAGEABLE, MANAGED)
    spark = verdict_of("duplicate-allocation", *rows, on=cuda_device("coherent", integrated=1))
    others = [verdict_of("duplicate-allocation", *rows, on=each) for each in ("coherent", *CARDS)]
    assert [spark.outcome, *(each.outcome for each in others)] == ["advice", *["not-applicable"] * 3]
    assert all("its own memory" in each.detail for each in others[1:])


@every(
    ("rows", "against"),
    [
        ((PAGEABLE, PINNED), None),
        ((PAGEABLE, row("managed", 0.044, kernels=0.002)), 0.044),
        ((PAGEABLE, row("managed", 0.040, kernels=0.002, spread=0.5)), 0.040),
        ((PAGEABLE, row("managed", 0.02, kernels=0.0, footprint=footprint(managed=350 * MIB))), None),
    ],
)
def test_duplicate_allocation_passes(rows, against):
    found = verdict_of("duplicate-allocation", *rows, on="tegra-io-coherent")
    assert found.outcome == "pass"
    assert figures(found).get("managed: one frame") == against


# Predictions


def test_predicted_figures_are_marked_and_estimated():
    orin = catalogue_device("Orin Nano", "tegra-io-coherent")
    rows = (
        bet("pageable", 0.040, kernels=0.002, copies=0.020),
        bet("zero-copy", 0.030, kernels=0.025, memory=192),
        bet("managed", 0.012, kernels=0.002, memory=192),
    )
    run = predicted_run(orin, *rows, traffic=read(8))
    for rule in ("pageable-transfer", "duplicate-allocation", "zero-copy-reread"):
        found = says(rule, run)
        assert (found.device, found.outcome, found.strategy) == ("Orin Nano", "advice", "managed"), rule
        assert found.certainty == "predicted"
        assert found.gain.basis == "estimated"
        assert all(item.predicted for item in found.evidence)
        assert figures(found).get("pageable: copies", 0.020) == pytest.approx(0.020)
        assert "predicted" in found.detail


def test_predicted_reread_on_a_card():
    card = catalogue_device("RTX 4090", "discrete")
    rows = (bet("pinned", 0.020, kernels=0.002, copies=0.010), bet("zero-copy", 0.090, kernels=0.080))
    found = says("zero-copy-reread", predicted_run(card, *rows, traffic=read(8)))
    assert (found.outcome, found.strategy) == ("advice", "pinned")
    close = (bet("pinned", 0.020, kernels=0.002, copies=0.010), bet("zero-copy", 0.0208, kernels=0.016))
    assert says("zero-copy-reread", predicted_run(card, *close, traffic=read(8))).outcome == "pass"


# All rules


def test_where_nothing_is_shared_no_rule_applies():
    run = profile(device=cuda_device("tegra"), results=(failed(),))
    found = {advice.rule: advice for advice in advise(run).advice}
    assert {advice.outcome for advice in found.values()} == {"not-applicable"}
    for rule in RULES:
        if rule.judge and "tegra" in rule.text.memory_classes and not rule.text.several_gpus:
            assert "Test tegra" in found[rule.id].detail
    workload = vector_add_workload()
    scratch = workload.buffers[0].model_copy(update={"access": {"add": "inout"}, "scratch": True})
    only = workload.model_copy(update={"buffers": (scratch, workload.buffers[2])})
    run = profile(workload=only, results=(PAGEABLE, PINNED, SLOW_ZERO_COPY), traffic=read(8))
    found = says("zero-copy-reread", run)
    assert found.outcome == "not-applicable"


def test_a_broken_rule_is_an_error_and_the_others_still_speak():
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("no frames")

    rules = (replace(RULES[0], judge=broken), *RULES[1:])
    first, *others = advise(profile(), rules).advice
    assert (first.outcome, first.rule) == ("error", RULES[0].id)
    assert "ZeroDivisionError: no frames" in first.detail
    of_one_gpu = [rule.id for rule in RULES[1:] if rule.judge and not rule.text.several_gpus]
    assert [advice.rule for advice in others] == of_one_gpu
    assert all(advice.outcome != "error" for advice in others)


def test_a_rule_is_handed_the_case_and_its_own_limits():
    seen: list[Any] = []

    def spy(*handed: Any) -> Any:
        seen.extend(handed)
        return passed("Nothing.")

    rule = replace(RULES[0], judge=spy)
    (case,) = cases(profile())
    apply(rule, case)
    assert seen == [case, {"share": 0.10, "line_share": 0.01}]


ANY = Kind("managed", lambda row: row.places(lambda placed: placed.managed), "Nothing is managed.")


@every(
    ("requires", "results", "why"),
    [
        (("pinned",), (PAGEABLE, skipped("pinned", "no room")), "no room"),
        ((ANY,), (PAGEABLE,), "managed"),
        ((ANY,), (MANAGED,), ""),
        (("managed", ANY), (MANAGED,), ""),
    ],
)
def test_what_a_rule_requires_it_declares(requires: Any, results: Any, why: str):
    rule = replace(RULES[0], requires=requires, judge=lambda case, limits: passed("Asked."))
    (case,) = cases(profile(results=results))
    found = apply(rule, case)
    assert found.outcome == ("not-applicable" if why else "pass")
    assert (why or "Asked.") in found.detail


def test_of_a_kind_by_no_buffer_although_the_strategy_ran():
    one_sided = workload({"run": "device"}, {"a": {"run": "out"}})
    rule = replace(RULES[0], requires=(ANY,))
    (case,) = cases(profile(results=(MANAGED,), workload=one_sided))
    assert apply(rule, case).detail == "Nothing is managed."


@every(("one_dram", "outcomes"), [(None, "aa"), (True, "an"), (False, "na")])
def test_a_rule_may_ask_for_one_dram_or_two(one_dram: bool | None, outcomes: str):
    rule = replace(RULES[0], requires=(), judge=lambda case, limits: passed("Asked."))
    rule.__dict__["text"] = replace(RULES[0].text, one_dram=one_dram)
    jetson, card = (
        apply(rule, case)
        for memory_class in ("tegra", "discrete")
        for case in cases(profile(device=cuda_device(memory_class), results=(PAGEABLE,)))
    )
    assert "".join("a" if said.outcome == "pass" else "n" for said in (jetson, card)) == outcomes
