"""coherence-reversed: what was right on Orin, managed memory, is what Thor's GPU does not cache."""

from __future__ import annotations

from collections.abc import Mapping

from advisor import units
from advisor.profiles.schema import Device, WorkloadRecord
from advisor.rules.base import Finding, Row, Rule, frame_evidence, no_figures, passed, proposal, takes
from advisor.rules.findings import against_strategy, change_to, compared, fastest, kernels, present, text

_CACHED = ("zero-copy-registered", "system")
_UNCACHED = ("managed", "managed-prefetch", "managed-advised", "zero-copy", "zero-copy-wc")


def judge(
    device: Device,
    workload: WorkloadRecord,
    rows: Mapping[str, Row],
    absent: Mapping[str, str],
    recommended: str | None,
    limits: Mapping[str, float],
) -> Finding:
    """Advises memory that Thor's GPU caches where it is faster than what Orin's advice would choose."""
    del limits
    cached, uncached = present(rows, _CACHED), present(rows, _UNCACHED)
    if not cached:
        return no_figures(_CACHED[0], absent)
    subject = rows.get("managed") or fastest(uncached)
    if subject is None:
        return no_figures("managed", absent)
    chosen = rows.get(recommended or "")
    if chosen in uncached or (chosen is not None and all(chosen.beats(row) for row in cached)):
        return passed(
            f"{chosen.strategy}, which is recommended, is the better one here all the same: "
            f"{takes(chosen, chosen.seconds)} a frame, {takes(cached[0], cached[0].seconds)}.",
            frame_evidence(chosen),
            frame_evidence(cached[0]),
        )
    better = proposal(cached, subject, recommended)
    if better is None:
        return passed(
            f"That the GPU does not cache {subject.strategy} memory costs nothing that shows: "
            f"{takes(subject, subject.seconds)} a frame, {takes(cached[0], cached[0].seconds)}.",
            kernels(subject),
            kernels(cached[0]),
        )
    return change_to(
        better,
        subject,
        _detail(device, subject, better),
        (kernels(subject), kernels(better)),
        device=device,
        workload=workload,
    )


def _detail(device: Device, subject: Row, better: Row) -> str:
    kind = "registered" if better.strategy == "zero-copy-registered" else "ordinary"
    verb = "are predicted to take" if better.predicted else "take"
    return text(
        f"On Xavier and Orin the GPU caches managed memory and not page-locked memory. On {device.name} it "
        f"caches registered and ordinary memory in its L2, and neither managed nor allocated page-locked "
        f"memory. Kernels {verb} {units.seconds(subject.device_seconds)} with {subject.strategy} and "
        f"{units.seconds(better.device_seconds)} with {kind} memory.",
        compared(better, subject),
        against_strategy(subject),
    )


RULE = Rule(
    id="coherence-reversed",
    title="Turn Orin's advice round on Thor: register ordinary memory, leave managed",
    why="Up to Orin the rule of thumb is managed memory, since the GPU does not cache page-locked memory. "
    "On Thor the coherence is the other way round: the GPU's L2 caches registered and ordinary memory, "
    "while memory from cudaHostAlloc and cudaMallocManaged stays uncached. Code that is moved from Orin to "
    "Thor as it is keeps the strategy that has become the wrong one.",
    memory_classes=("tegra-coherent",),
    elsewhere="Only Thor's GPU caches registered and ordinary memory but not managed memory.",
    needs=("device", "workload", "rows", "absent", "recommended"),
    thresholds=(),
    sources=(
        "https://docs.nvidia.com/cuda/cuda-for-tegra-appnote/index.html#memory-management",
        "thomas-hiddenpeak/thor-bench docs/PLAN.md: on AGX Thor, writes at 183 GB/s to registered memory and "
        "132 to managed",
    ),
    judge=judge,
)
