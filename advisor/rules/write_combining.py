"""Rules on write-combined memory: read by the CPU, and without a gain."""

from __future__ import annotations

from collections.abc import Sequence

from advisor import units
from advisor.rules.base import WRITE_COMBINED, Case, Finding, Limits, Row, not_applicable, passed


def write_combined_read(case: Case, limits: Limits) -> Finding:
    """The CPU reads memory that it can only write quickly."""
    if any(row.predicted for row in case.of(WRITE_COMBINED)):
        return not_applicable("The model assumes that the CPU never reads write-combined memory.")
    pairs = [pair for pair in case.twins() if _stages(case, pair[0])]
    if not pairs:
        return not_applicable(
            "No buffer that the host only writes has figures both with and without write-combining."
        )
    combined, plain = max(pairs, key=lambda pair: _slowdown(case, *pair))
    stages = _stages(case, combined)
    # What these stages were seen to read of the memory that they say they only write.
    accesses = [t for t in case.traffic.traffic if t.stage in stages and t.buffer in combined.write_combined]
    read = sum(t.bytes_read for t in accesses if t.source == "traced")
    evidence = [combined.stages(stages), plain.stages(stages)]
    evidence += [combined.figure("reads of write-combined memory by the CPU", read, "bytes")] if read else []
    slowdown = _slowdown(case, combined, plain)
    if slowdown < limits["slowdown"]:
        took = f"{units.ratio(slowdown)} the time they take on plain page-locked memory ({combined.strategy})"
        return passed(f"The stages that write write-combined memory take {took}.", *evidence)
    why = "They read it back, or write it out of order in pieces smaller than a cache line."
    if read:
        why = f"They read {units.size(read)} of it per frame, past the caches."
    cause = (
        f"{', '.join(stages)} {'take' if len(stages) > 1 else 'takes'} "
        f"{units.seconds(combined.spent(stages))} on write-combined memory and "
        f"{units.seconds(plain.spent(stages))} on plain page-locked memory ({plain.strategy}). {why}"
    )
    better = case.proposal((row for row in case.rows.values() if not WRITE_COMBINED.has(row)), combined)
    if better is None:
        return passed(f"{cause} But no strategy without it is clearly faster.", *evidence)
    return case.swap(combined, better, cause, evidence, inferred=not read)


def _stages(case: Case, combined: Row) -> Sequence[str]:
    """The host stages of a frame that touch write-combined memory."""
    buffers = [b for b in case.workload.buffers if b.name in combined.write_combined]
    hosts = [stage.name for stage in case.workload.frame_stages("host")]
    return [stage for stage in hosts if any(stage in buffer.access for buffer in buffers)]


def _slowdown(case: Case, combined: Row, plain: Row) -> float:
    """Time of these stages over the same on plain memory."""
    stages = _stages(case, combined)
    return combined.spent(stages) / plain.spent(stages) if plain.spent(stages) else 0.0


def write_combined_without_gain(case: Case, _: Limits) -> Finding:
    """Write-combined memory whose copies are no faster for it, or slower."""
    pairs = case.twins()
    if not pairs:
        return case.without("pinned")
    slower = [(row, plain) for row, plain in pairs if plain.beats(row)]
    if not slower:
        row, plain = next((pair for pair in pairs if pair[0] is case.chosen), pairs[0])
        takes = "is predicted to take" if row.predicted else "takes"
        how = f"{row.strategy} {takes} {units.times(row.over(plain))} the time of {plain.strategy}"
        pays = "pays" if row.beats(plain) else "is neither clearly slower nor clearly worth the restrictions"
        return passed(f"{how}: write-combining {pays}.", row.frame(), plain.frame())
    row, plain = max(slower, key=lambda pair: pair[0].over(pair[1]).value)
    chosen = [one for one in [case.chosen] if one is not None and not WRITE_COMBINED.has(one)]
    better = case.proposal((*chosen, plain), row) or plain
    cause = (
        f"{row.strategy} takes {units.times(row.over(plain))} the time of {plain.strategy}, the same "
        "strategy with plain page-locked memory: write-combining costs time here instead of saving it."
    )
    evidence = [one.copies() if row.transfer_seconds else one.kernels() for one in (row, plain)]
    return case.swap(row, better, cause, evidence)
