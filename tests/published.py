"""Published measurements as cases the model can be asked about. The figures stand in tests/data/published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from published_cases import (
    DEVICE_PATH,
    HOST,
    KERNEL,
    TO_DEVICE,
    TO_HOST,
    Case,
    Figure,
    matrix_product,
    table,
    touched,
    vector,
    vector_streamed,
)
from published_more import more

# Cases

_EXACT = {"MemCopy": "pageable", "CpPglAs": "pinned", "0Copy": "zero-copy", "UMeasy": "managed"}
_EXACT["UMhntAs"] = "managed-prefetch"
_VARIANTS = {"CpAsync": "pageable", "CpHpglk": "pinned", "UMhint": "managed-prefetch"}
"""The same memory with another call: an asynchronous copy of pageable memory, a synchronous one of pinned, a
wait after each prefetch."""


_SLUGS = {"Jetson Nano (TX1 SoC)": "nano"}


def unified_memory_perf() -> Iterator[Case]:
    """All eight columns of the sample, seven sizes, two cards."""
    columns = table("unifiedmemoryperf.csv")
    sizes = sorted({(row["device"], int(row["size_kb_per_matrix"])) for row in columns})
    for device, kilobytes in sizes:
        rows = [r for r in columns if (r["device"], int(r["size_kb_per_matrix"])) == (device, kilobytes)]
        yield Case(
            f"{device}, {kilobytes} KB matrices",
            _SLUGS.get(device) or device.lower().replace(" ", "-"),
            matrix_product(int((kilobytes * 256) ** 0.5)),
            tuple(_column(row) for row in rows),
            "CUDA sample UnifiedMemoryPerf",
            first_frames=True,
        )


def _column(row: Mapping[str, str]) -> Figure:
    name, seconds = row["strategy"], float(row["overall_time_ms"]) / 1e3
    return Figure(name, (_EXACT | _VARIANTS)[name], seconds, exact=name in _EXACT)


def _value(device: str, workload: str, strategy: str, metric: str) -> float:
    """A figure of figures.csv; the mean of its ends where it is a range."""
    (text,) = (
        row["value"]
        for row in table("figures.csv")
        if row["device"].startswith(device)
        and row["workload"].startswith(workload)
        and (row["strategy"], row["metric"]) == (strategy, metric)
    )
    ends = [float(x) for x in text.lstrip("~").split(" ")[0].split("-")]
    return sum(ends) / len(ends)


def _figures(published: Mapping[str, float]) -> tuple[Figure, ...]:
    return tuple(Figure(name, name, seconds) for name, seconds in published.items())


def jetsons() -> Iterator[Case]:
    """Ratios on Jetsons, and the Nano's host passes."""
    yield Case(
        "Xavier NX, vector addition", "xavier-nx", vector(4 * (1 << 24)),
        _figures({"pageable": 6.5, "managed": 1.0, "zero-copy": 1.0}),
        "GTC 2022 SE2600", DEVICE_PATH, relative=True,
    )  # fmt: skip
    # 4096 warps read a quarter of the values twice, 32 bytes at a time.
    cache_heavy = touched(4 * (1 << 18), "inout", passes=4096 * (1 << 17) * 32 / (4 << 18))
    for name, device, slowdown in (("Xavier", "agx-xavier", 5.0), ("TX2", "tx2", 80.0)):
        yield Case(
            f"{name}, cache-heavy kernel", device, cache_heavy,
            _figures({"zero-copy": slowdown, "managed": 1.0, "pinned": 1.0}),
            "FrancescoL96/Cache-Benchmark", KERNEL, relative=True,
        )  # fmt: skip
    yield Case(
        "TX1, one pass", "tx1", touched(1 << 26, "in"), _figures({"zero-copy": 1.0, "pinned": 1.0}),
        "Zero Copy and Pinned Memory on NVIDIA TX-1", KERNEL, relative=True,
    )  # fmt: skip
    passes = {
        strategy: _value("Jetson Nano", "3 x uint64", label, "CPU init (write 640 MB)")
        + _value("Jetson Nano", "3 x uint64", label, "CPU read all, again")
        for strategy, label in (
            ("managed", "managed"), ("pinned", "pinned+memcpy"), ("zero-copy", "zero-copy mapped pinned")
        )
    }  # fmt: skip
    yield Case(
        "Nano, host passes", "nano", vector(320e6), _figures(passes),
        "xnd-project/cuda-benchmarks PR 3", HOST,
    )  # fmt: skip


def cards() -> Iterator[Case]:
    """Streams through managed memory, and copies."""
    kernel = {
        "managed": _value("GTX 1080", "2 GB stream", "managed, no prefetch", "kernel time") / 1e3,
        "managed-prefetch": _value("GTX 1080", "2 GB stream", "managed+prefetch", "kernel time") / 1e3,
    }
    yield Case(
        "GTX 1080, two inputs of 1 GB streamed", "gtx-1080", vector_streamed(float(1 << 30)),
        _figures(kernel),
        "parallelArchitect/pascal-um-benchmark", KERNEL,
    )  # fmt: skip
    yield Case(
        "GTX 1060, three vectors of 1.6 GB", "gtx-1060-6gb", vector(1.6e9),
        # README: device and first access of all arrays; with explicit copies and without.
        _figures({"pinned": 1.108133 + 0.238951, "managed": 0.954883 + 0.928161}),
        "xnd-project/cuda-benchmarks README", (*DEVICE_PATH, "host:access"),
    )  # fmt: skip
    yield Case(
        "PCIe 3 card, copies", "gtx-1080", touched(1e9, "in"),
        _figures({"pageable": 1 / 5.5, "pinned": 1 / 11.5}), "rapidsai/dask-cuda PR 98", ("to-device",),
    )  # fmt: skip
    for name, device, label, kind in (
        ("T4", "t4", "pinned", "device"), ("V100", "v100", "pinned", "device"),
        ("H200", "h200", "CE pinned", ""), ("A100-SXM4-40GB (cloud)", "a100", "pinned", "device"),
        ("RTX 2060", "rtx-2060", "pinned", "device"), ("RTX 3050 Laptop", "rtx-3050-ti", "CE pinned", ""),
        ("AGX Orin 64GB (1024", "agx-orin", "pinned", ""), ("Jetson Nano", "nano", "pinned", ""),
    ):  # fmt: skip
        up = 1 / _value(name, "bandwidthTest", label, "H2D")
        down = 1 / _value(name, "bandwidthTest", label, "D2H")
        yield Case(f"{name}, 1 GB up", device, touched(1e9, "in"), _figures({"pinned": up}),
                   "bandwidthTest", ("to-device",))  # fmt: skip
        yield Case(f"{name}, 1 GB down", device, touched(1e9, "inout"), _figures({"pinned": down}),
                   "bandwidthTest", ("to-host",))  # fmt: skip
        if kind:
            copied = 2 / _value(name, "bandwidthTest", kind, "D2D")
            yield Case(f"{name}, 1 GB copied on the device", device, touched(1e9, "inout"),
                       _figures({"pinned": copied}), "bandwidthTest", KERNEL)  # fmt: skip
    for name, metric, mode, parts in (
        ("Jetson Nano", "H2D", "in", TO_DEVICE), ("Jetson Nano", "D2H", "inout", TO_HOST)
    ):  # fmt: skip
        seconds = 1 / _value(name, "bandwidthTest", "pageable", metric)
        yield Case(f"{name}, 1 GB pageable {metric}", "nano", touched(1e9, mode),  # type: ignore[arg-type]
                   _figures({"pageable": seconds}), "bandwidthTest", parts)  # fmt: skip
    for name, device, metric, mode in (
        ("H100", "h100-sxm", "H2D", "in"), ("H100", "h100-sxm", "D2H", "out"),
        ("A100-SXM4-40GB", "a100", "H2D, 512 MiB", "in"),
    ):  # fmt: skip
        seconds = 1 / _value(name, "bandwidthTest", "SM kernel copy", metric)
        yield Case(f"{name}, 1 GB by a kernel, {metric}", device, touched(1e9, mode),  # type: ignore[arg-type]
                   _figures({"zero-copy": seconds}), "NVIDIA/nvbandwidth", KERNEL)  # fmt: skip


def coherent() -> Iterator[Case]:
    """GH200, GB10 and Thor: kernels over each kind of memory. Rates count reads and writes."""
    rates = {
        "pinned": _value("GH200", "4 GB", "cudaMalloc", "bandwidth"),
        "zero-copy-registered": _value("GH200", "4 GB", "cudaHostRegister, local node", "bandwidth"),
        "zero-copy": _value("GH200", "4 GB", "cudaMallocHost, local node", "bandwidth"),
        "system": _value("GH200", "4 GB", "system malloc (ATS), local node", "bandwidth"),
        "managed": _value("GH200", "4 GB", "managed, alternating CPU/GPU", "bandwidth"),
    }
    yield Case(
        "GH200, 4 GB read and written", "gh200", touched(4e9, "inout"),
        _figures({name: 8 / rate for name, rate in rates.items()}),
        "dnhkng.github.io 2026-04-25", KERNEL,
    )  # fmt: skip
    for metric, mode, moved in (("GPU read", "in", 1), ("GPU write", "out", 1), ("GPU copy", "inout", 2)):
        seconds = moved / _value("GB10", "uma-fault-probe", "managed", metric)
        yield Case(
            f"GB10, 1 GB, {metric}", "gb10", touched(1e9, mode),  # type: ignore[arg-type]
            _figures({"managed": seconds}),
            "parallelArchitect/nvidia-uma-fault-probe", KERNEL,
        )  # fmt: skip
    thor = {
        "read": ("in", 1, {"pinned": "device", "managed": "managed"}),
        "write": ("out", 1, {"pinned": "device", "zero-copy-registered": "registered",
                             "system": "pageable (ATS)", "managed": "managed"}),
        "copy": ("inout", 2, {"pinned": "device"}),
    }  # fmt: skip
    for metric, (mode, moved, labels) in thor.items():
        found = {s: moved / _value("AGX Thor", "thor-bench", label, metric) for s, label in labels.items()}
        yield Case(
            f"AGX Thor, 1 GB {metric}", "agx-thor", touched(1e9, mode),  # type: ignore[arg-type]
            _figures(found), "thomas-hiddenpeak/thor-bench", KERNEL,
        )  # fmt: skip


def cases() -> tuple[Case, ...]:
    """All of them."""
    return (*unified_memory_perf(), *jetsons(), *cards(), *coherent(), *more())
