"""Rules about managed memory: faults, turns, and prefetching where it is not supported."""

from __future__ import annotations

from typing import Any

import pytest
from builders import MIB, cuda_device, profile
from every import every
from judging import figures, restless, row, says, verdict_of, workload

from advisor.profiles.schema import MemoryClass
from advisor.rules.registry import by_id

PAGEABLE = row("pageable", 0.060, kernels=0.001, copies=0.020)
PINNED = row("pinned", 0.020, kernels=0.001, copies=0.010)
PREFETCHED = row("managed-prefetch", 0.025, kernels=0.001, copies=0.012)
FAULTING = row("managed", 0.050, kernels=0.021, produce=0.010)


# page-fault-migration


@every("memory_class", ["discrete", "discrete-hmm"])
def test_kernels_that_wait_for_pages(memory_class: MemoryClass):
    rows = (PAGEABLE, PINNED, PREFETCHED, FAULTING)
    found = verdict_of("page-fault-migration", *rows, on=memory_class)
    assert (found.outcome, found.strategy, found.certainty) == ("advice", "pinned", "likely")
    assert found.title != by_id("page-fault-migration").text.title
    assert found.gain.over == "managed"
    assert figures(found)["managed: migration rate"] == pytest.approx(192 * MIB / 0.020)
    assert figures(found)["managed: host stages"] == pytest.approx(0.011)


@every(
    ("waiting", "said"),
    [(9.5e-6, "goes to pages not in device memory (faults, or"), (11e-6, "goes to faults,")],
)
def test_less_than_one_fault_is_not_called_a_fault(waiting: float, said: str):
    near = {"produce": 2e-6, "consume": 2e-6}
    resident = row("pinned", 12e-6, kernels=5e-6, copies=2e-6, **near)
    rows = (resident, row("managed", 22e-6, kernels=5e-6 + waiting, **near))
    found = verdict_of("page-fault-migration", *rows)
    assert (found.outcome, found.certainty) == ("advice", "likely")
    assert said in found.detail
    assert ("managed: migration rate" in figures(found)) == (said == "goes to faults,")


def test_prefetching_is_proposed_where_it_is_the_best():
    rows = (PAGEABLE, row("pinned", 0.030, kernels=0.001, copies=0.02), PREFETCHED, FAULTING)
    found = verdict_of("page-fault-migration", *rows)
    assert found.strategy == "managed-prefetch"
    assert found.title == by_id("page-fault-migration").text.title


@every(
    ("rows", "outcome", "text"),
    [
        ((PINNED, row("managed", 0.050, kernels=0.005)), "pass", "only 4.00 ms"),
        ((PINNED, row("managed", 0.050, kernels=0.0005)), "pass", "as fast as"),
        ((PAGEABLE, FAULTING), "pass", "clearly faster"),
        ((restless(PINNED, 0.6), restless(FAULTING, 0.6)), "pass", "clearly faster"),
        ((PAGEABLE, PINNED), "not-applicable", "managed"),
        ((FAULTING, row("zero-copy", 0.01, kernels=0.005)), "not-applicable", "device memory"),
    ],
)
def test_page_faults_keep_quiet(rows: Any, outcome: str, text: str):
    found = verdict_of("page-fault-migration", *rows)
    assert found.outcome == outcome
    assert text in found.detail


@every("memory_class", ["tegra", "tegra-io-coherent", "tegra-coherent", "coherent"])
def test_no_faults_on_one_memory(memory_class: MemoryClass):
    run = profile(device=cuda_device(memory_class), results=(PAGEABLE, PINNED, FAULTING))
    assert says("page-fault-migration", run).outcome == "not-applicable"


def test_without_pages_that_fault_nothing_is_said():
    windows = cuda_device("discrete", concurrent_managed_access=0)
    found = verdict_of("page-fault-migration", PAGEABLE, PINNED, FAULTING, on=windows)
    assert found.outcome == "not-applicable"
    assert "whole allocations" in found.detail


# ping-pong-migration

SOLVER = workload(
    {"load": "host", "step": "device", "check": "host", "correct": "device", "report": "host"},
    {"state": {"load": "out", "step": "inout", "check": "inout", "correct": "inout", "report": "in"}},
)
"""The side that touches the state changes four times in a frame."""


def test_turns_by_the_way_memory_moves():
    found = verdict_of("ping-pong-migration", PAGEABLE, PINNED, FAULTING, workload=SOLVER)
    assert (found.outcome, found.strategy) == ("advice", "pinned")
    assert "state (64.0 MiB) 4 times" in found.detail
    assert figures(found)["maximum bytes that change sides per frame"] == 256 * MIB
    device = cuda_device("discrete", concurrent_managed_access=0)
    found = verdict_of("ping-pong-migration", PAGEABLE, PINNED, FAULTING, on=device)
    assert (found.outcome, found.strategy) == ("advice", "pinned")
    assert "moves each managed buffer that the CPU touched whole" in found.detail
    assert "by faults or prefetch" not in found.detail
    rows = (PAGEABLE, FAULTING, row("system", 0.015, kernels=0.003))
    found = verdict_of("ping-pong-migration", *rows, on="coherent")
    assert (found.outcome, found.strategy) == ("advice", "system")
    assert "a (64.0 MiB) 2 times" in found.detail


@every("device", [cuda_device("tegra-io-coherent"), cuda_device("coherent", integrated=1)])
def test_nothing_migrates_on_one_dram(device):
    run = profile(device=device, workload=SOLVER, results=(PAGEABLE, PINNED, FAULTING))
    assert says("ping-pong-migration", run).outcome == "not-applicable"


@every(
    ("rows", "outcome", "text"),
    [
        ((PAGEABLE, FAULTING), "pass", "clearly faster"),
        ((PAGEABLE, PINNED, row("managed", 0.010, kernels=0.001)), "pass", "clearly faster"),
        ((PAGEABLE, PINNED), "not-applicable", "managed"),
    ],
)
def test_turns_keep_quiet(rows: Any, outcome: str, text: str):
    found = verdict_of("ping-pong-migration", *rows, workload=SOLVER)
    assert found.outcome == outcome
    assert text in found.detail


# prefetch-unsupported

ATTACHED = row("managed-prefetch", 0.010, kernels=0.001)
PLAIN = row("managed", 0.014, kernels=0.001)


@every("memory_class", ["tegra-io-coherent", "tegra", "discrete"])
def test_attaching_where_prefetching_fails(memory_class: MemoryClass):
    device = cuda_device(memory_class, concurrent_managed_access=0)
    found = verdict_of("prefetch-unsupported", PAGEABLE, PLAIN, ATTACHED, on=device)
    assert (found.outcome, found.strategy) == ("advice", "managed-prefetch")
    assert found.gain.seconds_per_frame == pytest.approx(0.004)


@every(
    ("flags", "rows", "outcome", "text"),
    [
        ({"concurrent_managed_access": 1}, (PLAIN, ATTACHED), "not-applicable", "is supported"),
        ({}, (PLAIN, ATTACHED), "not-applicable", "not known"),
        ({"concurrent_managed_access": 0}, (PLAIN,), "not-applicable", "managed-prefetch"),
        ({"concurrent_managed_access": 0}, (ATTACHED,), "not-applicable", "managed"),
        ({"concurrent_managed_access": 0}, (PLAIN, restless(ATTACHED, 0.5)), "pass", "use neither"),
        (
            {"concurrent_managed_access": 0},
            (PLAIN, ATTACHED, row("zero-copy", 0.009, kernels=0.001)),
            "pass",
            "zero-copy",
        ),
    ],
)
def test_prefetch_unsupported_keeps_quiet(flags: Any, rows: Any, outcome: str, text: str):
    device = cuda_device("tegra-io-coherent", **flags)
    found = verdict_of("prefetch-unsupported", *rows, on=device)
    assert found.outcome == outcome
    assert text in found.detail
