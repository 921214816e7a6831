"""Published measurements of tests/data/published/figures-2.csv as cases: copies, kernels, migrations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial

from published_cases import (
    DATA,
    DEVICE_PATH,
    HOST,
    KERNEL,
    TO_DEVICE,
    TO_HOST,
    Case,
    Figure,
    table,
    touched,
    vector,
)

from advisor.devices.catalogue import System
from advisor.profiles.schema import AccessMode, Profile
from advisor.profiles.traces import StageWork

SCALES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "GB/s": 1e9, "MB/s": 1e6}
MIB = float(1 << 20)


def _own(name: str) -> str:
    """A device that the catalogue does not have."""
    return str(DATA / "devices" / f"{name}.toml")


@lru_cache(maxsize=1)
def _table() -> dict[tuple[str, str, str, str], float]:
    """In seconds and bytes per second, by device, workload, strategy and metric; ranges by their mean."""
    found = {}
    for row in table("figures-2.csv"):
        numbers = re.findall(r"\d+(?:\.\d+)?", row["value"])
        if numbers and row["unit"] in SCALES:
            mean = sum(map(float, numbers)) / len(numbers)
            key = (row["device"], row["workload"], row["strategy"], row["metric"])
            found[key] = mean * SCALES[row["unit"]]
    return found


def _value(device: str, workload: str, strategy: str, metric: str) -> float:
    """The figure whose device, workload, strategy and metric begin so: of several the shortest."""
    wanted = (device, workload, strategy, metric)
    found = [k for k in _table() if all(a.startswith(b) for a, b in zip(k, wanted, strict=True))]
    return _table()[min(found, key=lambda key: sum(map(len, key)))]


def _case(
    name: str, device: str, profile: Profile, seconds: Mapping[str, float], source: str,
    parts: tuple[str, ...], *, first: bool = False, system: System = "linux",
) -> Case:  # fmt: skip
    figures = tuple(Figure(strategy, strategy, found) for strategy, found in seconds.items())
    return Case(name, device, profile, figures, source, parts, first_frames=first, system=system)


def _copies(
    device: str, name: str, workload: str, size: float, source: str, labels: Mapping[str, str],
    metrics: tuple[str, str] = ("H2D", "D2H"),
) -> Iterator[Case]:  # fmt: skip
    """Copies of `size` bytes either way, by strategy; rates or times."""
    for way, metric, parts in zip(("up", "down"), metrics, (TO_DEVICE, TO_HOST), strict=True):
        found = {}
        for strategy, label in labels.items():
            keys = [k for k in _table() if k[0].startswith(name) and k[1] == workload and k[2] == label]
            values = [_table()[k] for k in keys if k[3].startswith(metric)]
            if values:
                found[strategy] = values[0] if values[0] < 1e3 else size / values[0]
        if found:
            profile = touched(size, "in" if way == "up" else "inout")
            yield _case(f"{name}, {workload}, {way}", device, profile, found, source, parts)


BOTH = {"pageable": "pageable", "pinned": "pinned"}


def bandwidth_tests() -> Iterator[Case]:
    """Copies in a row."""
    for size in (1024 << i for i in range(0, 11, 2)):
        yield from _copies(
            "quadro-rtx-6000", "Quadro RTX 6000", f"cudaMemcpy {size} bytes", size, "npho/cse554", BOTH
        )
    for mib in (1, 4, 16, 64):
        workload = f"copy {mib} MiB, median of 10"
        yield from _copies("rtx-4090", "RTX 4090", workload, mib * MIB, "NVlabs/cuda-oxide PR 976", BOTH)
    for device, name, workload, labels in (
        ("a100-sxm4-80gb", "A100-SXM4-80GB", "bandwidthTest 32 MB", BOTH),
        ("a100-80gb-pcie", "A100 80GB PCIe", "bandwidthTest 32 MB", BOTH),
        ("p100-pcie", "P100-PCIE-16GB", "bandwidthTest 32 MiB", {"pinned": "pinned, near NUMA node"}),
        (_own("gtx-1660-ti-max-q"), "GTX 1660 Ti", "bandwidthTest 32 MiB", BOTH),
        ("rtx-3060-laptop", "RTX 3060 Laptop", "bandwidthTest 32 MB, pinned", {"pinned": "copy engine"}),
        ("agx-xavier", "AGX Xavier 32GB", "bandwidthTest 32 MB", BOTH),
    ):
        source = f"bandwidthTest, {name}"
        yield from _copies(device, name, workload, 32 * MIB, source, labels)
    yield from _copies(
        "gtx-1080-ti", "GTX 1080 Ti", "4000x4000 float32 D2H into pinned buffer", 64e6,
        "cupy/cupy issue 1937",
        {"pageable": "CuPy x_gpu.get() (not the pinned buffer)", "pinned": "pinned, CUDA C"},
    )  # fmt: skip
    yield from _copies(
        "agx-thor", "AGX Thor", "thor-bench (un-tuned)", 1e9, "thomas-hiddenpeak/thor-bench",
        {"pinned": "explicit"},
    )  # fmt: skip
    orin = _value("Orin Nano (SJSU kit)", "memory_demo", "explicit copy", "H2D, run 1")
    yield _case("Orin Nano (SJSU kit), 64 MB up", "orin-nano", touched(64e6, "in"), {"pageable": 64e6 / orin},
                "lkk688/edgeAI", TO_DEVICE)  # fmt: skip
    for size, mode, parts, metric in (
        (4.9e6, "in", TO_DEVICE, "H2D time"), (8.6e6, "inout", TO_HOST, "D2H time")
    ):  # fmt: skip
        seconds = _value("Jetson Xavier (model", "pycuda memcpy", "pageable", metric)
        yield _case(f"Jetson Xavier, {metric}", "agx-xavier", touched(size, mode), {"pageable": seconds},  # type: ignore[arg-type]
                    "soonhong99/tvm-zerocopy-yolo", parts)  # fmt: skip
    gh200 = "GH200 480GB (1 GPU)"
    pairs = {"pinned": "cudaMallocHost", "pageable": "system memory on the DDR node"}
    for way, parts in (("up", TO_DEVICE), ("down", TO_HOST)):
        found = {}
        for strategy, label in pairs.items():
            pair = f"{label} -> cudaMalloc" if way == "up" else f"cudaMalloc -> {label}"
            keys = [k for k in _table() if k[0] == gh200 and k[2] == pair and "median" in k[3]]
            found[strategy] = 8 * 1024 * MIB / _table()[keys[0]]
        profile = touched(8 * 1024 * MIB, "in" if way == "up" else "inout")
        yield _case(
            f"GH200, 8 GiB {way}", "gh200", profile, found, "ntua-el20062/grace-hopper-benchmark", parts
        )


IMAGES = (
    # workload, pixels in, bytes for each, pixels out
    ("resize (f32) nearest 1920x1080->960x540", 1920 * 1080, 12, 960 * 540),
    ("resize (f32) nearest 3840x2160->1920x1080", 3840 * 2160, 12, 1920 * 1080),
    ("resize (u8) nearest 1920x1080->960x540", 1920 * 1080, 3, 960 * 540),
    ("resize (u8) nearest 3840x2160->1920x1080", 3840 * 2160, 3, 1920 * 1080),
    ("remap (f32) bilinear 3840x2160", 3840 * 2160, 12, 3840 * 2160),
    ("gaussian_blur (5x5, f32) n/a 1920x1080", 1920 * 1080, 12, 1920 * 1080),
)


def images() -> Iterator[Case]:
    """Pictures up, and results down, from ordinary memory: a laptop's card and an Orin Nano."""
    for device, name in (("gtx-1650", "GTX 1650"), ("orin-nano", "Orin Nano")):
        for workload, pixels, width, pixels_out in IMAGES:
            for size, metric, parts in (
                (pixels * width, "H2D time", TO_DEVICE), (pixels_out * width, "D2H time", TO_HOST)
            ):  # fmt: skip
                seconds = _value(name, workload, "explicit (pageable copy)", metric)
                profile = touched(float(size), "in" if parts == TO_DEVICE else "inout")
                yield _case(f"{name}, {workload}, {metric}", device, profile, {"pageable": seconds},
                            f"kornia/kornia-rs, {name}", parts)  # fmt: skip
    for device, name in (("gtx-1650", "GTX 1650"), ("orin-nano", "Orin Nano")):
        # One thread for each pixel of the result, which reads a quarter of the picture: all its lines.
        for workload, pixels, width, pixels_out in IMAGES[:2]:
            seconds = _value(name, workload, "explicit (pageable copy)", "kernel time")
            moved = float((pixels // 2 + pixels_out) * width) / 2
            yield _case(f"{name}, {workload}, kernel", device, touched(moved, "inout"), {"pageable": seconds},
                        f"kornia/kornia-rs, {name}", KERNEL)  # fmt: skip


def migrations() -> Iterator[Case]:
    """Managed memory in the first frames: faults of a kernel, and what comes back to the CPU."""
    name, source = "Quadro RTX 8000", "AmruthaPatil/NYU-CUDAUnifiedMemory"
    for millions in (1, 5, 10, 50, 100):
        workload, copied = f"y=x+y, {millions}x2^20 float32 x2, grid 16 block 256", "explicit (pageable copy)"
        up, kernel, down = (_value(name, workload, copied, m) for m in ("H2D", "kernel", "D2H"))
        faulted = _value(name, workload, "managed, no prefetch", "kernel time")
        profile = vector_in_place(millions * 4 * MIB)
        copies, faults = {"pageable": up + kernel + down}, {"managed": faulted}
        yield _case(f"{name}, {workload}", "quadro-rtx-8000", profile, copies, source, DEVICE_PATH)
        told = f"{name}, {workload}, faults"
        yield _case(told, "quadro-rtx-8000", profile, faults, source, KERNEL, first=True)
    add, inside = "add 2 x 4 MB managed floats", "kernel time, page faults inside"
    for device, name, metric in (
        ("p100-pcie", "P100-PCIE-16GB", inside),
        ("p100-pcie", "P100-PCIE-16GB (second host)", inside),
        (_own("rtx-2060-max-q"), "RTX 2060 Max-Q", inside),
        ("t4", "T4", "GPU page fault groups time"),
    ):
        faults = {"managed": _value(name, add, "managed, no prefetch", metric)}
        profile, told = vector_in_place(4 * MIB), f"{name}, add"
        yield _case(told, device, profile, faults, told, KERNEL, first=True)
    name, workload = "RTX 2060", "vector add, 3 x 128 MB"
    faulted = _value(name, workload, "managed, no prefetch", "kernel time")
    prefetched = [_value(name, workload, "managed, all vectors prefetched", m) for m in ("kernel", "H2D")]
    both = {"managed": faulted, "managed-prefetch": sum(prefetched)}
    parts = (*TO_DEVICE, *KERNEL)
    yield _case(f"{name}, {workload}", "rtx-2060", vector(128 * MIB), both, "CUDA-Lab", parts, first=True)
    name, workload = "T4", "sumMatrix 4096x4096 (64 MB per matrix), memsets removed"
    faults = {"managed": _value(name, workload, "managed, no prefetch", "kernel + sync")}
    told = f"{name}, sumMatrix 4096x4096"
    yield _case(told, "t4", vector(64 * MIB), faults, told, KERNEL, first=True)


def vector_in_place(size: float) -> Profile:
    """y = x + y."""
    return vector(size, in_place=True)


def windows_and_old_cards() -> Iterator[Case]:
    """Without concurrent managed access: managed memory moves whole before a launch."""
    for device, name, workload, size in (
        ("k80", "Tesla K80", "add 2 x 4 MB managed floats", 8 * MIB),
        ("gtx-titan-x", "GTX TITAN X (Maxwell)", "add 2 x 4 MB managed floats", 8 * MIB),
        ("k80", "Tesla K80", "saxpy, 4 x 4 MB managed arrays", 16 * MIB),
    ):  # fmt: skip
        seconds = _value(name, workload, "managed", "H2D migration time before launch")
        yield _case(f"{name}, {workload}", device, touched(size, "in"), {"managed": seconds}, name, KERNEL)
    two, blog = 2048 * MIB, "yaikeda/cuda-examples-blog"
    name, workload = "RTX 3060 (Windows 11)", "2 GiB, one-touch empty kernel"
    up = {"pageable": _value(name, workload, "explicit (pageable copy)", "H2D time")}
    down = {"pageable": _value(name, workload, "explicit (pageable copy)", "D2H time")}
    used = {
        "managed": _value(name, workload, "managed", "kernel that reads all bytes"),
        "zero-copy": _value(name, workload, "zero-copy mapped", "kernel launch"),
    }
    on = partial(_case, device="rtx-3060", source=blog, system="windows")
    yield on(f"{name}, up", profile=touched(two, "in"), seconds=up, parts=TO_DEVICE)
    yield on(f"{name}, down", profile=touched(two, "inout"), seconds=down, parts=TO_HOST)
    yield on(f"{name}, kernel", profile=touched(two, "in"), seconds=used, parts=KERNEL)
    name, workload = "Quadro T1000 (Windows)", "add 2 x 4 MB managed floats"
    for metric, size, parts in (("H2D", 8 * MIB, KERNEL), ("D2H", 12 * MIB, HOST)):
        seconds = {"managed": _value(name, workload, "managed", f"{metric} migration time")}
        yield _case(f"{name}, {metric}", _own("t1000"), touched(size, "inout"), seconds, name, parts,
                    system="windows")  # fmt: skip
    yield _read_after_the_gpu()


def _read_after_the_gpu() -> Case:
    """64 MB on an RTX 3050 Ti under Windows, read by a loop that takes 134.9 ms over pages that are there."""
    name, workload = "RTX 3050 Ti (Windows)", "CPU read after GPU use, 64 MB"
    (row,) = (row for row in table("figures.csv") if row["device"] == name and row["workload"] == workload)
    there = float(re.findall(r"baseline ([\d.]+)", row["metric"])[0])
    profile = touched(64 * MIB, "inout", access=StageWork(stage="access", seconds=there * SCALES["ms"]))
    seconds = {"managed": float(row["value"]) * SCALES[row["unit"]]}
    return _case(name, "rtx-3050-ti", profile, seconds, row["source"], ("host:access",), system="windows")


def kernels() -> Iterator[Case]:
    """Kernels over host memory of a coherent link, and over the GPU's own."""
    gh200, alps = "GH200 480GB (1 GPU)", "GH200 (Alps quad node)"
    ntua = "ntua-el20062/grace-hopper-benchmark"
    for size in (136699520, 1093597056, 8589934592):
        for what, mode in (("read", "in"), ("write", "out")):
            rates = {
                s: _value(
                    gh200,
                    f"GPU {what} kernel {size} bytes",
                    f"system memory on the {node}",
                    "bandwidth, median",
                )
                for s, node in (("system", "DDR"), ("pinned", "HBM"))
            }
            yield _access(f"GH200, {what} {size} bytes", "gh200", size, mode, rates, ntua)
    for what, mode in (("read", "in"), ("write", "out")):
        rates = {
            s: _value(alps, f"Hopper GPU {what} 8 GiB", f"memory {node}", "bandwidth")
            for s, node in (("system", "ddr"), ("pinned", "hbm"))
        }
        yield _access(f"GH200 (Alps), {what} 8 GiB", "gh200", 8 * 1024 * MIB, mode, rates, "arXiv 2408.11556")
    stream = {
        s: _value(alps, "GPU-STREAM Copy", label, "bandwidth")
        for s, label in (("system", "Local DDR"), ("pinned", "Local cudaMalloc"))
    }
    yield _access("GH200 (Alps), GPU-STREAM copy", "gh200", 1e9, "inout", stream, "arXiv 2408.11556")
    laptop = "RTX 3060 Laptop"
    test = "bandwidthTest 32 MB, pinned"
    rate = _value(laptop, test, "copy kernel, 4-byte elements", "H2D")
    yield _access(f"{laptop}, copy kernel", "rtx-3060-laptop", 32e6, "in", {"zero-copy": rate}, laptop)
    for what, mode in (("read", "in"), ("write", "out")):
        rate = _value("AGX Thor", "thor-bench", "device", f"sequential {what}")
        yield _access(f"AGX Thor, sequential {what}", "agx-thor", 1e9, mode, {"pinned": rate},
                      "thomas-hiddenpeak/thor-bench")  # fmt: skip
    rate = _value("GB10", "saturating read", "device", "GPU read")
    yield _access("GB10, saturating read", "gb10", 1e9, "in", {"pinned": rate}, "antirez/ds4 issue 773")


def _access(
    name: str, device: str, size: float, mode: AccessMode, rates: Mapping[str, float], source: str
) -> Case:
    """One kernel that reads, writes or does both; rates count both."""
    moved = size * (2 if mode == "inout" else 1)
    seconds = {strategy: moved / rate for strategy, rate in rates.items()}
    return _case(name, device, touched(size, mode), seconds, source, KERNEL)


def more() -> Iterator[Case]:
    """All of them."""
    for group in (bandwidth_tests, images, migrations, windows_and_old_cards, kernels):
        yield from group()
