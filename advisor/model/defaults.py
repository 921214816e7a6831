"""What the model takes for a figure that a catalogue entry leaves out, per memory class, with its source.

Every default has a range, which the prediction's range carries. None is fitted to a single published row.
"""

from __future__ import annotations

from collections.abc import Callable

from advisor.devices.catalogue import CatalogueEntry, Figure

COVERED = ("tegra", "tegra-io-coherent", "discrete", "discrete-hmm")
"""The memory classes the model has terms and defaults for."""


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
        2.3e-6, 3e-6, 7e-6, f"a third of CpAsync less 0Copy: {_SMALLEST}; 5 to 7 µs in arXiv 2602.21548"
    ),
    "fault_seconds": _figure(
        10e-6, 22e-6, 50e-6, "ObservUVM: 10 to 50 µs, in the middle on a logarithmic scale"
    ),
    "migration_bytes": _figure(65536, 65536, 65536, "ObservUVM: 64 KB"),
}
_TEGRA = {
    **_EVERYWHERE,
    "achievable_share": _figure(0.6, 0.7, 0.8, "jetsonhacks/jetson-mem-bench docs/GUIDE.md: 60 to 80 %"),
    "host_cache_bytes": _figure(2e6, 4e6, 6e6, "CPU caches of 2 MB (Nano) to 6 MB (AGX Orin)"),
}
_CARD = {
    **_EVERYWHERE,
    "achievable_share": _figure(
        0.74,
        0.82,
        0.93,
        "device copies of T4, V100, A100, RTX 2060, RTX 3090 and HBM triad of GH200 over their peaks",
    ),
    "host_read_bytes_per_second": _figure(9e9, 16e9, 28.6e9, _DESKTOP),
    "host_write_bytes_per_second": _figure(9e9, 16e9, 28.6e9, _DESKTOP),
    "host_copy_bytes_per_second": _figure(9.9e9, 16.8e9, 28.6e9, _DESKTOP),
}
_BY_CLASS = {
    "tegra": {
        **_TEGRA,
        "host_read_bytes_per_second": _figure(1.1e9, 2.1e9, 2.1e9, _NANO),
        "host_write_bytes_per_second": _figure(1.4e9, 1.7e9, 1.7e9, _NANO),
        "host_copy_bytes_per_second": _figure(0.6e9, 0.9e9, 0.9e9, f"reading, then writing: {_NANO}"),
        "host_uncached_read_bytes_per_second": _figure(0.163e9, 0.167e9, 0.170e9, _NANO),
        "host_uncached_write_bytes_per_second": _figure(1.44e9, 1.45e9, 1.46e9, _NANO),
    },
    "tegra-io-coherent": {
        **_TEGRA,
        "host_read_bytes_per_second": _figure(6.7e9, 9.9e9, 10.1e9, f"memchr of {_SBC}"),
        "host_write_bytes_per_second": _figure(13.6e9, 20.4e9, 30.4e9, f"memset of {_SBC}"),
        "host_copy_bytes_per_second": _figure(6.9e9, 8.7e9, 10.9e9, f"memcpy of {_SBC}"),
    },
    "discrete": _CARD,
    "discrete-hmm": _CARD,
}

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

_SLOWER = (1.85, "7-zip on one core, i3-N305 over Orin NX in ThomasKaiser/sbc-bench")
HOST_SLOWDOWN = {"tegra": _SLOWER, "tegra-io-coherent": _SLOWER}
"""How much longer a compute-bound host stage may take on the device's CPU than on an x86 one."""


def default(name: str, entry: CatalogueEntry, figure: Callable[[str], Figure | None]) -> Figure | None:
    """The default for a figure of that class of device, or None: then its term is left out or declined.

    `figure` gives another figure of the same device, for defaults that are a share of one.
    """
    table = _TEGRA_SCALED if entry.memory_class.startswith("tegra") else _SCALED
    if name not in table:
        return _BY_CLASS[entry.memory_class].get(name)
    of, low, value, high, source = table[name]
    base = figure(of)
    return (
        None
        if base is None
        else _figure(low * base.value, value * base.value, high * base.value, f"{value:g} {source}")
    )
