"""small-transfers: copies so small that calling for them costs more than moving the bytes."""

from advisor import units
from advisor.profiles.conclusions import Evidence
from advisor.rules.base import Case, Finding, Limits, Rule, Threshold, estimate, frame_share, passed
from advisor.rules.rows import moves
from advisor.strategies.registry import BASELINE


def judge(case: Case, limits: Limits) -> Finding:
    """Advises a strategy without small copies, or fewer of them, where calls are what they cost."""
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
    return _batched(cause, round(copies - sum(often.values())), each, shown)


def _batched(cause: str, spared: int, each: float, shown: tuple[Evidence, ...]) -> Finding:
    """Advice to copy at once what goes in one direction at one time, if that spares copies."""
    if not spared:
        return passed(f"{cause} Their number is minimal, and no other strategy is clearly faster.", *shown)
    return Finding(
        "advice",
        f"{cause} No other strategy is clearly faster, but buffers copied in the same direction can be "
        f"parts of one array and one copy: {spared} fewer, each about {units.seconds(each)} regardless of "
        "size.",
        title="Batch the small copies: one array per direction",
        evidence=shown,
        gain=estimate(spared * each),
        inferred=True,
    )


RULE = Rule(
    id="small-transfers",
    title="Let kernels access small buffers in place, or merge their copies",
    why="A copy takes 5 to 7 µs before its first byte moves. Up to 16 to 64 KB that is most of its "
    "cost: a kernel that reads a few bytes from page-locked memory over the link finishes before a "
    "copy starts, and one merged copy costs one call instead of several.",
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
            "mean size up to which a copy counts as small",
            "UnifiedMemoryPerf on RTX 2060 and GTX 1650 SUPER: zero-copy is fastest up to 16 to 64 KB; "
            "at 12 GB/s, 64 KB take as long as a 5 µs call",
        ),
        frame_share("share of a baseline frame from which copies are worth removing"),
    ),
    sources=(
        "https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/index.html"
        "#data-transfer-between-host-and-device",
        "CUDA sample UnifiedMemoryPerf on RTX 2060 and GTX 1650 SUPER",
        "arXiv 2602.21548: 5 to 7 µs for the smallest copies",
    ),
    judge=judge,
)
