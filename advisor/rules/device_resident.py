"""device-resident: a buffer that leaves the GPU only to come back in the same frame."""

from collections.abc import Sequence

from advisor import units
from advisor.profiles.schema import BufferRecord
from advisor.rules.base import Case, Finding, Limits, advice, not_applicable, passed
from advisor.rules.rows import in_order, moves, shared
from advisor.strategies.registry import BASELINE
from advisor.strategies.schedule import Step


def judge(case: Case, limits: Limits) -> Finding:
    every = moves(BASELINE, case.workload, case.device)
    steps = {b.name: [step for step in every if step.name == b.name] for b in shared(case.workload)}
    between = {b.name: _between(b, case, steps[b.name]) for b in shared(case.workload)}
    resident = [buffer for buffer in shared(case.workload) if between[buffer.name]]
    if not resident:
        return passed("No buffer goes to the host and comes back in a frame.")
    names, chosen = ", ".join(buffer.name for buffer in resident), case.chosen
    if chosen is not None and not chosen.transfer_seconds:
        nothing = f"the recommended {chosen.strategy} copies nothing"
        return passed(f"{names} would be copied both ways in each frame, but {nothing}.", chosen.copies())
    # The recommended strategy's copies count, else the baseline's, or the fastest one's.
    known = [row for row in case.rows.values() if row.transfer_seconds and row.transfer_bytes]
    preferred = [row for row in (case.chosen, case.rows.get(BASELINE)) if row in known]
    row = preferred[0] if preferred else case.fastest(known)
    if row is None or not row.transfer_bytes:
        return not_applicable("No strategy that copies has both bytes and times.")
    loops = {stage.name: stage.loop for stage in case.workload.frame_stages()}
    often = {b.name: max(case.traffic.times(loops[stage]) for stage in between[b.name]) for b in resident}
    most = {b.name: max(step.moved(b, case.traffic.valid_bytes) for step in steps[b.name]) for b in resident}
    moved = round(2 * sum(most[name] * often[name] for name in most))
    saved = row.transfer_seconds * min(moved / row.transfer_bytes, 1.0)
    stages = list(dict.fromkeys(stage for buffer in resident for stage in between[buffer.name]))
    shown = (
        row.figure("bytes copied down and up again in a frame", moved, "bytes"),
        row.copies(),
        *row.rate(),
        *(row.stages([name]) for name in stages if name in row.host_stages),
    )
    if row.part(saved) < limits["share"]:
        share = units.percent(row.part(saved))
        return passed(f"{names} are copied both ways in a frame, but that is only {share} of it.", *shown)
    return advice(
        f"{names} {'leave' if len(resident) > 1 else 'leaves'} the GPU for {', '.join(stages)} and "
        f"{'come' if len(resident) > 1 else 'comes'} back in the same frame: {units.size(moved)} both ways. "
        f"Written with CuPy, {'these stages' if len(stages) > 1 else 'this stage'} would work on the data "
        f"in place. At the copy rate of {row.strategy} this saves {units.seconds(saved)} per frame, not "
        "counting the time of the stage on the GPU.",
        *shown,
        saved=saved,
        inferred=True,
    )


def _between(buffer: BufferRecord, case: Case, steps: Sequence[Step]) -> list[str]:
    """Host stages between device stages, where these copies of the buffer go down and up for them."""
    if {step.action for step in steps} != {"to-device", "to-host"}:
        return []
    touched = [stage for stage in in_order(case.workload) if stage.name in buffer.access]
    kernels = [i for i, stage in enumerate(touched) if stage.side == "device"]
    return [s.name for s in touched[kernels[0] : kernels[-1]] if s.side == "host"] if kernels else []
