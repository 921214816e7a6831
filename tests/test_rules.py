"""Each rule: cases that fire it and near ones that must not; here copies against memory used in place."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from builders import (
    MIB,
    altered,
    catalogue_device,
    cuda_device,
    failed,
    footprint,
    profile,
    skipped,
    vector_add_workload,
    workload,
)
from every import every
from judging import CARDS, JETSONS, Cases, bet, concluding, on, predicted_run, read, row, says

from advisor.profiles.schema import Profile
from advisor.rules.advise import advise, apply, cases
from advisor.rules.base import Kind, passed
from advisor.rules.registry import RULES

ORIN, THOR = "tegra-io-coherent", "tegra-coherent"
PAGEABLE = row("pageable", 0.040, copies=0.020)
PINNED = row("pinned", 0.020, copies=0.010)
MANAGED = row("managed", 0.012)
SLOW_ZERO_COPY = row("zero-copy", 0.030, kernels=0.025)
FAST_ZERO_COPY = row("zero-copy", 0.011)
REREAD = (PAGEABLE, PINNED, SLOW_ZERO_COPY)
ONE_MEMORY = (PAGEABLE, PINNED, FAST_ZERO_COPY, MANAGED)


READ: dict[str, Any] = {"produce": "out", "add": "in"}
WEIGHTS = workload(
    {"load": "host", "produce": "host", "add": "device", "consume": "host"},
    {"a": {"load": "out", "add": "in"}, "b": READ, "c": {"add": "out", "consume": "in"}},
    setup=("load",),
)
"""The buffer a is written by set-up alone and read once in each frame."""
ON_ORIN = predicted_run(
    catalogue_device("Orin Nano", ORIN),
    bet("pageable", 0.040, copies=0.020),
    bet("zero-copy", 0.030, kernels=0.025, memory=192),
    bet("managed", 0.012, memory=192),
    traffic=read(8),
)


def on_a_predicted_card(seconds: float, kernels: float) -> Profile:
    rows = (bet("pinned", 0.020, copies=0.010), bet("zero-copy", seconds, kernels=kernels))
    return predicted_run(catalogue_device("RTX 4090"), *rows, traffic=read(8))


pinned, managed = partial(row, "pinned", copies=0.010), partial(row, "managed")
reread = partial(on, traffic=read(8))
DECLARED = altered(vector_add_workload(), "stages.add", passes={"a": 8.0})
LATE = row("pinned-pipelined", 0.013, copies=0.010, latency_seconds=0.050)
LARGE = managed(0.02, kernels=0.0, footprint=footprint(managed=350 * MIB))
BOTH = f"{ORIN} discrete"
REGISTERED = row("zero-copy-registered", 0.010)
CASES: Cases = {
    "zero-copy-reread": {
        "a Jetson caches managed memory: managed 18.0 ms": reread(f"tegra {ORIN}", *REREAD, MANAGED),
        "Thor without managed memory: pinned 10.0 ms": reread(THOR, *REREAD),
        "Thor with managed memory: managed 18.0 ms": reread(THOR, *REREAD, MANAGED),
        "Thor caches registered memory: zero-copy-registered 20.0 ms": reread(
            THOR, PAGEABLE, SLOW_ZERO_COPY, REGISTERED
        ),
        "Orin does not: pass": reread(ORIN, PAGEABLE, SLOW_ZERO_COPY, REGISTERED),
        "a card copies once: pinned 10.0 ms": reread(CARDS, *REREAD),
        "read again at no cost: pass": reread(f"{JETSONS} {CARDS}", *ONE_MEMORY),
        "1.4 passes: pass": on("discrete", *REREAD, traffic=read(1.4)),
        "1.5 passes: pinned 10.0 ms": on("discrete", *REREAD, traffic=read(1.5)),
        "kernels a fifth slower: pass": reread(
            "tegra", PAGEABLE, row("zero-copy", 0.030, kernels=0.0024), MANAGED
        ),
        "kernels a third slower: managed 18.0 ms": reread(
            "tegra", PAGEABLE, row("zero-copy", 0.030, kernels=0.0026), MANAGED
        ),
        "gain in the noise: pass": reread("discrete", PAGEABLE, pinned(0.029, spread=0.5), SLOW_ZERO_COPY),
        "a card's copies take as long as the kernels: pass": reread(
            "discrete", PAGEABLE, PINNED, row("zero-copy", 0.030, kernels=0.014)
        ),
        "the same on a Jetson: pinned 10.0 ms": reread(
            ORIN, PAGEABLE, PINNED, row("zero-copy", 0.030, kernels=0.014)
        ),
        "declared passes win over traced ones: pinned 10.0 ms": on(
            "discrete", *REREAD, traffic=read(1), workload=DECLARED
        ),
        "passes unknown, slow kernels: managed 18.0 ms": [
            run
            for traffic in (None, read(1, "assumed"))
            for run in on(ORIN, SLOW_ZERO_COPY, MANAGED, traffic=traffic)
        ],
        "passes unknown, fast kernels: pass": on(ORIN, FAST_ZERO_COPY, MANAGED, traffic=None),
        "no frame renews it: pinned 10.0 ms": on("discrete", *REREAD, traffic=read(1), workload=WEIGHTS),
        "the same on a Jetson: pass": on(ORIN, *REREAD, traffic=read(1), workload=WEIGHTS),
        "the baseline is in use: pass": reread(
            "discrete", row("pageable", 0.010, copies=0.005), SLOW_ZERO_COPY
        ),
        "no mapping: not-applicable": reread(
            "discrete", PAGEABLE, skipped("zero-copy", "cannot map host memory")
        ),
        "zero-copy was not run: not-applicable": reread("discrete", PAGEABLE, PINNED),
        "a coherent link: not-applicable": reread("coherent", PINNED, SLOW_ZERO_COPY),
        "predicted for Orin: managed 18.0 ms": [ON_ORIN],
        "predicted for a card: pinned 70.0 ms": [on_a_predicted_card(0.090, 0.080)],
        "predicted as nearly alike: pass": [on_a_predicted_card(0.0208, 0.016)],
    },
    "pageable-transfer": {
        "a card: pinned 20.0 ms": on(f"{CARDS} coherent", PAGEABLE, PINNED),
        "a Jetson needs no copy: zero-copy 29.0 ms": on(JETSONS, PAGEABLE, PINNED, FAST_ZERO_COPY),
        "a Jetson where zero-copy is slow: pinned 20.0 ms": on(
            ORIN, PAGEABLE, PINNED, row("zero-copy", 0.050, kernels=0.045)
        ),
        "pageable failed: not-applicable": on("discrete", PINNED, failed("pageable", "out of memory")),
        "not what has its results later: pinned 20.0 ms": on("discrete", PAGEABLE, PINNED, LATE),
        "results later alone: pass": on("discrete", PAGEABLE, LATE),
        "copies of 9 %: pass": on(BOTH, row("pageable", 0.040, kernels=0.030, copies=0.0036), PINNED),
        "no copies: pass": on(BOTH, row("pageable", 0.040, kernels=0.030), PINNED),
        "pinned is slower: pass": on(BOTH, PAGEABLE, pinned(0.041)),
        "in the noise: pass": on(BOTH, PAGEABLE, pinned(0.038, spread=0.5)),
        "its copies are slower: pass": on(BOTH, PAGEABLE, pinned(0.020, copies=0.021)),
        "pageable alone: pass": on(BOTH, PAGEABLE),
        "predicted for Orin: managed 28.0 ms": [ON_ORIN],
    },
    "duplicate-allocation": {
        "copies on one DRAM hold everything twice: zero-copy 29.0 ms": on(JETSONS, *ONE_MEMORY),
        "an integrated coherent device: managed 28.0 ms": on(
            cuda_device("coherent", integrated=1), PAGEABLE, MANAGED
        ),
        "memory of its own: not-applicable": on(f"coherent {CARDS}", PAGEABLE, MANAGED),
        "both copy: pass": on(ORIN, PAGEABLE, PINNED),
        "a tenth slower: pass": on(ORIN, PAGEABLE, managed(0.044)),
        "in the noise: pass": on(ORIN, PAGEABLE, managed(0.040, spread=0.5)),
        "nearly as much memory: pass": on(ORIN, PAGEABLE, LARGE),
        "predicted for Orin: managed 28.0 ms": [ON_ORIN],
    },
}


test_what_the_rule_concludes = concluding(CASES)


def test_the_proposal_is_the_recommended_strategy_where_that_helps() -> None:
    pinned = row("pinned", 0.0121, copies=0.001, footprint=footprint(pinned=100 * MIB))
    (run,) = on(ORIN, PAGEABLE, pinned, SLOW_ZERO_COPY, MANAGED, traffic=read(8))
    assert advise(run).recommendation.strategy == "pinned"
    assert {advice.strategy for advice in advise(run).advice if advice.outcome == "advice"} == {"pinned"}


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


ONE_SIDED = workload({"run": "device"}, {"a": {"run": "out"}})
ANY = Kind("managed", lambda row: row.places(lambda placed: placed.managed), "Nothing is managed.")


@every(
    ("requires", "fields", "why"),
    [
        (("pinned",), {"results": (PAGEABLE, skipped("pinned", "no room"))}, "no room"),
        ((ANY,), {"results": (PAGEABLE,)}, "managed"),
        ((ANY,), {"results": (MANAGED,)}, ""),
        (("managed", ANY), {"results": (MANAGED,)}, ""),
        ((ANY,), {"results": (MANAGED,), "workload": ONE_SIDED}, "Nothing is managed."),
    ],
)
def test_what_a_rule_requires_it_declares(requires: Any, fields: Any, why: str):
    rule = replace(RULES[0], requires=requires, judge=lambda case, limits: passed("Asked."))
    (case,) = cases(profile(**fields))
    found = apply(rule, case, {})
    assert found.outcome == ("not-applicable" if why else "pass")
    assert (why or "Asked.") in found.detail
