"""small-transfers: copies so small that calling for them costs more than moving the bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from advisor import units
from advisor.profiles.schema import Evidence
from advisor.rules.base import Case, Limits, Row, Rule, Threshold, share_of_a_frame
from advisor.rules.findings import Finding, estimate, passed
from advisor.rules.placed import moves
from advisor.strategies.registry import BASELINE
from advisor.strategies.schedule import Step


@dataclass(frozen=True)
class _Copies:
    """The copies of a frame of the baseline."""

    count: int
    directions: int
    mean_bytes: float
    each: float
    """Seconds of one."""


def judge(case: Case, limits: Limits) -> Finding:
    """Advises a strategy without small copies, or fewer of them, where calls are what they cost."""
    baseline = case.baseline
    steps = moves(BASELINE, case.workload, case.device)
    if not steps or not baseline.transfer_seconds:
        return passed("Nothing is copied between the sides in a frame.", baseline.copies())
    made = _copies(steps, case)
    shown = _evidence(made, baseline)
    if made.mean_bytes > limits["bytes"]:
        return passed(
            f"A copy moves {units.size(made.mean_bytes)} on average: its bytes are what it costs.", *shown
        )
    share = baseline.part(baseline.transfer_seconds)
    if share < limits["share"]:
        return passed(f"The copies are small, but only {units.percent(share)} of a frame.", *shown)
    cheaper = (row for row in case.rows.values() if row.transfer_seconds < baseline.transfer_seconds)
    better = case.proposal(cheaper, baseline)
    if better is not None:
        return case.swap(baseline, better, _cause(made, baseline), shown)
    return _batched(made, baseline, shown)


def _copies(steps: Sequence[Step], case: Case) -> _Copies:
    sizes = {buffer.name: buffer.bytes for buffer in case.workload.buffers}
    return _Copies(
        len(steps),
        len({step.action for step in steps}),
        sum(sizes[step.name] for step in steps) / len(steps),
        case.baseline.transfer_seconds / len(steps),
    )


def _batched(made: _Copies, baseline: Row, shown: tuple[Evidence, ...]) -> Finding:
    """Without a better strategy, one copy in each direction is the least there can be."""
    spared = made.count - made.directions
    if not spared:
        return passed(
            f"{_cause(made, baseline)} They are as few as can be, and no other strategy is surely faster.",
            *shown,
        )
    return Finding(
        "advice",
        f"{_cause(made, baseline)} No other strategy is surely faster, but buffers that go the same way can "
        f"be parts of one array and go in one copy: {spared} fewer, each about {units.seconds(made.each)} "
        "since their size hardly matters.",
        title="Batch the small copies: one array for what goes the same way",
        evidence=shown,
        gain=estimate(spared * made.each),
        inferred=True,
    )


def _cause(made: _Copies, baseline: Row) -> str:
    return (
        f"{made.count} {'copy' if made.count == 1 else 'copies'} of {units.size(made.mean_bytes)} on average "
        f"{baseline.take} {units.seconds(baseline.transfer_seconds)} of a frame of "
        f"{units.seconds(baseline.seconds)}: at that size the call is what costs, not the bytes."
    )


def _evidence(made: _Copies, baseline: Row) -> tuple[Evidence, ...]:
    return (
        baseline.figure("copies in a frame", made.count, "count"),
        baseline.figure("bytes of a copy, on average", made.mean_bytes, "bytes"),
        baseline.figure(f"{BASELINE}: time of a copy, on average", made.each),
        baseline.figure(f"{BASELINE}: all copies", baseline.transfer_seconds),
    )


RULE = Rule(
    id="small-transfers",
    title="Let kernels use small buffers in place, or copy them together",
    why="A copy costs 5 to 7 µs before its first byte moves. Up to some 16 to 64 KB that is most of what it "
    "costs: kernels that reach the few bytes in page-locked memory over the link are done before a copy has "
    "begun, and several copies that are made one cost a call instead of several.",
    example="Example card, made-up figures: 3 copies of 8.00 KiB on average take 30.0 µs of a frame of 60.0 "
    "µs: at that size the call is what costs, not the bytes. zero-copy takes 30.0 µs a frame and pageable "
    "60.0 µs: 2.00× (2.00× to 2.00×) as fast.",
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
