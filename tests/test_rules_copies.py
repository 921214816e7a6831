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
)
from every import every
from judging import bet, figures, predicted_run, restless, row, says, verdict_of, workload

from advisor.profiles.conclusions import Preferences
from advisor.profiles.figures import PageLocking
from advisor.profiles.schema import Measured, MemoryClass, Profile, WorkloadRecord
from advisor.profiles.traces import Wait
from advisor.rules.registry import by_id

PAGEABLE = row("pageable", 0.040, kernels=0.002, copies=0.020)
PINNED = row("pinned", 0.020, kernels=0.002, copies=0.010)
POOL = footprint(pageable=192 * MIB, pinned=256 * MIB, device=192 * MIB)
STAGED = row("staged", 0.050, kernels=0.002, copies=0.030, footprint=POOL)
ZERO_COPY = row("zero-copy", 0.012, kernels=0.003)


# staged-transfer


@every("memory_class", ["discrete", "discrete-hmm", "coherent"])
def test_staged_copies_on_a_card(memory_class: MemoryClass):
    found = verdict_of("staged-transfer", PAGEABLE, PINNED, STAGED, on=memory_class)
    assert (found.outcome, found.strategy, found.certainty) == ("advice", "pinned", "measured")
    assert found.title == by_id("staged-transfer").text.title
    assert figures(found)["staged: copies"] == 0.030
    assert found.gain.seconds_per_frame == pytest.approx(0.030)
    assert found.gain.bytes == 256 * MIB
    assert figures(found)["staged: page-locked pool"] == 256 * MIB


@every("memory_class", ["tegra-io-coherent", "tegra-coherent"])
def test_staged_copies_on_a_jetson_are_dropped(memory_class: MemoryClass):
    found = verdict_of("staged-transfer", PAGEABLE, STAGED, ZERO_COPY, on=memory_class)
    assert (found.outcome, found.strategy) == ("advice", "zero-copy")
    assert found.title != by_id("staged-transfer").text.title


@every(
    ("rows", "outcome", "copies", "against"),
    [
        ((PAGEABLE, PINNED), "not-applicable", None, None),
        ((PINNED, row("staged", 0.050, kernels=0.04, copies=0.004)), "pass", 0.004, None),
        ((PAGEABLE, STAGED), "pass", 0.030, None),
        ((restless(row("pinned", 0.049, kernels=0.002, copies=0.01), 0.3), STAGED), "pass", 0.030, 0.049),
    ],
)
def test_staged_transfer_keeps_quiet(rows: Any, outcome: str, copies: float | None, against: float | None):
    found = verdict_of("staged-transfer", *rows)
    assert found.outcome == outcome
    assert figures(found).get("staged: copies") == copies
    assert figures(found).get("pinned: one frame") == against


# small-transfers


def small(strategy: str, median: float, copies: float, **fields: Any) -> Measured:
    return row(
        strategy,
        median,
        kernels=5e-6,
        copies=copies,
        produce=1e-6,
        consume=1e-6,
        footprint=footprint(pageable=24 << 10),
        transfer_bytes={"to-device": 16 << 10, "to-host": 8 << 10} if copies else {},
        **fields,
    )


def tiny(size: int = 8 << 10) -> WorkloadRecord:
    return workload(
        {"produce": "host", "add": "device", "consume": "host"},
        {
            "a": {"produce": "out", "add": "in"},
            "b": {"produce": "out", "add": "in"},
            "c": {"add": "out", "consume": "in"},
        },
        size=size,
    )


@every("memory_class", ["discrete", "tegra-io-coherent", "coherent"])
def test_small_copies_are_done_without(memory_class: MemoryClass):
    rows = (small("pageable", 60e-6, 30e-6), small("zero-copy", 30e-6, 0.0))
    found = verdict_of("small-transfers", *rows, on=memory_class, workload=tiny())
    assert (found.outcome, found.strategy) == ("advice", "zero-copy")
    assert figures(found)["copies in a frame"] == 3
    assert figures(found)["pageable: time of a copy, on average"] == pytest.approx(10e-6)


def test_small_copies_are_batched_where_a_call_can_be_spared():
    rows = (small("pageable", 60e-6, 30e-6), small("zero-copy", 80e-6, 0.0))
    found = verdict_of("small-transfers", *rows, workload=tiny())
    assert (found.outcome, found.strategy, found.certainty) == ("advice", None, "likely")
    assert found.gain.seconds_per_frame == pytest.approx(10e-6)
    assert found.gain.basis == "estimated"
    two = workload(
        {"produce": "host", "add": "device", "consume": "host"},
        {"a": {"produce": "out", "add": "in"}, "c": {"add": "out", "consume": "in"}},
        size=4096,
    )
    found = verdict_of("small-transfers", small("pageable", 60e-6, 30e-6), workload=two)
    assert found.outcome == "pass"


@every(("size", "copies"), [(65 << 10, 30e-6), (64 << 10, 5e-6), (8 << 10, 0.0)])
def test_large_or_cheap_copies_are_no_small_transfers(size: int, copies: float):
    rows = (small("pageable", 60e-6, copies), small("zero-copy", 30e-6, 0.0))
    assert verdict_of("small-transfers", *rows, workload=tiny(size)).outcome == "pass"


# serial-copies

OVERLAPPED = row(
    "pinned-pipelined",
    0.013,
    kernels=0.002,
    copies=0.010,
    latency_seconds=0.026,
    footprint=footprint(pinned=384 * MIB, device=384 * MIB),
)


@every("memory_class", ["discrete", "coherent"])
def test_copies_that_overlap_are_hidden(memory_class: MemoryClass):
    found = verdict_of("serial-copies", PAGEABLE, PINNED, OVERLAPPED, on=memory_class)
    assert (found.outcome, found.strategy) == ("advice", "pinned-pipelined")
    assert "384 MiB" in found.detail
    assert "26.0 ms" in found.detail
    assert "1.54×" in found.detail
    assert found.gain is None, "each frame takes longer"


@every(
    ("rows", "outcome", "text"),
    [
        ((PINNED, skipped("pinned-pipelined", "carries data")), "not-applicable", "carries data"),
        (
            (PINNED, row("pinned-pipelined", 0.0199, kernels=0.002, copies=0.01, spread=0.3)),
            "pass",
            "clearly",
        ),
        ((row("pinned", 0.1, kernels=0.001, copies=0.002), OVERLAPPED), "pass", "little to overlap"),
        ((PINNED, OVERLAPPED, ZERO_COPY), "pass", "zero-copy"),
    ],
)
def test_serial_copies_keep_quiet(rows: Any, outcome: str, text: str):
    found = verdict_of("serial-copies", *rows)
    assert found.outcome == outcome
    assert text in found.detail


def test_serial_copies_are_not_for_one_dram_nor_beyond_the_budget():
    run = profile(device=cuda_device("tegra-io-coherent"), results=(PINNED, OVERLAPPED))
    assert says("serial-copies", run).outcome == "not-applicable"
    spark = profile(device=cuda_device("coherent", integrated=1), results=(PINNED, OVERLAPPED))
    assert says("serial-copies", spark).outcome == "not-applicable"
    run = profile(results=(PAGEABLE, PINNED, OVERLAPPED))
    tight = run.model_copy(update={"preferences": Preferences(memory_budget_bytes=400 * MIB)})
    found = says("serial-copies", tight)
    assert found.outcome == "pass"
    assert "budget" in found.detail


# device-resident

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
    return row(
        strategy,
        median,
        kernels=0.0,
        copies=copies,
        transfer_bytes={"to-device": 128 * MIB, "to-host": 128 * MIB} if copies else {},
    ).model_copy(update={"stage_seconds": timed, "synchronize_seconds": waits})


def test_round_trips():
    run = profile(
        workload=BETWEEN, results=(stages("pageable", 0.040, 0.024), stages("pinned", 0.020, 0.012))
    )
    found = says("device-resident", run)
    assert (found.outcome, found.strategy, found.certainty) == ("advice", None, "likely")
    assert found.gain.seconds_per_frame == pytest.approx(0.006)
    assert found.gain.basis == "estimated"
    assert figures(found)["pinned: clip"] == 0.004
    assert figures(found)["bytes copied down and up again in a frame"] == 128 * MIB
    found = verdict_of("device-resident", PAGEABLE, PINNED)
    assert found.outcome == "pass"
    cheap = profile(workload=BETWEEN, results=(stages("pageable", 0.040, 0.004),))
    assert says("device-resident", cheap).outcome == "pass"
    jetson = cuda_device("tegra-io-coherent")
    run = profile(device=jetson, workload=BETWEEN, results=(stages("pageable", 0.040, 0.024),))
    assert says("device-resident", run).outcome == "not-applicable"


# hidden-host-copy

CAMERA = workload(
    {"capture": "host", "filter": "device", "show": "host"},
    {"image": {"capture": "out", "filter": "in"}, "result": {"filter": "out", "show": "in"}},
    external=("image",),
)


def camera(*rows: Measured, memory_class: MemoryClass = "tegra-io-coherent") -> Profile:
    named = [dict(zip(("capture", "filter", "show"), r.stage_seconds.values(), strict=True)) for r in rows]
    results = tuple(
        r.model_copy(update={"stage_seconds": seconds}) for r, seconds in zip(rows, named, strict=True)
    )
    return profile(device=cuda_device(memory_class), workload=CAMERA, results=results)


COPYING = row("managed", 0.020, kernels=0.002, host_copy_seconds=0.006)
REGISTERED = row("zero-copy-registered", 0.014, kernels=0.002)


@every("memory_class", ["tegra-io-coherent", "discrete"])
def test_a_copy_by_hand_is_spared_by_registering(memory_class: MemoryClass):
    found = says("hidden-host-copy", camera(COPYING, REGISTERED, memory_class=memory_class))
    assert (found.outcome, found.strategy) == ("advice", "zero-copy-registered")
    assert figures(found)["managed: the CPU's own copies"] == 0.006
    assert found.gain.over == "managed"
    assert found.gain.seconds_per_frame == pytest.approx(0.006)
    assert found.gain.basis == "measured"


def test_a_copy_by_hand_that_nothing_spares():
    rows = (PAGEABLE, row("managed", 0.0398, kernels=0.002, host_copy_seconds=0.006, footprint=POOL))
    found = says("hidden-host-copy", camera(*rows, memory_class="discrete"))
    assert (found.outcome, found.strategy) == ("pass", None)
    assert "pageable: one frame" in figures(found)
    slow = row("zero-copy-registered", 0.030, kernels=0.020)
    found = says("hidden-host-copy", camera(COPYING, slow))
    assert (found.outcome, found.strategy) == ("advice", None)
    assert figures(found)["managed: the CPU's own copies"] == 0.006
    assert found.gain.seconds_per_frame == pytest.approx(0.006)
    assert found.gain.basis == "estimated"


@every(
    ("run", "outcome", "shown"),
    [
        (profile(results=(PAGEABLE, COPYING)), "not-applicable", {}),
        (
            camera(row("managed", 0.020, kernels=0.002, host_copy_seconds=0.001)),
            "pass",
            {"managed: the CPU's own copies": 0.001},
        ),
        (camera(REGISTERED), "pass", {"zero-copy-registered: one frame": 0.014}),
    ],
)
def test_hidden_host_copy_keeps_quiet(run: Profile, outcome: str, shown: dict[str, float]):
    found = says("hidden-host-copy", run)
    assert (found.outcome, figures(found)) == (outcome, shown)


# pin-per-frame


def test_locking_in_each_frame_is_seen_and_priced():
    locking = row("pageable", 0.040, kernels=0.002, page_locking=PageLocking(calls=2.0, seconds=0.010))
    found = verdict_of("pin-per-frame", locking)
    assert (found.outcome, found.strategy, found.certainty) == ("advice", None, "measured")
    assert figures(found)["pageable: page-locking calls in a frame"] == 2
    assert found.gain.seconds_per_frame == pytest.approx(0.010)
    assert found.gain.basis == "estimated"


@every(("seen", "outcome"), [(PageLocking(calls=0.1, seconds=1e-4), "pass"), (None, "not-applicable")])
@every("memory_class", ["tegra", "discrete"])
def test_a_pool_that_grows_is_no_habit(memory_class: MemoryClass, seen: Any, outcome: str):
    run = profile(
        device=cuda_device(memory_class), results=(row("pageable", 0.04, kernels=0.002, page_locking=seen),)
    )
    assert says("pin-per-frame", run).outcome == outcome


# pinned-over-budget


def host_with(memory: int, *rows: Measured, memory_class: MemoryClass = "discrete", limit: Any = "unlimited"):
    base = profile(device=cuda_device(memory_class), results=rows)
    machine = base.environment.model_copy(
        update={"memory_bytes": memory, "host": host_state(memory_limit=limit)}
    )
    return base.model_copy(update={"environment": machine})


LOCKED = row("pinned", 0.020, kernels=0.002, copies=0.010, footprint=footprint(pinned=192 * MIB))
LEAN = row("managed-prefetch", 0.0202, kernels=0.002, footprint=footprint(managed=192 * MIB))


@every("memory_class", ["discrete", "tegra"])
def test_half_of_the_memory_locked_is_too_much(memory_class: MemoryClass):
    rows = (PAGEABLE, LOCKED, LEAN)
    found = says("pinned-over-budget", host_with(384 * MIB, *rows, memory_class=memory_class))
    assert (found.outcome, found.strategy) == ("advice", "managed-prefetch")
    assert figures(found)["pinned: page-locked"] == 192 * MIB
    assert figures(found)["limit of mlock (ulimit -l)"] == 8 * MIB
    assert says("pinned-over-budget", host_with(385 * MIB, *rows)).outcome == "pass"


def test_how_much_is_locked():
    assert (
        says("pinned-over-budget", host_with(64 << 30, PAGEABLE, LOCKED, limit=200 * MIB)).outcome == "advice"
    )
    found = says("pinned-over-budget", host_with(256 * MIB, PAGEABLE, LOCKED))
    assert (found.outcome, found.strategy, found.gain) == ("advice", None, None)
    card = predicted_run(catalogue_device("RTX 4090"), bet("pinned", 0.02, kernels=0.002, copies=0.01))
    assert says("pinned-over-budget", card).outcome == "not-applicable"
    nano = catalogue_device("Nano", "tegra").model_copy(
        update={"attributes": {"total_global_mem": 300 * MIB}}
    )
    found = says("pinned-over-budget", predicted_run(nano, bet("pinned", 0.02, kernels=0.002, copies=0.01)))
    assert (found.outcome, found.certainty) == ("advice", "predicted")
    assert found.evidence[0].value == 192 * MIB


# oversubscription


def with_memory(total: int, *rows: Any, memory_class: MemoryClass = "discrete") -> Profile:
    return profile(device=cuda_device(memory_class, total_global_mem=total), results=rows)


@every("memory_class", ["discrete", "tegra-io-coherent"])
def test_buffers_that_outgrow_the_device(memory_class: MemoryClass):
    rows = (row("managed", 0.2, kernels=0.15), ZERO_COPY, skipped("pinned", "needs 192 MiB of memory"))
    found = says("oversubscription", with_memory(200 * MIB, *rows, memory_class=memory_class))
    assert (found.outcome, found.strategy) == ("advice", "zero-copy")
    assert figures(found)["memory the buffers need"] == 192 * MIB
    alone = says("oversubscription", with_memory(200 * MIB, rows[0], rows[2], memory_class=memory_class))
    assert (alone.outcome, alone.strategy, alone.gain) == ("advice", None, None)
    assert "needs 192 MiB of memory" in alone.detail


ONE_FITS = "That barely fits"
GIVES_UP = "Managed memory evicts pages to make room"
CANNOT = "not even managed memory can be larger than the GPU's"
ONE_DRAM = "The system and other programs need part"


@every(
    ("total", "memory_class", "flags", "said"),
    [
        (192, "discrete", {"concurrent_managed_access": 1}, ONE_FITS),
        (191, "discrete", {"concurrent_managed_access": 1}, GIVES_UP),
        (191, "discrete", {"concurrent_managed_access": 0}, CANNOT),
        (191, "discrete", {}, ""),
        (191, "tegra-coherent", {"concurrent_managed_access": 1}, ONE_DRAM),
        (200, "tegra-io-coherent", {"concurrent_managed_access": 0}, ONE_DRAM),
    ],
)
def test_pages_are_given_up_only_where_they_can_be_and_must(
    total: int, memory_class: MemoryClass, flags: dict[str, int], said: str
):
    device = cuda_device(memory_class, total_global_mem=total * MIB, **flags)
    slow = row("managed", 0.2, kernels=0.15)
    for rows in ((slow,), (slow, ZERO_COPY)):
        found = verdict_of("oversubscription", *rows, on=device)
        assert found.outcome == "advice"
        assert [text for text in (ONE_FITS, GIVES_UP, CANNOT, ONE_DRAM) if text in found.detail] == (
            [said] if said else []
        )


def test_the_memory_that_counts_is_what_kernels_use():
    found = says("oversubscription", with_memory(214 * MIB, ZERO_COPY))
    assert found.outcome == "pass"
    assert figures(found)["the device's memory"] == 214 * MIB
    assert verdict_of("oversubscription", ZERO_COPY).outcome == "not-applicable"
    three = workload(
        {"make": "host", "add": "device"},
        {"a": {"make": "out", "add": "in"}, "s": {"add": "out"}, "t": {"add": "out"}, "log": {"make": "out"}},
        size=60 * MIB,
    )
    run = with_memory(200 * MIB, ZERO_COPY).model_copy(update={"workload": three})
    assert figures(says("oversubscription", run))["memory the buffers need"] == 180 * MIB


# implicit-wait

WAIT = Wait(stage="add", line="pipeline.py:7", call="float()", write="Keep the value on the GPU.", count=2)


def waiting(*waits: Wait, frame: float = 100e-6) -> Profile:
    rows = (row("pageable", frame, kernels=frame / 2, produce=frame / 5, consume=frame / 5),)
    return profile(results=rows, traffic=vector_add_trace().model_copy(update={"waits": waits}))


def test_waits_are_told_by_line_with_what_they_cost():
    found = says("implicit-wait", waiting(WAIT))
    assert (found.outcome, found.strategy, found.certainty) == ("advice", None, "likely")
    assert "float() in add (pipeline.py:7)" in found.detail
    assert found.gain.seconds_per_frame == pytest.approx(26e-6)
    assert figures(found)["waits in a frame"] == 2


@every(
    ("run", "outcome"),
    [
        (waiting(), "pass"),
        (waiting(WAIT, frame=1.0), "pass"),
        (profile(results=(PAGEABLE,), traffic=None), "not-applicable"),
    ],
)
def test_waits_that_cost_nothing_or_were_not_looked_for(run: Profile, outcome: str):
    assert says("implicit-wait", run).outcome == outcome


EXAMPLES = {"implicit-wait": waiting(WAIT)}
