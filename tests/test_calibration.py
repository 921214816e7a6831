"""The measurements, on a GPU of known costs, on one that fails at any call, and on the CPU."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import cuda_device
from calibrating import CAPABLE, MIB, QUICK, SIZES, CpuWithKernels, FakeClock, KnownGpu, bench_on, measured
from every import every
from fakes import Haste
from hypothesis import given, settings
from hypothesis import strategies as st
from machines import make_tree
from rendering import Accepted
from running import REPOSITORY

from advisor.calibration import host_memory
from advisor.calibration.bench import (
    Limits,
    Sizes,
    Spread,
    choose,
    fit,
    fit_repeats,
    inverse,
    largest_cache,
    measure_sizes,
    positive,
    rates,
    spread,
)
from advisor.calibration.calibrations import GROUPS, Group
from advisor.calibration.device_rates import LOADS, NAMES, TILE, Kernels
from advisor.calibration.host_memory import sizes
from advisor.measure.backends import CpuBackend
from advisor.measure.routines import passes

GIB = 1 << 30


# Every group

ids = pytest.mark.parametrize("group", GROUPS, ids=lambda g: g.name)


@ids
def test_every_figure_is_measured_or_absent_with_a_reason_on_the_cpu(group: Group) -> None:
    backend = CpuBackend() if not group.needs_gpu else CpuWithKernels()
    bench = measured(group.measure, backend)
    result = bench.result()
    assert set(group.keys) <= set(result.readings) | set(result.absent)
    assert not set(result.readings) & set(result.absent)
    assert all(result.absent.values())
    # On a CPU these are differences of times that noise can turn round.
    noisy = {*host_memory.MOVING, host_memory.CALL, "l2_bytes_per_second", "synchronize_seconds"}
    missing = set(result.absent) - noisy
    assert missing == set(), result.absent


def test_every_figure_is_documented() -> None:
    text = (REPOSITORY / "docs/devices.md").read_text(encoding="utf-8").partition("### Calibrate")[2]
    rows = [line for line in text.partition("\n### ")[0].splitlines() if line.startswith("| ")]
    for group in GROUPS:
        (row,) = [row for row in rows if row.startswith(f"| {group.title} |")]
        assert all(f"`{key}`" in row for key in group.keys)


@ids
def test_a_call_that_fails_costs_figures_and_no_memory(group: Group) -> None:
    """Nor does it take more memory than its sizes, however late the GPU works."""
    hastes: tuple[Haste, ...] = ("lazy", "eager")
    for haste in hastes:
        whole = KnownGpu(haste=haste)
        measured(group.measure, whole)
        assert whole.requested["managed"] <= 2 * SIZES.managed
        assert whole.requested["device"] <= 3 * SIZES.transfer
        assert whole.requested["pinned"] + whole.requested["mapped"] <= 3 * SIZES.transfer
        assert (whole.live, whole.idle) == ({}, True)
    calls = len(whole.calls)
    for fail_at in range(1, calls + 1, max(calls // 60, 1)):
        broken = KnownGpu(fail_at=fail_at)
        bench = measured(group.measure, broken)
        assert set(group.keys) <= set(bench.readings) | set(bench.absent)
        assert not set(bench.readings) & set(bench.absent)
        # Freeing may be what failed.
        assert broken.live == {} or broken.calls[fail_at - 1][0].startswith("free")


# What they find


ONCE, SIDE = 1e-3, 256


def costs(gpu: KnownGpu, group: str) -> None:
    """Launches of 3 µs, waits of 0.7 ms; kernels of 1 ms, of 2 in L2 and 4 of arithmetic; a first pass over
    managed memory of 4 ms more than the second, of faults 100 µs more; calls of 7 µs to prefetch and 11 to
    attach. 0.6 of what tiles read again crosses the link, 0.9 of reads far apart, 0.2 of near ones, half of a
    product's; the other two routines take no time at all, the least that is told. Copies as `KnownGpu` has
    them, the last of a row arriving 6 µs after its call, and on one memory those of 1 MiB, beyond the cache,
    at half the rate."""
    gpu.launch, gpu.kernel_seconds = 0.0, {name: cycle([1e-3]) for name in NAMES}
    if group == "latencies":
        gpu.launch, gpu.wait, gpu.kernel_seconds = 3e-6, 7e-4, {}
    elif group == "transfers":
        gpu.arriving, gpu.beyond_cache = 6e-6, MIB * gpu.device().attributes.get("integrated", 0)
    elif group == "device":
        gpu.kernel_seconds |= {"read_again_l2": cycle([2e-3]), "multiply_add": cycle([4e-3])}
    elif group == "re-reads":
        size, launched = SIZES.transfer // 2, Kernels(gpu).threads * LOADS * 16
        rate, product = size / ONCE, 2 * 4 * SIDE * SIDE
        gpu.kernel_seconds = {
            "read_once": cycle([ONCE]),
            "multiply_tiles": cycle([(product + 0.6 * product * (SIDE / TILE - 1)) / rate]),
            "read_again": cycle([(size + 0.9 * (launched - size)) / rate]),
            "read_near": cycle([(size + 0.2 * 3 * size) / rate]),
        }
        more = passes("matmul", np.dtype(np.float32), SIDE) - 1
        gpu.routine_seconds = {"matmul": (product + 0.5 * more * product) / rate}
    elif group == "managed":
        gpu.prefetch_call, gpu.attach_call, gpu.prefetch_rate, gpu.wait = 7e-6, 11e-6, 1e15, 1e-3
        gpu.kernel_seconds = {"read_once": cycle([5e-3, 1e-3]), "touch_in_turn": cycle([101e-6, 1e-6])}


CARDS: dict[str, dict[str, Any]] = {
    "a card": {},
    "a card whose memory moves whole": {"concurrent_managed_access": 0},
    "one memory": {"integrated": 1, "compute_capability": "8.7"},
    "neither mapped nor managed memory": {"can_map_host_memory": 0, "managed_memory": 0},
}


def test_what_is_found_on_a_gpu_of_known_costs(accepted: Accepted) -> None:
    """The second device on, only what differs from the first. Managed memory that moves whole is measured in
    `WHOLE` of it: at the 0.1 GB/s of Windows a pass over all of the usual size would take seconds."""
    lines: dict[str, None] = {}
    for name, attributes in CARDS.items():
        lines[f"\n{name}"] = None
        for group in (group for group in GROUPS if group.needs_gpu):
            gpu = KnownGpu(device=cuda_device(**{**CAPABLE, **attributes}))
            costs(gpu, group.name)
            bench = measured(group.measure, gpu, sizes=replace(SIZES, managed=2 * host_memory.WHOLE))
            called = ", ".join(sorted(set(gpu.names)))
            lines[f"{group.name}: {called}"] = None
            for key, reading in bench.readings.items():
                values = f"{reading.value:.4g} ({reading.low:.4g} to {reading.high:.4g})"
                lines[f"  {key}: {values}, {reading.what}"] = None
            lines |= dict.fromkeys(f"  {key}: absent, {why}" for key, why in bench.absent.items())
    accepted("\n".join(lines).lstrip() + "\n", "calibrated.txt")


def test_a_write_fault_is_what_a_first_pass_of_writes_costs_more(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = KnownGpu()
    pages = SIZES.managed // host_memory.PER

    class BroughtBack(np.ndarray):  # type: ignore[type-arg]
        def fill(self, value: Any) -> None:
            first = any(call[0] == "prefetch" for call in gpu.calls)
            gpu.clock.advance(1e-3 + (pages * 0.25e-6 if first else 0.0))
            gpu.calls.clear()

    array = host_memory.host_array
    monkeypatch.setattr(host_memory, "host_array", lambda *given: array(*given).view(BroughtBack))
    bench = measured(host_memory.measure_managed, gpu)
    assert bench.readings["write_fault_seconds"].value == pytest.approx(0.25e-6)


def test_memory_that_the_cpu_does_not_cache_is_read_in_two_widths() -> None:
    backend = CpuWithKernels()
    backend.device = lambda: cuda_device("tegra", compute_capability="5.3")  # type: ignore[method-assign]
    bench = measured(host_memory.measure_page_locked, backend)
    readings = bench.readings
    assert readings["host_uncached_read_bytes_per_second"] == readings["host_pinned_read_bytes_per_second"]
    assert "host_uncached_access_seconds" in readings
    card = measured(host_memory.measure_page_locked, CpuWithKernels())
    assert not {"host_uncached_read_bytes_per_second", "host_uncached_access_seconds"} & set(card.readings)


# How often, and how much


def test_repeats_end_with_the_time_and_the_first_is_not_kept() -> None:
    clock = FakeClock()
    bench = bench_on(CpuBackend(), clock=clock, limits=Limits(seconds=1.0, least=5, most=25))
    slow, fast = (lambda: clock.advance(10.0) or 10.0), (lambda: clock.advance(0.1) or 0.1)
    assert len(bench.repeat(slow)) == 5
    assert len(bench.repeat(fast)) == pytest.approx(11, abs=1)
    assert len(bench.repeat(lambda: 1.0)) == 25
    times = iter([100.0, *[1.0] * 50])
    assert set(bench_on(CpuBackend()).repeat(lambda: next(times))) == {1.0}


def test_sizes_go_beyond_the_caches_and_leave_a_nano_its_memory() -> None:
    nano = cuda_device("tegra", compute_capability="5.3", l2_cache_size=256 << 10)
    roomy = Sizes(64 * MIB, 128 * MIB, 64 * MIB, 128 * MIB, l2=256 << 10, host_cache=2 * MIB)
    assert choose(2 * GIB, 3 * GIB, nano, 2 * MIB) == roomy
    tight = replace(roomy, **dict.fromkeys(("host", "transfer", "device", "managed"), 8 * MIB))
    assert choose(200 * MIB, 300 * MIB, nano, 2 * MIB) == tight, "a sixteenth of 200 MiB"
    card = cuda_device(**CAPABLE, l2_cache_size=50 * MIB)
    large = Sizes(256 * MIB, 256 * MIB, 512 * MIB, 256 * MIB, l2=50 * MIB, host_cache=32 * MIB)
    assert choose(64 * GIB, 16 * GIB, card, 32 * MIB) == large


def test_what_limits_the_sizes(tmp_path: Path) -> None:
    make_tree(tmp_path, {"sys/fs/cgroup/memory.max": 268435456})
    assert measure_sizes(cuda_device(), None, root=tmp_path).host == 16 * MIB
    assert largest_cache(root=tmp_path) is None
    caches = enumerate(("48K", "32K", "1024K", "36M", "?"))
    make_tree(tmp_path, {f"sys/devices/system/cpu/cpu0/cache/index{i}/size": size for i, size in caches})
    assert largest_cache(root=tmp_path) == 36 * MIB


def test_passes_that_take_as_long_tell_no_fault() -> None:
    """A difference of rounding alone is no figure: an entry with a fault of 5e-13 s is refused."""
    bench = bench_on(CpuWithKernels(), limits=QUICK)
    seconds = iter([1.0, 1.0 - 1e-10] * 1000)
    bench.host_seconds = lambda *_work: next(seconds)  # type: ignore[method-assign]
    with bench.attempt([host_memory.WRITE]):
        host_memory._first_less_second(bench, lambda: None, lambda: None)
    assert "as long as the first" in bench.absent[host_memory.WRITE]


# Rates and latencies from noisy times


LENGTHS = sizes(256 << 20)
LATENCIES = st.floats(1e-6, 50e-6)
RATES = st.floats(0.5e9, 400e9)
SEEDS = st.integers(0, 2**32 - 1)


def noisy(latency: float, rate: float, noise: float, repeats: int, seed: int) -> list[list[float]]:
    """Times by size, each off by a factor that is rarely more than 1 + 2 * noise."""
    generator = np.random.default_rng(seed)
    factors = np.exp(generator.normal(0, noise, (len(LENGTHS), repeats)))
    return [
        [(latency + size / rate) * f for f in row]
        for size, row in zip(LENGTHS, factors.tolist(), strict=True)
    ]


@given(LATENCIES, RATES, SEEDS, st.booleans())
@settings(max_examples=100, deadline=None)
def test_noisy_times_give_them_back_within_the_noise(
    latency: float, rate: float, seed: int, disturbed: bool
) -> None:
    """A repeat that was disturbed moves neither."""
    times = noisy(latency, rate, 0.01 if disturbed else 0.02, 15, seed)
    for row in times:
        row[seed % 15] *= 50 if disturbed else 1
    wait, slope = fit_repeats(LENGTHS, times)
    assert 1 / slope.value == pytest.approx(rate, rel=0.05)
    # The shortest copy has 4096 / rate beside the latency, and noise on both.
    assert wait.value == pytest.approx(latency, rel=0.06, abs=0.06 * 4096 / rate)
    assert slope.low <= slope.value <= slope.high < 1.2 / rate
    assert slope.repeats == 15


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=30))
def test_a_spread_holds_its_value_and_stays_within_the_repeats(values: list[float]) -> None:
    middle = spread(values)
    assert min(values) * (1 - 1e-12) <= middle.low <= middle.value <= middle.high <= max(values) * (1 + 1e-12)
    assert middle.value == np.median(values)
    assert middle.repeats == len(values)


def test_ranges_of_spreads_and_rates() -> None:
    assert spread([float(n) for n in range(1, 12)]) == Spread(6.0, 2.0, 10.0, 11)
    assert rates(100.0, [10.0, 20.0, 10.0, -1.0, 10.0]).value == 10.0
    assert rates(100.0, [10.0, 20.0]).low < 7.0
    assert inverse(Spread(0.5, 0.25, 1.0, 3)) == Spread(2.0, 1.0, 4.0, 3)
    assert positive(Spread(2.0, -1.0, 3.0, 5)) == Spread(2.0, 1.0, 3.0, 5)
    assert inverse(Spread(0.5, -0.1, 1.0, 5)) == Spread(2.0, 1.0, 2.0, 5)


@every(
    ("wrong", "reason"),
    [
        (lambda: rates(1.0, [1.0, 0.0, 0.0]), "below the clock's resolution"),
        (lambda: rates(1.0, [1.0, -1.0]), "below the clock's resolution"),
        (lambda: spread([]), "nothing was measured"),
        (lambda: fit([1, 1], [1.0, 2.0]), "a fit needs at least two sizes"),
        (lambda: inverse(Spread(-1.0, -2.0, 1.0, 3)), "does not increase with the size"),
        (lambda: positive(Spread(0.0, -1.0, 1.0, 3)), "not distinguishable from zero"),
    ],
)
def test_what_is_no_figure_is_refused(wrong: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        wrong()  # type: ignore[operator]
