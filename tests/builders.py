"""Small, complete profiles for tests; each builder takes only what a test cares about."""

from __future__ import annotations

from typing import Any

from advisor.profiles import (
    BufferRecord,
    Device,
    Environment,
    Footprint,
    Measured,
    MemoryClass,
    Method,
    Profile,
    StageRecord,
    Tool,
    WorkloadRecord,
)

MIB = 1 << 20


def cuda_device(memory_class: MemoryClass = "discrete", **attributes: Any) -> Device:
    integrated = memory_class.startswith("tegra")
    flags = {"integrated": int(integrated), "compute_capability": "8.7" if integrated else "8.9"}
    return Device(
        name=f"Test {memory_class}",
        kind="cuda",
        memory_class=memory_class,
        attributes={**flags, **attributes},
    )


def vector_add_workload(n: int = 1 << 24) -> WorkloadRecord:
    """a and b written by the host, c by the device, c read by the host."""
    access: dict[str, dict[str, Any]] = {
        "a": {"produce": "out", "add": "in"},
        "b": {"produce": "out", "add": "in"},
        "c": {"add": "out", "consume": "in"},
    }
    return WorkloadRecord(
        name="vector_add",
        file="workloads/vector_add.py",
        sha256="0" * 64,
        summary="Adds two float32 vectors.",
        parameters={"n": n},
        buffers=tuple(
            BufferRecord(name=name, shape=(n,), dtype="float32", bytes=4 * n, access=modes)
            for name, modes in access.items()
        ),
        stages=(
            StageRecord(name="produce", side="host", phase="frame"),
            StageRecord(name="add", side="device", phase="frame"),
            StageRecord(name="consume", side="host", phase="frame"),
        ),
    )


def footprint(**reserved: int) -> Footprint:
    """Footprint of so many bytes by kind, requested and reserved alike."""
    kinds: dict[Any, int] = dict(reserved)
    return Footprint(requested=kinds, reserved=kinds, physical_bytes=sum(kinds.values()))


def measured(
    strategy: str,
    median: float,
    *,
    spread: float = 0.004,
    frames: int = 30,
    rounds: int = 3,
    stage_seconds: dict[str, float] | None = None,
    **fields: Any,
) -> Measured:
    """A row whose frames lie evenly within `median * (1 ± spread)`, the same in every round."""
    one = [median * (1 + spread * (2 * i / (frames - 1) - 1)) for i in range(frames)]
    row: dict[str, Any] = {
        "frame_seconds": tuple(one * rounds),
        "frames_per_round": (frames,) * rounds,
        "median_seconds": median,
        "interval_seconds": (median * (1 - spread / 4), median * (1 + spread / 4)),
        "stage_seconds": stage_seconds
        or {"produce": median * 0.3, "add": median * 0.2, "consume": median * 0.2},
        "transfer_seconds": median * 0.3,
        "transfer_bytes": {"to-device": 128 * MIB, "to-host": 64 * MIB},
        "device_path_seconds": median * 0.5,
        "setup_seconds": 0.5,
        "footprint": footprint(pageable=192 * MIB, device=192 * MIB),
        "verified": True,
        "stopped": ("precise",) * rounds,
    }
    return Measured(strategy=strategy, **{**row, **fields})


def profile(**fields: Any) -> Profile:
    """A whole profile on a discrete GPU; replace any part by keyword."""
    parts: dict[str, Any] = {
        "tool": Tool(version="0.1.0"),
        "created": "2026-01-02T03:04:05+00:00",
        "command": "advisor profile workloads/vector_add.py",
        "environment": Environment(
            system="Linux 6.1", machine="x86_64", python="3.11.7", cpu_model="Test CPU", cpu_count=2
        ),
        "method": Method(
            rounds=3, max_seconds=3.0, seed=0, confidence=0.95, order=(("pageable", "pinned"),) * 3
        ),
        "workload": vector_add_workload(),
        "device": cuda_device(),
        "results": (measured("pageable", 0.040), measured("pinned", 0.020)),
    }
    return Profile(**{**parts, **fields})
