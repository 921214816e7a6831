"""Frames as the model predicts them, term by term: tests/golden/model has them, by what they show.

The terms by hand are in test_model.py, and test_accuracy.py has what published measurements say of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import builders
import pytest
from builders import altered, traced, workload
from published_cases import DATA, row_of_a_state, simulated, touched, vector, vector_streamed
from rendering import Accepted
from test_model import external, vector_add
from test_model_measured import measured_on

from advisor.devices.catalogue import load, under
from advisor.devices.entries import Attribute, CatalogueEntry, Figure
from advisor.model.machines import Machine
from advisor.model.predict import predict
from advisor.model.terms import span
from advisor.profiles.schema import Predicted, Profile, StageRecord, WorkloadRecord
from advisor.profiles.traces import Again, HostRates, StageWork
from advisor.strategies.mixes import mix
from advisor.strategies.registry import STRATEGIES, by_name

pytestmark = pytest.mark.usefixtures("constants_as_read")

MIB, SIZE = 1 << 20, 1 << 26
CARD = "rtx-4090"
MIX = mix("mix", {"a": "zero-copy", "b": "peer"}, "pinned")
CALIBRATED = str(DATA / "devices" / "h200-calibrated.toml")


def frames(profile: Profile, target: str | CatalogueEntry, only: str = "") -> Iterator[str]:
    """Each strategy of these names, or of all: memory, range and terms of a frame in µs, or the reason."""
    chosen = [MIX if name == "mix" else by_name(name) for name in only.split()] or STRATEGIES
    entry = load(target) if isinstance(target, str) else target
    found: dict[str, list[str]] = {}
    for row in predict(profile, entry, chosen).results:
        if isinstance(row, Predicted):
            span_of = f"{row.physical_bytes / MIB:.5g} MiB, {_us(row.low_seconds)} to {_us(row.high_seconds)}"
            terms = ", ".join(f"{name} {_us(seconds)}" for name, seconds in row.terms.items())
            text = f"{span_of}, likely {_us(row.likely_seconds)}: {terms}"
        else:
            text = row.reason
        found.setdefault(text, []).append(row.strategy)
    yield from (f"{', '.join(names)}: {text}" for text, names in found.items())


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.4g}"


def first_frames(profile: Profile, target: str, only: str) -> Iterator[str]:
    """With faults in every frame, as before the driver finds out what thrashes."""
    found = simulated(profile, Machine(load(target)), *only.split(), first_frames=True)
    for name, each in found.items():
        terms = ", ".join(f"{part} {' to '.join(map(_us, span(s)))}" for part, s in each.parts.items())
        yield f"{name}: {terms}"


def assumptions(profile: Profile, target: str) -> Iterator[str]:
    yield from predict(profile, load(target)).assumptions


# Workloads


def with_work(profile: Profile, *work: StageWork, **fields: Any) -> Profile:
    return altered(profile, "traffic", work=work, **fields)


adding = partial(StageWork, stage="add")


def host_stages(profile: Profile, seconds: float) -> Profile:
    """The same with host stages that took so long on the CPU that traced them."""
    stages = profile.workload.frame_stages("host")
    return with_work(profile, *(StageWork(stage=stage.name, seconds=seconds) for stage in stages))


def of(ran: WorkloadRecord) -> Profile:
    return builders.cpu_profile(workload=ran, traffic=traced(ran), results=())


WEIGHTS = of(
    workload(
        {"load": "host", "produce": "host", "apply": "device", "consume": "host"},
        {
            "weights": {"load": "out", "apply": "in"},
            "x": {"produce": "out", "apply": "inout", "consume": "in"},
        },
        size=SIZE,
        setup=("load",),
    )
)
"""Uploaded once, beside a buffer that comes and goes."""
READ_BY_BOTH = of(
    workload(
        {"load": "host", "add": "device", "consume": "host"},
        {"w": {"load": "out", "add": "in", "consume": "in"}, "c": {"add": "out", "consume": "in"}},
        size=SIZE,
        setup=("load",),
    )
)
TWO_KERNELS = of(
    workload(
        {"produce": "host", "add": "device", "again": "device", "consume": "host"},
        {
            "a": {"produce": "out", "add": "in"},
            "b": {"produce": "out", "add": "in"},
            "c": {"add": "out", "again": "inout", "consume": "in"},
        },
        size=SIZE,
    )
)
RESULT_ALONE = altered(
    altered(vector(SIZE), "workload.buffers.a", access={"init": "out", "compute": "in"}),
    "workload.buffers.b",
    access={"init": "out", "compute": "in"},
)
STREAMED_BACK = RESULT_ALONE.model_copy(update={"traffic": traced(RESULT_ALONE.workload)})
CARRIED = altered(
    altered(
        vector_add(),
        "workload",
        stages=(StageRecord(name="load", side="host", phase="setup"), *vector_add().workload.stages),
    ),
    "workload.buffers.a",
    access={"load": "out", "produce": "inout", "add": "in"},
)
"""Its frames carry data over."""


def spare() -> Profile:
    """A fourth array, which the kernel does not use: a Tesla K80 moved it too."""
    profile = vector(1 << 24)
    buffer = altered(profile.workload.buffers[0], "", name="spare")
    written = [t.model_copy(update={"buffer": "spare"}) for t in profile.traffic.traffic if t.buffer == "a"]
    more = altered(profile, "workload", buffers=(*profile.workload.buffers, buffer))
    host = tuple(t for t in written if t.stage != "compute")
    return altered(more, "traffic", traffic=(*profile.traffic.traffic, *host))


def declared(**passes: float) -> Profile:
    """A kernel without a CPU twin: nothing ran, nothing was traced."""
    ran = altered(builders.vector_add_workload(), "stages.add", passes=passes, flops=1e9)
    return builders.cpu_profile(workload=ran, traffic=None, predictions=())


def assumed(**work: Any) -> Profile:
    """Of the kernel's accesses nothing was seen."""
    unseen = altered(vector_add(), "traffic.traffic.add", source="assumed")
    return altered(unseen, "traffic", **work)


def read_again(**again: float) -> Profile:
    """A library's routine that reads its input again where no cache serves it."""
    return altered(
        touched(SIZE, "in"),
        "traffic.traffic.kernel",
        again=(Again(call="matmul", bytes=9.0 * SIZE, **again),),
    )


# Several GPUs: each half of a to the same half of c; or one GPU makes b of a, the other c of b

LARGE = 1 << 28


def passing(ran: WorkloadRecord) -> Profile:
    """Each kernel passes over its buffers once; nothing was traced."""
    stages = (
        s.model_copy(update={"passes": dict.fromkeys("abc", 1.0) if s.side == "device" else {}})
        for s in ran.stages
    )
    return builders.cpu_profile(workload=altered(ran, "", stages=tuple(stages)), traffic=None, results=())


def split(gpus: int) -> Profile:
    halves = {"first": ((0, LARGE // 2),), "second": ((LARGE // 2, LARGE),)}
    ran = workload(
        {"produce": "host", "first": 0, "second": gpus - 1, "consume": "host"},
        {
            "a": {"produce": "out", "first": "in", "second": "in"},
            "c": {"first": "out", "second": "out", "consume": "in"},
        },
        size=LARGE,
    )
    return passing(altered(ran, "buffers.*", regions=halves))


PIPELINE = passing(
    workload(
        {"produce": "host", "make": 0, "finish": 1, "consume": "host"},
        {
            "a": {"produce": "out", "make": "in"},
            "b": {"make": "out", "finish": "in"},
            "c": {"finish": "out", "consume": "in"},
        },
        size=LARGE,
    )
)


# Devices


def with_figures(name: str = CARD, **values: float) -> CatalogueEntry:
    """A device of the catalogue, and these figures as if they had been measured on it."""
    given = {
        f"{key}_per_second" if key.endswith("bytes") and key != "host_cache_bytes" else key: value
        for key, value in values.items()
    }
    figures = {key: Figure(value=value, low=value, high=value, source="test") for key, value in given.items()}
    return altered(load(name), "figures", **figures)


def with_attributes(name: str, **values: int) -> CatalogueEntry:
    entry = load(name)
    more = {key: Attribute(value=value, source="test") for key, value in values.items()}
    return entry.model_copy(update={"attributes": {**entry.attributes, **more}})


def on_an_h200(kernel: float, host: float, **attributes: Any) -> Profile:
    """Measured on the machine of the calibrated entry."""
    told = {key: attribute.value for key, attribute in load(CALIBRATED).attributes.items()}
    device = builders.Device(
        name="NVIDIA H200", kind="cuda", memory_class="discrete", attributes={**told, **attributes}
    )
    return measured_on("NVIDIA H200", kernel, host, device=device)


HMM = with_attributes("rtx-2060", pageable_memory_access=1).model_copy(
    update={"memory_class": "discrete-hmm"}
)
COPIES = "pageable pinned write-combined registered pinned-pipelined"
IN_PLACE = "zero-copy zero-copy-wc zero-copy-registered managed system"
DEVICES = "rtx-4090 h200 k80 gh200 gb10 nano xavier-nx orin-nano agx-thor"
BY_HAND = with_work(vector_add(passes=2), adding(flops=8e13))
SLOW_CALLS = adding(calls=10, issue_seconds=1e-3)
SOLVING = adding(uncounted=("solve",))
COMPUTING = with_work(vector_add(), StageWork(stage="consume", seconds=1.0))
CPU_RATES = HostRates(read_bytes_per_second=6.4e8, write_bytes_per_second=1e9)
TEMPORARIES = StageWork(stage="consume", seconds=0.5, temporary_bytes=1 << 26)
KNOWN_CPU = with_work(vector_add(), TEMPORARIES, host_rates=CPU_RATES)
READ_CACHED = {"host_cache_bytes": 1 << 30, "host_write_combined_write_bytes": 10e9}
ON_A_T4 = measured_on("Tesla T4", 0.002, 0.004)
BEHIND_ONE_LINK = load("2xh200").model_copy(update={"gpus_share_link": True})
WINDOWS, WSL = (under(load("rtx-3060"), system) for system in ("windows", "wsl"))
Case = tuple[Profile, str | CatalogueEntry] | tuple[Profile, str | CatalogueEntry, str]
CASES: dict[str, dict[str, Case]] = {
    "devices": {
        **{name: (vector_add(), name) for name in DEVICES.split()},
        "one with HMM": (vector_add(), HMM),
    },
    "kernels": {
        "64 passes of 4 MiB": (vector_add(1 << 20, 64), "agx-thor", f"pinned {IN_PLACE}"),
        "64 passes over a coherent link": (vector_add(1 << 20, 64), "gh200", IN_PLACE),
        "12 passes": (vector_add(passes=12), "rtx-2060", "pinned zero-copy"),
        "8 declared passes over one operand": (touched(SIZE, "in", 8), CARD, "pinned zero-copy"),
        "a library's": (with_work(vector_add(), adding(flops=8e13)), CARD, "pinned"),
        "a CPU twin's": (with_work(vector_add(), adding(flops=8e13, twin=True)), CARD, "pinned"),
        "by hand": (BY_HAND, CARD, "pinned"),
        "with much shared memory": (BY_HAND, "v100", "pinned"),
        "too few blocks": (with_work(vector_add(1 << 15, 2), adding(flops=1e8)), "h200", "pinned"),
        "small blocks": (with_work(vector_add(1 << 15, 32), adding(flops=1e8)), "h200", "pinned"),
        "few blocks, but long": (with_work(vector_add(1 << 15, 2), adding(flops=1e11)), "h200", "pinned"),
        "slow calls": (with_work(vector_add(1 << 10), SLOW_CALLS), CARD, "pinned"),
        "slow calls behind copies": (with_work(vector_add(), SLOW_CALLS), CARD, "pageable pinned"),
        "a routine reads again": (read_again(), with_figures(routine_again_share=0.3), "zero-copy"),
        "so does each processor": (read_again(shared_bytes=SIZE, readers=64), "orin-nano", "zero-copy"),
        **{
            f"reuse of {size >> 10} KiB": (
                touched(size, "in", 64), with_figures(zero_copy_reread_bytes=1e12), "zero-copy"
            )
            for size in (1 << 16, 1 << 17)
        },
        "mapped memory that was measured": (
            touched(SIZE, "inout"),
            with_figures("agx-orin", zero_copy_read_bytes=5e9, zero_copy_write_bytes=4e9),
            "zero-copy",
        ),
        "nothing seen": (assumed(), "h200", "zero-copy"),
        "two between caches": (TWO_KERNELS, "orin-nano", "zero-copy managed"),
    },
    "copies": {
        "weights": (WEIGHTS, CARD, "pinned managed"),
        "read by both sides": (READ_BY_BOTH, CARD, "managed-prefetch managed-advised"),
        "foreign memory": (external("a"), CARD),
        "foreign memory, measured": (
            external("a", "c"),
            with_figures(
                host_pinned_copy_bytes=5e9, host_pinned_read_bytes=2e9, host_managed_copy_bytes=99e9
            ),
        ),
        "measured prefetches": (
            vector(SIZE),
            with_figures(prefetch_to_device_bytes=20e9, prefetch_to_host_bytes=8e9, write_fault_seconds=1e-6),
            "managed-prefetch",
        ),
        "slow prefetches": (vector(SIZE), with_figures(prefetch_call_seconds=1e-3), "managed-prefetch"),
        "two engines": (touched(1e8, "inout"), "t4", "pinned-pipelined"),
        "one": (touched(1e8, "inout"), with_attributes("t4", async_engine_count=1), "pinned-pipelined"),
        "frames that carry data over": (CARRIED, "h200", "pinned-pipelined"),
    },
    "managed": {
        "measured migration": (
            vector(SIZE),
            with_figures(migration_to_device_bytes=12e9, migration_to_host_bytes=6e9),
            "pageable managed",
        ),
        "tiny, which thrashes": (vector(1 << 14), CARD, "zero-copy managed"),
        "tiny on one DRAM": (vector(1 << 14), "orin-nano", "managed"),
        "a row stays at the host": (row_of_a_state(1 << 12, 1 << 22), "h200", "managed"),
        "whole": (vector(1 << 24), WINDOWS, "pinned managed managed-advised"),
        "whole for a row": (row_of_a_state(1 << 12, 1 << 24), WSL, "pinned managed"),
        "whole for another kernel": (spare(), "k80", "managed managed-prefetch"),
    },
    "host": {
        "computing": (COMPUTING, CARD, "pinned"),
        "computing, on a Jetson": (COMPUTING, "orin-nano", "pinned"),
        "beside rates of the CPU at hand": (KNOWN_CPU, "nano", "managed"),
        "slow page-locked": (vector_streamed(SIZE), with_figures(host_pinned_write_bytes=2e9)),
        "slow write-combined": (vector_streamed(SIZE), with_figures(host_write_combined_write_bytes=2e9)),
        **{
            f"managed, read at {rate / 1e9:g} GB/s": (
                vector(SIZE), with_figures(host_managed_read_bytes=rate), "managed-prefetch"
            )
            for rate in (5e9, 27e9)
        },
        **{
            f"a cache of {cache} MiB": (
                host_stages(vector(SIZE), 1e-4), with_figures(host_cache_bytes=cache * MIB), COPIES
            )
            for cache in (100, 192, 300, 600)
        },
        "staged copies beside a large cache": (
            host_stages(STREAMED_BACK, 1e-4), with_figures(host_cache_bytes=1 << 30), "staged pageable pinned"
        ),
        **{
            f"write-combined, read at {rate / 1e9:g} GB/s": (
                host_stages(vector_streamed(SIZE), 1e-4),
                with_figures(**READ_CACHED, host_write_combined_read_bytes=rate),
                "write-combined",
            )
            for rate in (0.5e9, 15e9)
        },
        "narrow reads that no cache holds": (
            STREAMED_BACK, with_figures("nano", host_uncached_access_seconds=1e-7), "pageable pinned"
        ),
        "measured clocks": (
            vector(1 << 24), with_attributes("agx-orin", total_global_mem=64_000_000_000), "pinned"
        ),
    },
    "measured": {
        "on the calibrated machine": (on_an_h200(1e-3, 0.01), CALIBRATED, "pinned"),
        "quicker than its memory": (on_an_h200(1e-3, 1e-4), CALIBRATED, "pinned"),
        "another of that name": (on_an_h200(1e-3, 0.01, total_global_mem=1 << 37), CALIBRATED, "pinned"),
        "on a T4, for itself": (ON_A_T4, "t4", "pinned"),
        "on a T4, for an H200": (ON_A_T4, "h200", "pinned"),
        "a factorization": (altered(ON_A_T4, "traffic", work=(SOLVING,)), "t4", "pinned"),
    },
    "gpus": {
        "a split on one": (split(1), "2xh200"),
        "on two": (split(2), "2xh200"),
        "behind one link": (split(2), BEHIND_ONE_LINK),
        "a pipeline": (PIPELINE, "2xh200"),
        "without a rate between them": (PIPELINE, "2xrtx-4090"),
        "a mix": (PIPELINE, "2xh200", "mix"),
        "a mix without a rate": (PIPELINE, "2xrtx-4090", "mix"),
        "a target of one": (split(2), "h200"),
        "a device that has one": (split(2), "orin-nano"),
        "two of them": (split(1), "2xorin-nano"),
    },
    "unknown": {
        "a kernel": (assumed(work=()), "h200"),
        "but its arithmetic": (altered(assumed(work=()), "workload.stages.add", flops=1e6), "h200", "pinned"),
        "a factorization": (with_work(vector_add(), SOLVING), "h200"),
        "declared passes": (declared(a=3.0), CARD),
        "nothing declared": (declared(), CARD),
        "too large for a Jetson": (vector_add(1 << 29), "orin-nano"),
        "too large for a card": (vector_add(1 << 32), CARD),
    },
}  # fmt: skip
ROWS = "pinned managed"
FIRST: dict[str, tuple[Profile, str, str]] = {
    "tiny": (vector(1 << 14), CARD, "zero-copy managed-prefetch managed"),
    "large": (vector(SIZE), CARD, "managed"),
    "a row of a state": (row_of_a_state(1 << 16, 1 << 22), "h200", ROWS),
    "of a larger one": (row_of_a_state(1 << 16, 1 << 28), "h200", ROWS),
    "all of it": (row_of_a_state(1 << 22, 1 << 22), "h200", ROWS),
    "a quarter": (altered(touched(SIZE, "in"), "traffic.traffic.kernel", bytes_read=SIZE / 4), "h200", ROWS),
}
ASSUMED: dict[str, tuple[Profile, str]] = {
    "what was not seen": (assumed(), "h200"),
    "defaults": (vector_add(), CARD),
    "measured elsewhere": (ON_A_T4, "v100"),
    "measured on a card without an entry": (measured_on("NVIDIA Unheard of", 0.5, 0.01), "t4"),
}


def under_heads(cases: Mapping[str, Any], lines: Callable[..., Iterator[str]]) -> str:
    return "\n".join("\n".join([f"## {name}", *lines(*case), ""]) for name, case in cases.items())


@pytest.mark.parametrize("subject", CASES)
def test_frames_are_predicted_as_accepted(subject: str, accepted: Accepted) -> None:
    accepted(under_heads(CASES[subject], frames), f"model/{subject}.txt")


def test_first_frames_and_assumptions_are_as_accepted(accepted: Accepted) -> None:
    accepted(under_heads(FIRST, first_frames), "model/first-frames.txt")
    accepted(under_heads(ASSUMED, assumptions), "model/assumptions.txt")
