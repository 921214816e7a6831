"""unbalanced-split: one GPU has more to do than the others, which wait for it."""

from advisor import units
from advisor.rules.base import (
    Case,
    Finding,
    Limits,
    advice,
    busy_seconds,
    crossing_bytes,
    not_applicable,
    passed,
)


def judge(case: Case, limits: Limits) -> Finding:
    if crossing_bytes(case):
        return not_applicable("One GPU works on the output of another: this is a pipeline, not a split.")
    row = case.chosen or case.fastest()
    assert row is not None
    busy = busy_seconds(row, case)
    most, mean = max(busy.values()), sum(busy.values()) / len(busy)
    if not mean:
        return not_applicable("The GPUs' kernels and copies took no time that could be measured.")
    shown = [row.figure(f"{row.strategy}: GPU {gpu}", seconds) for gpu, seconds in busy.items()]
    over = most / mean
    if over < limits["ratio"]:
        return passed(f"The busiest GPU takes {units.ratio(over)} the mean time.", *shown)
    longest = max(busy, key=lambda gpu: busy[gpu])
    detail = (
        f"GPU {longest} is busy for {units.seconds(most)} of a frame of {row.strategy}, {units.ratio(over)} "
        f"the mean of {len(busy)} GPUs: kernels, and copies in proportion to their bytes. The frame ends "
        "when the slowest GPU is done. Give each GPU a share of the work in proportion to its speed."
    )
    return advice(detail, *shown, row.frame(), saved=most - mean, inferred=True)
