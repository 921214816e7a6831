"""Rules on how much memory is locked, allocated and needed."""

from __future__ import annotations

from advisor import units
from advisor.profiles.conclusions import Evidence
from advisor.rules.base import Case, Finding, Kind, Limits, advice, not_applicable, passed, text
from advisor.rules.rows import fastest
from advisor.strategies.registry import BASELINE
from advisor.verdicts.reasons import listing


def pin_per_frame(case: Case, limits: Limits) -> Finding:
    ran = ((row, row.measured) for row in case.rows.values() if row.measured)
    observed = [(row, figures.page_locking) for row, figures in ran if figures.page_locking is not None]
    if not observed:
        return not_applicable("Not observed: page-locking calls are recorded only on a GPU.")
    row, locks = max(observed, key=lambda pair: pair[1].seconds)
    if locks.calls < limits["calls"]:
        unseen = "calls of other libraries are not recorded"
        return passed(f"No stage page-locks memory in its frames through CuPy ({unseen}).")
    return advice(
        f"In each frame of {row.strategy} the workload's stages lock or unlock pages "
        f"{units.digits(locks.calls)} times, which takes {units.seconds(locks.seconds)} or "
        f"{units.percent(locks.seconds / row.seconds)} of the frame. Locking visits every page and costs "
        "more than it saves for a single copy. Lock once, before the frames, and reuse the memory; or "
        "copy from pageable memory. The gain is the time of these calls.",
        row.figure(f"{row.strategy}: page-locking calls in a frame", locks.calls, "count"),
        row.figure(f"{row.strategy}: time of these calls", locks.seconds),
        saved=locks.seconds,
    )


LOCKING = Kind("pinned", lambda row: row.pinned_bytes > 0, "No strategy page-locks memory.")


def pinned_over_budget(case: Case, limits: Limits) -> Finding:
    memory = _memory(case)
    if memory is None:
        return not_applicable("The host memory size of this device is not known.")
    subject = case.subject
    if not subject.pinned_bytes:
        return passed(f"{subject.strategy} page-locks nothing.")
    sizes = {f"{subject.strategy}: page-locked": subject.pinned_bytes}
    sizes["memory available to this program"] = memory
    # RLIMIT_MEMLOCK binds mlock; what the driver locks does not count in VmLck.
    limit = case.machine.host.locked_memory_limit if case.machine and case.machine.host else None
    if isinstance(limit, int):
        sizes["limit of mlock (ulimit -l)"] = limit
    evidence = [subject.figure(label, size, "bytes") for label, size in sizes.items()]
    share = subject.pinned_bytes / memory
    locks = f"{subject.strategy} page-locks {units.size(subject.pinned_bytes)}, {units.percent(share)} of the"
    if share < limits["share"]:
        return passed(f"{locks} memory of {units.size(memory)}.")
    cause = (
        f"{locks} {units.size(memory)} available. Locked pages cannot be swapped or used for the page "
        "cache: first other programs slow down or fail, then further page-locking fails."
    )
    most = limits["share"] * memory
    lean = [row for row in case.rows.values() if row.pinned_bytes < most and row.strategy != BASELINE]
    fitting = [row for row in lean if row.fits]
    better = fastest(row for row in fitting if row.no_slower(subject)) or case.proposal(lean, subject)
    if better is None:
        return advice(
            f"{cause} No strategy that locks less is as fast. Pass the data through a few locked buffers of "
            "fixed size, or lock only buffers that are copied in every frame.",
            *evidence,
            lines=case.lines([name for name, placed in subject.placements.items() if placed.locks]),
        )
    locked = units.size(better.pinned_bytes) if better.pinned_bytes else "nothing"
    worth = f"{better.strategy} locks {locked}: {better.takes} a frame."
    title = f"Lock less memory: {better.strategy} is as fast"
    return case.swap(subject, better, cause, evidence, worth=worth, title=title)


def _memory(case: Case) -> int | None:
    """The host's memory, or what its control group may use; on one DRAM the device tells it too."""
    machine = case.machine
    if machine is None:
        total = case.device.attributes.get("total_global_mem") if case.one_dram else None
        return int(total) if total else None
    limit = machine.host.memory_limit if machine.host else None
    known = [size for size in (machine.memory_bytes, limit) if isinstance(size, int) and size > 0]
    return min(known, default=None)


def duplicate_allocation(case: Case, limits: Limits) -> Finding:
    baseline = case.baseline
    twice = units.size(baseline.physical_bytes)
    least = max(limits["saving"] * baseline.physical_bytes, limits["bytes"])
    once = [row for row in case.rows.values() if baseline.physical_bytes - row.physical_bytes >= least]
    if not once:
        return passed(f"No strategy needs at least {units.size(least)} less than {BASELINE}.")
    names = listing([row.strategy for row in once])
    as_fast = [row for row in once if row.no_slower(baseline)]
    if not as_fast:
        fastest = min(once, key=lambda row: row.seconds)
        reason = f"{names} would hold the buffers once, but may be slower: {fastest.takes} a frame"
        return passed(f"{reason}, {baseline.takes}.")
    better = min([row for row in as_fast if row is case.chosen] or as_fast, key=lambda row: row.seconds)
    cause = (
        f"On {case.device.name} CPU and GPU share one DRAM, and {BASELINE} holds each buffer in it twice: "
        f"{twice}. {names} {'hold' if len(once) > 1 else 'holds'} it once."
    )
    every = (baseline, *once)
    evidence = [row.figure(f"{row.strategy}: memory", row.physical_bytes, "bytes") for row in every]
    saved = baseline.physical_bytes - better.physical_bytes
    worth = (
        f"{better.strategy} needs {units.size(better.physical_bytes)}, {units.size(saved)} less, and is "
        f"{units.times(baseline.over(better))} as fast{', as predicted' if better.predicted else ''}."
    )
    return case.swap(baseline, better, cause, evidence, worth=worth)


_PAGED = Kind(
    "managed", lambda row: row.places_all(lambda p: not p.locks and p.movement(row.memory_class) != "copied")
)
"""One memory whose pages the driver may move: not locked, not copied."""


def oversubscription(case: Case, limits: Limits) -> Finding:
    total = case.device.attributes.get("total_global_mem")
    if not isinstance(total, int) or isinstance(total, bool) or total <= 0:
        return not_applicable("The memory size of the device is not known.")
    kernels = {stage.name for stage in case.workload.stages if stage.side == "device"}
    # On one DRAM the CPU's own buffers count too, copies of any do not.
    held = {b.name: b.bytes for b in case.workload.buffers if case.one_dram or kernels & b.access.keys()}
    needed = sum(held.values())
    share = needed / total
    if share < limits["share"]:
        little = f"{units.size(needed)} of the device's {units.size(total)}, {units.percent(share)}"
        return passed(f"The buffers need {little}.")
    cause = (
        f"{'The buffers, each held once, need' if case.one_dram else 'The buffers of the kernels need'} "
        f"{units.size(needed)}, {units.percent(share)} of the {units.size(total)} of {case.device.name}."
    )
    split = (
        "Split the frame into parts that fit and reuse the same buffers: then every strategy is possible, "
        "and copies of one part can overlap kernels of another."
    )
    sizes = {"memory the buffers need": needed, "the device's memory": total}
    evidence = [Evidence(label=label, value=size, unit="bytes") for label, size in sizes.items()]
    subject = fastest(case.of(_PAGED))
    better = case.proposal(case.rows.values(), subject) if subject else None
    if subject is None or better is None:
        return advice(text(cause, split), *evidence, lines=case.lines(held))
    return case.swap(subject, better, cause, evidence, worth=text(better.compared(subject), split))
