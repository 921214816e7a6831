"""small-transfers: copies so small that calling for them costs more than moving the bytes."""

from advisor import units
from advisor.rules.base import Case, Finding, Limits, advice, passed
from advisor.rules.lines import LineCase
from advisor.rules.rows import moves
from advisor.rules.snippets.lines import merged
from advisor.strategies.registry import BASELINE


def judge(case: Case, limits: Limits) -> Finding:
    baseline = case.baseline
    steps = moves(BASELINE, case.workload, case.device)
    if not steps or not baseline.transfer_seconds:
        return passed("Nothing is copied between the sides in a frame.", baseline.copies())
    buffers = {buffer.name: buffer for buffer in case.workload.buffers}
    valid = case.traffic.valid_bytes
    iterations = [case.traffic.times(loop) for loop in case.workload.loops]
    often = {(step.action, step.loop, step.again): step.times(iterations) for step in steps}
    copies = sum(step.times(iterations) for step in steps)
    mean = sum(step.moved(buffers[step.name], valid) * step.times(iterations) for step in steps) / copies
    each = baseline.transfer_seconds / copies
    shown = (
        baseline.figure("copies in a frame", round(copies), "count"),
        baseline.figure("bytes of a copy, on average", mean, "bytes"),
        baseline.figure(f"{BASELINE}: time of a copy, on average", each),
        baseline.figure(f"{BASELINE}: all copies", baseline.transfer_seconds),
    )
    share = baseline.part(baseline.transfer_seconds)
    if mean > limits["bytes"]:
        return passed(f"A copy moves {units.size(mean)} on average, so bandwidth dominates its cost.", *shown)
    if share < limits["share"]:
        return passed(f"The copies are small, but only {units.percent(share)} of a frame.", *shown)
    cause = (
        f"{round(copies)} {'copy' if round(copies) == 1 else 'copies'} of {units.size(mean)} on average "
        f"{baseline.take} {units.seconds(baseline.transfer_seconds)} of a frame of "
        f"{units.seconds(baseline.seconds)}: at that size the cost is the call, not the bytes."
    )
    cheaper = (row for row in case.rows.values() if row.transfer_seconds < baseline.transfer_seconds)
    better = case.proposal(cheaper, baseline)
    if better is not None:
        return case.swap(baseline, better, cause, shown)
    # What goes in one direction at one time can be copied at once.
    spared = round(copies - sum(often.values()))
    if not spared:
        return passed(f"{cause} Their number is minimal, and no other strategy is clearly faster.", *shown)
    return advice(
        f"{cause} No other strategy is clearly faster, but buffers copied in the same direction can be "
        f"parts of one array and one copy: {spared} fewer, each about {units.seconds(each)} regardless of "
        "size.",
        *shown,
        saved=spared * each,
        title="Batch the small copies: one array per direction",
        inferred=True,
    )


def judge_line(case: LineCase, limits: Limits) -> Finding | None:
    """One copy for all of a line's in a frame: the bytes stay, the calls go but for one."""
    if not case.is_copy or case.times < limits["copies"] or case.size > limits["bytes"]:
        return None
    saved = (case.times - 1) * min(case.seconds, case.call_seconds)
    if not case.is_worth(saved, limits):
        return None
    return case.advice(
        f"Copy the {round(case.times)} small arrays of a frame as one",
        f"{case.moved}: at that size the cost is the call, not the bytes. "
        f"One copy of all spares {round(case.times) - 1} calls of {units.seconds(case.call_seconds)}.",
        saved=saved,
        after=merged(case.line),
    )
