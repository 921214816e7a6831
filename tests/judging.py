"""Profiles for rules, by the seconds that a frame spends where; and what a rule says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from builders import MIB, cuda_device, footprint, measured, predicted, prediction, profile

from advisor import stats
from advisor.profiles.conclusions import Advice
from advisor.profiles.schema import (
    AccessMode,
    BufferRecord,
    Device,
    Measured,
    MemoryClass,
    Predicted,
    Profile,
    Side,
    StageRecord,
    Trace,
    WorkloadRecord,
)
from advisor.profiles.traces import Traffic
from advisor.rules.advise import advise


def row(
    strategy: str,
    median: float,
    *,
    kernels: float,
    copies: float = 0.0,
    produce: float = 0.001,
    consume: float = 0.001,
    **fields: Any,
) -> Measured:
    """A measured row with so much of its time in kernels, copies and host stages, the rest in waits; half the
    memory without copies."""
    waits = max(median - kernels - copies - produce - consume - (fields.get("host_copy_seconds") or 0.0), 0.0)
    whole = footprint(pageable=192 * MIB, device=192 * MIB)
    return measured(
        strategy,
        median,
        stage_seconds={"produce": produce, "add": kernels, "consume": consume},
        transfer_seconds=copies,
        **{
            "transfer_bytes": {"to-device": 128 * MIB, "to-host": 64 * MIB} if copies else {},
            "footprint": whole if copies else footprint(pinned=192 * MIB),
            "synchronize_seconds": waits,
            **fields,
        },
    )


def restless(steady: Measured, by: float) -> Measured:
    """The same row with processes that differ: one faster and one slower by that part."""
    factors = (1 - by, 1.0, 1 + by)
    frames = [
        seconds * factor for factor, round_ in zip(factors, steady.rounds, strict=True) for seconds in round_
    ]
    low, high = stats.median_interval(
        [[seconds * factor for seconds in steady.rounds[0]] for factor in factors], confidence=0.95
    )
    return steady.model_copy(update={"frame_seconds": tuple(frames), "interval_seconds": (low, high)})


def bet(
    strategy: str,
    likely: float,
    *,
    kernels: float,
    copies: float = 0.0,
    memory: int = 384,
    consume: float = 0.001,
) -> Predicted:
    """A predicted row with so much of its time in kernels, copies and host stages, the rest in waits;
    `memory` in MiB."""
    terms = {"host:produce": 0.001, "host:consume": consume, "device:add": kernels}
    terms |= {"to-device": copies * 0.6, "to-host": copies * 0.4}
    terms["synchronize"] = max(likely - sum(terms.values()), 0.0)
    return predicted(strategy, likely, terms=terms, physical_bytes=memory * MIB)


def read(passes: float, source: Any = "traced") -> Trace:
    """What tracing saw: a read so many times by the kernel, b once."""
    return Trace(
        traffic=tuple(
            Traffic(stage="add", buffer=name, bytes_read=times * 64 * MIB, bytes_written=0, source=source)
            for name, times in (("a", passes), ("b", 1.0))
        )
    )


def workload(
    sides: Mapping[str, Side],
    buffers: Mapping[str, Mapping[str, AccessMode]],
    *,
    size: int = 64 * MIB,
    external: Sequence[str] = (),
) -> WorkloadRecord:
    """Stages of a frame with their sides, and what they do to each buffer; all buffers of one size."""
    return WorkloadRecord(
        name="test",
        file="test.py",
        sha256="0" * 64,
        parameters={},
        buffers=tuple(
            BufferRecord(
                name=name,
                shape=(size,),
                dtype="uint8",
                bytes=size,
                access=dict(access),
                external=name in external,
            )
            for name, access in buffers.items()
        ),
        stages=tuple(StageRecord(name=name, side=side, phase="frame") for name, side in sides.items()),
    )


def says(rule: str, run: Profile) -> Advice:
    """What one rule concludes; never an error."""
    (found,) = [advice for advice in advise(run).advice if advice.rule == rule]
    assert found.outcome != "error", found.detail
    return found


def verdict_of(rule: str, *results: Any, on: MemoryClass | Device = "discrete", **fields: Any) -> Advice:
    """What one rule concludes of these results on a device, or on one of that memory class."""
    device = on if isinstance(on, Device) else cuda_device(on)
    return says(rule, profile(device=device, results=results, **fields))


def figures(found: Advice) -> dict[str, float]:
    """The evidence by label."""
    return {item.label: item.value for item in found.evidence}


def predicted_run(device: Device, *rows: Any, traffic: Trace | None = None, **fields: Any) -> Profile:
    """A run without a GPU, with these rows predicted for one device."""
    return profile(
        device=Device(name="Test CPU", kind="cpu"),
        results=(measured("pageable", 0.06),),
        traffic=traffic,
        predictions=(prediction(device=device, results=rows, recommendation=None),),
        **fields,
    )
