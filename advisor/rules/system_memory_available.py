"""system-memory-available: kernels reach ordinary memory by themselves, so that malloc would do."""

from __future__ import annotations

from collections.abc import Mapping

from advisor import units
from advisor.profiles.schema import Device, Evidence, WorkloadRecord
from advisor.rules.base import Finding, Row, Rule, frame_evidence, no_figures, passed, takes
from advisor.rules.findings import change_to, compared, fastest, kernels, no_slower, text
from advisor.strategies.registry import BASELINE

_SUBJECT = "system"


def judge(
    device: Device,
    workload: WorkloadRecord,
    rows: Mapping[str, Row],
    absent: Mapping[str, str],
    recommended: str | None,
    limits: Mapping[str, float],
) -> Finding:
    """Advises ordinary memory in place where it is faster than copies and no slower than all else."""
    del limits
    system, baseline = rows.get(_SUBJECT), rows.get(BASELINE)
    if system is None:
        return no_figures(_SUBJECT, absent)
    if baseline is None:
        return no_figures(BASELINE, absent)
    others = [row for row in rows.values() if row.strategy not in (_SUBJECT, BASELINE)]
    rival = rows.get(recommended or "") if recommended not in (_SUBJECT, BASELINE) else None
    rival = rival or fastest(others)
    if not system.beats(baseline):
        return passed(
            f"Kernels reach ordinary memory, but copies are not slower: {takes(system, system.seconds)} a "
            f"frame, {takes(baseline, baseline.seconds)}.",
            *_evidence(system, baseline),
        )
    if rival is not None and not no_slower(system, rival):
        return passed(
            f"Kernels reach ordinary memory, but memory that is allocated for them is faster, or may be: "
            f"{takes(system, system.seconds)} a frame, {takes(rival, rival.seconds)}.",
            *_evidence(system, rival),
        )
    return change_to(
        system,
        baseline,
        _detail(device, system, baseline, rival),
        (kernels(system), *([frame_evidence(rival)] if rival else [])),
        device=device,
        workload=workload,
    )


def _evidence(system: Row, other: Row) -> tuple[Evidence, ...]:
    return kernels(system), frame_evidence(system), frame_evidence(other)


def _detail(device: Device, system: Row, baseline: Row, rival: Row | None) -> str:
    beside = (
        f"{rival.strategy}, with memory of its own, {'would take' if rival.predicted else 'takes'} "
        f"{units.seconds(rival.seconds)}."
        if rival
        else ""
    )
    return text(
        f"Kernels on {device.name} use the address of a NumPy array as it is. No copies, no page-locking, "
        "no other allocation.",
        compared(system, baseline),
        beside,
    )


RULE = Rule(
    id="system-memory-available",
    title="Use ordinary memory in place: kernels reach what malloc gives",
    why="Where pageableMemoryAccess is 1 a kernel may be given the address of any memory of the process. "
    "On Thor, GB10, GH200 and GB200 the hardware keeps it coherent; on GH200 plain malloc was measured "
    "within 2 % of page-locked memory, for the others no such figure was found. On a card with HMM pages "
    "come by faults, which is easy but rarely fast. Code that copies or page-locks out of habit can be the "
    "simpler for it.",
    memory_classes=("tegra-coherent", "discrete-hmm", "coherent"),
    elsewhere="Kernels cannot reach ordinary memory here: pageableMemoryAccess is 0.",
    needs=("device", "workload", "rows", "absent", "recommended"),
    thresholds=(),
    sources=(
        "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#unified-memory-programming",
        "https://dnhkng.github.io/posts/gh200-benchmarking: malloc, page-locked and registered memory within "
        "2 % on GH200",
    ),
    judge=judge,
)
