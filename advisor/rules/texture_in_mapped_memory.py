"""texture-in-mapped-memory: kernels that sample through a texture over memory in place."""

from __future__ import annotations

from advisor import units
from advisor.rules.base import Case, Finding, Limits, advice, not_applicable, passed

_SUBJECT = "zero-copy"


def judge(case: Case, limits: Limits) -> Finding:
    names = [stage.name for stage in case.workload.frame_stages("device") if stage.textures]
    sampled = [read for read in case.reads if set(read.stages) & set(names)]
    if not sampled:
        return not_applicable("No stage samples, through a texture, a buffer that the CPU also uses.")
    zero_copy, copied = case.rows[_SUBJECT], case.copying()[0]
    buffers = ", ".join(dict.fromkeys(read.buffer for read in sampled))
    who = f"Stage {names[0]} samples" if len(names) == 1 else f"Stages {', '.join(names)} sample"
    what = f"{who} {buffers} through a texture."
    if zero_copy.predicted:
        # The model has no figure of it: a prediction of memory in place is no ground to choose it.
        reason = f"{what} The prediction counts plain reads: no published figures cover textures there."
        if case.recommended is None or not (case.chosen and case.chosen.in_place):
            return passed(reason, zero_copy.kernels())
        title = "Measure textures over zero-copy memory before choosing it"
        measure = f"{reason} Measure {case.recommended} on the device before choosing it."
        return advice(measure, zero_copy.kernels(), title=title)
    shown = (zero_copy.kernels(), copied.kernels(), copied.copies())
    kernels = f"Kernels take {units.seconds(zero_copy.device_seconds)} on zero-copy memory and"
    against = f"{units.seconds(copied.device_seconds)} with {copied.strategy}"
    if copied.transfer_seconds:
        against += f", whose copies take {units.seconds(copied.transfer_seconds)}"
    cause = f"{what} {kernels} {against}."
    if case.slowdown(zero_copy, copied) < limits["slowdown"]:
        return passed(cause, *shown)
    better = case.proposal((row for row in case.rows.values() if not row.in_place), zero_copy)
    if better is None:
        return passed(f"{cause} But no strategy that copies is clearly faster.", *shown)
    why = "The texture cache is small, and its misses are fetched again from host memory."
    return case.swap(zero_copy, better, f"{cause} {why}", shown, inferred=True)
