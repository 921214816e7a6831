"""unbalanced-split: one GPU has more to do than the others, which wait for it."""

from advisor import units
from advisor.rules.base import Case, Finding, Limits, Rule, Threshold, estimate, not_applicable, passed
from advisor.rules.gpus import busy_seconds, crossing_bytes


def judge(case: Case, limits: Limits) -> Finding:
    """Advises to even out the shares of GPUs that work side by side."""
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
    return Finding(
        "advice", detail, evidence=(*shown, row.frame()), gain=estimate(most - mean), inferred=True
    )


RULE = Rule(
    id="unbalanced-split",
    title="Balance the work between GPUs",
    why="A frame ends when the slowest of its GPUs is done. If one of two GPUs has a quarter more work than "
    "the mean, the frame takes a quarter longer than necessary.",
    bad="""
    shares = {0: rows * 3 // 4, 1: rows // 4}  # of two equal GPUs
    print(shares)""",
    good="""
    shares = {0: rows // 2, 1: rows - rows // 2}
    print(shares)""",
    several_gpus=True,
    thresholds=(
        Threshold(
            "ratio",
            1.1,
            "ratio",
            "the busiest GPU's time over the mean, from which the shares are worth changing",
            "a choice: the gain is at most this ratio, and the times of stages vary by up to 10 %",
            low=1.0,
        ),
    ),
    sources=(
        "https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/index.html#amdahl-s-law",
        "The CUDA Handbook, chapter 9: multiple GPUs",
    ),
    judge=judge,
)
