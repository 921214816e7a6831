"""Rules about copies: staged, small, serial, by hand, there and back; and about locked and scarce memory."""

from __future__ import annotations

from typing import Any

import pytest
from builders import (
    MIB,
    catalogue_device,
    cuda_device,
    footprint,
    host_state,
    profile,
    skipped,
    vector_add_trace,
    workload,
)
from judging import CARDS, Cases, bet, judge, on, predicted_run, restless, row
from rendering import Accepted

from advisor.profiles.conclusions import Preferences
from advisor.profiles.figures import PageLocking
from advisor.profiles.schema import Measured, Profile, WorkloadRecord
from advisor.profiles.traces import Wait

ORIN = "tegra-io-coherent"
PAGEABLE = row("pageable", 0.040, kernels=0.002, copies=0.020)
PINNED = row("pinned", 0.020, kernels=0.002, copies=0.010)
POOL = footprint(pageable=192 * MIB, pinned=256 * MIB, device=192 * MIB)
STAGED = row("staged", 0.050, kernels=0.002, copies=0.030, footprint=POOL)
ZERO_COPY = row("zero-copy", 0.012, kernels=0.003)
OVERLAPPED = row(
    "pinned-pipelined",
    0.013,
    kernels=0.002,
    copies=0.010,
    latency_seconds=0.026,
    footprint=footprint(pinned=384 * MIB, device=384 * MIB),
)


def small(strategy: str, median: float, copies: float) -> Measured:
    return row(
        strategy,
        median,
        kernels=5e-6,
        copies=copies,
        produce=1e-6,
        consume=1e-6,
        footprint=footprint(pageable=24 << 10),
        transfer_bytes={"to-device": 16 << 10, "to-host": 8 << 10} if copies else {},
    )


def tiny(*inputs: str, size: int = 8 << 10) -> WorkloadRecord:
    """A kernel that makes c of these inputs."""
    read = {name: {"produce": "out", "add": "in"} for name in inputs}
    sides = {"produce": "host", "add": "device", "consume": "host"}
    return workload(sides, {**read, "c": {"add": "out", "consume": "in"}}, size=size)  # type: ignore[arg-type, dict-item]


BETWEEN = workload(
    {"load": "host", "first": "device", "clip": "host", "second": "device", "save": "host"},
    {
        "image": {"load": "out", "first": "in"},
        "work": {"first": "out", "clip": "inout", "second": "inout"},
        "result": {"second": "out", "save": "in"},
    },
)


def stages(strategy: str, median: float, copies: float) -> Measured:
    timed = {"load": 0.001, "first": 0.002, "clip": 0.004, "second": 0.002}
    waits = max(median - copies - sum(timed.values()), 0.0)
    moved = {"to-device": 128 * MIB, "to-host": 128 * MIB}
    plain = row(strategy, median, kernels=0.0, copies=copies, transfer_bytes=moved)
    return plain.model_copy(update={"stage_seconds": timed, "synchronize_seconds": waits})


CAMERA = workload(
    {"capture": "host", "filter": "device", "show": "host"},
    {"image": {"capture": "out", "filter": "in"}, "result": {"filter": "out", "show": "in"}},
    external=("image",),
)


def camera(where: str, *rows: Measured) -> list[Profile]:
    named = [dict(zip(("capture", "filter", "show"), r.stage_seconds.values(), strict=True)) for r in rows]
    results = [
        r.model_copy(update={"stage_seconds": seconds}) for r, seconds in zip(rows, named, strict=True)
    ]
    return on(where, *results, workload=CAMERA)


COPYING = row("managed", 0.020, kernels=0.002, host_copy_seconds=0.006)
REGISTERED = row("zero-copy-registered", 0.014, kernels=0.002)


def locking(seen: PageLocking | None) -> list[Profile]:
    return on("tegra discrete", row("pageable", 0.040, kernels=0.002, page_locking=seen))


LOCKED = row("pinned", 0.020, kernels=0.002, copies=0.010, footprint=footprint(pinned=192 * MIB))
LEAN = row("managed-prefetch", 0.0202, kernels=0.002, footprint=footprint(managed=192 * MIB))


def host_with(memory: int, *rows: Measured, limit: Any = "unlimited") -> list[Profile]:
    fields = {"memory_bytes": memory, "host": host_state(memory_limit=limit)}
    machine = profile().environment.model_copy(update=fields)
    return on("discrete tegra", PAGEABLE, *rows, environment=machine)


def locked_and_predicted(device: str, **fields: Any) -> list[Profile]:
    target = catalogue_device(device).model_copy(update=fields)
    return [predicted_run(target, bet("pinned", 0.02, kernels=0.002, copies=0.01))]


MANAGED = row("managed", 0.2, kernels=0.15)
TOO_LARGE = skipped("pinned", "needs 192 MiB of memory")


def with_memory(mebibytes: int, *rows: Any, where: str = "discrete", **flags: int) -> list[Profile]:
    devices = [cuda_device(each, total_global_mem=mebibytes * MIB, **flags) for each in where.split()]  # type: ignore[arg-type]
    return [run for device in devices for run in on(device, *rows)]


THREE = workload(
    {"make": "host", "add": "device"},
    {"a": {"make": "out", "add": "in"}, "s": {"add": "out"}, "t": {"add": "out"}, "log": {"make": "out"}},
    size=60 * MIB,
)
WAIT = Wait(stage="add", line="pipeline.py:7", call="float()", write="Keep the value on the GPU.", count=2)


def waiting(*waits: Wait, frame: float = 100e-6) -> Profile:
    rows = (row("pageable", frame, kernels=frame / 2, produce=frame / 5, consume=frame / 5),)
    return profile(results=rows, traffic=vector_add_trace().model_copy(update={"waits": waits}))


EXAMPLES = {"implicit-wait": waiting(WAIT)}
COPIES = (small("pageable", 60e-6, 30e-6), small("zero-copy", 30e-6, 0.0))
BUDGET = Preferences(memory_budget_bytes=400 * MIB)
SPARK = cuda_device("coherent", integrated=1)
CASES: Cases = {
    "staged-transfer": [
        ("pinned 30.0 ms", "a card", on(f"{CARDS} coherent", PAGEABLE, PINNED, STAGED)),
        (
            "zero-copy 38.0 ms",
            "a Jetson drops them",
            on(f"{ORIN} tegra-coherent", PAGEABLE, STAGED, ZERO_COPY),
        ),
        ("not-applicable", "none is staged", on("discrete", PAGEABLE, PINNED)),
        ("pass", "copies of 8 %", on("discrete", PINNED, row("staged", 0.050, kernels=0.04, copies=0.004))),
        ("pass", "none is faster", on("discrete", PAGEABLE, STAGED)),
        (
            "pass",
            "in the noise",
            on("discrete", restless(row("pinned", 0.049, kernels=0.002, copies=0.01), 0.3), STAGED),
        ),
    ],
    "small-transfers": [
        (
            "zero-copy 30.0 µs",
            "small copies are done without",
            on(f"discrete {ORIN} coherent", *COPIES, workload=tiny("a", "b")),
        ),
        (
            "advice 10.0 µs",
            "small copies are batched where zero-copy is slower",
            on("discrete", COPIES[0], small("zero-copy", 80e-6, 0.0), workload=tiny("a", "b")),
        ),
        ("pass", "no call can be spared", on("discrete", COPIES[0], workload=tiny("a", size=4096))),
        ("pass", "large copies", on("discrete", *COPIES, workload=tiny("a", "b", size=65 << 10))),
        *(
            (
                "pass",
                f"cheap copies of {copies:g} s",
                on("discrete", small("pageable", 60e-6, copies), COPIES[1], workload=tiny("a", "b")),
            )
            for copies in (5e-6, 0.0)
        ),
    ],
    "serial-copies": [
        ("pinned-pipelined", "copies are hidden", on("discrete coherent", PAGEABLE, PINNED, OVERLAPPED)),
        (
            "not-applicable",
            "frames carry data",
            on("discrete", PINNED, skipped("pinned-pipelined", "carries data between frames")),
        ),
        (
            "pass",
            "in the noise",
            on("discrete", PINNED, row("pinned-pipelined", 0.0199, kernels=0.002, copies=0.01, spread=0.3)),
        ),
        (
            "pass",
            "little to overlap",
            on("discrete", row("pinned", 0.1, kernels=0.001, copies=0.002), OVERLAPPED),
        ),
        ("pass", "zero-copy is faster", on("discrete", PINNED, OVERLAPPED, ZERO_COPY)),
        ("not-applicable", "one DRAM", [*on(ORIN, PINNED, OVERLAPPED), *on(SPARK, PINNED, OVERLAPPED)]),
        ("pass", "beyond the budget", on("discrete", PAGEABLE, PINNED, OVERLAPPED, preferences=BUDGET)),
    ],
    "device-resident": [
        (
            "advice 6.00 ms",
            "down and up again",
            on(
                "discrete", stages("pageable", 0.040, 0.024), stages("pinned", 0.020, 0.012), workload=BETWEEN
            ),
        ),
        ("pass", "nothing goes back", on("discrete", PAGEABLE, PINNED)),
        ("pass", "copies of 10 %", on("discrete", stages("pageable", 0.040, 0.004), workload=BETWEEN)),
        ("not-applicable", "one DRAM", on(ORIN, stages("pageable", 0.040, 0.024), workload=BETWEEN)),
    ],
    "hidden-host-copy": [
        (
            "zero-copy-registered 6.00 ms",
            "spared by registering",
            camera(f"{ORIN} discrete", COPYING, REGISTERED),
        ),
        (
            "pass",
            "the baseline is as fast",
            camera(
                "discrete",
                PAGEABLE,
                row("managed", 0.0398, kernels=0.002, host_copy_seconds=0.006, footprint=POOL),
            ),
        ),
        (
            "advice 6.00 ms",
            "nothing spares it",
            camera(ORIN, COPYING, row("zero-copy-registered", 0.030, kernels=0.020)),
        ),
        ("not-applicable", "no foreign memory", on("discrete", PAGEABLE, COPYING)),
        ("pass", "5 %", camera(ORIN, row("managed", 0.020, kernels=0.002, host_copy_seconds=0.001))),
        ("pass", "no copy", camera(ORIN, REGISTERED)),
    ],
    "pin-per-frame": [
        ("advice 10.0 ms", "twice in each frame", locking(PageLocking(calls=2.0, seconds=0.010))),
        ("pass", "a pool that grows", locking(PageLocking(calls=0.1, seconds=1e-4))),
        ("not-applicable", "not seen", locking(None)),
    ],
    "pinned-over-budget": [
        ("managed-prefetch -200 µs", "half of the memory", host_with(384 * MIB, LOCKED, LEAN)),
        ("pass", "a little less than half", host_with(385 * MIB, LOCKED, LEAN)),
        ("advice", "most of a limit", host_with(64 << 30, LOCKED, limit=200 * MIB)),
        ("advice", "none needs less", host_with(256 * MIB, LOCKED)),
        ("not-applicable", "predicted for a card", locked_and_predicted("RTX 4090")),
        (
            "advice",
            "predicted for a board",
            locked_and_predicted("Nano", memory_class="tegra", attributes={"total_global_mem": 300 * MIB}),
        ),
    ],
    "oversubscription": [
        (
            "zero-copy 188 ms",
            "buffers outgrow the device",
            with_memory(200, MANAGED, ZERO_COPY, TOO_LARGE, where=f"discrete {ORIN}"),
        ),
        ("advice", "nothing else runs", with_memory(200, MANAGED, TOO_LARGE, where=f"discrete {ORIN}")),
        *(
            ("advice", name, with_memory(memory, MANAGED, where=where, **flags))
            for name, memory, where, flags in (
                ("barely fits", 192, "discrete", {"concurrent_managed_access": 1}),
                ("evicts pages", 191, "discrete", {"concurrent_managed_access": 1}),
                ("evicts none", 191, "discrete", {"concurrent_managed_access": 0}),
                ("not known", 191, "discrete", {}),
                ("one DRAM", 191, "tegra-coherent", {"concurrent_managed_access": 1}),
                ("one DRAM, no faults", 200, ORIN, {"concurrent_managed_access": 0}),
            )
        ),
        ("pass", "nine tenths", with_memory(214, ZERO_COPY)),
        ("not-applicable", "the device's memory is not known", on("discrete", ZERO_COPY)),
        (
            "advice",
            "what kernels use counts",
            [run.model_copy(update={"workload": THREE}) for run in with_memory(200, ZERO_COPY)],
        ),
    ],
    "implicit-wait": [
        ("advice 26.0 µs", "two in a frame", [waiting(WAIT)]),
        ("pass", "none", [waiting()]),
        ("pass", "long frames", [waiting(WAIT, frame=1.0)]),
        ("not-applicable", "not looked for", on("discrete", PAGEABLE, traffic=None)),
    ],
}


@pytest.mark.parametrize("rule", CASES)
def test_what_the_rule_concludes(rule: str, accepted: Accepted) -> None:
    judge(rule, CASES, accepted)
