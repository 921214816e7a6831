"""write-combined-read: the CPU reads memory that it can only write quickly."""

from collections.abc import Sequence

from advisor import units
from advisor.rules.base import WRITE_COMBINED, Case, Finding, Limits, Row, not_applicable, passed


def judge(case: Case, limits: Limits) -> Finding:
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
    seen = [t for t in case.traffic.traffic if t.stage in stages and t.buffer in combined.write_combined]
    read = sum(t.bytes_read for t in seen if t.source == "traced")
    shown = [combined.stages(stages), plain.stages(stages)]
    shown += [combined.figure("reads of write-combined memory by the CPU", read, "bytes")] if read else []
    slowdown = _slowdown(case, combined, plain)
    if slowdown < limits["slowdown"]:
        took = f"{units.ratio(slowdown)} the time they take on plain page-locked memory ({combined.strategy})"
        return passed(f"The stages that write write-combined memory take {took}.", *shown)
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
        return passed(f"{cause} But no strategy without it is clearly faster.", *shown)
    return case.swap(combined, better, cause, shown, inferred=not read)


def _stages(case: Case, combined: Row) -> Sequence[str]:
    """The host stages of a frame that touch write-combined memory."""
    buffers = [b for b in case.workload.buffers if b.name in combined.write_combined]
    hosts = [stage.name for stage in case.workload.frame_stages("host")]
    return [stage for stage in hosts if any(stage in buffer.access for buffer in buffers)]


def _slowdown(case: Case, combined: Row, plain: Row) -> float:
    """Time of these stages over the same on plain memory."""
    stages = _stages(case, combined)
    return combined.spent(stages) / plain.spent(stages) if plain.spent(stages) else 0.0
