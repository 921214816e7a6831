"""Rules about kinds of host memory: uncached, write-combined, read through strides, ordinary, on Thor."""

from __future__ import annotations

from typing import Any

import pytest
from builders import MIB, catalogue_device, cuda_device, profile, vector_add_trace, vector_add_workload
from every import every
from judging import bet, figures, predicted_run, read, restless, row, says, verdict_of, workload

from advisor.profiles.schema import MemoryClass, Profile, Trace, WorkloadRecord
from advisor.profiles.traces import Traffic

PAGEABLE = row("pageable", 0.040, kernels=0.002, copies=0.020, consume=0.004)
MANAGED = row("managed", 0.012, kernels=0.002, consume=0.004)
UNCACHED = row("pinned", 0.060, kernels=0.002, copies=0.004, consume=0.048)
UNCACHED_ZERO_COPY = row("zero-copy", 0.055, kernels=0.002, consume=0.048)


# uncached-host-read


def test_a_nano_reads_its_page_locked_results_slowly():
    rows = (PAGEABLE, UNCACHED, UNCACHED_ZERO_COPY, MANAGED)
    found = verdict_of("uncached-host-read", *rows, on="tegra")
    assert (found.outcome, found.strategy, found.certainty) == ("advice", "managed", "measured")
    assert found.gain.over == "zero-copy"
    assert found.gain.seconds_per_frame == pytest.approx(0.043)
    assert figures(found)["zero-copy: consume"] == 0.048


@every("memory_class", ["tegra-io-coherent", "tegra-coherent", "discrete", "coherent"])
def test_elsewhere_page_locked_memory_is_cached_by_the_cpu(memory_class: MemoryClass):
    rows = (PAGEABLE, UNCACHED, MANAGED)
    found = verdict_of("uncached-host-read", *rows, on=memory_class)
    assert found.outcome == "not-applicable"
    assert "caches page-locked memory" in found.detail


def test_what_the_cpu_only_writes_or_has_elsewhere_is_not_read_uncached():
    one_way = workload({"produce": "host", "add": "device"}, {"a": {"produce": "out", "add": "in"}})
    run = profile(device=cuda_device("tegra"), workload=one_way, results=(UNCACHED, MANAGED))
    assert says("uncached-host-read", run).outcome == "not-applicable"
    run = profile(device=cuda_device("tegra"), workload=external("c"), results=(PAGEABLE, UNCACHED, MANAGED))
    assert says("uncached-host-read", run).outcome == "not-applicable"


# write-combined-read

PINNED = row("pinned", 0.020, kernels=0.002, copies=0.010, produce=0.004)
SLOW_WRITES = row("write-combined", 0.034, kernels=0.002, copies=0.010, produce=0.018)


def reading_back(amount: float) -> Trace:
    """The host stage that says it only writes `a` was seen to read it."""
    seen = Traffic(stage="produce", buffer="a", bytes_read=amount, bytes_written=64 * MIB, source="traced")
    return Trace(traffic=(seen,))


@every("memory_class", ["discrete", "tegra-io-coherent", "coherent"])
def test_reading_back_write_combined_memory(memory_class: MemoryClass):
    rows = (PAGEABLE, PINNED, SLOW_WRITES)
    run = profile(device=cuda_device(memory_class), results=rows, traffic=reading_back(32 * MIB))
    found = says("write-combined-read", run)
    assert (found.outcome, found.strategy, found.certainty) == ("advice", "pinned", "measured")
    assert figures(found)["write-combined: produce"] == 0.018
    assert figures(found)["pinned: produce"] == 0.004
    assert figures(found)["reads of write-combined memory by the CPU"] == 32 * MIB
    assert found.gain.over == "write-combined"
    assert found.gain.seconds_per_frame == pytest.approx(0.014)


def test_slow_writes_without_a_trace_are_likely_reads():
    found = verdict_of("write-combined-read", PAGEABLE, PINNED, SLOW_WRITES)
    assert (found.outcome, found.certainty) == ("advice", "likely")


# write-combined-without-gain


@every("memory_class", ["coherent", "discrete", "tegra-io-coherent"])
def test_write_combining_that_halves_the_copies(memory_class: MemoryClass):
    rows = (PAGEABLE, PINNED, row("write-combined", 0.030, kernels=0.002, copies=0.020))
    found = verdict_of("write-combined-without-gain", *rows, on=memory_class)
    assert (found.outcome, found.strategy) == ("advice", "pinned")
    assert figures(found)["write-combined: copies"] == 0.020


# zero-copy-uncoalesced

COPIED = row("pinned", 0.020, kernels=0.001, copies=0.012)
"""128 MiB up and 64 MiB down in 12 ms: the 128 MiB that kernels read would take 8 ms."""


def strided(kernels: float, **fields: Any) -> Profile:
    zero_copy = row("zero-copy", 0.010 + kernels, kernels=kernels)
    return profile(results=(COPIED, zero_copy), traffic=vector_add_trace(), **fields)


@every("memory_class", ["discrete", "discrete-hmm"])
def test_strides_over_the_link(memory_class: MemoryClass):
    found = says("zero-copy-uncoalesced", strided(0.021, device=cuda_device(memory_class)))
    assert (found.outcome, found.strategy, found.certainty) == ("advice", "pinned", "likely")
    assert figures(found)["bytes of shared buffers that kernels use, both directions"] == 128 * MIB
    assert "8.00 ms" in found.detail
    assert says("zero-copy-uncoalesced", strided(0.019)).outcome == "pass"


def test_strides_on_a_jetson_are_held_against_device_memory():
    jetson = cuda_device("tegra-io-coherent")
    found = says("zero-copy-uncoalesced", strided(0.0111, device=jetson))
    assert (found.outcome, found.strategy) == ("advice", "pinned")
    assert figures(found)["pinned: kernels"] == 0.001
    assert says("zero-copy-uncoalesced", strided(0.0024, device=jetson)).outcome == "pass"


@every(
    ("traffic", "text"),
    [(read(8), "zero-copy-reread"), (read(1, "assumed"), "not known"), (None, "not known")],
)
def test_strides_need_to_know_the_bytes(traffic: Any, text: str):
    run = profile(results=(COPIED, row("zero-copy", 0.09, kernels=0.08)), traffic=traffic)
    found = says("zero-copy-uncoalesced", run)
    assert found.outcome == "not-applicable"
    assert text in found.detail


def test_strides_are_not_predicted():
    card = catalogue_device("RTX 4090")
    rows = (bet("pinned", 0.02, kernels=0.001, copies=0.012), bet("zero-copy", 0.09, kernels=0.08))
    found = says("zero-copy-uncoalesced", predicted_run(card, *rows, traffic=vector_add_trace()))
    assert (found.outcome, "cannot see strides" in found.detail) == ("not-applicable", True)


# system-memory-available

SYSTEM = row("system", 0.0121, kernels=0.002)


@every("memory_class", ["tegra-coherent", "coherent", "discrete-hmm"])
def test_malloc_would_do(memory_class: MemoryClass):
    rows = (PAGEABLE, row("zero-copy", 0.012, kernels=0.002), SYSTEM)
    found = verdict_of("system-memory-available", *rows, on=memory_class)
    assert (found.outcome, found.strategy) == ("advice", "system")
    assert "zero-copy" in found.detail
    assert found.gain.seconds_per_frame == pytest.approx(0.0279)


@every("memory_class", ["tegra", "tegra-io-coherent", "discrete"])
def test_where_kernels_cannot_reach_it_malloc_is_not_spoken_of(memory_class: MemoryClass):
    run = profile(device=cuda_device(memory_class), results=(PAGEABLE, SYSTEM))
    assert says("system-memory-available", run).outcome == "not-applicable"


# coherence-reversed

REGISTERED = row("zero-copy-registered", 0.012, kernels=0.003)
FROM_ORIN = row("managed", 0.020, kernels=0.011)


def test_thor_turns_orins_advice_round():
    rows = (PAGEABLE, REGISTERED, FROM_ORIN)
    found = verdict_of("coherence-reversed", *rows, on="tegra-coherent")
    assert (found.outcome, found.strategy) == ("advice", "zero-copy-registered")
    kernels = {"managed: kernels": 0.011, "zero-copy-registered: kernels": 0.003}
    assert figures(found).items() >= kernels.items()
    orin = verdict_of("coherence-reversed", *rows, on="tegra-io-coherent")
    assert orin.outcome == "not-applicable"


def external(name: str) -> WorkloadRecord:
    record = vector_add_workload()
    buffers = tuple(b.model_copy(update={"external": True}) if b.name == name else b for b in record.buffers)
    return record.model_copy(update={"buffers": buffers})


QUIET: dict[tuple[str, MemoryClass], list[tuple[tuple[Any, ...], str, str]]] = {
    ("uncached-host-read", "tegra"): [
        (
            (PAGEABLE, row("pinned", 0.02, kernels=0.002, consume=0.005), MANAGED),
            "pass",
            "costs the CPU nothing",
        ),
        ((PAGEABLE, UNCACHED), "pass", "baseline"),
        ((PAGEABLE, UNCACHED, restless(row("managed", 0.055, kernels=0.002), 0.3)), "pass", "clearly faster"),
        ((PAGEABLE, MANAGED), "not-applicable", "pinned"),
    ],
    ("write-combined-read", "discrete"): [
        ((PINNED, row("write-combined", 0.020, kernels=0.002, copies=0.01, produce=0.005)), "pass", ""),
        ((PINNED,), "not-applicable", ""),
        ((SLOW_WRITES,), "not-applicable", ""),
        ((PINNED, restless(SLOW_WRITES, 0.5)), "pass", ""),
    ],
    ("write-combined-without-gain", "discrete"): [
        ((PINNED, restless(row("write-combined", 0.021, kernels=0.002), 0.2)), "pass", "clearly"),
        ((PINNED, row("write-combined", 0.015, kernels=0.002)), "pass", "pays"),
        ((SLOW_WRITES,), "not-applicable", "pinned"),
    ],
    ("system-memory-available", "discrete-hmm"): [
        ((PAGEABLE, row("pinned", 0.010, kernels=0.002), SYSTEM), "pass", "pinned"),
        ((PAGEABLE, row("system", 0.2, kernels=0.1)), "pass", "not slower"),
        ((SYSTEM,), "not-applicable", "pageable"),
    ],
    ("coherence-reversed", "tegra-coherent"): [
        ((PAGEABLE, REGISTERED, MANAGED), "pass", "managed"),
        ((PAGEABLE, REGISTERED, FROM_ORIN, row("pinned", 0.010, kernels=0.001)), "pass", "pinned"),
        ((PAGEABLE, REGISTERED), "not-applicable", "managed"),
    ],
}


@every(
    ("rule", "on", "rows", "outcome", "text"),
    [(*key, *case) for key, cases in QUIET.items() for case in cases],
)
def test_rules_keep_quiet(rule: str, on: MemoryClass, rows: Any, outcome: str, text: str):
    traffic = {"traffic": reading_back(32 * MIB)} if rule == "write-combined-read" else {}
    found = verdict_of(rule, *rows, on=on, **traffic)
    assert found.outcome == outcome
    assert text in found.detail
