"""From a profile to the cases that the rules judge: one for the measured GPU, or one per predicted device.

What a trace of nsys sees in addition is put beside what the rules said of these: see traced.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from advisor.profiles.row_figures import HostPages
from advisor.profiles.schema import (
    BufferRecord,
    Device,
    Failed,
    Measured,
    Predicted,
    Prediction,
    Profile,
    Trace,
    WorkloadRecord,
)
from advisor.rules import placed
from advisor.rules.base import Case, Reads, Row
from advisor.strategies.overlap import doubled
from advisor.strategies.schedule import stage_uses


def cases(profile: Profile) -> tuple[Case, ...]:
    """The measured CUDA device; without one, each device that was predicted."""
    if profile.device.kind == "cuda":
        return (_measured_case(profile),)
    return tuple(_predicted_case(profile, prediction) for prediction in profile.predictions)


def _measured_case(profile: Profile) -> Case:
    rows = (_measured_row(result, profile.workload) for result in profile.measured().values())
    return Case(
        device=profile.device,
        workload=profile.workload,
        rows=_placed(rows, profile, profile.device),
        absent={r.strategy: r.reason for r in profile.results if not isinstance(r, Measured)},
        failed={r.strategy: r.reason for r in profile.results if isinstance(r, Failed)},
        reads=tuple(_reads(profile.workload, profile.traffic or Trace())),
        traffic=profile.traffic or Trace(),
        verdict=profile.recommendation,
        machine=profile.environment,
        method=profile.method,
        blocks=profile.blocks,
    )


def _predicted_case(profile: Profile, prediction: Prediction) -> Case:
    """Readings and failures are those of the machine that ran, not of the device: they stay out."""
    predicted = [r for r in prediction.results if isinstance(r, Predicted)]
    return Case(
        device=prediction.device,
        workload=profile.workload,
        rows=_placed((_predicted_row(r) for r in predicted), profile, prediction.device),
        absent={r.strategy: r.reason for r in prediction.results if not isinstance(r, Predicted)},
        reads=tuple(_reads(profile.workload, profile.traffic or Trace())),
        traffic=profile.traffic or Trace(),
        verdict=prediction.recommendation,
    )


def _placed(rows: Iterable[Row], profile: Profile, device: Device) -> dict[str, Row]:
    """By strategy, with what each does to the buffers, and whether it fits the memory budget."""
    budget = profile.preferences.memory_budget_bytes
    return {
        row.strategy: replace(
            row,
            fits=budget is None or row.physical_bytes <= budget,
            placements=placed.placements(row.strategy, profile.workload),
            memory_class=device.memory_class,
            pinned_bytes=_pinned_bytes(row.strategy, profile.workload) if row.predicted else row.pinned_bytes,
        )
        for row in rows
    }


def _measured_row(result: Measured, workload: WorkloadRecord) -> Row:
    stages = [stage.name for stage in workload.frame_stages("device")]
    return Row(
        strategy=result.strategy,
        seconds=result.median_seconds,
        interval=result.interval_seconds,
        device_seconds=sum(result.stage_seconds.get(name, 0.0) for name in stages),
        transfer_seconds=result.transfer_seconds,
        transfer_bytes=sum(result.transfer_bytes.values()) if result.transfer_bytes else None,
        physical_bytes=result.footprint.physical_bytes,
        predicted=False,
        rounds=result.rounds,
        host_stages={
            stage.name: result.stage_seconds.get(stage.name, 0.0) for stage in workload.frame_stages("host")
        },
        host_copy_seconds=result.host_copy_seconds,
        pinned_bytes=result.footprint.reserved.get("pinned", 0),
        synchronize_seconds=result.synchronize_seconds,
        latency_seconds=result.latency_seconds,
        verified=result.verified,
        page_locking=result.page_locking,
        huge_share=_huge_share(result.host_pages),
    )


def _huge_share(pages: HostPages | None) -> float | None:
    return pages.huge_bytes / pages.bytes if pages and pages.huge_bytes is not None else None


def _predicted_row(result: Predicted) -> Row:
    kernels = [seconds for term, seconds in result.terms.items() if term.startswith("device:")]
    return Row(
        strategy=result.strategy,
        seconds=result.likely_seconds,
        interval=(result.low_seconds, result.high_seconds),
        device_seconds=sum(kernels),
        transfer_seconds=sum(result.terms.get(term, 0.0) for term in ("to-device", "to-host")),
        transfer_bytes=None,
        physical_bytes=result.physical_bytes,
        predicted=True,
        host_stages={
            term.removeprefix("host:"): seconds
            for term, seconds in result.terms.items()
            if term.startswith("host:")
        },
        host_copy_seconds=result.terms.get("host-copy"),
        synchronize_seconds=result.terms.get("synchronize", 0.0),
        latency_seconds=result.latency_seconds,
        drawn_over=result.over,
    )


def _pinned_bytes(strategy: str, workload: WorkloadRecord) -> int:
    """What the strategy page-locks by its placements; 0 for one that this version does not know."""
    known = placed.strategy(strategy)
    sets = doubled(stage_uses(workload, "frame")) if known and known.pipelined else []
    sizes = {buffer.name: buffer.bytes * (2 if buffer.name in sets else 1) for buffer in workload.buffers}
    return sum(sizes[name] for name, how in placed.placements(strategy, workload).items() if how.locks)


def _reads(workload: WorkloadRecord, trace: Trace) -> Iterator[Reads]:
    for buffer in workload.buffers:
        sides = {stage.side for stage in workload.stages if stage.name in buffer.access}
        readers = [name for name, mode in workload.touching(buffer, "device").items() if mode != "out"]
        if sides == {"host", "device"} and readers and buffer.bytes:
            yield _buffer_reads(buffer, readers, workload, trace)


def _buffer_reads(buffer: BufferRecord, readers: list[str], workload: WorkloadRecord, trace: Trace) -> Reads:
    known = _known_passes(buffer, workload, trace)
    writers = [stage for stage in workload.frame_stages() if buffer.access.get(stage.name, "in") != "in"]
    return Reads(
        buffer=buffer.name,
        bytes=buffer.bytes,
        passes=sum(known.get(name, 1.0) for name in readers),
        stages=tuple(readers),
        known=all(name in known for name in readers),
        new_each_frame=bool(writers),
    )


def _known_passes(buffer: BufferRecord, workload: WorkloadRecord, trace: Trace) -> dict[str, float]:
    """Passes by stage: what the user declared, or else what the trace saw."""
    traced = {
        row.stage: row.bytes_read / buffer.bytes
        for row in trace.traffic
        if row.buffer == buffer.name and row.source != "assumed"
    }
    declared = {
        stage.name: stage.passes[buffer.name]
        for stage in workload.frame_stages("device")
        if buffer.name in stage.passes
    }
    return {**traced, **declared}
