"""Rules about kinds of host memory: uncached, write-combined, read through strides or textures, ordinary."""

from __future__ import annotations

from functools import partial
from typing import Any

from builders import (
    MIB,
    altered,
    catalogue_device,
    prediction,
    profile,
    recommendation,
    vector_add_trace,
    vector_add_workload,
    workload,
)
from judging import CARDS, Cases, bet, concluding, mixed, on, predicted_run, read, restless, row

from advisor.profiles.schema import Device, Profile, Trace
from advisor.profiles.traces import Traffic

ORIN, THOR = "tegra-io-coherent", "tegra-coherent"
PAGEABLE = row("pageable", 0.040, copies=0.020, consume=0.004)
MANAGED = row("managed", 0.012, consume=0.004)
UNCACHED = row("pinned", 0.060, copies=0.004, consume=0.048)
UNCACHED_ZERO_COPY = row("zero-copy", 0.055, consume=0.048)
PINNED = row("pinned", 0.020, copies=0.010, produce=0.004)
SLOW_WRITES = row("write-combined", 0.034, copies=0.010, produce=0.018)
COPIED = row("pinned", 0.020, kernels=0.001, copies=0.012)
"""128 MiB up and 64 MiB down in 12 ms: the 128 MiB that kernels read would take 8 ms."""
SYSTEM = row("system", 0.0121)
REGISTERED = row("zero-copy-registered", 0.012, kernels=0.003)
FROM_ORIN = row("managed", 0.020, kernels=0.011)
ONE_WAY = workload({"produce": "host", "add": "device"}, {"a": {"produce": "out", "add": "in"}})


MANAGED_A_B = {"a": "managed", "b": "managed", "c": "pinned"}
ELSEWHERE = altered(vector_add_workload(), "buffers.c", external=True)
TEXTURED = altered(vector_add_workload(), "stages.add", textures=True)
combined = partial(row, "write-combined")


def reading_back(*rows: Any, where: str = "discrete") -> list[Profile]:
    """The host stage that says it only writes `a` was seen to read it."""
    seen = Traffic(stage="produce", buffer="a", bytes_read=32 * MIB, bytes_written=64 * MIB, source="traced")
    return on(where, *rows, traffic=Trace(traffic=(seen,)))


def strided(kernels: float, where: str = "discrete", **fields: Any) -> list[Profile]:
    zero_copy = row("zero-copy", 0.010 + kernels, kernels=kernels)
    return on(where, COPIED, zero_copy, **{"traffic": vector_add_trace(), **fields})


def sampled(kernels: float, where: str) -> list[Profile]:
    """Kernels that sample through textures, a copy that takes 8 ms of a frame."""
    copied = row("pinned", 0.020, kernels=0.001, copies=0.008)
    zero_copy = row("zero-copy", 0.010 + kernels, kernels=kernels)
    return on(where, copied, zero_copy, workload=TEXTURED, traffic=vector_add_trace())


def sampled_and_predicted(seconds: float) -> list[Profile]:
    rows = (bet("pinned", 0.02, kernels=0.001, copies=0.012), bet("zero-copy", seconds, kernels=0.0005))
    best = recommendation("zero-copy" if seconds < 0.02 else "pinned")
    told = prediction(device=catalogue_device("RTX 4090"), results=rows, recommendation=best)
    fields = {"workload": TEXTURED, "traffic": vector_add_trace()}
    return [profile(device=Device(name="Test CPU", kind="cpu"), predictions=(told,), **fields)]


EXAMPLES = {"texture-in-mapped-memory": sampled(0.012, "discrete")[0]}
STRIDES_PREDICTED = predicted_run(
    catalogue_device("RTX 4090"),
    bet("pinned", 0.02, kernels=0.001, copies=0.012),
    bet("zero-copy", 0.09, kernels=0.08),
    traffic=vector_add_trace(),
)
CASES: Cases = {
    "uncached-host-read": {
        "results read on a Nano: managed 43.0 ms": on(
            "tegra", PAGEABLE, UNCACHED, UNCACHED_ZERO_COPY, MANAGED
        ),
        "the CPU caches page-locked memory: not-applicable": on(
            f"{ORIN} {THOR} discrete coherent", PAGEABLE, UNCACHED, MANAGED
        ),
        "only written: not-applicable": on("tegra", UNCACHED, MANAGED, workload=ONE_WAY),
        "read elsewhere: not-applicable": on("tegra", PAGEABLE, UNCACHED, MANAGED, workload=ELSEWHERE),
        "costs nothing: pass": on("tegra", PAGEABLE, row("pinned", 0.02, consume=0.005), MANAGED),
        "the baseline is better: pass": on("tegra", PAGEABLE, UNCACHED),
        "in the noise: pass": on("tegra", PAGEABLE, UNCACHED, restless(row("managed", 0.055), 0.3)),
        "none is page-locked: not-applicable": on("tegra", PAGEABLE, MANAGED),
        "a mix: managed 8.00 ms": on("tegra", mixed(MANAGED_A_B, 0.020, consume=0.012), MANAGED),
    },
    "write-combined-read": {
        "read back: pinned 14.0 ms": reading_back(
            PAGEABLE, PINNED, SLOW_WRITES, where=f"discrete {ORIN} coherent"
        ),
        "likely read, without a trace: pinned 14.0 ms": on("discrete", PAGEABLE, PINNED, SLOW_WRITES),
        "costs nothing: pass": reading_back(PINNED, combined(0.020, copies=0.01, produce=0.005)),
        "none is write-combined: not-applicable": reading_back(PINNED),
        "alone: not-applicable": reading_back(SLOW_WRITES),
        "in the noise: pass": reading_back(PINNED, restless(SLOW_WRITES, 0.5)),
    },
    "write-combined-without-gain": {
        "copies at half the rate: pinned 10.0 ms": on(
            f"coherent discrete {ORIN}", PAGEABLE, PINNED, combined(0.030, copies=0.020)
        ),
        "in the noise: pass": on("discrete", PINNED, restless(combined(0.021), 0.2)),
        "among mixes: pinned 10.0 ms": on(
            "discrete",
            PINNED,
            mixed({**MANAGED_A_B, "a": "write-combined"}, 0.030, copies=0.020),
            mixed({**MANAGED_A_B, "a": "pinned"}, 0.021, copies=0.005, number=2),
        ),
        "it pays: pass": on("discrete", PINNED, combined(0.015)),
        "alone: not-applicable": on("discrete", SLOW_WRITES),
    },
    "zero-copy-uncoalesced": {
        "over the link: pinned 11.0 ms": strided(0.021, CARDS),
        "less than 2.5 times the copy: pass": strided(0.019),
        "against device memory of a Jetson: pinned 1.10 ms": strided(0.0111, ORIN),
        "little on a Jetson: pass": strided(0.0024, ORIN),
        "read again: not-applicable": strided(0.08, traffic=read(8)),
        "bytes not known: not-applicable": [
            *strided(0.08, traffic=read(1, "assumed")),
            *strided(0.08, traffic=None),
        ],
        "predicted: not-applicable": [STRIDES_PREDICTED],
    },
    "system-memory-available": {
        "malloc would do: system 27.9 ms": on(
            f"{THOR} coherent discrete-hmm", PAGEABLE, row("zero-copy", 0.012), SYSTEM
        ),
        "kernels cannot reach it: not-applicable": on(f"tegra {ORIN} discrete", PAGEABLE, SYSTEM),
        "pinned is faster: pass": on("discrete-hmm", PAGEABLE, row("pinned", 0.01), SYSTEM),
        "no faster than copies: pass": on("discrete-hmm", PAGEABLE, row("system", 0.2, kernels=0.1)),
        "alone: not-applicable": on("discrete-hmm", SYSTEM),
    },
    "coherence-reversed": {
        "Thor caches registered memory: zero-copy-registered 8.00 ms": on(
            THOR, PAGEABLE, REGISTERED, FROM_ORIN
        ),
        "Orin: not-applicable": on(ORIN, PAGEABLE, REGISTERED, FROM_ORIN),
        "managed is faster: pass": on(THOR, PAGEABLE, REGISTERED, MANAGED),
        "pinned is faster: pass": on(
            THOR, PAGEABLE, REGISTERED, FROM_ORIN, row("pinned", 0.010, kernels=0.001)
        ),
        "none is managed: not-applicable": on(THOR, PAGEABLE, REGISTERED),
    },
    "texture-in-mapped-memory": {
        "slow textures: pinned 2.00 ms": sampled(0.012, f"discrete {ORIN}"),
        "9 ms by a copy and device memory: pass": sampled(0.0112, "discrete"),
        "a little more: pinned 1.30 ms": sampled(0.0113, "discrete"),
        "the copy spares nothing: pass": sampled(0.0012, ORIN),
        "it does: pinned 1.20 ms": sampled(0.0112, ORIN),
        "a coherent link: not-applicable": sampled(0.08, "coherent"),
        "a prediction asks to be measured: advice": sampled_and_predicted(0.001),
        "predicted as slower: pass": sampled_and_predicted(0.09),
    },
}


test_what_the_rule_concludes = concluding(CASES)
