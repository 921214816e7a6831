"""oversubscription: the buffers of a frame do not fit the GPU's memory, or only just."""

from advisor import units
from advisor.profiles.conclusions import Evidence
from advisor.rules.base import (
    Case,
    Finding,
    Kind,
    Limits,
    advice,
    compared,
    not_applicable,
    passed,
    text,
)

_PAGED = Kind(
    "managed", lambda row: row.places_all(lambda p: not p.locks and p.movement(row.memory_class) != "copied")
)
"""One memory whose pages the driver may move: not locked, not copied."""


def judge(case: Case, limits: Limits) -> Finding:
    total = case.device.attributes.get("total_global_mem")
    if not isinstance(total, int) or isinstance(total, bool) or total <= 0:
        return not_applicable("The memory size of the device is not known.")
    kernels = {stage.name for stage in case.workload.stages if stage.side == "device"}
    # On one DRAM the CPU's own buffers count too, copies of any do not.
    needed = sum(b.bytes for b in case.workload.buffers if case.one_dram or kernels & b.access.keys())
    share = needed / total
    shown = (
        Evidence(label="memory the buffers need", value=needed, unit="bytes"),
        Evidence(label="the device's memory", value=total, unit="bytes"),
    )
    if share < limits["share"]:
        little = f"{units.size(needed)} of the device's {units.size(total)}, {units.percent(share)}"
        return passed(f"The buffers need {little}.", *shown)
    cause = text(
        f"{'The buffers, each held once, need' if case.one_dram else 'The buffers of the kernels need'} "
        f"{units.size(needed)}, {units.percent(share)} of the {units.size(total)} of {case.device.name}.",
        _follows(case, share),
    )
    subject = case.fastest(case.of(_PAGED))
    better = case.proposal(case.rows.values(), subject) if subject else None
    if subject is None or better is None:
        refused = (
            f"{name} has no figures: {why}."
            for name, why in case.absent.items()
            if "memory" in why and ("needs" in why or "not enough" in why)
        )
        return advice(text(cause, next(refused, ""), _SPLIT), *shown)
    return case.swap(subject, better, cause, shown, worth=text(compared(better, subject), _SPLIT))


_SPLIT = (
    "Split the frame into parts that fit and reuse the same buffers: then every strategy is possible, "
    "and copies of one part can overlap kernels of another."
)


def _follows(case: Case, share: float) -> str:
    """What becomes of it: nothing is given up before memory is full, nor anywhere that pages cannot move."""
    if case.one_dram:
        return "The system and other programs need part of that DRAM too."
    if share <= 1:
        return "That barely fits: contexts, code and other programs need memory too."
    concurrent = case.device.attributes.get("concurrent_managed_access")
    if concurrent is None:
        return ""
    if not concurrent:
        return "Without concurrentManagedAccess not even managed memory can be larger than the GPU's."
    return "Managed memory evicts pages to make room and migrates them back later."
