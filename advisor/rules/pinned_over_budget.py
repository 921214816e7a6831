"""pinned-over-budget: so much memory is page-locked that the rest of the machine goes short."""

from __future__ import annotations

from collections.abc import Mapping

from advisor import units
from advisor.profiles.schema import Device, Environment, Evidence, WorkloadRecord
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
    shares_dram,
    takes,
)
from advisor.rules.findings import ALL_CLASSES, UNKNOWN_CLASS, change_to, fastest, no_slower, text
from advisor.strategies.registry import BASELINE


def judge(
    device: Device,
    workload: WorkloadRecord,
    rows: Mapping[str, Row],
    absent: Mapping[str, str],
    recommended: str | None,
    machine: Environment | None,
    limits: Mapping[str, float],
) -> Finding:
    """Warns where the recommended strategy, or all that is fast, locks a large part of the memory."""
    memory = _memory(device, machine)
    if memory is None:
        return not_applicable("How much memory the host of this device has is not known.")
    locking = [row for row in rows.values() if row.pinned_bytes]
    if not locking:
        return no_figures("pinned", absent)
    subject = rows.get(recommended or "") or fastest(rows.values()) or locking[0]
    if not subject.pinned_bytes:
        return passed(f"{subject.strategy} page-locks nothing.", _locked(subject), _total(memory, subject))
    share = subject.pinned_bytes / memory
    shown = (_locked(subject), _total(memory, subject), *_limit(machine, subject))
    if share < limits["share"]:
        return passed(
            f"{subject.strategy} page-locks {units.size(subject.pinned_bytes)}, {units.percent(share)} of "
            f"the memory of {units.size(memory)}.",
            *shown,
        )
    cause = _cause(subject, share, memory)
    most = limits["share"] * memory
    lean = [r for r in rows.values() if r.pinned_bytes < most and r.fits and r.strategy != BASELINE]
    better = fastest(row for row in lean if no_slower(row, subject)) or proposal(lean, subject, None)
    if better is None:
        return Finding("advice", text(cause, _IN_PARTS), evidence=shown)
    locked = units.size(better.pinned_bytes) if better.pinned_bytes else "nothing"
    locks = f"{better.strategy} locks {locked}: {takes(better, better.seconds)} a frame."
    title = f"Lock less memory: {better.strategy} is as fast"
    return change_to(
        better, subject, text(cause, locks), shown, device=device, workload=workload, title=title
    )


_IN_PARTS = (
    "No strategy that locks less is as fast. Lock a few buffers of a fixed size and pass the data through "
    "them in parts, or lock only what is copied in every frame."
)


def _memory(device: Device, machine: Environment | None) -> int | None:
    """The host's memory, or what its control group may use; on one DRAM the device tells it too."""
    if machine is None:
        total = device.attributes.get("total_global_mem") if shares_dram(device) else None
        return int(total) if total else None
    limit = machine.host.memory_limit if machine.host else None
    known = [size for size in (machine.memory_bytes, limit) if isinstance(size, int) and size > 0]
    return min(known, default=None)


def _cause(subject: Row, share: float, memory: int) -> str:
    return (
        f"{subject.strategy} page-locks {units.size(subject.pinned_bytes)}, {units.percent(share)} of the "
        f"{units.size(memory)} there are. Locked pages cannot be swapped nor given to the page cache: "
        "other programs slow down or fail first, then further page-locking does."
    )


def _locked(row: Row) -> Evidence:
    return evidence(f"{row.strategy}: page-locked", row.pinned_bytes, "bytes", row)


def _total(memory: int, row: Row) -> Evidence:
    return evidence("memory that this program may use", memory, "bytes", row)


def _limit(machine: Environment | None, row: Row) -> list[Evidence]:
    """RLIMIT_MEMLOCK, where there is one. It binds mlock; what the driver locks does not count in VmLck."""
    limit = machine.host.locked_memory_limit if machine and machine.host else None
    if not isinstance(limit, int):
        return []
    return [evidence("limit of mlock (ulimit -l)", limit, "bytes", row)]


RULE = Rule(
    id="pinned-over-budget",
    title="Lock less memory: page-locked memory is lost to everybody else",
    why="Page-locked memory is a scarce resource. It stays in DRAM whether it is used or not; the more there "
    "is of it the less is left for other programs and the page cache, and allocations of it fail long before "
    "ordinary ones do. On a Jetson the GPU's memory comes out of the same DRAM.",
    memory_classes=ALL_CLASSES,
    elsewhere=UNKNOWN_CLASS,
    needs=("device", "workload", "rows", "absent", "recommended", "machine"),
    thresholds=(
        Threshold(
            "share",
            0.5,
            "ratio",
            "page-locked part of the memory that the program may use",
            "a choice: the CUDA C++ Programming Guide warns of it without a figure; half is what Linux lets "
            "a tmpfs take by default (tmpfs(5))",
            high=1.0,
        ),
    ),
    sources=(
        "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#page-locked-host-memory",
        "https://man7.org/linux/man-pages/man5/tmpfs.5.html",
    ),
    judge=judge,
)
