"""write-combined-without-gain: write-combined memory whose copies are no faster for it, or slower."""

from __future__ import annotations

from collections.abc import Mapping

from advisor.profiles.schema import Device, WorkloadRecord
from advisor.rules.base import (
    Finding,
    Row,
    Rule,
    frame_evidence,
    no_figures,
    not_applicable,
    passed,
    proposal,
)
from advisor.rules.findings import (
    ALL_CLASSES,
    UNKNOWN_CLASS,
    against_strategy,
    change_to,
    compared,
    copies,
    kernels,
    text,
)
from advisor.rules.placed import write_combined
from advisor.rules.write_combined_read import TWINS
from advisor.strategies.registry import BASELINE
from advisor.units import times


def judge(
    device: Device,
    workload: WorkloadRecord,
    rows: Mapping[str, Row],
    absent: Mapping[str, str],
    recommended: str | None,
    limits: Mapping[str, float],
) -> Finding:
    """Warns against write-combined memory where plain page-locked memory is surely faster."""
    del limits
    if not any(name in rows for name in TWINS):
        return no_figures("write-combined", absent)
    pairs = [(rows[wc], rows[plain]) for wc, plain in TWINS.items() if wc in rows and plain in rows]
    if not pairs:
        return no_figures("pinned", absent)
    if not any(write_combined(row.strategy, workload) for row, _ in pairs):
        return not_applicable(
            "The host reads every buffer it shares: none is placed in write-combined memory."
        )
    slower = [(row, plain) for row, plain in pairs if plain.beats(row)]
    if not slower:
        row, plain = next((p for p in pairs if p[0].strategy == recommended), pairs[0])
        return passed(_verdict(row, plain), frame_evidence(row), frame_evidence(plain))
    row, plain = max(slower, key=lambda pair: pair[0].over(pair[1]).value)
    chosen = [r for r in rows.values() if r.strategy == recommended and r.strategy not in (BASELINE, *TWINS)]
    better = proposal((*chosen, plain), row, recommended) or plain
    part = copies if row.transfer_seconds else kernels
    return change_to(
        better,
        row,
        text(
            f"{row.strategy} takes {times(row.over(plain))} the time of {plain.strategy}, the same strategy "
            "with plain page-locked memory: write-combining costs here what it was to gain.",
            compared(better, row),
            against_strategy(row),
        ),
        (part(row), part(plain)),
        device=device,
        workload=workload,
    )


def _verdict(row: Row, plain: Row) -> str:
    ratio = row.over(plain)
    how = f"{row.strategy} takes {times(ratio)} the time of {plain.strategy}"
    if row.predicted:
        how = f"{row.strategy} is predicted to take {times(ratio)} the time of {plain.strategy}"
    if row.beats(plain):
        return f"{how}: write-combining pays."
    return f"{how}: write-combining is not surely slower, nor surely worth the care that it needs."


RULE = Rule(
    id="write-combined-without-gain",
    title="Take plain page-locked memory: write-combining brings nothing here",
    why="Write-combined memory promises up to 40 % faster transfers over PCIe, since the CPU's caches need "
    "not be asked for its lines. Where the I/O is coherent at no cost, or the link is not PCIe, nothing of "
    "that is left: on GH200 it halves the rate, and on an H200 over PCIe 5 it was measured to gain nothing "
    "(reports/h200). What stays is memory that the CPU must never read.",
    memory_classes=ALL_CLASSES,
    elsewhere=UNKNOWN_CLASS,
    needs=("device", "workload", "rows", "absent", "recommended"),
    thresholds=(),
    sources=(
        "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#write-combining-memory",
        "vortex-data/vortex pull request 7815: on GH200 47 GiB/s from it, 97 from plain page-locked memory",
    ),
    judge=judge,
)
