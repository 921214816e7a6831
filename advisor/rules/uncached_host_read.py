"""uncached-host-read: the CPU reads page-locked memory that it does not cache (Jetsons before Xavier)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from advisor import units
from advisor.profiles.schema import Device, WorkloadRecord
from advisor.rules.base import Finding, Row, Rule, Threshold, no_figures, not_applicable, passed, proposal
from advisor.rules.findings import against_strategy, change_to, compared, fastest, host_stages, text
from advisor.rules.placed import host_kind, host_readers
from advisor.strategies.registry import BASELINE


def judge(
    device: Device,
    workload: WorkloadRecord,
    rows: Mapping[str, Row],
    absent: Mapping[str, str],
    recommended: str | None,
    limits: Mapping[str, float],
) -> Finding:
    """Warns against page-locked memory where the stages that read it are slow for it."""
    readers = host_readers(workload)
    if not readers:
        return not_applicable("No host stage reads a buffer that kernels use too.")
    stages = list(dict.fromkeys(stage for names in readers.values() for stage in names))
    uncached = [row for row in rows.values() if _reads_pinned(row, readers, workload)]
    cached = [row for row in rows.values() if not _reads_pinned(row, readers, workload)]
    if not uncached:
        return no_figures("pinned", absent)
    reference = min(cached, key=lambda row: _reading(row, stages), default=None)
    if reference is None or not _reading(reference, stages):
        return not_applicable("No strategy whose memory the CPU caches has figures to compare with.")
    least = limits["slowdown"] * _reading(reference, stages)
    slow = [row for row in uncached if _reading(row, stages) >= least]
    if not slow:
        return _as_fast(uncached, reference, stages)
    subject = next((row for row in slow if row.strategy == recommended), fastest(slow) or slow[0])
    better = proposal((row for row in cached if row.strategy != BASELINE), subject, recommended)
    if better is None:
        return _nothing_better(subject, reference, stages)
    return change_to(
        better,
        subject,
        _detail(device, readers, stages, subject, better),
        (host_stages(row, stages) for row in (subject, reference)),
        device=device,
        workload=workload,
    )


def _reads_pinned(row: Row, readers: Mapping[str, Sequence[str]], workload: WorkloadRecord) -> bool:
    return any(host_kind(row.strategy, buffer, workload) == "pinned" for buffer in readers)


def _reading(row: Row, stages: Sequence[str]) -> float:
    """Seconds of the host stages that read shared buffers."""
    return sum(row.host_stages.get(stage, 0.0) for stage in stages)


def _as_fast(uncached: Sequence[Row], reference: Row, stages: Sequence[str]) -> Finding:
    slowest = max(uncached, key=lambda row: _reading(row, stages))
    return passed(
        f"The stages that read shared buffers take {_span(slowest, stages)} with {slowest.strategy} and "
        f"{_span(reference, stages)} with {reference.strategy}: the CPU does not lose by reading "
        "page-locked memory here.",
        host_stages(slowest, stages),
        host_stages(reference, stages),
    )


def _nothing_better(subject: Row, reference: Row, stages: Sequence[str]) -> Finding:
    return passed(
        f"The stages that read shared buffers take {_span(subject, stages)} with {subject.strategy} and "
        f"{_span(reference, stages)} with {reference.strategy}, but no other strategy than the baseline is "
        "surely faster as a whole.",
        host_stages(subject, stages),
        host_stages(reference, stages),
    )


def _detail(
    device: Device, readers: Mapping[str, Sequence[str]], stages: Sequence[str], subject: Row, better: Row
) -> str:
    return text(
        f"On {device.name} the CPU does not cache page-locked memory: each read goes to DRAM by itself. "
        f"{', '.join(stages)} read{'s' if len(stages) == 1 else ''} {', '.join(readers)}: "
        f"{_span(subject, stages)} with {subject.strategy}, {_span(better, stages)} with {better.strategy}.",
        compared(better, subject),
        against_strategy(subject),
    )


def _span(row: Row, stages: Sequence[str]) -> str:
    return f"{units.seconds(_reading(row, stages))}{' (predicted)' if row.predicted else ''}"


RULE = Rule(
    id="uncached-host-read",
    title="Let the CPU read memory that it caches: managed, not page-locked",
    why="Before compute capability 7.2 a Jetson's CPU does not cache page-locked memory. Writing it in order "
    "hardly suffers, but reading does: on a Nano one thread reads 169 MB/s from it and 2.1 GB/s from managed "
    "memory. What page-locking saves in copies, a host stage that reads the results loses again.",
    memory_classes=("tegra",),
    elsewhere="The CPU caches page-locked memory: on a Jetson from compute capability 7.2 on, and on all "
    "other machines.",
    needs=("device", "workload", "rows", "absent", "recommended"),
    thresholds=(
        Threshold(
            "slowdown",
            1.5,
            "ratio",
            "time of the host stages that read shared buffers, over their time on memory that is cached",
            "chosen between 1.19 for writing, which is no reason to change, and 12.4 for reading, both on a "
            "Nano (xnd-project/cuda-benchmarks PR 3)",
            low=1.0,
        ),
    ),
    sources=(
        "https://docs.nvidia.com/cuda/cuda-for-tegra-appnote/index.html#memory-management",
        "xnd-project/cuda-benchmarks PR 3: 5.7 s and 0.46 s for reading 960 MB on a Nano",
    ),
    judge=judge,
)
