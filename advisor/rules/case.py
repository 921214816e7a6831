"""From a profile to the cases that the rules judge: one for the measured GPU, or one per predicted device.

What a trace of nsys sees in addition is put beside what the rules said of these: see traced.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from advisor.profiles.conclusions import Recommendation
from advisor.profiles.row_figures import HostPages
from advisor.profiles.schema import (
    Device,
    Failed,
    Measured,
    Predicted,
    PredictedResult,
    Profile,
    Result,
    Skipped,
    Trace,
    WorkloadRecord,
)
from advisor.profiles.traces import Again
from advisor.rules.base import Case, Reads, Row
from advisor.rules.rows import placements, shared
from advisor.strategies.mixes import strategies_of
from advisor.strategies.registry import Strategy
from advisor.strategies.schedule import doubled, stage_uses


def cases(profile: Profile) -> tuple[Case, ...]:
    """The measured CUDA device; without one, each device that was predicted.

    Readings and failures are those of the machine that ran: they stay out of the cases of predicted devices.
    """
    if profile.device.kind != "cuda":
        return tuple(_case(profile, p.device, p.results, p.recommendation) for p in profile.predictions)
    measured = _case(profile, profile.device, profile.results, profile.recommendation)
    failed = {r.strategy: r.reason for r in profile.results if isinstance(r, Failed)}
    return (
        replace(
            measured, failed=failed, machine=profile.environment, method=profile.method, blocks=profile.blocks
        ),
    )


def _case(
    profile: Profile,
    device: Device,
    results: Sequence[Result | PredictedResult],
    verdict: Recommendation | None,
) -> Case:
    rows = [_measured_row(r, profile.workload) for r in results if isinstance(r, Measured)]
    rows += [_predicted_row(r) for r in results if isinstance(r, Predicted)]
    traffic = profile.traffic or Trace()
    return Case(
        device=device,
        workload=profile.workload,
        rows=_placed(rows, profile, device),
        absent={r.strategy: r.reason for r in results if isinstance(r, (Skipped, Failed))},
        reads=tuple(_reads(profile.workload, traffic)),
        traffic=traffic,
        verdict=verdict,
        mixes=strategies_of(profile),
    )


def _placed(rows: Iterable[Row], profile: Profile, device: Device) -> dict[str, Row]:
    """By strategy, with what each does to the buffers, and whether it fits the memory budget."""
    budget, mixes = profile.preferences.memory_budget_bytes, strategies_of(profile)
    return {
        row.strategy: replace(
            row,
            fits=budget is None or row.physical_bytes <= budget,
            placements=placements(row.strategy, profile.workload, mixes),
            memory_class=device.memory_class,
            pinned_bytes=_pinned_bytes(mixes.get(row.strategy), profile.workload)
            if row.predicted
            else row.pinned_bytes,
        )
        for row in rows
    }


def _measured_row(result: Measured, workload: WorkloadRecord) -> Row:
    kernels = [(s.gpu, result.stage_seconds.get(s.name, 0.0)) for s in workload.frame_stages("device")]
    return Row(
        strategy=result.strategy,
        seconds=result.median_seconds,
        interval=result.interval_seconds,
        device_seconds=sum(seconds for _, seconds in kernels),
        gpu_seconds={n: sum(s for gpu, s in kernels if gpu == n) for n in range(workload.gpus)},
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


def _pinned_bytes(known: Strategy | None, workload: WorkloadRecord) -> int:
    """What the strategy page-locks by its placements; 0 for one that this version does not know."""
    sets = doubled(stage_uses(workload, "frame")) if known and known.pipelined else []
    sizes = {buffer.name: buffer.bytes * (2 if buffer.name in sets else 1) for buffer in workload.buffers}
    placed = known.placements(workload) if known else {}
    return sum(sizes[buffer.name] for buffer in shared(workload) if known and placed[buffer.name].locks)


def _reads(workload: WorkloadRecord, trace: Trace) -> Iterator[Reads]:
    """For each buffer of both sides that kernels read: passes as declared, or else as traced. A stage that
    runs in some frames counts with its share, one in a loop with all iterations."""
    often = {s.name: trace.times(s.loop) / s.every for s in workload.frame_stages("device")}
    for buffer in shared(workload):
        readers = [name for name, mode in workload.touching(buffer, "device").items() if mode != "out"]
        if not readers or not buffer.bytes:
            continue
        seen = [t for t in trace.traffic if t.buffer == buffer.name and t.source != "assumed"]
        again = {t.stage: sum(item.bytes for item in t.again) for t in seen}
        known = {t.stage: (t.bytes_read + again[t.stage]) / buffer.bytes for t in seen} | {
            stage.name: stage.passes[buffer.name]
            for stage in workload.frame_stages("device")
            if buffer.name in stage.passes
        }
        yield Reads(
            buffer=buffer.name,
            bytes=buffer.bytes,
            passes=sum(known.get(name, 1.0) * often[name] for name in readers),
            stages=tuple(readers),
            known=all(name in known for name in readers),
            new_each_frame=any(buffer.access.get(s.name, "in") != "in" for s in workload.frame_stages()),
            calls=tuple(
                dict.fromkeys(_told(a) for t in seen if t.stage in readers for a in t.again if a.bytes)
            ),
        )


def _told(again: Again) -> str:
    """A library call by its name and place."""
    return f"{again.call} at {again.where}" if again.where else again.call
