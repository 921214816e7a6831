"""small-transfers: copies so small that calling for them costs more than moving the bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from advisor import units
from advisor.profiles.schema import Device, Evidence, WorkloadRecord
from advisor.rules.base import Finding, Row, Rule, Threshold, evidence, no_figures, passed, proposal
from advisor.rules.findings import (
    ALL_CLASSES,
    UNKNOWN_CLASS,
    change_to,
    compared,
    copies,
    estimate,
    share_of_a_frame,
    text,
)
from advisor.rules.placed import moves
from advisor.strategies.registry import BASELINE
from advisor.strategies.schedule import Step


@dataclass(frozen=True)
class _Copies:
    """The copies of a frame of the baseline."""

    count: int
    directions: int
    bytes: int
    seconds: float

    @property
    def mean_bytes(self) -> float:
        return self.bytes / self.count

    @property
    def each(self) -> float:
        """Seconds of one."""
        return self.seconds / self.count


def judge(
    device: Device,
    workload: WorkloadRecord,
    rows: Mapping[str, Row],
    absent: Mapping[str, str],
    recommended: str | None,
    limits: Mapping[str, float],
) -> Finding:
    """Advises a strategy without small copies, or fewer of them, where calls are what they cost."""
    baseline = rows.get(BASELINE)
    if baseline is None:
        return no_figures(BASELINE, absent)
    steps = moves(BASELINE, workload, device)
    if not steps or not baseline.transfer_seconds:
        return passed("Nothing is copied between the sides in a frame.", copies(baseline))
    made = _copies(steps, workload, baseline)
    if made.mean_bytes > limits["bytes"]:
        return passed(
            f"A copy moves {units.size(made.mean_bytes)} on average: its bytes are what it costs.",
            *_evidence(made, baseline),
        )
    share = baseline.part(made.seconds)
    if share < limits["share"]:
        return passed(
            f"The copies are small, but only {units.percent(share)} of a frame.", *_evidence(made, baseline)
        )
    cheaper = (r for r in rows.values() if r.transfer_seconds < baseline.transfer_seconds)
    better = proposal(cheaper, baseline, recommended)
    if better is not None:
        return change_to(
            better,
            baseline,
            text(_cause(made, baseline), compared(better, baseline)),
            _evidence(made, baseline),
            device=device,
            workload=workload,
        )
    return _batched(made, baseline)


def _copies(steps: Sequence[Step], workload: WorkloadRecord, baseline: Row) -> _Copies:
    sizes = {buffer.name: buffer.bytes for buffer in workload.buffers}
    return _Copies(
        len(steps),
        len({step.action for step in steps}),
        sum(sizes[step.name] for step in steps),
        baseline.transfer_seconds,
    )


def _batched(made: _Copies, baseline: Row) -> Finding:
    """Without a better strategy, one copy in each direction is the least there can be."""
    spared = made.count - made.directions
    if not spared:
        return passed(
            f"{_cause(made, baseline)} They are as few as can be, and no other strategy is surely faster.",
            *_evidence(made, baseline),
        )
    saved = spared * made.each
    return Finding(
        "advice",
        f"{_cause(made, baseline)} No other strategy is surely faster, but buffers that go the same way can "
        f"be parts of one array and go in one copy: {spared} fewer, each about {units.seconds(made.each)} "
        "since their size hardly matters.",
        title="Batch the small copies: one array for what goes the same way",
        evidence=_evidence(made, baseline),
        gain=estimate(saved),
        inferred=True,
    )


def _cause(made: _Copies, baseline: Row) -> str:
    verb = "are predicted to take" if baseline.predicted else "take"
    return (
        f"{made.count} {'copy' if made.count == 1 else 'copies'} of {units.size(made.mean_bytes)} on average "
        f"{verb} {units.seconds(made.seconds)} of a frame of {units.seconds(baseline.seconds)}: at that size "
        "the call is what costs, not the bytes."
    )


def _evidence(made: _Copies, baseline: Row) -> tuple[Evidence, ...]:
    return (
        evidence("copies in a frame", made.count, "count", baseline),
        evidence("bytes of a copy, on average", made.mean_bytes, "bytes", baseline),
        evidence(f"{baseline.strategy}: time of a copy, on average", made.each, "seconds", baseline),
        evidence(f"{baseline.strategy}: all copies", made.seconds, "seconds", baseline),
    )


RULE = Rule(
    id="small-transfers",
    title="Let kernels use small buffers in place, or copy them together",
    why="A copy costs 5 to 7 µs before its first byte moves. Up to some 16 to 64 KB that is most of what it "
    "costs: kernels that reach the few bytes in page-locked memory over the link are done before a copy has "
    "begun, and several copies that are made one cost a call instead of several.",
    memory_classes=ALL_CLASSES,
    elsewhere=UNKNOWN_CLASS,
    needs=("device", "workload", "rows", "absent", "recommended"),
    thresholds=(
        Threshold(
            "bytes",
            64 << 10,
            "bytes",
            "mean size of a copy up to which it counts as small",
            "UnifiedMemoryPerf on RTX 2060 and GTX 1650 SUPER: zero-copy is the fastest up to 16 to 64 KB; "
            "at 12 GB/s 64 KB take as long as a call of 5 µs",
        ),
        share_of_a_frame("part of a baseline's frame that copies take, from which they are worth removing"),
    ),
    sources=(
        "https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/index.html"
        "#data-transfer-between-host-and-device",
        "CUDA sample UnifiedMemoryPerf on RTX 2060 and GTX 1650 SUPER",
        "arXiv 2602.21548: 5 to 7 µs for the smallest copies",
    ),
    judge=judge,
)
