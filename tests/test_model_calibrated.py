"""What `advisor devices calibrate` measures takes the place of what the model otherwise assumes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import builders
import pytest
from builders import altered
from every import every
from published_cases import DATA, simulated, touched, vector, vector_streamed
from test_model import N, external
from test_model_measured import measured_on

from advisor.devices.catalogue import load
from advisor.devices.entries import Attribute, CatalogueEntry, Figure
from advisor.model import terms
from advisor.model.machines import Machine
from advisor.model.measured import learned
from advisor.model.predict import predict
from advisor.model.terms import span
from advisor.profiles.schema import Device, Profile, Trace
from advisor.profiles.traces import Again
from advisor.strategies.registry import STRATEGIES

pytestmark = pytest.mark.usefixtures("constants_as_read")

SIZE = 1 << 26
FIRST_FAULTS = 3 * 0.04e-3
"""Of a kernel over three buffers."""
SHEET = load("rtx-4090")
CALIBRATED = load(str(DATA / "devices" / "h200-calibrated.toml"))


def with_figures(**values: float) -> CatalogueEntry:
    """The card of the catalogue, and these figures as if they had been measured on it."""
    given = {
        f"{key}_per_second" if key.endswith("bytes") and key != "host_cache_bytes" else key: value
        for key, value in values.items()
    }
    figures = {key: Figure(value=value, low=value, high=value, source="test") for key, value in given.items()}
    return altered(SHEET, "figures", **figures)


def rows(profile: Profile, entry: CatalogueEntry) -> dict[str, Mapping[str, Any]]:
    """Likely seconds by part, of each strategy."""
    return {
        name: {part: float(seconds[0]) for part, seconds in s.parts.items()}
        for name, s in simulated(profile, Machine(entry)).items()
    }


@every(
    ("kind", "known"),
    [
        ("host_pinned", {"pinned", "zero-copy", "pinned-pipelined"}),
        ("host_write_combined", {"write-combined", "zero-copy-wc"}),
    ],
)
def test_host_stages_pass_over_their_kind_of_memory(kind: str, known: set[str]) -> None:
    locked = [s for s in STRATEGIES if s.placement.locks and not s.placement.registered]
    strategies = {s.name for s in locked if s.placement.write_combined == (kind == "host_write_combined")}
    assert strategies >= known
    slow = rows(vector_streamed(SIZE), with_figures(**{f"{kind}_write_bytes": 2e9}))
    plain = rows(vector_streamed(SIZE), SHEET)
    for name, parts in slow.items():
        if "host:init" in parts:
            expected = 2 * SIZE / 2e9 if name in strategies else plain[name]["host:init"]
            assert parts["host:init"] == pytest.approx(expected), name


def test_managed_memory_is_never_faster_for_the_cpu_than_ordinary_memory() -> None:
    # 16 GB/s is the default for ordinary memory: 27 was a buffer that the CPU's cache held.
    for rate, expected in ((27e9, 16e9), (5e9, 5e9)):
        found = rows(vector(SIZE), with_figures(host_managed_read_bytes=rate))["managed-prefetch"]
        assert found["host:access"] == pytest.approx(3 * SIZE / expected)


def test_prefetches_and_first_writes_take_their_measured_times() -> None:
    entry = with_figures(prefetch_to_device_bytes=20e9, prefetch_to_host_bytes=8e9)
    found = rows(vector(SIZE), entry)["managed-prefetch"]
    assert found["to-device"] == pytest.approx(3 * (32e-6 + SIZE / 20e9 / 0.85))
    assert found["to-host"] == pytest.approx(3 * (32e-6 + SIZE / 8e9 / 0.85))
    free, dear = (
        rows(vector_streamed(SIZE), with_figures(write_fault_seconds=s))["managed-prefetch"]["host:init"]
        for s in (1e-12, 1e-6)
    )
    assert dear - free == pytest.approx(2 * SIZE / 4096 * 1e-6, rel=1e-3)
    dear, free = (
        rows(vector(SIZE), with_figures(prefetch_call_seconds=s))["managed-prefetch"]["to-device"]
        for s in (1e-3, 1e-9)
    )
    assert dear - free == pytest.approx(3e-3, rel=1e-3)


def test_migration_takes_its_measured_rates() -> None:
    entry = with_figures(migration_to_device_bytes=12e9, migration_to_host_bytes=6e9)
    found, plain = (rows(vector(SIZE), e)["managed"] for e in (entry, with_figures()))
    compute = rows(vector(SIZE), SHEET)["pinned"]["device:compute"]
    assert found["device:compute"] == pytest.approx(3 * SIZE / 12e9 + compute + FIRST_FAULTS)
    by_cpu = rows(vector(SIZE), SHEET)["pageable"]
    # Reads fetch all three back, so that the next writes of two of them fault page by page.
    assert found["host:access"] == pytest.approx(by_cpu["host:access"] + 3 * SIZE / 6e9)
    assert found["host:init"] == pytest.approx(by_cpu["host:init"] + 2 * SIZE / 4096 * 0.25e-6)
    written = rows(vector_streamed(SIZE), entry)["managed"]["host:init"]  # by the faults that fetch them
    assert written == pytest.approx(by_cpu["host:init"] + 2 * SIZE / 6e9)
    assert plain["device:compute"] > found["device:compute"]


def test_foreign_memory_is_copied_at_the_rates_of_the_programs_own() -> None:
    size = 4 * N
    entry = with_figures(host_pinned_copy_bytes=5e9, host_pinned_read_bytes=2e9, host_managed_copy_bytes=99e9)
    found = rows(external("a", "c"), entry)
    # In at the rate of copies into it, out no faster than it is read.
    assert found["pinned"]["host-copy"] == pytest.approx(size / 5e9 + size / 2e9)
    assert found["managed-prefetch"]["host-copy"] == pytest.approx(
        2 * size / 16.8e9 + size / 4096 * 0.25e-6  # never faster than ordinary memory, and first writes
    )


# Caches


def cached(profile: Profile, entry: CatalogueEntry, seconds: float) -> dict[str, Mapping[str, Any]]:
    """The same with host stages that took so long in the CPU run."""
    stages = profile.workload.frame_stages("host")
    work = tuple(builders.StageWork(stage=s.name, seconds=seconds) for s in stages)
    return rows(
        profile.model_copy(update={"traffic": profile.traffic.model_copy(update={"work": work})}), entry
    )


def test_what_the_cpus_cache_holds_does_not_wait_for_memory() -> None:
    profile, quick = vector(SIZE), 1e-4
    none, all_of_it = (3 * SIZE / share for share in reversed(terms.KEPT))
    for cache, held in ((all_of_it, True), (none, False)):
        entry = with_figures(host_cache_bytes=cache)
        found = cached(profile, entry, quick)
        expected = quick if held else 2 * SIZE / 16e9
        assert found["pinned"]["host:init"] == pytest.approx(expected)
        assert found["zero-copy"]["host:init"] == pytest.approx(expected)
    # Two sets of buffers need twice the cache.
    once, twice = (
        cached(profile, with_figures(host_cache_bytes=n * SIZE), quick)["pinned-pipelined"] for n in (3, 9)
    )
    assert sum(twice.values()) < sum(once.values())


def test_what_a_staged_copy_brought_is_not_in_the_cache() -> None:
    found = cached(vector_streamed_back(), with_figures(host_cache_bytes=1 << 30), 1e-4)
    assert found["pinned"]["host:access"] == pytest.approx(1e-4)
    for name in ("pageable", "staged"):
        assert found[name]["host:access"] == pytest.approx(1e-4 + 0.6 * SIZE / 16e9)


def vector_streamed_back() -> Profile:
    """`vector`, of which the host reads the result alone."""
    profile = vector(SIZE)
    assert profile.traffic is not None
    kept = [t for t in profile.traffic.traffic if t.stage != "access" or t.buffer == "c"]
    buffers = tuple(
        b
        if b.name == "c"
        else b.model_copy(update={"access": {k: v for k, v in b.access.items() if k != "access"}})
        for b in profile.workload.buffers
    )
    return profile.model_copy(
        update={
            "workload": profile.workload.model_copy(update={"buffers": buffers}),
            "traffic": Trace(traffic=tuple(kept)),
        }
    )


@every(("reads", "held"), [(15e9, True), (0.5e9, False), (None, False)])
def test_write_combined_memory_that_reads_fast_is_cached(reads: float | None, held: bool) -> None:
    given = {} if reads is None else {"host_write_combined_read_bytes": reads}
    entry = with_figures(host_cache_bytes=1 << 30, host_write_combined_write_bytes=10e9, **given)
    found = cached(vector_streamed(SIZE), entry, 1e-4)["write-combined"]
    assert found["host:init"] == pytest.approx(1e-4 if held else 2 * SIZE / 10e9)


def test_narrow_reads_of_memory_that_no_cache_holds_take_an_access_each() -> None:
    profile, nano = vector_streamed_back(), load("nano")
    alone = Figure(value=1e-7, low=1e-7, high=1e-7, source="test")
    figures = nano.figures.model_copy(update={"host_uncached_access_seconds": alone})

    def reads(strategy: str, entry: CatalogueEntry) -> tuple[float, float, float]:
        return span(simulated(profile, Machine(entry))[strategy].parts["host:access"])

    measured = nano.model_copy(update={"figures": figures})
    wide, narrow = (reads("pinned", entry) for entry in (nano, measured))
    assert narrow[1] == pytest.approx(wide[1])
    assert 1.4 * wide[2] < narrow[2]
    assert reads("pageable", nano) == reads("pageable", measured)


# Reading again, over a link


@every("share", [0.3, 1.2])
def test_library_routines_read_again_what_was_measured(share: float) -> None:
    profile = touched(SIZE, "in")
    (traffic,) = [t for t in profile.traffic.traffic if t.stage == "kernel"]
    again = (Again(call="matmul", bytes=9.0 * SIZE),)
    reread = traffic.model_copy(update={"again": again})
    profile = profile.model_copy(update={"traffic": Trace(traffic=(reread,))})
    entry = with_figures(zero_copy_read_bytes=20e9, routine_again_share=share)
    parts = rows(profile, entry)["zero-copy"]
    assert parts["device:kernel"] == pytest.approx(5e-6 + (1 + 9 * share) * SIZE / 20e9)


@every("share", [0.3, 0.9])
def test_what_kernels_read_again_crosses_as_measured(share: float) -> None:
    entry = with_figures(zero_copy_read_bytes=20e9, link_again_alone_share=share)
    parts = rows(touched(SIZE, "in", passes=8), entry)["zero-copy"]
    assert parts["device:kernel"] == pytest.approx(5e-6 + (1 + 7 * share) * SIZE / 20e9)


def test_kernels_over_host_memory_take_their_measured_rates() -> None:
    entry = with_figures(zero_copy_reread_bytes=1e12, zero_copy_read_bytes=20e9)
    small, large = (rows(touched(size, "in", passes=64), entry)["zero-copy"] for size in (1 << 16, 1 << 17))
    assert small["device:kernel"] == pytest.approx(5e-6 + (1 << 16) / 20e9 + 63 * (1 << 16) / 1e12)
    assert large["device:kernel"] == pytest.approx(5e-6 + 64 * (1 << 17) / 20e9)
    figures = {
        f"zero_copy_{what}_bytes_per_second": Figure(value=rate, source="test")
        for what, rate in (("read", 5e9), ("write", 4e9))
    }
    jetson = load("agx-orin")
    parts = rows(touched(SIZE, "inout"), altered(jetson, "figures", **figures))["zero-copy"]
    assert parts["device:kernel"] == pytest.approx(15e-6 + SIZE / 5e9 + SIZE / 4e9)


def on_the_calibrated(**attributes: Any) -> Device:
    told = {key: attribute.value for key, attribute in CALIBRATED.attributes.items()}
    return Device(name="NVIDIA H200", kind="cuda", memory_class="discrete", attributes={**told, **attributes})


def test_a_calibrated_entry_is_known_as_the_measured_device() -> None:
    own = measured_on("NVIDIA H200", 1e-3, 0.01, device=on_the_calibrated())
    assert learned(own, Machine(CALIBRATED)).same_device
    row = next(r for r in predict(own, CALIBRATED).results if r.strategy == "pinned")
    assert row.terms["device:add"] == pytest.approx(1e-3, rel=1e-6)
    assert row.terms["host:consume"] == pytest.approx(0.01)
    # 192 MiB of buffers lie in its cache of 300 MiB: a stage that was quicker than memory stays so.
    quick = predict(measured_on("NVIDIA H200", 1e-3, 1e-4, device=on_the_calibrated()), CALIBRATED)
    row = next(r for r in quick.results if r.strategy == "pinned")
    assert row.terms["host:produce"] == pytest.approx(1e-4)
    other = measured_on("NVIDIA H200", 1e-3, 0.01, device=on_the_calibrated(total_global_mem=1 << 37))
    assert not learned(other, Machine(CALIBRATED)).same_device


def test_a_calibrated_jetson_runs_at_the_clocks_it_was_measured_at() -> None:
    entry = load("agx-orin")
    memory = Attribute(value=int(entry.figures.memory_bytes.value), source="measured")
    measured = entry.model_copy(update={"attributes": {**entry.attributes, "total_global_mem": memory}})

    def width(found: CatalogueEntry) -> float:
        low, _, high = span(simulated(vector(float(1 << 24)), Machine(found))["pinned"].seconds)
        return high / low

    assert width(measured) < 0.7 * width(entry)
