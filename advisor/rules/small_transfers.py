"""small-transfers: copies so small that calling for them costs more than moving the bytes."""

from advisor import units
from advisor.rules.base import Case, Finding, Limits, Rule, Threshold, estimate, frame_share, passed
from advisor.rules.rows import moves
from advisor.strategies.registry import BASELINE


def judge(case: Case, limits: Limits) -> Finding:
    """Advises a strategy without small copies, or fewer of them, where calls are what they cost."""
    baseline = case.baseline
    steps = moves(BASELINE, case.workload, case.device)
    if not steps or not baseline.transfer_seconds:
        return passed("Nothing is copied between the sides in a frame.", baseline.copies())
    sizes = {buffer.name: buffer.bytes for buffer in case.workload.buffers}
    mean = sum(sizes[step.name] for step in steps) / len(steps)
    each = baseline.transfer_seconds / len(steps)
    shown = (
        baseline.figure("copies in a frame", len(steps), "count"),
        baseline.figure("bytes of a copy, on average", mean, "bytes"),
        baseline.figure(f"{BASELINE}: time of a copy, on average", each),
        baseline.figure(f"{BASELINE}: all copies", baseline.transfer_seconds),
    )
    share = baseline.part(baseline.transfer_seconds)
    if mean > limits["bytes"]:
        return passed(f"A copy moves {units.size(mean)} on average: its bytes are what it costs.", *shown)
    if share < limits["share"]:
        return passed(f"The copies are small, but only {units.percent(share)} of a frame.", *shown)
    cause = (
        f"{len(steps)} {'copy' if len(steps) == 1 else 'copies'} of {units.size(mean)} on average "
        f"{baseline.take} {units.seconds(baseline.transfer_seconds)} of a frame of "
        f"{units.seconds(baseline.seconds)}: at that size the call is what costs, not the bytes."
    )
    cheaper = (row for row in case.rows.values() if row.transfer_seconds < baseline.transfer_seconds)
    better = case.proposal(cheaper, baseline)
    if better is not None:
        return case.swap(baseline, better, cause, shown)
    spared = len(steps) - len({step.action for step in steps})
    if not spared:
        return passed(f"{cause} They are as few as can be, and no other strategy is surely faster.", *shown)
    return Finding(
        "advice",
        f"{cause} No other strategy is surely faster, but buffers that go the same way can be parts of one "
        f"array and go in one copy: {spared} fewer, each about {units.seconds(each)} since their size hardly "
        "matters.",
        title="Batch the small copies: one array for what goes the same way",
        evidence=shown,
        gain=estimate(spared * each),
        inferred=True,
    )


RULE = Rule(
    id="small-transfers",
    title="Let kernels use small buffers in place, or copy them together",
    why="A copy costs 5 to 7 µs before its first byte moves. Up to some 16 to 64 KB that is most of what it "
    "costs: kernels that reach the few bytes in page-locked memory over the link are done before a copy has "
    "begun, and several copies that are made one cost a call instead of several.",
    bad="""
    gain = cupy.asarray(host_gain)  # 1 KiB each: three calls
    offset = cupy.asarray(host_offset)
    scale = cupy.asarray(host_scale)""",
    good="""
    host = cupyx.empty_pinned((3, 256), np.float32)
    host_gain, host_offset, host_scale = host  # views of its rows
    device = cupy.empty((3, 256), np.float32)
    gain, offset, scale = device
    device.set(host, stream=stream)  # one call""",
    requires=(BASELINE,),
    thresholds=(
        Threshold(
            "bytes",
            64 << 10,
            "bytes",
            "mean size of a copy up to which it counts as small",
            "UnifiedMemoryPerf on RTX 2060 and GTX 1650 SUPER: zero-copy is the fastest up to 16 to 64 KB; "
            "at 12 GB/s 64 KB take as long as a call of 5 µs",
        ),
        frame_share("part of a baseline's frame that copies take, from which they are worth removing"),
    ),
    sources=(
        "https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/index.html"
        "#data-transfer-between-host-and-device",
        "CUDA sample UnifiedMemoryPerf on RTX 2060 and GTX 1650 SUPER",
        "arXiv 2602.21548: 5 to 7 µs for the smallest copies",
    ),
    judge=judge,
)
