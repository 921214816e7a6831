"""oversubscription: the buffers of a frame do not fit the GPU's memory, or only just."""

from __future__ import annotations

from collections.abc import Mapping

from advisor import units
from advisor.profiles.schema import Device, Evidence, WorkloadRecord
from advisor.rules.base import Finding, Row, Rule, Threshold, not_applicable, passed, proposal, shares_dram
from advisor.rules.findings import (
    ALL_CLASSES,
    UNKNOWN_CLASS,
    against_strategy,
    change_to,
    compared,
    fastest,
    present,
    text,
)
from advisor.strategies.registry import BASELINE

_MIGRATING = ("managed", "managed-prefetch", "managed-advised", "system")


def judge(
    device: Device,
    workload: WorkloadRecord,
    rows: Mapping[str, Row],
    absent: Mapping[str, str],
    recommended: str | None,
    limits: Mapping[str, float],
) -> Finding:
    """Advises memory that stays at the host, or smaller parts, where buffers outgrow the GPU's memory."""
    total = device.attributes.get("total_global_mem")
    if not isinstance(total, int) or isinstance(total, bool) or total <= 0:
        return not_applicable("How much memory the device has is not known.")
    needed = _needed(device, workload)
    share = needed / total
    shown = _evidence(needed, total)
    if share < limits["share"]:
        return passed(
            f"The buffers need {units.size(needed)} of the device's {units.size(total)}, "
            f"{units.percent(share)}.",
            *shown,
        )
    cause = (
        f"{_whose(device)} {units.size(needed)}, {units.percent(share)} of the {units.size(total)} "
        f"of {device.name}."
    )
    follows = _follows(device, share)
    found = _stays_at_the_host(rows, recommended)
    if found is None:
        return Finding("advice", text(cause, follows, _refused(absent), _SPLIT), evidence=shown)
    better, subject = found
    detail = text(cause, follows, compared(better, subject), against_strategy(subject), _SPLIT)
    return change_to(better, subject, detail, shown, device=device, workload=workload)


def _stays_at_the_host(rows: Mapping[str, Row], recommended: str | None) -> tuple[Row, Row] | None:
    """What is faster than managed memory, and the managed strategy that it is faster than."""
    subject = fastest(present(rows, _MIGRATING))
    others = (row for row in rows.values() if row.strategy != BASELINE)
    better = proposal(others, subject, recommended) if subject else None
    return (better, subject) if better and subject else None


def _follows(device: Device, share: float) -> str:
    """What becomes of it: nothing is given up before memory is full, nor anywhere that pages cannot move."""
    if shares_dram(device):
        return "The system and all other programs need their part of that one DRAM too."
    if share <= 1:
        return "That fits only just: contexts, code and other programs take their part too."
    concurrent = device.attributes.get("concurrent_managed_access")
    if concurrent is None:
        return ""
    if not concurrent:
        return "Without concurrentManagedAccess not even managed memory can be larger than the GPU's."
    return "Managed memory gives pages up to make room for others, and fetches them again later."


_SPLIT = (
    "Cut the frame into parts that fit, each through the same buffers: then every strategy is open again, "
    "and copies of one part can overlap the kernels of another."
)


def _needed(device: Device, workload: WorkloadRecord) -> int:
    """What kernels use; on one DRAM the CPU's own buffers count too, copies of any not."""
    one = shares_dram(device)
    sides = {stage.name: stage.side for stage in workload.stages}
    return sum(b.bytes for b in workload.buffers if one or "device" in {sides.get(s) for s in b.access})


def _whose(device: Device) -> str:
    return "The buffers, each held once, need" if shares_dram(device) else "The buffers of the kernels need"


def _refused(absent: Mapping[str, str]) -> str:
    """A strategy that has no figures for want of memory, in its own words."""
    found = (
        (name, why)
        for name, why in absent.items()
        if "memory" in why and ("needs" in why or "not enough" in why)
    )
    first = next(found, None)
    return f"{first[0]} has no figures: {first[1]}." if first else ""


def _evidence(needed: int, total: int) -> tuple[Evidence, ...]:
    return (
        Evidence(label="memory that the buffers need", value=needed, unit="bytes"),
        Evidence(label="the device's memory", value=total, unit="bytes"),
    )


RULE = Rule(
    id="oversubscription",
    title="Cut the frame into parts that fit the GPU's memory",
    why="Where concurrentManagedAccess is 1, a card's managed memory may be larger than the GPU's, and then "
    "runs by giving pages up and fetching them again: a frame that sweeps over all of it finds nothing where "
    "it left it. Times vary by up to 100 with the pattern of access, and on a shared machine an "
    "oversubscribed GPU can hang. Explicit copies simply fail, and so does managed memory elsewhere.",
    memory_classes=ALL_CLASSES,
    elsewhere=UNKNOWN_CLASS,
    needs=("device", "workload", "rows", "absent", "recommended"),
    thresholds=(
        Threshold(
            "share",
            0.9,
            "ratio",
            "buffers over the device's memory",
            "a choice: contexts, code, libraries and the desktop take the rest; on a Jetson the system does",
        ),
    ),
    sources=(
        "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#unified-memory-programming",
        "https://developer.nvidia.com/blog/improving-gpu-memory-oversubscription-performance/",
        "Chien, Peng and Markidis, MCHPC 2019 (arXiv 1910.09598): hints under oversubscription, up to 25 %",
    ),
    judge=judge,
)
