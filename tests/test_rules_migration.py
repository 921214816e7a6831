"""Rules about managed memory: faults, turns, and prefetching where it is not supported.

They ask how buffers are placed, not what a strategy is called: a mix of placements needs nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from builders import cuda_device, workload
from judging import CARDS, JETSONS, Cases, judge, on, restless, row, says
from rendering import Accepted

from advisor.profiles.schema import BufferRecord, Profile, WorkloadRecord
from advisor.strategies.mixes import PLACEMENTS as PLACED
from advisor.strategies.placement import Placement
from advisor.strategies.registry import STRATEGIES

PAGEABLE = row("pageable", 0.060, kernels=0.001, copies=0.020)
PINNED = row("pinned", 0.020, kernels=0.001, copies=0.010)
PREFETCHED = row("managed-prefetch", 0.025, kernels=0.001, copies=0.012)
FAULTING = row("managed", 0.050, kernels=0.021, produce=0.010)
SYSTEM = row("system", 0.015, kernels=0.003)
ATTACHED = row("managed-prefetch", 0.010, kernels=0.001)
PLAIN = row("managed", 0.014, kernels=0.001)
WINDOWS = cuda_device("discrete", concurrent_managed_access=0)
SPARK = cuda_device("coherent", integrated=1)
SOLVER = workload(
    {"load": "host", "step": "device", "check": "host", "correct": "device", "report": "host"},
    {"state": {"load": "out", "step": "inout", "check": "inout", "correct": "inout", "report": "in"}},
)
"""The side that touches the state changes four times in a frame."""


def waiting(seconds: float) -> list[Profile]:
    """A frame of 10 µs whose kernels wait so long for managed memory."""
    near = {"produce": 2e-6, "consume": 2e-6}
    resident = row("pinned", 12e-6, kernels=5e-6, copies=2e-6, **near)
    return on("discrete", resident, row("managed", 22e-6, kernels=5e-6 + seconds, **near))


def attaching(*rows: Any, where: str = "tegra-io-coherent", concurrent: int = 0) -> list[Profile]:
    devices = [cuda_device(each, concurrent_managed_access=concurrent) for each in where.split()]  # type: ignore[arg-type]
    return [run for device in devices for run in on(device, *rows)]


CASES: Cases = {
    "page-fault-migration": [
        ("pinned 30.0 ms", "kernels wait for pages", on(CARDS, PAGEABLE, PINNED, PREFETCHED, FAULTING)),
        ("pinned 10.0 µs", "less than one fault is not called a fault", waiting(9.5e-6)),
        ("pinned 10.0 µs", "one fault", waiting(11e-6)),
        (
            "managed-prefetch 25.0 ms",
            "prefetching is the best",
            on("discrete", PAGEABLE, row("pinned", 0.03, kernels=0.001, copies=0.02), PREFETCHED, FAULTING),
        ),
        *(
            (
                "pass",
                f"kernels of {kernels:g} s",
                on("discrete", PINNED, row("managed", 0.05, kernels=kernels)),
            )
            for kernels in (0.005, 0.0005)
        ),
        ("pass", "none is faster", on("discrete", PAGEABLE, FAULTING)),
        ("pass", "in the noise", on("discrete", restless(PINNED, 0.6), restless(FAULTING, 0.6))),
        ("not-applicable", "none is managed", on("discrete", PAGEABLE, PINNED)),
        (
            "not-applicable",
            "none is in device memory",
            on("discrete", FAULTING, row("zero-copy", 0.01, kernels=0.005)),
        ),
        ("not-applicable", "one memory", on(f"{JETSONS} coherent", PAGEABLE, PINNED, FAULTING)),
        ("not-applicable", "whole allocations move", on(WINDOWS, PAGEABLE, PINNED, FAULTING)),
    ],
    "ping-pong-migration": [
        ("pinned 30.0 ms", "four turns", on("discrete", PAGEABLE, PINNED, FAULTING, workload=SOLVER)),
        ("pinned 30.0 ms", "whole allocations move", on(WINDOWS, PAGEABLE, PINNED, FAULTING)),
        ("system 35.0 ms", "a coherent link", on("coherent", PAGEABLE, FAULTING, SYSTEM)),
        (
            "not-applicable",
            "one DRAM",
            [
                run
                for device in ("tegra-io-coherent", SPARK)
                for run in on(device, PAGEABLE, PINNED, FAULTING, workload=SOLVER)
            ],
        ),
        ("pass", "none is faster", on("discrete", PAGEABLE, FAULTING, workload=SOLVER)),
        (
            "pass",
            "managed is the fastest",
            on("discrete", PAGEABLE, PINNED, row("managed", 0.010, kernels=0.001), workload=SOLVER),
        ),
        ("not-applicable", "none is managed", on("discrete", PAGEABLE, PINNED, workload=SOLVER)),
    ],
    "prefetch-unsupported": [
        (
            "managed-prefetch 4.00 ms",
            "attaching is faster",
            attaching(PAGEABLE, PLAIN, ATTACHED, where="tegra-io-coherent tegra discrete"),
        ),
        ("not-applicable", "supported", attaching(PLAIN, ATTACHED, concurrent=1)),
        ("not-applicable", "not known", on("tegra-io-coherent", PLAIN, ATTACHED)),
        ("not-applicable", "none is attached", attaching(PLAIN)),
        ("not-applicable", "all are", attaching(ATTACHED)),
        ("pass", "in the noise", attaching(PLAIN, restless(ATTACHED, 0.5))),
        ("pass", "zero-copy is faster", attaching(PLAIN, ATTACHED, row("zero-copy", 0.009, kernels=0.001))),
    ],
}


@pytest.mark.parametrize("rule", CASES)
def test_what_the_rule_concludes(rule: str, accepted: Accepted) -> None:
    judge(rule, CASES, accepted)


@dataclass(frozen=True)
class Mixed(Placement):
    """One placement for the buffer a, another for the rest."""

    first: Placement
    rest: Placement

    def adapted(self, buffer: BufferRecord, workload: WorkloadRecord) -> Placement:
        return self.first if buffer.name == "a" else self.rest


def apart(first: Placement, rest: Placement) -> Mixed:
    return Mixed(host_kind="pinned", device_kind="device", first=first, rest=rest)


def test_rules_ask_how_a_mix_places_its_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = {
        "mixed": apart(PLACED["managed"], PLACED["pinned"]),
        "combined": apart(PLACED["write-combined"], PLACED["managed"]),
        "plain": apart(PLACED["pinned"], PLACED["managed"]),
        "cached": PLACED["zero-copy-registered"],
    }
    known = tuple(replace(STRATEGIES[0], name=name, placement=how) for name, how in pairs.items())
    monkeypatch.setattr("advisor.rules.rows.STRATEGIES", (*STRATEGIES, *known))
    pinned = row("pinned", 0.010, kernels=0.002, copies=0.004)
    mixed = row("mixed", 0.020, kernels=0.012, copies=0.003, consume=0.004)
    managed = row("managed", 0.020, kernels=0.012)
    quick = row("managed", 0.008, kernels=0.002, consume=0.001)
    combined = row("combined", 0.020, kernels=0.002, copies=0.010)
    plain = row("plain", 0.012, kernels=0.002, copies=0.002)
    for rule, where, rows, outcome, strategy, words in (
        ("ping-pong-migration", "coherent", (mixed, pinned), "advice", "pinned", "mixed"),
        ("uncached-host-read", "tegra", (mixed, quick), "advice", "managed", "mixed"),
        ("write-combined-without-gain", "discrete", (pinned, combined, plain), "advice", "pinned", "plain"),
        (
            "coherence-reversed",
            "tegra-coherent",
            (managed, row("cached", 0.010, kernels=0.002)),
            "advice",
            "cached",
            "registered",
        ),
        ("page-fault-migration", "discrete", (managed, mixed), "not-applicable", None, "in device memory"),
        ("page-fault-migration", "discrete", (managed, pinned), "advice", "pinned", ""),
    ):
        (run,) = on(where, *rows)
        found = says(rule, run)
        assert (found.outcome, found.strategy) == (outcome, strategy), found.detail
        assert words in found.detail
