"""Rules about copies: staged, small, serial, by hand, there and back; and about locked and scarce memory."""

from __future__ import annotations

from typing import Any

from builders import (
    MIB,
    altered,
    catalogue_device,
    cuda_device,
    footprint,
    host_state,
    profile,
    skipped,
    vector_add_trace,
    workload,
)
from judging import CARDS, Cases, bet, concluding, on, predicted_run, row

from advisor.profiles.conclusions import Preferences
from advisor.profiles.figures import PageLocking
from advisor.profiles.schema import Measured, Profile, WorkloadRecord
from advisor.profiles.traces import Wait

ORIN = "tegra-io-coherent"
PAGEABLE = row("pageable", 0.040, copies=0.020)
PINNED = row("pinned", 0.020, copies=0.010)
POOL = footprint(pageable=192 * MIB, pinned=256 * MIB, device=192 * MIB)
STAGED = row("staged", 0.050, copies=0.030, footprint=POOL)
ZERO_COPY = row("zero-copy", 0.012, kernels=0.003)
TWICE = footprint(pinned=384 * MIB, device=384 * MIB)
OVERLAPPED = row("pinned-pipelined", 0.013, copies=0.010, latency_seconds=0.026, footprint=TWICE)
SMALL: dict[str, Any] = {"kernels": 5e-6, "produce": 1e-6, "consume": 1e-6}


def small(strategy: str, median: float, copies: float) -> Measured:
    moved = {"to-device": 16 << 10, "to-host": 8 << 10} if copies else {}
    held = footprint(pageable=24 << 10)
    return row(strategy, median, copies=copies, footprint=held, transfer_bytes=moved, **SMALL)


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
    names = ("capture", "filter", "show")
    named = (dict(zip(names, r.stage_seconds.values(), strict=True)) for r in rows)
    results = (altered(r, "", stage_seconds=seconds) for r, seconds in zip(rows, named, strict=True))
    return on(where, *results, workload=CAMERA)


COPYING = row("managed", 0.020, host_copy_seconds=0.006)
REGISTERED = row("zero-copy-registered", 0.014)


def locking(seen: PageLocking | None) -> list[Profile]:
    return on("tegra discrete", row("pageable", 0.040, page_locking=seen))


LOCKED = row("pinned", 0.020, copies=0.010, footprint=footprint(pinned=192 * MIB))
LEAN = row("managed-prefetch", 0.0202, footprint=footprint(managed=192 * MIB))


def host_with(memory: int, *rows: Measured, limit: Any = "unlimited") -> list[Profile]:
    host, runs = host_state(memory_limit=limit), on("discrete tegra", PAGEABLE, *rows)
    return [altered(run, "environment", memory_bytes=memory, host=host) for run in runs]


def locked_and_predicted(device: str, **fields: Any) -> list[Profile]:
    target = catalogue_device(device).model_copy(update=fields)
    return [predicted_run(target, bet("pinned", 0.02, copies=0.01))]


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
CHEAP, FREE = (small("pageable", 60e-6, copies) for copies in (5e-6, 0.0))
BUDGET = Preferences(memory_budget_bytes=400 * MIB)
SPARK = cuda_device("coherent", integrated=1)
CASES: Cases = {
    "staged-transfer": {
        "a card: pinned 30.0 ms": on(f"{CARDS} coherent", PAGEABLE, PINNED, STAGED),
        "a Jetson drops them: zero-copy 38.0 ms": on(f"{ORIN} tegra-coherent", PAGEABLE, STAGED, ZERO_COPY),
        "none is staged: not-applicable": on("discrete", PAGEABLE, PINNED),
        "copies of 8 %: pass": on("discrete", PINNED, row("staged", 0.050, kernels=0.04, copies=0.004)),
        "none is faster: pass": on("discrete", PAGEABLE, STAGED),
    },
    "small-transfers": {
        "small copies are done without: zero-copy 30.0 µs": on(
            f"discrete {ORIN} coherent", *COPIES, workload=tiny("a", "b")
        ),
        "small copies are batched where zero-copy is slower: advice 10.0 µs": on(
            "discrete", COPIES[0], small("zero-copy", 80e-6, 0.0), workload=tiny("a", "b")
        ),
        "no call can be spared: pass": on("discrete", COPIES[0], workload=tiny("a", size=4096)),
        "large copies: pass": on("discrete", *COPIES, workload=tiny("a", "b", size=65 << 10)),
        "cheap copies of 5e-06 s: pass": on("discrete", CHEAP, COPIES[1], workload=tiny("a", "b")),
    },
    "serial-copies": {
        "copies are hidden: pinned-pipelined": on("discrete coherent", PAGEABLE, PINNED, OVERLAPPED),
        "frames carry data: not-applicable": on(
            "discrete", PINNED, skipped("pinned-pipelined", "carries data between frames")
        ),
        "in the noise: pass": on(
            "discrete", PINNED, row("pinned-pipelined", 0.0199, copies=0.01, spread=0.3)
        ),
        "little to overlap: pass": on(
            "discrete", row("pinned", 0.1, kernels=0.001, copies=0.002), OVERLAPPED
        ),
        "zero-copy is faster: pass": on("discrete", PINNED, OVERLAPPED, ZERO_COPY),
        "one DRAM: not-applicable": [*on(ORIN, PINNED, OVERLAPPED), *on(SPARK, PINNED, OVERLAPPED)],
        "beyond the budget: pass": on("discrete", PAGEABLE, PINNED, OVERLAPPED, preferences=BUDGET),
    },
    "device-resident": {
        "down and up again: advice 6.00 ms": on(
            "discrete", stages("pageable", 0.040, 0.024), stages("pinned", 0.020, 0.012), workload=BETWEEN
        ),
        "nothing goes back: pass": on("discrete", PAGEABLE, PINNED),
        "copies of 10 %: pass": on("discrete", stages("pageable", 0.040, 0.004), workload=BETWEEN),
        "one DRAM: not-applicable": on(ORIN, stages("pageable", 0.040, 0.024), workload=BETWEEN),
    },
    "hidden-host-copy": {
        "spared by registering: zero-copy-registered 6.00 ms": camera(
            f"{ORIN} discrete", COPYING, REGISTERED
        ),
        "the baseline is as fast: pass": camera(
            "discrete", PAGEABLE, row("managed", 0.0398, host_copy_seconds=0.006, footprint=POOL)
        ),
        "nothing spares it: advice 6.00 ms": camera(
            ORIN, COPYING, row("zero-copy-registered", 0.030, kernels=0.020)
        ),
        "no foreign memory: not-applicable": on("discrete", PAGEABLE, COPYING),
        "5 %: pass": camera(ORIN, row("managed", 0.020, host_copy_seconds=0.001)),
        "no copy: pass": camera(ORIN, REGISTERED),
    },
    "pin-per-frame": {
        "twice in each frame: advice 10.0 ms": locking(PageLocking(calls=2.0, seconds=0.010)),
        "a pool that grows: pass": locking(PageLocking(calls=0.1, seconds=1e-4)),
        "not seen: not-applicable": locking(None),
    },
    "pinned-over-budget": {
        "half of the memory: managed-prefetch -200 µs": host_with(384 * MIB, LOCKED, LEAN),
        "a little less than half: pass": host_with(385 * MIB, LOCKED, LEAN),
        "most of a limit: advice": host_with(64 << 30, LOCKED, limit=200 * MIB),
        "none needs less: advice": host_with(256 * MIB, LOCKED),
        "predicted for a card: not-applicable": locked_and_predicted("RTX 4090"),
        "predicted for a board: advice": locked_and_predicted(
            "Nano", memory_class="tegra", attributes={"total_global_mem": 300 * MIB}
        ),
    },
    "oversubscription": {
        "buffers outgrow the device: zero-copy 188 ms": with_memory(
            200, MANAGED, ZERO_COPY, TOO_LARGE, where=f"discrete {ORIN}"
        ),
        "nothing else runs: advice": with_memory(200, MANAGED, TOO_LARGE, where=f"discrete {ORIN}"),
        "barely fits: advice": with_memory(192, MANAGED, concurrent_managed_access=1),
        "evicts pages: advice": with_memory(191, MANAGED, concurrent_managed_access=1),
        "one DRAM: advice": with_memory(191, MANAGED, where="tegra-coherent", concurrent_managed_access=1),
        "one DRAM, no faults: advice": with_memory(200, MANAGED, where=ORIN, concurrent_managed_access=0),
        "nine tenths: pass": with_memory(214, ZERO_COPY),
        "the device's memory is not known: not-applicable": on("discrete", ZERO_COPY),
        "what kernels use counts: advice": [
            run.model_copy(update={"workload": THREE}) for run in with_memory(200, ZERO_COPY)
        ],
    },
    "implicit-wait": {
        "two in a frame: advice 26.0 µs": [waiting(WAIT)],
        "none: pass": [waiting()],
        "long frames: pass": [waiting(WAIT, frame=1.0)],
        "not looked for: not-applicable": on("discrete", PAGEABLE, traffic=None),
    },
}


test_what_the_rule_concludes = concluding(CASES)
