"""page-fault-migration: managed memory whose pages a card fetches by faults, a few at a time."""

from advisor import units
from advisor.rules.base import Case, Finding, Limits, Row, Traced, migrations, not_applicable, passed, text
from advisor.rules.rows import shared
from advisor.strategies.registry import BASELINE

_SUBJECT = "managed"
_FAULT_SECONDS = 10e-6
"""The least that a fault takes (ObservUVM: 10 to 50 µs): in less there may have been none."""


def judge(case: Case, limits: Limits) -> Finding:
    managed = case.rows[_SUBJECT]
    if case.device.attributes.get("concurrent_managed_access", 1) == 0:
        return not_applicable(
            "Without concurrentManagedAccess the driver migrates whole allocations at kernel launch, not "
            "page by page."
        )
    in_memory = [row for row in case.rows.values() if _on_the_device(row)]
    resident = min(in_memory, key=lambda row: (row.device_seconds, not row.locks), default=None)
    if resident is None:
        return not_applicable("No strategy with buffers in device memory has figures to compare with.")
    waiting = managed.device_seconds - resident.device_seconds
    shown = [managed.kernels(), resident.kernels()]
    if managed.part(waiting) < limits["share"]:
        lost = f"Kernels lose only {units.seconds(waiting)} of a {units.seconds(managed.seconds)} frame"
        fast = "Kernels on managed memory are as fast as on device memory"
        waited = f"{lost} to missing pages" if waiting > 0 else fast
        return passed(f"{waited}{' (predicted)' if managed.predicted else ''}.", *shown)
    better = case.proposal(case.rows.values(), managed)
    cause = _cause(managed, resident, waiting)
    touched = sum(b.bytes for b in shared(case.workload) if case.workload.touching(b, "device"))
    if touched and waiting >= _FAULT_SECONDS:
        shown += [managed.figure("managed: migration rate", touched / waiting, "bytes_per_second")]
    baseline = case.rows.get(BASELINE)
    if baseline is not None and managed.host_seconds > baseline.host_seconds:
        shown += [managed.stages(), baseline.stages()]  # pages go back by faults too, in the CPU's own stages
    if better is None:
        return passed(f"{cause} But no other strategy is clearly faster.", *shown)
    title = None if "prefetched" in better.movements else "Avoid managed memory that faults page by page"
    cause = text(cause, _prefetched(case, better))
    return case.swap(managed, better, cause, shown, title=title, inferred=True)


def _on_the_device(row: Row) -> bool:
    """Kernels find the data in device memory; what becomes of hints is the driver's affair."""
    fetched = row.movements <= {"copied", "prefetched"} and not row.places(lambda placed: bool(placed.hints))
    return bool(row.movements) and fetched and not row.overlaps


def _cause(managed: Row, resident: Row, waiting: float) -> str:
    pages = (
        "faults, which migrate the pages last used by the CPU a few at a time"
        if waiting >= _FAULT_SECONDS
        else "pages not in device memory (faults, or reads over the link)"
    )
    return (
        f"Kernels {managed.take} {units.seconds(managed.device_seconds)} on managed memory and "
        f"{units.seconds(resident.device_seconds)} on device memory ({resident.strategy}): "
        f"{units.percent(managed.part(waiting))} of a frame goes to {pages}."
    )


def _prefetched(case: Case, better: Row) -> str:
    """What prefetching makes of it, also where another strategy is proposed."""
    fetching = (row for row in case.rows.values() if "prefetched" in row.movements)
    row = next(filter(_on_the_device, fetching), None)
    if row is None or row is better:
        return ""
    return (
        f"With prefetch, kernels {row.take} {units.seconds(row.device_seconds)} and migrations "
        f"{units.seconds(row.transfer_seconds)}."
    )


TRACED = Traced(
    (_SUBJECT,),
    migrations,
    cause=lambda traced: traced.migrated_bytes("to-device"),
    unseen="no managed memory migrate to the GPU",
)
