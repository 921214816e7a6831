"""What the model takes for a figure that a catalogue entry leaves out, per memory class, with its source.

Every default has a range, which the prediction's range carries. None is fitted to a single published row;
the few that are fitted to all rows of a memory class say so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from advisor.devices.catalogue import CatalogueEntry, Figure
from advisor.model.page_costs import PAGE_COSTS
from advisor.profiles.schema import MemoryClass


def _figure(low: float, value: float, high: float, source: str) -> Figure:
    return Figure(value=value, low=low, high=high, source=source)


_SBC = "one core in ThomasKaiser/sbc-bench: Orin NX, AGX Orin, AGX Xavier"
_NANO = "Jetson Nano in xnd-project/cuda-benchmarks PR 3: one thread over 640 and 960 MB"
_DESKTOP = (
    "one thread between an i3-N305 (ThomasKaiser/sbc-bench) and an RTX 4090's host "
    "(krrishnarraj/clpeak issue 106), in the middle on a logarithmic scale"
)
_SMALLEST = "smallest size of UnifiedMemoryPerf on RTX 2060 and GTX 1650 SUPER"

_EVERYWHERE = {
    "launch_seconds": _figure(
        3.5e-6,
        5e-6,
        8e-6,
        "3.5 to 6.3 µs on Orin Nano (Lucineer/gpu-native-room-inference); "
        f"launch, kernel and synchronise together 13 to 17 µs: {_SMALLEST}",
    ),
    "synchronize_seconds": _figure(4e-6, 8e-6, 10e-6, f"what launch leaves of 13 to 17 µs: {_SMALLEST}"),
    "pageable_copy_call_seconds": _figure(
        4.3e-6, 5e-6, 7e-6, f"a third of MemCopy less 0Copy: {_SMALLEST}; 5 to 7 µs in arXiv 2602.21548"
    ),
    "pinned_copy_call_seconds": _figure(
        4e-6, 4.6e-6, 7e-6, f"a third of CpPglAs less 0Copy: {_SMALLEST}; 5 to 7 µs in arXiv 2602.21548"
    ),
    "fault_seconds": _figure(
        10e-6, 28e-6, 50e-6, "ObservUVM; fitted to discrete cards: the mean of four (docs/accuracy.md)"
    ),
    "migration_bytes": _figure(65536, 65536, 65536, "ObservUVM: 64 KB"),
    "prefetch_call_seconds": _figure(
        20e-6,
        32e-6,
        150e-6,
        "fitted to discrete cards: the mean of two (docs/accuracy.md), six calls a frame; high end between "
        "other work on an H200, measured by us",
    ),
    "library_share": _figure(
        0.6,
        0.8,
        0.95,
        "of peak arithmetic by tuned kernels: 0.70 on AGX Thor (thomas-hiddenpeak/thor-bench docs/PLAN.md), "
        "0.62 on RTX 2080 (rolfp.ch, OpenCL product), up to 0.95 by cuBLAS",
    ),
    "declared_miss_share": _figure(
        0.01,
        0.03,
        1.0,
        "of what a kernel with declared passes reads again: neighbouring blocks read the same lines at about "
        "the same time, so that one of some 30 concurrent blocks misses; high end without any reuse",
    ),
    "link_again_share": _figure(
        0.5,
        0.55,
        1.0,
        "of what a kernel with declared passes reads again of mapped memory: blocks that run at the same "
        "time ask for the same lines of one of two operands, which is merged; "
        "fitted to two cards (docs/accuracy.md); high end nothing is",
    ),
    "link_again_alone_share": _figure(
        0.5, 1.0, 1.0, "nothing merges where one operand is read again: 64 passes on an H200, measured by us"
    ),
    "kernel_memory_share": _figure(
        0.7,
        0.95,
        1.0,
        "of the rate that copies reach, by kernels: ProjectPhysX/FluidX3D README over device copies",
    ),
    "uncached_share": _figure(1, 1, 1, "kernels stream memory the GPU does not cache as fast as other"),
    "pageable_access_share": _figure(1, 1, 1, "kernels use ordinary memory as fast as pinned memory"),
    "write_combined_share": _figure(
        0.95, 1.0, 1.4, "of the pinned rate: CUDA C++ Programming Guide, up to 40 % more; none seen since"
    ),
    "cpu_page_bytes": _figure(4096, 4096, 4096, "pages of x86 and of Jetson Linux"),
}
_TEGRA = {
    **_EVERYWHERE,
    "achievable_share": _figure(0.6, 0.7, 0.8, "jetsonhacks/jetson-mem-bench docs/GUIDE.md: 60 to 80 %"),
    "host_cache_bytes": _figure(2e6, 4e6, 6e6, "CPU caches of 2 MB (Nano) to 6 MB (AGX Orin)"),
}
_ONE_MEMORY = {
    "prefetch_call_seconds": _figure(
        5e-6, 10e-6, 30e-6, "no published figure: two launches; nothing moves where there is one memory"
    ),
}
_CARD = {
    **_EVERYWHERE,
    "achievable_share": _figure(
        0.74,
        0.82,
        0.93,
        "device copies of T4, V100, A100, RTX 2060, RTX 3090 and HBM triad of GH200 over their peaks",
    ),
    "host_cache_bytes": _figure(6e6, 25e6, 105e6, "L3 caches of an i3-N305 and of a Xeon 8480C (DGX H100)"),
    "host_read_bytes_per_second": _figure(9e9, 16e9, 28.6e9, _DESKTOP),
    "host_write_bytes_per_second": _figure(9e9, 16e9, 28.6e9, _DESKTOP),
    "host_copy_bytes_per_second": _figure(9.9e9, 16.8e9, 28.6e9, _DESKTOP),
}
_HALF_A_KERNEL = "half of 18 to 29 GB/s, which count both reads and writes: dnhkng.github.io, GH200"
_KERNELS_ELSEWHERE = _figure(
    0.5,
    0.68,
    1.0,
    "of the rate that tuned streams reach, by kernels of one pass: GH200 0.54, GB10 0.50 to 0.71, AGX Thor "
    "0.68 to 1.0; fitted to these classes: the mean of the three (docs/accuracy.md)",
)
_COHERENT = {
    **_CARD,
    "kernel_memory_share": _KERNELS_ELSEWHERE,
    "host_memory_bytes_per_second": _figure(
        300e9, 348e9, 400e9, "Grace's triad with 32 threads: dnhkng.github.io/posts/gh200-benchmarking"
    ),
    "fault_rate_bytes_per_second": _figure(
        9e9, 11.5e9, 14.5e9, f"managed memory touched by both sides in turn, {_HALF_A_KERNEL}"
    ),
    "write_combined_share": _figure(0.45, 0.5, 1.0, "of the pinned rate: write-combined halves it on GH200"),
}
_BY_CLASS = {
    "tegra": {
        **_TEGRA,
        **_ONE_MEMORY,
        "host_read_bytes_per_second": _figure(1.1e9, 2.1e9, 2.1e9, _NANO),
        "host_write_bytes_per_second": _figure(1.4e9, 1.7e9, 1.7e9, _NANO),
        "host_copy_bytes_per_second": _figure(0.6e9, 0.9e9, 0.9e9, f"reading, then writing: {_NANO}"),
        "host_uncached_read_bytes_per_second": _figure(0.163e9, 0.167e9, 0.170e9, _NANO),
        "host_uncached_write_bytes_per_second": _figure(1.44e9, 1.45e9, 1.46e9, _NANO),
    },
    "tegra-io-coherent": {
        **_TEGRA,
        **_ONE_MEMORY,
        "host_read_bytes_per_second": _figure(6.7e9, 9.9e9, 10.1e9, f"memchr of {_SBC}"),
        "host_write_bytes_per_second": _figure(13.6e9, 20.4e9, 30.4e9, f"memset of {_SBC}"),
        "host_copy_bytes_per_second": _figure(6.9e9, 8.7e9, 10.9e9, f"memcpy of {_SBC}"),
    },
    "tegra-coherent": {
        **_CARD,
        **_ONE_MEMORY,
        "achievable_share": _figure(
            0.6, 0.78, 0.92, "AGX Thor: 0.78, between reads at 0.53 and a triad at 0.92"
        ),
        "host_read_bytes_per_second": _figure(6.7e9, 16e9, 28.6e9, f"from {_SBC} to {_DESKTOP}"),
        "kernel_memory_share": _KERNELS_ELSEWHERE,
        "uncached_share": _figure(
            0.75,
            0.88,
            1.0,
            "managed reads at 128 GB/s against 145 from device memory: thomas-hiddenpeak/thor-bench",
        ),
        "pageable_access_share": _figure(
            0.45, 0.6, 1.0, "writes at 85 GB/s against 183 to registered memory: thomas-hiddenpeak/thor-bench"
        ),
    },
    "discrete": {**_CARD, **PAGE_COSTS},
    "discrete-hmm": {**_CARD, **PAGE_COSTS},
    "coherent": _COHERENT,
}

_TILED = "CUDA sample matrixMul, tiles of 32 in shared memory"
_WIDE = _figure(
    0.16,
    0.2,
    0.7,
    f"of peak arithmetic by a kernel written by hand: {_TILED}: 0.18 on V100 and P100, 0.25 on Xavier, which "
    "read 128 bytes of shared memory a clock for 64 lanes; high end tuned kernels",
)
_NARROW = _figure(
    0.12,
    0.14,
    0.7,
    f"of peak arithmetic by a kernel written by hand: {_TILED}: 0.14 on GTX 1650 SUPER (public log "
    "12003035540); one byte of shared memory a clock and lane, 5 to 8 for a product: 0.12 to 0.2; high end "
    "tuned kernels",
)
_WIDE_SHARED_MEMORY = ("6.0", "7.0", "7.2", "8.0")
"""Compute capabilities with two bytes of shared memory a clock for each 32 bit lane; others have one."""

_SCALED: dict[str, tuple[str, float, float, float, str]] = {
    "l2_bytes_per_second": (
        "device_memory_bytes_per_second",
        2.0,
        2.7,
        3.6,
        "times the memory's peak: H100 (openxla/xla), A100 (RRZE-HPC/gpu-benches issue 13), RTX 4090",
    ),
    "zero_copy_read_bytes_per_second": (
        "pinned_to_device_bytes_per_second",
        0.62,
        0.79,
        1.0,
        "of the copy engine's rate, as kernels reach on H100 and GH200 (NVIDIA/nvbandwidth issues 23, 24)",
    ),
    "zero_copy_write_bytes_per_second": (
        "pinned_to_host_bytes_per_second",
        0.62,
        0.79,
        1.0,
        "of the copy engine's rate, as kernels reach on H100 and GH200 (NVIDIA/nvbandwidth issues 23, 24)",
    ),
}
_SHARED_COPY = (
    "device_memory_bytes_per_second",
    0.075,
    0.30,
    0.40,
    "of the DRAM's peak: fitted, the median of Nano, AGX Orin and AGX Thor (published copies)",
)
_TEGRA_SCALED = {
    **_SCALED,
    "pinned_to_device_bytes_per_second": _SHARED_COPY,
    "pinned_to_host_bytes_per_second": _SHARED_COPY,
}

_COHERENT_SCALED = {
    **_SCALED,
    "pageable_to_device_bytes_per_second": (
        "pinned_to_device_bytes_per_second",
        0.05,
        0.3,
        1.0,
        "of the pinned rate: not published; between a copy staged by one core and the link's rate",
    ),
    "pageable_to_host_bytes_per_second": (
        "pinned_to_host_bytes_per_second",
        0.05,
        0.3,
        1.0,
        "of the pinned rate: not published; between a copy staged by one core and the link's rate",
    ),
}

_CORES = "7-zip on one core, i3-N305 over Orin NX in ThomasKaiser/sbc-bench"
_JETSON_CPU = (1.0, 1.36, 1.85, f"up to {_CORES}")
_ANY_CPU = (1 / 1.85, 1.0, 1.85, f"the CPU beside the device is not known; the factor is that of {_CORES}")
HOST_SLOWDOWN: dict[MemoryClass, tuple[float, float, float, str]] = {
    memory_class: _JETSON_CPU if memory_class in ("tegra", "tegra-io-coherent") else _ANY_CPU
    for memory_class in get_args(MemoryClass)
}
"""How much longer a compute-bound host stage may take on the device's CPU: least, likely, most, source."""


def default(name: str, entry: CatalogueEntry, figure: Callable[[str], Figure | None]) -> Figure | None:
    """The default for a figure of that class of device, or None: then its term is left out or declined.

    `figure` gives another figure of the same device, for defaults that are a share of one.
    """
    share = scaled(name, entry)
    if share is None:
        return _given(name, entry)
    of, factor = share
    base = figure(of)
    if base is None:
        return None
    low, high = factor.low or factor.value, factor.high or factor.value
    return _figure(low * base.value, factor.value * base.value, high * base.value, factor.source)


def scaled(name: str, entry: CatalogueEntry) -> tuple[str, Figure] | None:
    """The figure of which this default is a share, and that share with its range; None where it is none."""
    table = _scaled_figures(entry)
    if name not in table:
        return None
    of, low, value, high, source = table[name]
    return of, _figure(low, value, high, f"{value:g} {source}")


def _given(name: str, entry: CatalogueEntry) -> Figure | None:
    if name == "kernel_share":
        wide = str(entry.attributes["compute_capability"].value) in _WIDE_SHARED_MEMORY
        return _WIDE if wide else _NARROW
    if shares_memory(entry) and name in _ONE_MEMORY:
        return _ONE_MEMORY[name]
    return _BY_CLASS[entry.memory_class].get(name)


def _scaled_figures(entry: CatalogueEntry) -> dict[str, tuple[str, float, float, float, str]]:
    if shares_memory(entry):
        return _TEGRA_SCALED
    return _COHERENT_SCALED if entry.memory_class == "coherent" else _SCALED


def shares_memory(entry: CatalogueEntry) -> bool:
    """Whether CPU and GPU have one DRAM: all that CUDA calls integrated."""
    return bool(entry.attributes["integrated"].value)
