"""page-fault-migration: managed memory whose pages a card fetches by faults, a few at a time."""

from __future__ import annotations

from collections.abc import Mapping

from advisor import units
from advisor.profiles.schema import Device, Evidence, WorkloadRecord
from advisor.rules.base import Finding, Row, Rule, evidence, no_figures, not_applicable, passed, proposal
from advisor.rules.findings import (
    against_strategy,
    change_to,
    compared,
    host_stages,
    kernels,
    present,
    share_of_a_frame,
    text,
)
from advisor.rules.placed import shared
from advisor.strategies.registry import BASELINE

_SUBJECT = "managed"


def judge(
    device: Device,
    workload: WorkloadRecord,
    rows: Mapping[str, Row],
    absent: Mapping[str, str],
    recommended: str | None,
    limits: Mapping[str, float],
) -> Finding:
    """Warns against managed memory without prefetch where kernels wait for its pages."""
    managed = rows.get(_SUBJECT)
    if managed is None:
        return no_figures(_SUBJECT, absent)
    if device.attributes.get("concurrent_managed_access", 1) == 0:
        return not_applicable(
            "Without concurrentManagedAccess the driver moves managed memory as a whole when a kernel "
            "starts, not by faults."
        )
    in_memory = present(rows, _RESIDENT)
    resident = min(in_memory, key=lambda row: row.device_seconds, default=None)
    if resident is None:
        return not_applicable("No strategy whose kernels use device memory has figures to compare with.")
    waiting = managed.device_seconds - resident.device_seconds
    if managed.part(waiting) < limits["share"]:
        return _little(managed, resident, waiting)
    others = (row for row in rows.values() if row.strategy != BASELINE)
    better = proposal(others, managed, recommended)
    cause = _cause(managed, resident, waiting)
    shown = (kernels(managed), kernels(resident), *_rate(managed, waiting, workload), *_host(managed, rows))
    if better is None:
        return passed(f"{cause} But no other strategy is surely faster.", *shown)
    detail = text(cause, _prefetched(rows, better), compared(better, managed), against_strategy(managed))
    title = None if better.strategy in _PREFETCHED else _TITLE_ELSEWHERE
    return change_to(
        better, managed, detail, shown, device=device, workload=workload, title=title, inferred=True
    )


_RESIDENT = ("pinned", "registered", "write-combined", BASELINE, "staged", "managed-prefetch")
"""Their kernels find the data in device memory."""
_FAULT_SECONDS = 10e-6
"""The least that a fault takes (ObservUVM: 10 to 50 µs): in less there may have been none."""
_PREFETCHED = ("managed-prefetch", "managed-advised")
_TITLE_ELSEWHERE = "Leave managed memory that kernels fetch page by page"


def _little(managed: Row, resident: Row, waiting: float) -> Finding:
    said = (
        f"Kernels lose only {units.seconds(waiting)} of a frame of {units.seconds(managed.seconds)} to pages "
        "that are not there yet"
        if waiting > 0
        else "Kernels on managed memory are as fast as on device memory"
    )
    return passed(
        f"{said}{' (predicted)' if managed.predicted else ''}.",
        kernels(managed),
        kernels(resident),
    )


def _cause(managed: Row, resident: Row, waiting: float) -> str:
    verb = "are predicted to take" if managed.predicted else "take"
    pages = (
        "faults, which bring the pages that the CPU used last over a few at a time"
        if waiting >= _FAULT_SECONDS
        else "pages that are not in device memory (by faults, or read over the link)"
    )
    return (
        f"Kernels {verb} {units.seconds(managed.device_seconds)} on managed memory and "
        f"{units.seconds(resident.device_seconds)} on device memory ({resident.strategy}): "
        f"{units.percent(managed.part(waiting))} of a frame goes to {pages}."
    )


def _rate(managed: Row, waiting: float, workload: WorkloadRecord) -> list[Evidence]:
    """How fast the pages that kernels touch arrive by faults; nothing where there may have been none."""
    touched = sum(b.bytes for b in shared(workload) if workload.touching(b, "device"))
    if not touched or waiting < _FAULT_SECONDS:
        return []
    return [evidence("managed: rate of the migrations", touched / waiting, "bytes_per_second", managed)]


def _host(managed: Row, rows: Mapping[str, Row]) -> list[Evidence]:
    """Pages go back by faults too, where the CPU touches them: in its own stages."""
    baseline = rows.get(BASELINE)
    if baseline is None or managed.host_seconds <= baseline.host_seconds:
        return []
    return [host_stages(managed), host_stages(baseline)]


def _prefetched(rows: Mapping[str, Row], better: Row) -> str:
    """What prefetching makes of it, also where another strategy is proposed."""
    row = rows.get("managed-prefetch")
    if row is None or row is better:
        return ""
    return (
        f"Prefetched, kernels {'are predicted to take' if row.predicted else 'take'} "
        f"{units.seconds(row.device_seconds)} and the moves {units.seconds(row.transfer_seconds)}."
    )


RULE = Rule(
    id="page-fault-migration",
    title="Prefetch managed memory before the side that needs it",
    why="On a card managed memory moves to the side that touches it. Without a prefetch each touch of a page "
    "that is elsewhere is a fault of 10 to 50 µs that brings 64 KB, more where the driver's tree prefetcher "
    "sees a pattern: a kernel that streams 2 GB ran at 8 GB/s, and at 242 GB/s once it was prefetched (GTX "
    "1080).",
    memory_classes=("discrete", "discrete-hmm"),
    elsewhere="No pages move by faults on one DRAM; over a coherent link see ping-pong-migration.",
    needs=("device", "workload", "rows", "absent", "recommended"),
    thresholds=(
        share_of_a_frame("part of a frame of managed by which kernels are slower than on device memory"),
    ),
    sources=(
        "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#data-prefetching",
        "parallelArchitect/pascal-um-benchmark: 8.2 and 242.3 GB/s on a GTX 1080",
        "ObservUVM: faults of 10 to 50 µs, migrations of 64 KB",
    ),
    judge=judge,
)
