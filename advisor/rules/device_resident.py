"""device-resident: a buffer that leaves the GPU only to come back in the same frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from advisor import units
from advisor.profiles.schema import BufferRecord, Device, Evidence, WorkloadRecord
from advisor.rules.base import Finding, Row, Rule, evidence, not_applicable, passed, shares_dram
from advisor.rules.findings import copies, estimate, fastest, rate, share_of_a_frame
from advisor.rules.placed import moves, shared
from advisor.strategies.registry import BASELINE

_ONE_DRAM = "CPU and GPU share one DRAM: a buffer need not leave it for either."


@dataclass(frozen=True)
class _RoundTrip:
    """A buffer that is copied both ways in a frame, and the host stages between."""

    buffer: BufferRecord
    stages: tuple[str, ...]


def judge(
    device: Device,
    workload: WorkloadRecord,
    rows: Mapping[str, Row],
    recommended: str | None,
    limits: Mapping[str, float],
) -> Finding:
    """Advises to run on the GPU what the CPU does to a buffer between two kernels."""
    if shares_dram(device):
        return not_applicable(_ONE_DRAM)
    found = [trip for b in shared(workload) if (trip := _round_trip(b, workload, device)) is not None]
    if not found:
        return passed("No buffer goes to the host and comes back in a frame.")
    chosen = rows.get(recommended or "")
    if chosen is not None and not chosen.transfer_seconds:
        return passed(
            f"{_names(found)} would be copied both ways in a frame, but {chosen.strategy}, which is "
            "recommended, copies nothing.",
            copies(chosen),
        )
    row = _copying(rows, chosen)
    if row is None or not row.transfer_bytes:
        return not_applicable("No strategy that copies has its bytes and their time.")
    moved = 2 * sum(trip.buffer.bytes for trip in found)
    saved = row.transfer_seconds * min(moved / row.transfer_bytes, 1.0)
    shown = (_moved(moved, row), copies(row), *rate(row), *_stages(found, row))
    if row.part(saved) < limits["share"]:
        return passed(
            f"{_names(found)} are copied both ways in a frame, but that takes only "
            f"{units.percent(row.part(saved))} of it.",
            *shown,
        )
    return Finding(
        "advice",
        _detail(found, row, moved, saved),
        evidence=shown,
        gain=estimate(saved),
        inferred=True,
    )


def _copying(rows: Mapping[str, Row], chosen: Row | None) -> Row | None:
    """The row whose copies are told: the recommended strategy's, the baseline's, or the fastest one's."""
    known = [row for row in rows.values() if row.transfer_seconds and row.transfer_bytes]
    preferred = [row for row in (chosen, rows.get(BASELINE)) if row in known]
    return preferred[0] if preferred else fastest(known)


def _round_trip(buffer: BufferRecord, workload: WorkloadRecord, device: Device) -> _RoundTrip | None:
    """By the plan of the baseline: down and up again, for what host stages do between device stages."""
    actions = {step.action for step in moves(BASELINE, workload, device) if step.name == buffer.name}
    touched = [stage for stage in workload.frame_stages() if stage.name in buffer.access]
    kernels = [i for i, stage in enumerate(touched) if stage.side == "device"]
    if actions != {"to-device", "to-host"} or len(kernels) < 2:
        return None
    between = [s.name for s in touched[kernels[0] : kernels[-1]] if s.side == "host"]
    return _RoundTrip(buffer, tuple(between)) if between else None


def _names(found: list[_RoundTrip]) -> str:
    return ", ".join(trip.buffer.name for trip in found)


def _detail(found: list[_RoundTrip], row: Row, moved: int, saved: float) -> str:
    stages = list(dict.fromkeys(stage for trip in found for stage in trip.stages))
    return (
        f"{_names(found)} {'leave' if len(found) > 1 else 'leaves'} the GPU for {', '.join(stages)} and "
        f"{'come' if len(found) > 1 else 'comes'} back in the same frame: {units.size(moved)} both ways. "
        f"Written with CuPy, {'these stages' if len(stages) > 1 else 'this stage'} would work on the data "
        f"where it lies. At the rate that the copies of {row.strategy} reach, {units.seconds(saved)} a frame "
        "would be spared; what the stage takes on the GPU in place of the CPU is not in that."
    )


def _moved(moved: int, row: Row) -> Evidence:
    return evidence("bytes that go down and up again in a frame", moved, "bytes", row)


def _stages(found: list[_RoundTrip], row: Row) -> list[Evidence]:
    names = dict.fromkeys(stage for trip in found for stage in trip.stages)
    return [
        evidence(f"{row.strategy}: {name}", row.host_stages[name], "seconds", row)
        for name in names
        if name in row.host_stages
    ]


RULE = Rule(
    id="device-resident",
    title="Keep the buffer on the GPU: run the stage between two kernels there too",
    why="Intermediate results should stay in device memory: made there, used there, never mapped nor copied "
    "to the host. Even a stage that the GPU runs no faster than the CPU pays where it spares a round trip "
    "over the link.",
    memory_classes=("discrete", "discrete-hmm", "coherent"),
    elsewhere=_ONE_DRAM,
    needs=("device", "workload", "rows", "recommended"),
    thresholds=(
        share_of_a_frame("part of a frame that the round trips take, from which they are worth sparing"),
    ),
    sources=(
        "https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/index.html"
        "#data-transfer-between-host-and-device",
    ),
    judge=judge,
)
