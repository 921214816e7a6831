"""Published measurements beside the model's figures. Run as a script it prints the table of docs/model.md."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import builders

from advisor.devices.catalogue import load
from advisor.model.predict import predict
from advisor.profiles import (
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
COLUMNS = {"pageable": "MemCopy", "pinned": "CpPglAs", "zero-copy": "0Copy", "managed": "UMeasy"}
"""Columns of UnifiedMemoryPerf that are strategies: malloc and copy, page-locked and asynchronous copy ..."""


@dataclass(frozen=True)
class Row:
    """One published figure with the model's for it, in seconds or as a ratio."""

    case: str
    strategy: str
    published: float
    low: float
    likely: float
    high: float


def predicted(profile: Profile, device: str) -> dict[str, Predicted]:
    """The predicted strategies on a device of tests/data/devices or of the catalogue."""
    path = DATA / "devices" / f"{device}.toml"
    results = predict(profile, load(str(path) if path.exists() else device)).results
    return {r.strategy: r for r in results if isinstance(r, Predicted)}


def matrix_product(n: int) -> Profile:
    """UnifiedMemoryPerf: copies in two n x n float32 inputs, multiplies in tiles of 32, checks the result."""
    size = 4 * n * n
    access: dict[str, dict[str, AccessMode]] = {
        "a": {"fill": "out", "product": "in"},
        "b": {"fill": "out", "product": "in"},
        "c": {"product": "out", "verify": "in"},
    }
    passes = n / 32
    traffic = (
        Traffic(stage="fill", buffer="a", bytes_read=0, bytes_written=size, source="traced"),
        Traffic(stage="fill", buffer="b", bytes_read=0, bytes_written=size, source="traced"),
        Traffic(stage="product", buffer="a", bytes_read=passes * size, bytes_written=0, source="declared"),
        Traffic(stage="product", buffer="b", bytes_read=passes * size, bytes_written=0, source="declared"),
        Traffic(stage="product", buffer="c", bytes_read=0, bytes_written=size, source="declared"),
        Traffic(stage="verify", buffer="c", bytes_read=size, bytes_written=0, source="traced"),
    )
    work = (
        StageWork(stage="fill", temporary_bytes=2 * size),
        StageWork(stage="product", flops=2.0 * n**3),
        StageWork(stage="verify", temporary_bytes=size),
    )
    stages = (("fill", "host"), ("product", "device"), ("verify", "host"))
    return _profile(access, size, stages, Trace(traffic=traffic, work=work))


def stream(size: int) -> Profile:
    """A kernel that reads and writes one buffer in place; the host had it before, at no cost."""
    traffic = (
        Traffic(stage="fill", buffer="a", bytes_read=0, bytes_written=0, source="traced"),
        Traffic(stage="scale", buffer="a", bytes_read=size, bytes_written=size, source="traced"),
    )
    stages = (("fill", "host"), ("scale", "device"))
    access: dict[str, dict[str, AccessMode]] = {"a": {"fill": "out", "scale": "inout"}}
    return _profile(access, size, stages, Trace(traffic=traffic))


def _profile(
    access: Mapping[str, dict[str, AccessMode]], size: int, stages: tuple[tuple[str, str], ...], trace: Trace
) -> Profile:
    workload = WorkloadRecord(
        name="published",
        file="published.py",
        sha256="0" * 64,
        parameters={},
        buffers=tuple(
            BufferRecord(name=name, shape=(size // 4,), dtype="float32", bytes=size, access=modes)
            for name, modes in access.items()
        ),
        stages=tuple(
            StageRecord(name=name, side="host" if side == "host" else "device", phase="frame")
            for name, side in stages
        ),
    )
    return builders.profile(workload=workload, traffic=trace)


def device_path(row: Predicted) -> float:
    """The likely frame without its host stages."""
    return sum(seconds for name, seconds in row.terms.items() if not name.startswith("host:"))


def unified_memory_perf() -> Iterator[Row]:
    """RTX 2060, seven sizes, the four columns that are strategies."""
    with (DATA / "published" / "unifiedmemoryperf.csv").open(encoding="utf-8") as file:
        table = [row for row in csv.DictReader(file) if row["device"] == "RTX 2060"]
    for kilobytes in sorted({int(row["size_kb_per_matrix"]) for row in table}):
        rows = predicted(matrix_product(int((kilobytes * 256) ** 0.5)), "rtx-2060")
        for strategy, column in COLUMNS.items():
            (published,) = (
                float(row["overall_time_ms"]) / 1e3
                for row in table
                if int(row["size_kb_per_matrix"]) == kilobytes and row["strategy"] == column
            )
            p = rows[strategy]
            case = f"RTX 2060, {kilobytes} KB matrices"
            yield Row(case, strategy, published, p.low_seconds, p.likely_seconds, p.high_seconds)


def streamed_faults() -> Row:
    """GTX 1080: 2 GB streamed by a kernel through managed memory without prefetch, kernel time."""
    row = predicted(stream(2 << 30), "gtx-1080")["managed"]
    case = "GTX 1080, 2 GB stream, kernel"
    return Row(case, "managed", 0.3866, row.low_seconds, row.likely_seconds, row.high_seconds)


def jetson_speedups() -> Iterator[Row]:
    """Xavier NX, vector addition: device path with copies over that of one memory (GTC 2022 SE2600)."""
    rows = predicted(builders.profile(traffic=builders.vector_add_trace()), "xavier-nx")
    base = device_path(rows["pageable"])
    for strategy in ("zero-copy", "managed"):
        ratio = base / device_path(rows[strategy])
        yield Row("Xavier NX, vector add, pageable over", strategy, 6.5, ratio, ratio, ratio)


def table() -> Iterator[str]:
    """The comparison as Markdown."""
    yield "| case | strategy | published | predicted | range | predicted / published |"
    yield "| --- | --- | ---: | ---: | ---: | ---: |"
    for row in (*unified_memory_perf(), streamed_faults()):
        yield (
            f"| {row.case} | {row.strategy} | {row.published * 1e3:.3g} ms | {row.likely * 1e3:.3g} ms "
            f"| {row.low * 1e3:.3g} to {row.high * 1e3:.3g} | {row.likely / row.published:.2f} |"
        )
    for row in jetson_speedups():
        yield (
            f"| {row.case} | {row.strategy} | {row.published:.2g}× | {row.likely:.2g}× | "
            f"| {row.likely / row.published:.2f} |"
        )


if __name__ == "__main__":
    print("\n".join(table()))
