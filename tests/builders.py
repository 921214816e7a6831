"""Small, complete profiles for tests; each builder takes only what a test cares about."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from script_runs import script_run

from advisor.profiles.conclusions import Advice, Evidence, Gain, Recommendation
from advisor.profiles.figures import Block, FinalRecord, Method
from advisor.profiles.schema import (
    AccessMode,
    BufferRecord,
    Device,
    Failed,
    Footprint,
    Measured,
    MemoryClass,
    Predicted,
    Prediction,
    Profile,
    Side,
    Skipped,
    StageRecord,
    Tool,
    Trace,
    WorkloadRecord,
)
from advisor.profiles.sweeps import Point, ProfileSet
from advisor.profiles.system_state import CpuClocks, Environment, GpuState, HostState, NumaNode
from advisor.profiles.traces import StageWork, Traffic

MIB = 1 << 20


def altered(record: Any, path: str, **fields: Any) -> Any:
    """The record with other fields at that path: of "environment", of "workload.stages.add", of all
    "traffic.traffic.*"; in a list by the name, the stage or the strategy that a part is of."""
    if not path:
        return record.model_copy(update=fields)
    head, _, rest = path.partition(".")
    if not isinstance(record, tuple):
        return record.model_copy(update={head: altered(getattr(record, head), rest, **fields)})
    keys = ("name", "stage", "strategy")
    meant = [head == "*" or head in (getattr(each, key, None) for key in keys) for each in record]
    return tuple(altered(r, rest, **fields) if this else r for r, this in zip(record, meant, strict=True))


def cuda_device(memory_class: MemoryClass = "discrete", **attributes: Any) -> Device:
    integrated = memory_class.startswith("tegra")
    flags = {"integrated": int(integrated), "compute_capability": "8.7" if integrated else "8.9"}
    return Device(
        name=f"Test {memory_class}",
        kind="cuda",
        memory_class=memory_class,
        attributes={**flags, **attributes},
    )


def workload(
    stages: Mapping[str, Side | int],
    buffers: Mapping[str, Mapping[str, AccessMode]],
    *,
    size: int = 64 * MIB,
    dtype: str = "uint8",
    external: Collection[str] = (),
    setup: Collection[str] = (),
    **fields: Any,
) -> WorkloadRecord:
    """Stages with their side, or the number of their GPU, and what they do to each buffer.

    All buffers are of so many bytes. setup: the stages that are not of a frame.
    """
    shape, made = (size // (4 if dtype == "float32" else 1),), []
    for name, side in stages.items():
        where: dict[str, Any] = {"side": side} if isinstance(side, str) else {"side": "device", "gpu": side}
        made.append(StageRecord(name=name, phase="setup" if name in setup else "frame", **where))
    records = (
        BufferRecord(name=n, shape=shape, dtype=dtype, bytes=size, access=dict(modes), external=n in external)
        for n, modes in buffers.items()
    )
    parts = {"name": "test", "file": "test.py", "sha256": "0" * 64, "parameters": {}, **fields}
    return WorkloadRecord(**parts, buffers=tuple(records), stages=tuple(made))


def traced(
    ran: WorkloadRecord, passes: Mapping[str, float] | None = None, work: Iterable[StageWork] = ()
) -> Trace:
    """What tracing sees of the stages of a frame; those of `passes` are declared to read so many times."""
    traffic = []
    for stage, buffer in ((s, b) for s in ran.frame_stages() for b in ran.buffers if s.name in b.access):
        mode, declared = buffer.access[stage.name], (passes or {}).get(stage.name)
        traffic.append(
            Traffic(
                stage=stage.name,
                buffer=buffer.name,
                bytes_read=0.0 if mode == "out" else (declared or 1.0) * buffer.bytes,
                bytes_written=0.0 if mode == "in" else buffer.bytes,
                source="declared" if declared else "traced",
            )
        )
    return Trace(traffic=tuple(traffic), work=tuple(work))


def vector_add_workload(n: int = 1 << 24) -> WorkloadRecord:
    """a and b written by the host, c by the device, c read by the host."""
    read: dict[str, AccessMode] = {"produce": "out", "add": "in"}
    return workload(
        {"produce": "host", "add": "device", "consume": "host"},
        {"a": read, "b": read, "c": {"add": "out", "consume": "in"}},
        size=4 * n,
        dtype="float32",
        name="vector_add",
        file="workloads/vector_add.py",
        summary="Adds two float32 vectors.",
        parameters={"n": n},
    )


def vector_add_trace(n: int = 1 << 24, passes: float = 1.0) -> Trace:
    """What tracing sees of `vector_add_workload`, its kernel reading both inputs so many times."""
    work = (StageWork(stage=stage, flops=passes * n) for stage in ("produce", "add", "consume"))
    return traced(vector_add_workload(n), {"add": passes} if passes != 1 else {}, work)


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
    }
    return Measured(strategy=strategy, **{**row, **fields})


def apart(strategy: str, *medians: float, **fields: Any) -> Measured:
    """A row of processes that differ: each has 30 frames within a millionth of its median."""
    frames = [[median * (1 + i * 1e-7) for i in range(-15, 15)] for median in medians]
    middle = sorted(medians)[len(medians) // 2]
    return measured(
        strategy,
        middle,
        frame_seconds=tuple(seconds for one in frames for seconds in one),
        frames_per_round=(30,) * len(medians),
        **fields,
    )


def final_block(process: int, round_: int, contestant: str, seconds: float, **fields: Any) -> Block:
    """A block of a final: one frame of that length, unless it is told otherwise."""
    given = {"place": 0, "frames": 1, "frame_seconds": (), **fields}
    return Block(process=process, round=round_, contestant=contestant, seconds=seconds, **given)


def final_record(names: Iterable[str], **fields: Any) -> FinalRecord:
    given = {
        "processes": 3, "rounds": 15, "looks": 1, "settled": True, "frames": 1, "kept_setup": False, **fields
    }  # fmt: skip
    return FinalRecord(**{"contestants": {name: name for name in names}, **given})


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


def recommendation(strategy: str | None = "pinned", **fields: Any) -> Recommendation:
    """The fastest, twice as fast as pageable, unless told otherwise."""
    parts: dict[str, Any] = {
        "verdict": "fastest",
        "bound": 0.0,
        "speedup": 2.0,
        "interval": (1.98, 2.02),
        "baseline": "pageable",
        "reason": "Its interval lies wholly below that of every other strategy.",
        "next_step": "Allocate the buffers page-locked, as shown below.",
    }
    return Recommendation(strategy=strategy, **{**parts, **fields})


def sweep_of(*members: Profile | Point, command: str = "") -> ProfileSet:
    """Profiles at the n of their workload, and points as they are."""
    points = [m if isinstance(m, Point) else Point(m.workload.parameters["n"], m) for m in members]
    return ProfileSet("vector_add", ("n",), points, command)


def devices_of(*profiles: Profile) -> ProfileSet:
    points = [Point(each.device.name, each) for each in profiles]
    return ProfileSet(profiles[0].workload.name, ("device",), points, kind="devices")


def skipped(strategy: str = "managed", reason: str = "no managed memory on this device") -> Skipped:
    return Skipped(strategy=strategy, reason=reason)


def failed(strategy: str = "zero-copy", reason: str = "ended with a bus error", detail: str = "") -> Failed:
    return Failed(strategy=strategy, reason=reason, detail=detail)


def advice(rule: str = "pageable-transfer", device: str = "Test discrete", **fields: Any) -> Advice:
    """Fired advice with evidence, gain and code, unless told otherwise."""
    parts: dict[str, Any] = {
        "outcome": "advice",
        "title": "Page-lock the buffers that are copied",
        "detail": "Copies from `pageable` memory pass through a staging buffer of the driver.",
        "strategy": "pinned",
        "evidence": (
            Evidence(label="copied per frame", value=192 * MIB, unit="bytes"),
            Evidence(label="time spent copying", value=0.012, unit="seconds"),
        ),
        "gain": Gain(seconds_per_frame=0.02, basis="measured"),
        "snippet": "memory = cupy.cuda.alloc_pinned_memory(nbytes)\n"
        "a = numpy.frombuffer(memory, numpy.float32, n)",
        "sources": ("CUDA C++ Best Practices Guide, 10.1.1 Pinned Memory",),
    }
    return Advice(rule=rule, device=device, **{**parts, **fields})


def predicted(strategy: str, likely: float, *, spread: float = 0.3, **fields: Any) -> Predicted:
    """A row whose terms add up to `likely`, with a range of `likely * (1 ± spread)`."""
    shares = {"host:produce": 0.3, "to-device": 0.2, "device:add": 0.1, "to-host": 0.1}
    shares |= {"synchronize": 0.05, "host:consume": 0.25}
    row: dict[str, Any] = {
        "low_seconds": likely * (1 - spread),
        "likely_seconds": likely,
        "high_seconds": likely * (1 + spread),
        "terms": {name: share * likely for name, share in shares.items()},
        "physical_bytes": 384 * MIB,
    }
    return Predicted(strategy=strategy, **{**row, **fields})


def catalogue_device(name: str, memory_class: MemoryClass = "discrete") -> Device:
    return Device(name=name, kind="catalogue", memory_class=memory_class)


def prediction(name: str = "NVIDIA GeForce RTX 4090", **fields: Any) -> Prediction:
    """One device with two predicted strategies and one declined."""
    parts: dict[str, Any] = {
        "device": catalogue_device(name),
        "results": (
            predicted("pageable", 0.040),
            predicted("pinned", 0.020),
            skipped("managed", "no published figure for page faults on this device"),
        ),
        "recommendation": recommendation(
            verdict="near",
            bound=0.05,
            interval=(1.1, 3.2),
            reason="The ranges overlap; the likely times differ by half.",
            next_step=f"Run the same command on the {name}.",
        ),
        "assumptions": ("The link carries 25 GB/s from page-locked memory.",),
    }
    return Prediction(**{**parts, **fields})


def script_profile(*arguments: str, **fields: Any) -> Profile:
    """The run of a script that uploads and downloads once in each frame."""
    named = {"file": "camera.py", "name": "camera", "buffers": (), "stages": ()}
    record = vector_add_workload().model_copy(update=named)
    run = script_run(arguments=arguments)
    return profile(**{"results": (), "recommendation": None, "workload": record, "script": run, **fields})


def cpu_profile(**fields: Any) -> Profile:
    """A run without a GPU: two CPU rows, and predictions for three devices."""
    jetson = catalogue_device("NVIDIA Jetson Orin Nano 8GB", "tegra-io-coherent")
    zero_copy = recommendation("zero-copy", interval=(1.3, 3.1), next_step="Run this on the Jetson.")
    parts: dict[str, Any] = {
        "device": Device(name="Test CPU", kind="cpu"),
        "results": (measured("pageable", 0.060), measured("zero-copy", 0.050)),
        "predictions": (
            prediction(
                device=jetson,
                results=(predicted("pageable", 0.090), predicted("zero-copy", 0.045)),
                recommendation=zero_copy,
            ),
            prediction("NVIDIA GeForce RTX 4090"),
            prediction("NVIDIA H200"),
        ),
        "advice": (
            advice(
                "zero-copy-reread",
                jetson.name,
                outcome="pass",
                title="Copy once",
                detail="One pass.",
                strategy=None,
            ),
            *(
                advice(device=name, gain=Gain(seconds_per_frame=0.02, basis="estimated"))
                for name in ("NVIDIA GeForce RTX 4090", "NVIDIA H200")
            ),
        ),
    }
    return profile(**{**parts, **fields})


def gpu_state(moment: Any, **fields: Any) -> GpuState:
    """An RTX 4090 at its clocks, in a slot that gives it all lanes; without a figure that NVML refuses."""
    parts: dict[str, Any] = {
        "clock_seconds": {"before": 0.0, "under-load": 50.0, "after": 100.0}[moment],
        "driver": "570.86",
        "performance_state": 8 if moment == "before" else 2,
        "sm_hertz": 210_000_000 if moment == "before" else 2_520_000_000,
        "power_limit_watts": 450.0,
        "temperature_celsius": 38.0,
        "throttle_reasons": (),
        "throttled_seconds": {"heat": 3.0},
        "link_generation": 1 if moment == "before" else 4,
        "link_generation_max": 4,
        "link_width": 16,
        "link_width_max": 16,
    }
    return GpuState(moment=moment, **{**parts, **fields})


def host_state(**fields: Any) -> HostState:
    """One NUMA node, in a container that limits nothing."""
    parts: dict[str, Any] = {
        "cpu": CpuClocks(governors=("powersave",), hertz=2_100_000_000, max_hertz=5_100_000_000),
        "numa_nodes": (NumaNode(node=0, cpus="0-15", memory_bytes=64 << 30),),
        "memory_available_bytes": 48 << 30,
        "memory_limit": "unlimited",
        "locked_memory_limit": 8 * MIB,
        "container": True,
        "absent": {"gpu_numa_node": "the kernel does not report the GPU's NUMA node"},
    }
    return HostState(**{**parts, **fields})


NAMES = (
    *("pageable", "staged", "pinned", "write-combined", "registered", "pinned-pipelined"),
    *("zero-copy", "zero-copy-wc", "zero-copy-registered"),
    *("managed", "managed-prefetch", "managed-advised", "system"),
)
"""Strategies of the accepted reports, which a new one leaves as they are."""


def all_strategies(**fields: Any) -> Profile:
    """Measured strategies on an RTX 4090 that throttled and was shared; some took external buffers."""
    seconds = {name: 0.012 + 0.002 * i for i, name in enumerate(NAMES)}
    seconds["pinned-pipelined"] = 0.005
    extra: dict[str, dict[str, Any]] = {
        # Its stages overlap: together they take longer than the frame.
        "pinned-pipelined": {
            "latency_seconds": 0.010,
            "stage_seconds": {"produce": 0.003, "add": 0.001, "consume": 0.002},
            "transfer_seconds": 0.0025,
        },
        "pinned": {"host_copy_seconds": 0.001},
        "managed-advised": {"hints": {"a": ("preferred-device", "accessed-by-host"), "b": ("read-mostly",)}},
    }
    rows = tuple(measured(name, median, spread=0, **extra.get(name, {})) for name, median in seconds.items())
    hot = {"throttle_reasons": ("heat",), "throttled_seconds": {"heat": 5.5}, "temperature_celsius": 84.0}
    shared = {"other_processes": 2, "other_processes_bytes": 900 * MIB}
    readings = gpu_state("before"), gpu_state("under-load", **hot), gpu_state("after", **hot, **shared)
    parts: dict[str, Any] = {
        "device": Device(name="NVIDIA GeForce RTX 4090", kind="cuda", memory_class="discrete-hmm"),
        "results": rows,
        "traffic": vector_add_trace(),
        "recommendation": recommendation(
            "pinned-pipelined", speedup=1.2, interval=(1.19, 1.21), next_step="Keep two sets of buffers."
        ),
        "environment": Environment(
            system="Linux 6.8",
            machine="x86_64",
            python="3.11.7",
            cpu_model="Test CPU",
            cpu_count=16,
            memory_bytes=64 << 30,
            host=host_state(),
            gpu_readings=readings,
            warnings=(
                "The GPU throttled (heat): its clocks were held down. Improve the cooling.",
                "2 other processes used the GPU (900 MiB of its memory). Stop them and profile again.",
                "The PCIe link ran at generation 3 ×16; this GPU and system can do generation 4 ×16.",
                "Other programs used 40 % of the CPU when the run began.",
            ),
        ),
    }
    return profile(**{**parts, **fields})
