"""page-fault-migration: managed memory whose pages a card fetches by faults, a few at a time."""

from __future__ import annotations

from advisor import units
from advisor.profiles.conclusions import Evidence
from advisor.rules.base import Case, Limits, Row, Rule, share_of_a_frame
from advisor.rules.findings import Finding, not_applicable, passed, text
from advisor.rules.placed import shared
from advisor.rules.traced import Traced, migrations
from advisor.strategies.registry import BASELINE

_SUBJECT = "managed"
_FAULT_SECONDS = 10e-6
"""The least that a fault takes (ObservUVM: 10 to 50 µs): in less there may have been none."""
_TITLE_ELSEWHERE = "Avoid managed memory that faults page by page"


def judge(case: Case, limits: Limits) -> Finding:
    """Warns against managed memory without prefetch where kernels wait for its pages."""
    managed = case.rows[_SUBJECT]
    if case.device.attributes.get("concurrent_managed_access", 1) == 0:
        return not_applicable(
            "Without concurrentManagedAccess the driver moves managed memory as a whole when a kernel "
            "starts, not by faults."
        )
    in_memory = [row for row in case.rows.values() if _on_the_device(row)]
    resident = min(in_memory, key=lambda row: (row.device_seconds, not row.locks), default=None)
    if resident is None:
        return not_applicable("No strategy whose kernels use device memory has figures to compare with.")
    waiting = managed.device_seconds - resident.device_seconds
    shown = [managed.kernels(), resident.kernels()]
    if managed.part(waiting) < limits["share"]:
        return passed(_little(managed, waiting), *shown)
    better = case.proposal(case.rows.values(), managed)
    cause = _cause(managed, resident, waiting)
    shown += [*_rate(managed, waiting, case), *_host(managed, case.rows.get(BASELINE))]
    if better is None:
        return passed(f"{cause} But no other strategy is surely faster.", *shown)
    title = None if _prefetches(better) else _TITLE_ELSEWHERE
    cause = text(cause, _prefetched(case, better))
    return case.swap(managed, better, cause, shown, title=title, inferred=True)


def _on_the_device(row: Row) -> bool:
    """Kernels find the data in device memory; what becomes of hints is the driver's affair."""
    fetched = row.movements <= {"copied", "prefetched"} and not row.places(lambda placed: bool(placed.hints))
    return bool(row.movements) and fetched and not row.overlaps


def _prefetches(row: Row) -> bool:
    return "prefetched" in row.movements


def _little(managed: Row, waiting: float) -> str:
    said = (
        f"Kernels lose only {units.seconds(waiting)} of a frame of {units.seconds(managed.seconds)} to pages "
        "that are not there yet"
        if waiting > 0
        else "Kernels on managed memory are as fast as on device memory"
    )
    return f"{said}{' (predicted)' if managed.predicted else ''}."


def _cause(managed: Row, resident: Row, waiting: float) -> str:
    pages = (
        "faults, which bring the pages that the CPU used last over a few at a time"
        if waiting >= _FAULT_SECONDS
        else "pages that are not in device memory (by faults, or read over the link)"
    )
    return (
        f"Kernels {managed.take} {units.seconds(managed.device_seconds)} on managed memory and "
        f"{units.seconds(resident.device_seconds)} on device memory ({resident.strategy}): "
        f"{units.percent(managed.part(waiting))} of a frame goes to {pages}."
    )


def _rate(managed: Row, waiting: float, case: Case) -> list[Evidence]:
    """How fast the pages that kernels touch arrive by faults; nothing where there may have been none."""
    touched = sum(b.bytes for b in shared(case.workload) if case.workload.touching(b, "device"))
    if not touched or waiting < _FAULT_SECONDS:
        return []
    return [managed.figure("managed: rate of the migrations", touched / waiting, "bytes_per_second")]


def _host(managed: Row, baseline: Row | None) -> list[Evidence]:
    """Pages go back by faults too, where the CPU touches them: in its own stages."""
    if baseline is None or managed.host_seconds <= baseline.host_seconds:
        return []
    return [managed.stages(), baseline.stages()]


def _prefetched(case: Case, better: Row) -> str:
    """What prefetching makes of it, also where another strategy is proposed."""
    row = next((row for row in case.rows.values() if _prefetches(row) and _on_the_device(row)), None)
    if row is None or row is better:
        return ""
    return (
        f"Prefetched, kernels {row.take} {units.seconds(row.device_seconds)} and the moves "
        f"{units.seconds(row.transfer_seconds)}."
    )


RULE = Rule(
    id="page-fault-migration",
    title="Prefetch managed memory before the side that needs it",
    why="On a card managed memory moves to the side that touches it. Without a prefetch each touch of a page "
    "that is elsewhere is a fault of 10 to 50 µs that brings 64 KB, more where the driver's tree prefetcher "
    "sees a pattern: a kernel that streams 2 GB ran at 8 GB/s, and at 242 GB/s once it was prefetched (GTX "
    "1080).",
    example="vector_add on NVIDIA H200, measured: Kernels take 16.6 ms on managed memory and 83.0 µs on "
    "device memory (managed-prefetch): 29 % of a frame goes to faults, which bring the pages that the CPU "
    "used last over a few at a time. Prefetched, kernels take 83.0 µs and the moves 16.8 ms. zero-copy takes "
    "18.3 ms a frame and managed 55.3 ms: 3.03× (2.71× to 3.61×) as fast. The gain is against managed.",
    memory_classes=("discrete", "discrete-hmm"),
    elsewhere="No pages move by faults on one DRAM; over a coherent link see ping-pong-migration.",
    requires=(_SUBJECT,),
    thresholds=(
        share_of_a_frame("part of a frame of managed by which kernels are slower than on device memory"),
    ),
    sources=(
        "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#data-prefetching",
        "parallelArchitect/pascal-um-benchmark: 8.2 and 242.3 GB/s on a GTX 1080",
        "ObservUVM: faults of 10 to 50 µs, migrations of 64 KB",
    ),
    traced=Traced(
        (_SUBJECT,),
        migrations,
        cause=lambda traced: traced.migrated_bytes("to-device"),
        unseen="no managed memory move to the GPU",
    ),
    judge=judge,
)
