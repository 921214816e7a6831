"""pinned-over-budget: so much memory is page-locked that the rest of the machine goes short."""

from advisor import units
from advisor.rules.base import Case, Finding, Kind, Limits, advice, not_applicable, passed
from advisor.strategies.registry import BASELINE

LOCKING = Kind("pinned", lambda row: row.pinned_bytes > 0, "No strategy page-locks memory.")


def judge(case: Case, limits: Limits) -> Finding:
    memory = _memory(case)
    if memory is None:
        return not_applicable("The host memory size of this device is not known.")
    subject = case.chosen or case.fastest() or case.of(LOCKING)[0]
    shown = [
        subject.figure(f"{subject.strategy}: page-locked", subject.pinned_bytes, "bytes"),
        subject.figure("memory available to this program", memory, "bytes"),
    ]
    if not subject.pinned_bytes:
        return passed(f"{subject.strategy} page-locks nothing.", *shown)
    # RLIMIT_MEMLOCK binds mlock; what the driver locks does not count in VmLck.
    limit = case.machine.host.locked_memory_limit if case.machine and case.machine.host else None
    shown += [subject.figure("limit of mlock (ulimit -l)", limit, "bytes")] if isinstance(limit, int) else []
    share = subject.pinned_bytes / memory
    locks = f"{subject.strategy} page-locks {units.size(subject.pinned_bytes)}, {units.percent(share)} of the"
    if share < limits["share"]:
        return passed(f"{locks} memory of {units.size(memory)}.", *shown)
    cause = (
        f"{locks} {units.size(memory)} available. Locked pages cannot be swapped or used for the page "
        "cache: first other programs slow down or fail, then further page-locking fails."
    )
    most = limits["share"] * memory
    lean = [row for row in case.rows.values() if row.pinned_bytes < most and row.strategy != BASELINE]
    fitting = [row for row in lean if row.fits]
    better = case.fastest(row for row in fitting if row.no_slower(subject)) or case.proposal(lean, subject)
    if better is None:
        return advice(
            f"{cause} No strategy that locks less is as fast. Pass the data through a few locked buffers of "
            "fixed size, or lock only buffers that are copied in every frame.",
            *shown,
        )
    locked = units.size(better.pinned_bytes) if better.pinned_bytes else "nothing"
    worth = f"{better.strategy} locks {locked}: {better.takes} a frame."
    title = f"Lock less memory: {better.strategy} is as fast"
    return case.swap(subject, better, cause, shown, worth=worth, title=title)


def _memory(case: Case) -> int | None:
    """The host's memory, or what its control group may use; on one DRAM the device tells it too."""
    machine = case.machine
    if machine is None:
        total = case.device.attributes.get("total_global_mem") if case.one_dram else None
        return int(total) if total else None
    limit = machine.host.memory_limit if machine.host else None
    known = [size for size in (machine.memory_bytes, limit) if isinstance(size, int) and size > 0]
    return min(known, default=None)
