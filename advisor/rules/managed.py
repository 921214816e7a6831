"""Rules on managed memory: faults, pages that go back and forth, and where prefetching fails."""

from __future__ import annotations

from advisor import units
from advisor.devices.entries import moves_whole
from advisor.profiles.conclusions import Evidence
from advisor.rules.base import Case, Finding, Kind, Limits, not_applicable, passed
from advisor.rules.rows import Traced, changes_of_side, migrations, shared

_SUBJECT = "managed"
_FAULT_SECONDS = 10e-6
"""The least that a fault takes (ObservUVM: 10 to 50 µs): in less there may have been none."""


def page_fault_migration(case: Case, limits: Limits) -> Finding:
    managed = case.rows[_SUBJECT]
    if case.device.attributes.get("concurrent_managed_access", 1) == 0:
        return not_applicable(
            "Without concurrentManagedAccess the driver migrates whole allocations at kernel launch, not "
            "page by page."
        )
    # Kernels find the data in device memory; what becomes of hints is the driver's affair.
    fetching = [row for row in case.rows.values() if row.movements and not row.overlaps]
    fetching = [row for row in fetching if row.movements <= {"copied", "prefetched"}]
    in_memory = [row for row in fetching if not row.places(lambda placed: bool(placed.hints))]
    resident = min(in_memory, key=lambda row: (row.device_seconds, not row.locks), default=None)
    if resident is None:
        return not_applicable("No strategy with buffers in device memory has figures to compare with.")
    waiting = managed.device_seconds - resident.device_seconds
    if managed.part(waiting) < limits["share"]:
        waited = "Kernels on managed memory are as fast as on device memory"
        if waiting > 0:
            frame = f"a {units.seconds(managed.seconds)} frame"
            waited = f"Kernels lose only {units.seconds(waiting)} of {frame} to missing pages"
        return passed(f"{waited}{' (predicted)' * managed.predicted}.")
    evidence = [managed.kernels(), resident.kernels()]
    pages = "pages not in device memory (faults, or reads over the link)"
    if waiting >= _FAULT_SECONDS:
        pages = "faults, which migrate the pages last used by the CPU a few at a time"
    cause = (
        f"Kernels {managed.take} {units.seconds(managed.device_seconds)} on managed memory and "
        f"{units.seconds(resident.device_seconds)} on device memory ({resident.strategy}): "
        f"{units.percent(managed.part(waiting))} of a frame goes to {pages}."
    )
    touched = sum(b.bytes for b in shared(case.workload) if case.workload.touching(b, "device"))
    if touched and waiting >= _FAULT_SECONDS:
        evidence += [managed.figure("managed: migration rate", touched / waiting, "bytes_per_second")]
    if (better := case.proposal(case.rows.values(), managed)) is None:
        return passed(f"{cause} But no other strategy is clearly faster.")
    title = None if "prefetched" in better.movements else "Avoid managed memory that faults page by page"
    return case.swap(managed, better, cause, evidence, title=title, inferred=True)


TRACED_FAULTS = Traced(
    (_SUBJECT,),
    migrations,
    cause=lambda traced: traced.migrated_bytes("to-device"),
    unseen="no managed memory migrate to the GPU",
)


MANAGED = Kind("managed", lambda row: row.places(lambda placed: placed.managed))


def ping_pong_migration(case: Case, limits: Limits) -> Finding:
    managed = min(case.of(MANAGED), key=lambda row: row.seconds)
    whole = moves_whole(case.device.attributes)
    # Over a coherent link no page has to move at all, and what moves whole does so ten times slower than
    # copies: the two changes of any shared buffer count.
    least = 2 if whole or case.device.memory_class == "coherent" else limits["changes"]
    changes = [(buffer, changes_of_side(buffer, case.workload)) for buffer in shared(case.workload)]
    often = [(buffer, count) for buffer, count in changes if count >= least]
    if not often:
        most = max((count for _, count in changes), default=0)
        return passed(f"A buffer changes sides at most {most} times per frame: one round trip.")
    named = ", ".join(f"{b.name} ({units.size(b.bytes)}) {count} times" for b, count in often)
    cause = f"Buffers change sides in each frame: {named}."
    better = case.proposal((row for row in case.rows.values() if not MANAGED.has(row)), managed)
    if better is None:
        return passed(f"{cause} But no other strategy is clearly faster: {managed.takes} a frame.")
    moves = "whole buffers move" if whole else "the touched pages migrate, by faults or prefetch"
    moved = sum(b.bytes * count for b, count in often)
    evidence = [
        *(managed.figure(f"side changes of {b.name} per frame", count, "count") for b, count in often),
        managed.figure("maximum bytes that change sides per frame", moved, "bytes"),
        managed.kernels(),
        better.kernels(),
    ]
    return case.swap(managed, better, f"{cause} At each change {moves}.", evidence)


TRACED_TURNS = Traced((MANAGED.example,), migrations)


def prefetch_unsupported(case: Case, _: Limits) -> Finding:
    concurrent = case.device.attributes.get("concurrent_managed_access")
    if concurrent is None:
        return not_applicable("concurrentManagedAccess is not known, so neither is support for prefetching.")
    if concurrent:
        return not_applicable("Prefetching is supported: concurrentManagedAccess is 1.")
    attached, plain, chosen = case.rows.get("managed-prefetch"), case.rows.get(_SUBJECT), case.chosen
    if attached is None or plain is None:
        return case.without(_SUBJECT if attached else "managed-prefetch")
    fact = f"On {case.device.name} cudaMemPrefetchAsync returns an error (concurrentManagedAccess is 0)."
    if not attached.beats(plain):
        times = f"{units.times(attached.over(plain))} the time of plain managed memory"
        return passed(f"{fact} Attaching to a stream instead takes {times}: use neither.")
    if chosen is not None and chosen is not attached and chosen.no_slower(attached):
        fast = f"the recommended {chosen.strategy} is as fast: {chosen.takes} per frame"
        return passed(f"{fact} Attaching to a stream is faster than plain managed memory, but {fast}.")
    cause = (
        f"{fact} cudaStreamAttachMemAsync replaces it: cudaMemAttachSingle before a kernel cleans the "
        "CPU's caches once, cudaMemAttachHost returns the memory to the CPU, and buffers that no kernel "
        "uses are not affected."
    )
    flag = Evidence(label="concurrentManagedAccess", value=float(concurrent), unit="count")
    return case.swap(plain, attached, cause, [flag])
