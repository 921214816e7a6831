"""Rules ask how buffers are placed, not what a strategy is called: a mix of placements needs nothing more."""

from __future__ import annotations

from dataclasses import replace

import pytest
from judging import figures, row, verdict_of

from advisor.profiles.schema import BufferRecord, WorkloadRecord
from advisor.strategies.placements.base import Placement
from advisor.strategies.placements.kinds import Managed, Pinned, WriteCombined, ZeroCopyRegistered
from advisor.strategies.registry import STRATEGIES


class Mixed(Pinned):
    """One placement for the buffer a, another for the rest."""

    def __init__(self, first: Placement, rest: Placement) -> None:
        self.first, self.rest = first, rest

    def adapted(self, buffer: BufferRecord, workload: WorkloadRecord) -> Placement:
        return self.first if buffer.name == "a" else self.rest


@pytest.fixture(autouse=True)
def mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = {
        "mixed": Mixed(Managed(), Pinned()),
        "combined": Mixed(WriteCombined(), Managed()),
        "plain": Mixed(Pinned(), Managed()),
        "cached": ZeroCopyRegistered(),
    }
    made = tuple(replace(STRATEGIES[0], name=name, placement=how) for name, how in pairs.items())
    monkeypatch.setattr("advisor.rules.rows.STRATEGIES", (*STRATEGIES, *made))


PINNED = row("pinned", 0.010, kernels=0.002, copies=0.004)
MIXED = row("mixed", 0.020, kernels=0.012, copies=0.003, consume=0.004)


def test_managed_pages_of_one_buffer_are_told() -> None:
    found = verdict_of("ping-pong-migration", MIXED, PINNED, on="coherent")
    assert (found.outcome, found.strategy) == ("advice", "pinned")
    assert found.gain.over == "mixed"


def test_kinds_of_host_memory_by_any_name() -> None:
    managed = row("managed", 0.008, kernels=0.002, consume=0.001)
    found = verdict_of("uncached-host-read", MIXED, managed, on="tegra")
    assert (found.outcome, found.strategy) == ("advice", "managed")
    assert figures(found)["mixed: consume"] == 0.004
    combined = row("combined", 0.020, kernels=0.002, copies=0.010)
    plain = row("plain", 0.012, kernels=0.002, copies=0.002)
    found = verdict_of("write-combined-without-gain", PINNED, combined, plain)
    assert "plain" in found.detail
    managed, cached = row("managed", 0.020, kernels=0.012), row("cached", 0.010, kernels=0.002)
    found = verdict_of("coherence-reversed", managed, cached, on="tegra-coherent")
    assert (found.outcome, found.strategy) == ("advice", "cached")
    assert "registered" in found.detail


def test_kernels_find_copied_and_prefetched_buffers_on_the_card() -> None:
    managed = row("managed", 0.020, kernels=0.012)
    found = verdict_of("page-fault-migration", managed, MIXED)
    assert (found.outcome, "in device memory has figures" in found.detail) == ("not-applicable", True)
    assert verdict_of("page-fault-migration", managed, PINNED).outcome == "advice"
