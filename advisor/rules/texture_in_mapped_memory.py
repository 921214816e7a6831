"""texture-in-mapped-memory: kernels that sample through a texture over memory in place."""

from __future__ import annotations

from advisor import units
from advisor.rules.base import COPYING, Case, Finding, Limits, Row, Rule, Threshold, not_applicable, passed

_SUBJECT = "zero-copy"


def judge(case: Case, limits: Limits) -> Finding:
    """Warns where textures over zero-copy memory take longer than a copy and textures over device memory."""
    names = [stage.name for stage in case.workload.frame_stages("device") if stage.textures]
    sampled = [read for read in case.reads if set(read.stages) & set(names)]
    if not sampled:
        return not_applicable("No stage samples, through a texture, a buffer that the CPU also uses.")
    zero_copy, copied = case.rows[_SUBJECT], case.copying()[0]
    buffers = ", ".join(dict.fromkeys(read.buffer for read in sampled))
    who = f"Stage {names[0]} samples" if len(names) == 1 else f"Stages {', '.join(names)} sample"
    what = f"{who} {buffers} through a texture."
    if zero_copy.predicted:
        return _unknown(case, zero_copy, what)
    shown = (zero_copy.kernels(), copied.kernels(), copied.copies())
    kernels = f"Kernels take {units.seconds(zero_copy.device_seconds)} on zero-copy memory and"
    against = f"{units.seconds(copied.device_seconds)} with {copied.strategy}"
    against += (
        f", whose copies take {units.seconds(copied.transfer_seconds)}" if copied.transfer_seconds else ""
    )
    cause = f"{what} {kernels} {against}."
    if case.slowdown(zero_copy, copied) < limits["slowdown"]:
        return passed(cause, *shown)
    better = case.proposal((row for row in case.rows.values() if not row.in_place), zero_copy)
    if better is None:
        return passed(f"{cause} But no strategy that copies is clearly faster.", *shown)
    why = "The texture cache is small, and its misses are fetched again from host memory."
    return case.swap(zero_copy, better, f"{cause} {why}", shown, inferred=True)


def _unknown(case: Case, zero_copy: Row, what: str) -> Finding:
    """The model has no figure of it: a prediction of memory in place is no ground to choose it."""
    said = f"{what} The prediction counts plain reads: no published figures cover textures there."
    if case.recommended is None or not (case.chosen and case.chosen.in_place):
        return passed(said, zero_copy.kernels())
    return Finding(
        "advice",
        f"{said} Measure {case.recommended} on the device before choosing it.",
        title="Measure textures over zero-copy memory before choosing it",
        evidence=(zero_copy.kernels(),),
    )


RULE = Rule(
    id="texture-in-mapped-memory",
    title="Sample textures from device memory",
    why="A texture reads from wherever its memory lies. The texture cache is small and serves neighbours "
    "within one kernel; over mapped memory each miss crosses the link, or goes to a Jetson's DRAM past the "
    "GPU's other caches. The cache is not kept coherent with writes either: while the kernel runs, the host "
    "must not write what it samples.",
    bad="""
    host, device = mapped_empty(shape, np.float32)
    produce(host)
    compute(device)  # through a texture: each cache miss reads host memory""",
    good="""
    host = cupyx.empty_pinned(shape, np.float32)
    device = cupy.empty(shape, np.float32)
    produce(host)
    device.set(host, stream=stream)
    compute(device)  # through a texture over device memory""",
    memory_classes=("tegra", "tegra-io-coherent", "tegra-coherent", "discrete", "discrete-hmm"),
    elsewhere="No published figures show a penalty over a coherent link: rely on measured frames.",
    requires=(_SUBJECT, COPYING),
    thresholds=(
        Threshold(
            "slowdown",
            1.25,
            "ratio",
            "time of the kernels on zero-copy memory relative to copying and sampling device memory",
            "as in zero-copy-reread",
            low=1.0,
        ),
    ),
    sources=(
        "N. Wilt, The CUDA Handbook, chapter 10, and its microbenchmark of texturing from host memory "
        "(tex1dfetch_htod.cu)",
        "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#texture-and-surface-memory",
    ),
    judge=judge,
)
