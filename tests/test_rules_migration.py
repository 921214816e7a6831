"""Rules about managed memory: faults, turns, and prefetching where it is not supported.

They ask how buffers are placed, not what a strategy is called: a mix needs nothing more.
"""

from __future__ import annotations

from typing import Any

from builders import cuda_device, workload
from judging import CARDS, JETSONS, Cases, concluding, mixed, on, restless, row

from advisor.profiles.schema import Profile

PAGEABLE = row("pageable", 0.060, kernels=0.001, copies=0.020)
PINNED = row("pinned", 0.020, kernels=0.001, copies=0.010)
PREFETCHED = row("managed-prefetch", 0.025, kernels=0.001, copies=0.012)
FAULTING = row("managed", 0.050, kernels=0.021, produce=0.010)
SYSTEM = row("system", 0.015, kernels=0.003)
ATTACHED = row("managed-prefetch", 0.010, kernels=0.001)
PLAIN = row("managed", 0.014, kernels=0.001)
WINDOWS = cuda_device("discrete", concurrent_managed_access=0)
SPARK = cuda_device("coherent", integrated=1)
MANAGED_A = mixed({"a": "managed", "b": "pinned", "c": "pinned"}, 0.050, kernels=0.021, copies=0.003)
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
    "page-fault-migration": {
        "kernels wait for pages: pinned 30.0 ms": on(CARDS, PAGEABLE, PINNED, PREFETCHED, FAULTING),
        "less than one fault is not called a fault: pinned 10.0 µs": waiting(9.5e-6),
        "one fault: pinned 10.0 µs": waiting(11e-6),
        "prefetching is the best: managed-prefetch 25.0 ms": on(
            "discrete", PAGEABLE, row("pinned", 0.03, kernels=0.001, copies=0.02), PREFETCHED, FAULTING
        ),
        "kernels of 0.005 s: pass": on("discrete", PINNED, row("managed", 0.05, kernels=0.005)),
        "kernels of 0.0005 s: pass": on("discrete", PINNED, row("managed", 0.05, kernels=0.0005)),
        "none is faster: pass": on("discrete", PAGEABLE, FAULTING),
        "in the noise: pass": on("discrete", restless(PINNED, 0.6), restless(FAULTING, 0.6)),
        "none is managed: not-applicable": on("discrete", PAGEABLE, PINNED),
        "none is in device memory: not-applicable": on(
            "discrete", FAULTING, row("zero-copy", 0.01, kernels=0.005)
        ),
        "only a mix is in device memory: not-applicable": on("discrete", FAULTING, MANAGED_A),
        "one memory: not-applicable": on(f"{JETSONS} coherent", PAGEABLE, PINNED, FAULTING),
        "whole allocations move: not-applicable": on(WINDOWS, PAGEABLE, PINNED, FAULTING),
    },
    "ping-pong-migration": {
        "four turns: pinned 30.0 ms": on("discrete", PAGEABLE, PINNED, FAULTING, workload=SOLVER),
        "whole allocations move: pinned 30.0 ms": on(WINDOWS, PAGEABLE, PINNED, FAULTING),
        "a coherent link: system 35.0 ms": on("coherent", PAGEABLE, FAULTING, SYSTEM),
        "a mix: pinned 30.0 ms": on("coherent", MANAGED_A, PINNED),
        "one DRAM: not-applicable": [
            run
            for device in ("tegra-io-coherent", SPARK)
            for run in on(device, PAGEABLE, PINNED, FAULTING, workload=SOLVER)
        ],
        "none is faster: pass": on("discrete", PAGEABLE, FAULTING, workload=SOLVER),
        "none is managed: not-applicable": on("discrete", PAGEABLE, PINNED, workload=SOLVER),
    },
    "prefetch-unsupported": {
        "attaching is faster: managed-prefetch 4.00 ms": attaching(
            PAGEABLE, PLAIN, ATTACHED, where="tegra-io-coherent tegra discrete"
        ),
        "supported: not-applicable": attaching(PLAIN, ATTACHED, concurrent=1),
        "not known: not-applicable": on("tegra-io-coherent", PLAIN, ATTACHED),
        "none is attached: not-applicable": attaching(PLAIN),
        "all are: not-applicable": attaching(ATTACHED),
        "in the noise: pass": attaching(PLAIN, restless(ATTACHED, 0.5)),
        "zero-copy is faster: pass": attaching(PLAIN, ATTACHED, row("zero-copy", 0.009, kernels=0.001)),
    },
}


test_what_the_rule_concludes = concluding(CASES)
