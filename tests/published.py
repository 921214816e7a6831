"""Published measurements as cases the model can be asked about. The figures stand in tests/data/published.

A case is one workload on one device, with the published time of several strategies (or of a part of the
frame). `own` marks figures that the device's catalogue entry, or a default, quotes from the same publication:
they show that the formulas hold together, not that the model foresees.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import builders

from advisor.devices.catalogue import load
from advisor.model.predict import predict
from advisor.profiles.schema import (
    AccessMode,
    BufferRecord,
    Predicted,
    Profile,
    StageRecord,
    StageWork,
    Trace,
    Traffic,
    WorkloadRecord,
)

DATA = Path(__file__).parent / "data"

DEVICE_PATH = ("to-", "device:", "synchronize")
KERNEL = ("device:",)
HOST = ("host:",)
ALL = ("",)

VERIFY_SECONDS = 1.25e-9
"""An element of UnifiedMemoryPerf's verifyMatrixData, which its Makefile builds without -O: measured with
gcc -O0 over 16 MB on an EPYC."""


@dataclass(frozen=True)
class Figure:
    """One published figure: seconds, or relative to the others of its case.

    `exact`: of the strategy itself, not of a variant of it.
    """

    label: str
    strategy: str
    published: float
    own: bool = False
    exact: bool = True
    interval: tuple[float, float] | None = None
    """Of the figure itself, where we measured it."""

    @property
    def ends(self) -> tuple[float, float]:
        """What the figure may be: itself, or the ends of its interval."""
        return self.interval or (self.published, self.published)


@dataclass(frozen=True)
class Case:
    """One workload on one device. `parts`: which parts of a frame were timed, by the begin of their names."""

    name: str
    device: str
    profile: Profile
    figures: tuple[Figure, ...]
    source: str
    parts: tuple[str, ...] = ALL
    relative: bool = False
    first_frames: bool = False
    """Of a run of few frames."""


@dataclass
class _Builder:
    """A workload of stages over buffers of one size, and what each stage does with them."""

    size: float
    access: dict[str, dict[str, AccessMode]] = field(default_factory=dict)
    stages: dict[str, str] = field(default_factory=dict)
    traffic: list[Traffic] = field(default_factory=list)
    work: list[StageWork] = field(default_factory=list)

    def stage(
        self, name: str, side: str, *, passes: float | None = None, work: StageWork | None = None,
        **modes: AccessMode,
    ) -> _Builder:  # fmt: skip
        self.stages[name] = side
        for buffer, mode in modes.items():
            self.access.setdefault(buffer, {})[name] = mode
            self.traffic.append(
                Traffic(
                    stage=name,
                    buffer=buffer,
                    bytes_read=0.0 if mode == "out" else (passes or 1.0) * self.size,
                    bytes_written=0.0 if mode == "in" else float(self.size),
                    source="traced" if passes is None else "declared",
                )
            )
        if work:
            self.work.append(work)
        return self

    def profile(self) -> Profile:
        workload = WorkloadRecord(
            name="published",
            file="published.py",
            sha256="0" * 64,
            parameters={},
            buffers=tuple(
                BufferRecord(
                    name=n, shape=(int(self.size) // 4,), dtype="float32", bytes=int(self.size), access=modes
                )
                for n, modes in self.access.items()
            ),
            stages=tuple(
                StageRecord(name=n, side="host" if side == "host" else "device", phase="frame")
                for n, side in self.stages.items()
            ),
        )
        trace = Trace(traffic=tuple(self.traffic), work=tuple(self.work))
        return builders.cpu_profile(workload=workload, traffic=trace, predictions=(), advice=())


def predicted(profile: Profile, device: str) -> dict[str, Predicted]:
    """The predicted strategies on a device of tests/data/devices or of the catalogue."""
    path = DATA / "devices" / f"{device}.toml"
    results = predict(profile, load(str(path) if path.exists() else device)).results
    return {r.strategy: r for r in results if isinstance(r, Predicted)}


def device_path(row: Predicted) -> float:
    """The likely frame without its host stages."""
    return sum(seconds for name, seconds in row.terms.items() if not name.startswith("host:"))


# Workloads


def matrix_product(n: int) -> Profile:
    """UnifiedMemoryPerf: copies in two n x n float32 inputs, multiplies in tiles of 32, checks the result."""
    size = 4 * n * n
    return (
        _Builder(size)
        .stage("fill", "host", a="out", b="out", work=StageWork(stage="fill", temporary_bytes=2 * size))
        .stage("product", "device", passes=n / 32, a="in", b="in", c="out",
               work=StageWork(stage="product", flops=2.0 * n**3))
        .stage("verify", "host", c="in",
               work=StageWork(stage="verify", temporary_bytes=size, seconds=VERIFY_SECONDS * n * n))
        .profile()
    )  # fmt: skip


def vector(size: float) -> Profile:
    """c = a op b, the inputs written by the host, everything read by it afterwards."""
    return (
        _Builder(size)
        .stage("init", "host", a="out", b="out")
        .stage("compute", "device", a="in", b="in", c="out")
        .stage("access", "host", a="in", b="in", c="in")
        .profile()
    )


def vector_streamed(size: float) -> Profile:
    """The same with a result that stays on the device."""
    return (
        _Builder(size)
        .stage("init", "host", a="out", b="out")
        .stage("compute", "device", a="in", b="in", c="out")
        .profile()
    )


def touched(size: float, mode: AccessMode, passes: float | None = None) -> Profile:
    """The host writes a buffer, one kernel reads, writes or changes it in place, the host reads it."""
    return (
        _Builder(size)
        .stage("init", "host", a="out")
        .stage("kernel", "device", passes=passes, a=mode)
        .stage("access", "host", a="in")
        .profile()
    )


# Cases

_EXACT = {"MemCopy": "pageable", "CpPglAs": "pinned", "0Copy": "zero-copy", "UMeasy": "managed"}
_EXACT["UMhntAs"] = "managed-prefetch"
_VARIANTS = {"CpAsync": "pageable", "CpHpglk": "pinned", "UMhint": "managed-prefetch"}
"""The same memory with another call: an asynchronous copy of pageable memory, a synchronous one of pinned, a
wait after each prefetch."""


SMALLEST = 4
"""Kilobytes of a matrix: what launches, copies and prefetches cost at least is taken from this size."""


def unified_memory_perf() -> Iterator[Case]:
    """All eight columns of the sample, seven sizes, two cards."""
    table = _rows("unifiedmemoryperf.csv")
    sizes = sorted({(row["device"], int(row["size_kb_per_matrix"])) for row in table})
    for device, kilobytes in sizes:
        rows = [r for r in table if (r["device"], int(r["size_kb_per_matrix"])) == (device, kilobytes)]
        yield Case(
            f"{device}, {kilobytes} KB matrices",
            device.lower().replace(" ", "-"),
            matrix_product(int((kilobytes * 256) ** 0.5)),
            tuple(_column(row, own=kilobytes == SMALLEST) for row in rows),
            "CUDA sample UnifiedMemoryPerf",
            first_frames=True,
        )


def _column(row: Mapping[str, str], *, own: bool) -> Figure:
    name, seconds = row["strategy"], float(row["overall_time_ms"]) / 1e3
    return Figure(name, (_EXACT | _VARIANTS)[name], seconds, own=own, exact=name in _EXACT)


def _rows(name: str) -> list[dict[str, str]]:
    with (DATA / "published" / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _value(device: str, workload: str, strategy: str, metric: str) -> float:
    """A figure of figures.csv; the mean of its ends where it is a range."""
    (text,) = (
        row["value"]
        for row in _rows("figures.csv")
        if row["device"].startswith(device)
        and row["workload"].startswith(workload)
        and (row["strategy"], row["metric"]) == (strategy, metric)
    )
    ends = [float(x) for x in text.lstrip("~").split(" ")[0].split("-")]
    return sum(ends) / len(ends)


def _figures(published: Mapping[str, float], own: Sequence[str] = ()) -> tuple[Figure, ...]:
    return tuple(Figure(name, name, seconds, own=name in own) for name, seconds in published.items())


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
        "Nano, host passes", "nano", vector(320e6), _figures(passes, own=tuple(passes)),
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
        ("RTX 2060", "rtx-2060", "pinned", "device"),
    ):  # fmt: skip
        up = 1 / _value(name, "bandwidthTest", label, "H2D")
        down = 1 / _value(name, "bandwidthTest", label, "D2H")
        own = ("pinned",)
        yield Case(f"{name}, 1 GB up", device, touched(1e9, "in"), _figures({"pinned": up}, own),
                   "bandwidthTest", ("to-device",))  # fmt: skip
        yield Case(f"{name}, 1 GB down", device, touched(1e9, "inout"), _figures({"pinned": down}, own),
                   "bandwidthTest", ("to-host",))  # fmt: skip
        if kind:
            copied = 2 / _value(name, "bandwidthTest", kind, "D2D")
            yield Case(f"{name}, 1 GB copied on the device", device, touched(1e9, "inout"),
                       _figures({"pinned": copied}, own), "bandwidthTest", KERNEL)  # fmt: skip


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
        _figures({name: 8 / rate for name, rate in rates.items()}, own=tuple(rates)[1:]),
        "dnhkng.github.io 2026-04-25", KERNEL,
    )  # fmt: skip
    for metric, mode, moved in (("GPU read", "in", 1), ("GPU write", "out", 1), ("GPU copy", "inout", 2)):
        seconds = moved / _value("GB10", "uma-fault-probe", "managed", metric)
        yield Case(
            f"GB10, 1 GB, {metric}", "gb10", touched(1e9, mode),  # type: ignore[arg-type]
            _figures({"managed": seconds}, own=("managed",) if mode == "in" else ()),
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
        own = {"read": ("pinned", "managed"), "copy": ("pinned",), "write": ("system",)}[metric]
        yield Case(
            f"AGX Thor, 1 GB {metric}", "agx-thor", touched(1e9, mode),  # type: ignore[arg-type]
            _figures(found, own), "thomas-hiddenpeak/thor-bench", KERNEL,
        )  # fmt: skip


def cases() -> tuple[Case, ...]:
    """All of them."""
    return (*unified_memory_perf(), *jetsons(), *cards(), *coherent())
