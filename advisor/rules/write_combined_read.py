"""write-combined-read: the CPU reads memory that it can only write quickly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from advisor import units
from advisor.profiles.schema import Device, Evidence, Trace, WorkloadRecord
from advisor.rules.base import (
    Finding,
    Row,
    Rule,
    Threshold,
    evidence,
    no_figures,
    not_applicable,
    passed,
    proposal,
)
from advisor.rules.findings import against_strategy, change_to, compared, host_stages, text
from advisor.rules.placed import write_combined
from advisor.strategies.registry import BASELINE

TWINS = {"write-combined": "pinned", "zero-copy-wc": "zero-copy"}
"""The same strategy with plain page-locked memory."""


@dataclass(frozen=True)
class _Pair:
    """A strategy with write-combined memory beside its twin, and the host stages that touch that memory."""

    combined: Row
    plain: Row
    stages: tuple[str, ...]

    @property
    def slowdown(self) -> float:
        """Time of these stages over the same on plain memory."""
        plain = _seconds(self.plain, self.stages)
        return _seconds(self.combined, self.stages) / plain if plain else 0.0


def judge(
    device: Device,
    workload: WorkloadRecord,
    rows: Mapping[str, Row],
    absent: Mapping[str, str],
    traffic: Trace,
    recommended: str | None,
    limits: Mapping[str, float],
) -> Finding:
    """Warns where host stages on write-combined memory are much slower than on plain page-locked memory."""
    if not any(name in rows for name in TWINS):
        return no_figures("write-combined", absent)
    if any(rows[name].predicted for name in TWINS if name in rows):
        return not_applicable("The model takes it that the CPU never reads write-combined memory.")
    pairs = [pair for name in TWINS if (pair := _pair(name, workload, rows)) is not None]
    if not pairs:
        return not_applicable("No buffer that the host only writes has figures with and without it.")
    worst = max(pairs, key=lambda pair: pair.slowdown)
    shown = _evidence(worst, workload, traffic)
    if worst.slowdown < limits["slowdown"]:
        return passed(
            f"The stages that write write-combined memory take {units.ratio(worst.slowdown)} the time they "
            f"take on plain page-locked memory ({worst.combined.strategy}).",
            *shown,
        )
    candidates = (r for r in rows.values() if r.strategy not in TWINS and r.strategy != BASELINE)
    better = proposal(candidates, worst.combined, recommended)
    cause = _cause(worst, workload, traffic)
    if better is None:
        return passed(f"{cause} But no strategy without it is surely faster.", *shown)
    detail = text(cause, compared(better, worst.combined), against_strategy(worst.combined))
    inferred = not _reads(worst, workload, traffic)
    return change_to(
        better, worst.combined, detail, shown, device=device, workload=workload, inferred=inferred
    )


def _pair(name: str, workload: WorkloadRecord, rows: Mapping[str, Row]) -> _Pair | None:
    buffers = write_combined(name, workload)
    hosts = [stage.name for stage in workload.frame_stages("host")]
    stages = tuple(s for s in hosts if any(s in buffer.access for buffer in buffers))
    if name not in rows or TWINS[name] not in rows or not stages:
        return None
    return _Pair(rows[name], rows[TWINS[name]], stages)


def _seconds(row: Row, stages: Sequence[str]) -> float:
    return sum(row.host_stages.get(stage, 0.0) for stage in stages)


def _reads(pair: _Pair, workload: WorkloadRecord, traffic: Trace) -> float:
    """Bytes that these stages were seen to read of the memory that they say they only write."""
    names = {buffer.name for buffer in write_combined(pair.combined.strategy, workload)}
    seen = [t for t in traffic.traffic if t.stage in pair.stages and t.buffer in names]
    return sum(t.bytes_read for t in seen if t.source == "traced")


def _cause(pair: _Pair, workload: WorkloadRecord, traffic: Trace) -> str:
    reads = _reads(pair, workload, traffic)
    why = (
        f"They read {units.size(reads)} of it in a frame, which bypasses the caches."
        if reads
        else "They read it back, or write it out of order, in pieces smaller than a line."
    )
    return (
        f"{', '.join(pair.stages)} {'take' if len(pair.stages) > 1 else 'takes'} "
        f"{units.seconds(_seconds(pair.combined, pair.stages))} on write-combined memory and "
        f"{units.seconds(_seconds(pair.plain, pair.stages))} on plain page-locked memory "
        f"({pair.plain.strategy}). {why}"
    )


def _evidence(pair: _Pair, workload: WorkloadRecord, traffic: Trace) -> tuple[Evidence, ...]:
    reads = _reads(pair, workload, traffic)
    seen = [evidence("reads of write-combined memory by the CPU", reads, "bytes", pair.combined)]
    return (
        host_stages(pair.combined, pair.stages),
        host_stages(pair.plain, pair.stages),
        *(seen if reads else []),
    )


RULE = Rule(
    id="write-combined-read",
    title="Never let the CPU read write-combined memory",
    why="Write-combined memory is not cached: writes are gathered in a few line-sized buffers and go out in "
    "order, but each read goes to DRAM by itself. A sum into the array (a += x), a stage that reads back "
    "what it wrote, or writes in scattered places cost more than such memory can ever gain.",
    memory_classes=("tegra-io-coherent", "tegra-coherent", "discrete", "discrete-hmm", "coherent"),
    elsewhere="Page-locked memory is not cached by the CPU there, write-combined or not: see "
    "uncached-host-read.",
    needs=("device", "workload", "rows", "absent", "traffic", "recommended"),
    thresholds=(
        Threshold(
            "slowdown",
            1.5,
            "ratio",
            "time of the host stages that touch write-combined memory, over their time on plain memory",
            "chosen between 1, which writing in order should take, and about 6 for reading (The CUDA "
            "Handbook, 5.1.4)",
            low=1.0,
        ),
    ),
    sources=(
        "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#write-combining-memory",
        "N. Wilt, The CUDA Handbook, 5.1.4",
    ),
    judge=judge,
)
