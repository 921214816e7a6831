"""staged-transfer: cupy.asarray copies on the CPU into a page-locked pool before the link copies."""

from __future__ import annotations

from collections.abc import Mapping

from advisor import units
from advisor.profiles.schema import Device, Evidence, WorkloadRecord
from advisor.rules.base import (
    Finding,
    Row,
    Rule,
    evidence,
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
    against_strategy,
    change_to,
    compared,
    copies,
    fastest,
    rate,
    share_of_a_frame,
    text,
)
from advisor.strategies.registry import BASELINE

_SUBJECT = "staged"


def judge(
    device: Device,
    workload: WorkloadRecord,
    rows: Mapping[str, Row],
    absent: Mapping[str, str],
    recommended: str | None,
    limits: Mapping[str, float],
) -> Finding:
    """Warns against cupy.asarray in the frame where its copies matter and something else is faster."""
    staged = rows.get(_SUBJECT)
    if staged is None:
        return no_figures(_SUBJECT, absent)
    if not staged.transfer_seconds:
        return passed("Nothing is copied between the sides in a frame.", copies(staged))
    share = staged.part(staged.transfer_seconds)
    if share < limits["share"]:
        return passed(
            f"The copies of cupy.asarray and cupy.asnumpy are only {units.percent(share)} of a frame.",
            copies(staged),
        )
    cheaper = (r for r in rows.values() if r.transfer_seconds < staged.transfer_seconds)
    better = proposal((row for row in cheaper if row.strategy != BASELINE), staged, recommended)
    if better is None:
        return _unbeaten(rows, staged)
    return change_to(
        better,
        staged,
        _detail(device, staged, better, share),
        (copies(staged), *rate(staged), *_pool(staged), copies(better), *rate(better)),
        device=device,
        workload=workload,
        title=_TITLE_SHARED if shares_dram(device) and not better.transfer_seconds else None,
    )


_TITLE_SHARED = "Drop cupy.asarray from the frame: CPU and GPU share one memory"


def _pool(staged: Row) -> list[Evidence]:
    """What the pool holds; it rounds up, so that this may be twice the buffers."""
    if not staged.pinned_bytes:
        return []
    return [evidence(f"{_SUBJECT}: page-locked pool", staged.pinned_bytes, "bytes", staged)]


def _unbeaten(rows: Mapping[str, Row], staged: Row) -> Finding:
    nearest = fastest(row for row in rows.values() if row.strategy not in (_SUBJECT, BASELINE))
    if nearest is None:
        return passed(f"No other strategy has figures to set against {_SUBJECT}.", copies(staged))
    return passed(
        "No strategy that spends less on copies is surely faster: "
        f"{takes(staged, staged.seconds)} a frame, {takes(nearest, nearest.seconds)}.",
        copies(staged),
        frame_evidence(staged),
        frame_evidence(nearest),
    )


def _detail(device: Device, staged: Row, better: Row, share: float) -> str:
    moved = "makes no copies" if not better.transfer_seconds else "copies once"
    if better.latency_seconds is not None:
        moved = "copies beside other work"
    pool = (
        f" The pool keeps {units.size(staged.pinned_bytes)} of page-locked memory beside the buffers."
        if staged.pinned_bytes
        else ""
    )
    return text(
        "cupy.asarray of a NumPy array first copies it on the CPU into CuPy's page-locked pool, then over "
        f"to the device{_within(device)}: with the downloads that is {units.seconds(staged.transfer_seconds)}"
        f"{' as predicted' if staged.predicted else ''}, {units.percent(share)} of a frame of {_SUBJECT}."
        f"{pool} {better.strategy} {moved}.",
        compared(better, staged),
        against_strategy(staged),
    )


def _within(device: Device) -> str:
    return ", in the same DRAM" if shares_dram(device) else ""


RULE = Rule(
    id="staged-transfer",
    title="Keep cupy.asarray out of the frame: page-lock the arrays once, set and get them",
    why="cupy.asarray and cupy.array of a NumPy array allocate and stage: a CPU copy into CuPy's page-locked "
    "pool, then an asynchronous copy from there. The upload itself is quick, but each byte passes through "
    "the CPU first, and the pool rounds up to powers of two and keeps what it took. The array that one "
    "allocates page-locked needs neither.",
    memory_classes=ALL_CLASSES,
    elsewhere=UNKNOWN_CLASS,
    needs=("device", "workload", "rows", "absent", "recommended"),
    thresholds=(
        share_of_a_frame("part of a frame of staged that copies take, from which they are worth removing"),
    ),
    sources=(
        "cupy/cupy issues 6360 and 8090: cupy.asarray goes through the page-locked pool",
        "cupy/cupy issues 3625 and 8111: the pool rounds up to a power of two and keeps what it took",
    ),
    judge=judge,
)
