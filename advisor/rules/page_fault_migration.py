"""page-fault-migration: managed memory whose pages a card fetches by faults, a few at a time."""

from advisor import units
from advisor.rules.base import Case, Finding, Limits, Row, Rule, frame_share, not_applicable, passed, text
from advisor.rules.rows import shared
from advisor.rules.traced import Traced, migrations
from advisor.strategies.registry import BASELINE

_SUBJECT = "managed"
_FAULT_SECONDS = 10e-6
"""The least that a fault takes (ObservUVM: 10 to 50 µs): in less there may have been none."""


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
        lost = f"Kernels lose only {units.seconds(waiting)} of a frame of {units.seconds(managed.seconds)}"
        fast = "Kernels on managed memory are as fast as on device memory"
        told = f"{lost} to pages that are not there yet" if waiting > 0 else fast
        return passed(f"{told}{' (predicted)' if managed.predicted else ''}.", *shown)
    better = case.proposal(case.rows.values(), managed)
    cause = _cause(managed, resident, waiting)
    touched = sum(b.bytes for b in shared(case.workload) if case.workload.touching(b, "device"))
    if touched and waiting >= _FAULT_SECONDS:
        shown += [managed.figure("managed: rate of the migrations", touched / waiting, "bytes_per_second")]
    baseline = case.rows.get(BASELINE)
    if baseline is not None and managed.host_seconds > baseline.host_seconds:
        shown += [managed.stages(), baseline.stages()]  # pages go back by faults too, in the CPU's own stages
    if better is None:
        return passed(f"{cause} But no other strategy is surely faster.", *shown)
    title = None if _prefetches(better) else "Avoid managed memory that faults page by page"
    cause = text(cause, _prefetched(case, better))
    return case.swap(managed, better, cause, shown, title=title, inferred=True)


def _on_the_device(row: Row) -> bool:
    """Kernels find the data in device memory; what becomes of hints is the driver's affair."""
    fetched = row.movements <= {"copied", "prefetched"} and not row.places(lambda placed: bool(placed.hints))
    return bool(row.movements) and fetched and not row.overlaps


def _prefetches(row: Row) -> bool:
    return "prefetched" in row.movements


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
    bad="""
    host, device = managed_empty(shape, np.float32)
    produce(host)
    compute(device)  # faults, a few pages at a time
    stream.synchronize()""",
    good="""
    host, device = managed_empty(shape, np.float32)
    produce(host)
    prefetch(host, "device")  # all of it, before the kernel starts
    compute(device)
    prefetch(host, "host")
    stream.synchronize()""",
    memory_classes=("discrete", "discrete-hmm"),
    elsewhere="No pages move by faults on one DRAM; over a coherent link see ping-pong-migration.",
    requires=(_SUBJECT,),
    thresholds=(frame_share("part of a frame of managed by which kernels are slower than on device memory"),),
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
