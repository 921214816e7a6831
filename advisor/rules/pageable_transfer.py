"""pageable-transfer: copies from and to ordinary memory, which the driver stages while the host waits."""

from __future__ import annotations

from collections.abc import Mapping

from advisor import units
from advisor.profiles.schema import Device, Evidence, WorkloadRecord
from advisor.rules.base import (
    Finding,
    Row,
    Rule,
    frame_evidence,
    no_figures,
    passed,
    proposal,
    shares_dram,
    takes,
)
from advisor.rules.findings import (
    ALL_CLASSES,
    UNKNOWN_CLASS,
    change_to,
    compared,
    copies,
    rate,
    share_of_a_frame,
    text,
)
from advisor.strategies.registry import BASELINE


def judge(
    device: Device,
    workload: WorkloadRecord,
    rows: Mapping[str, Row],
    absent: Mapping[str, str],
    recommended: str | None,
    limits: Mapping[str, float],
) -> Finding:
    """Advises whichever strategy spends less on transfers than the baseline and is faster for it."""
    baseline = rows.get(BASELINE)
    if baseline is None:
        return no_figures(BASELINE, absent)
    share = baseline.part(baseline.transfer_seconds)
    if share < limits["share"]:
        return _small(baseline, share)
    cheaper = [row for row in rows.values() if row.transfer_seconds < baseline.transfer_seconds]
    better = proposal(cheaper, baseline, recommended)
    if better is None:
        return _unbeaten(rows, baseline)
    return change_to(
        better,
        baseline,
        _detail(device, rows, baseline, better, share),
        _evidence(rows, baseline, better),
        device=device,
        workload=workload,
        title=_TITLE_SHARED if shares_dram(device) and not better.transfer_seconds else None,
    )


_TITLE_SHARED = "Drop the copies: CPU and GPU share one memory"


def _small(baseline: Row, share: float) -> Finding:
    if not baseline.transfer_seconds:
        return passed("Nothing is copied between the sides in a frame.", copies(baseline))
    return passed(f"Copies are only {units.percent(share)} of a frame of {BASELINE}.", copies(baseline))


def _unbeaten(rows: Mapping[str, Row], baseline: Row) -> Finding:
    others = [row for row in rows.values() if row is not baseline]
    nearest = min(others, key=lambda row: row.seconds, default=None)
    if nearest is None:
        return passed(f"No other strategy has figures to set against {BASELINE}.", copies(baseline))
    return passed(
        f"No strategy that spends less on copies is surely faster: "
        f"{takes(baseline, baseline.seconds)} a frame, {takes(nearest, nearest.seconds)}.",
        copies(baseline),
        frame_evidence(baseline),
        frame_evidence(nearest),
    )


def _detail(device: Device, rows: Mapping[str, Row], baseline: Row, better: Row, share: float) -> str:
    return text(
        f"Copies from and to ordinary memory are {units.percent(share)} of a frame of {BASELINE}, "
        f"{units.seconds(baseline.transfer_seconds)}{' as predicted' if baseline.predicted else ''}.",
        _cause(device, better),
        _pinned(rows),
        compared(better, baseline),
    )


def _cause(device: Device, better: Row) -> str:
    if shares_dram(device):
        moved = f"On {device.name} they move data within the one DRAM that both sides use"
        if better.transfer_seconds:
            return f"{moved}; {better.strategy} still copies, only faster."
        return f"{moved}; {better.strategy} needs none."
    passes = "may stage them in" if device.memory_class == "coherent" else "passes them through"
    staged = f"The driver {passes} a page-locked buffer of its own, and the host waits"
    if better.latency_seconds is not None:
        return f"{staged}; {better.strategy} copies from page-locked memory beside other work."
    if better.transfer_seconds:
        return f"{staged}; from page-locked memory the copy engine reads directly."
    return f"{staged}; {better.strategy} makes none."


def _pinned(rows: Mapping[str, Row]) -> str:
    """What pinned memory makes of the same copies, also where another strategy is proposed."""
    pinned = rows.get("pinned")
    if pinned is None or not pinned.transfer_seconds:
        return ""
    verb = "are predicted to take" if pinned.predicted else "take"
    return f"The same copies from page-locked memory {verb} {units.seconds(pinned.transfer_seconds)}."


def _evidence(rows: Mapping[str, Row], baseline: Row, better: Row) -> tuple[Evidence, ...]:
    shown = {row.strategy: row for row in (baseline, rows.get("pinned", better), better)}
    return tuple(item for row in shown.values() for item in (copies(row), *rate(row)))


RULE = Rule(
    id="pageable-transfer",
    title="Move the copies off pageable memory",
    why="A copy engine can only read memory that stays in place. From ordinary memory the driver first "
    "copies into a page-locked buffer of its own, piece by piece, and the host waits: for an upload until "
    "all is staged, while the last piece may still be on its way, for a download until all has arrived. "
    "That is half the link's rate or less, and no overlap of the CPU's work. On a Jetson the copy is not "
    "needed at all, since CPU and GPU share one memory.",
    memory_classes=ALL_CLASSES,
    elsewhere=UNKNOWN_CLASS,
    needs=("device", "workload", "rows", "absent", "recommended"),
    thresholds=(
        share_of_a_frame("part of a baseline's frame that copies take, from which they are worth removing"),
    ),
    sources=(
        "https://docs.nvidia.com/cuda/cuda-runtime-api/api-sync-behavior.html",
        "https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/index.html#pinned-memory",
        "https://docs.nvidia.com/cuda/cuda-for-tegra-appnote/index.html#memory-selection",
        "rapidsai/dask-cuda pull request 98: 5 to 6 GB/s from pageable, 11 to 12 GB/s from pinned memory",
    ),
    judge=judge,
)
