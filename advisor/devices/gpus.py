"""The state of a GPU through NVML: clocks, power, heat, PCIe link, and who else is on it."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any

import psutil
from pydantic import ValidationError

from advisor.devices.host import in_container
from advisor.devices.nvml import Questions, Unreachable, address_of, all_handles, handle_of, opened
from advisor.profiles.system_state import GpuState, Moment

# nvml.h, nvmlClocksEventReasons. Idle (1), application clocks (2) and display clocks (256) are not faults.
_IDLE = 0x1
_POWER_CAP = 0x4
REASONS = {
    _POWER_CAP: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal slowdown by the driver",
    0x40: "thermal slowdown by the hardware",
    0x80: "power brake",
}
# nvml.h, nvmlPerfPolicyType_t; violation times are in nanoseconds.
POLICIES = {"power": 0, "heat": 1, "board limit": 3, "reliability": 5}
# nvml.h, nvmlClockType_t and nvmlTemperatureSensors_t.
_SM, _MEMORY, _GPU_SENSOR = 1, 2, 0


def gpu_state(
    pci_bus_id: str | None,
    index: int,
    *,
    moment: Moment = "after",
    process: int | None = None,
    nvml: Any = None,
    contained: bool | None = None,
) -> GpuState:
    """The GPU at that PCI address now; the index counts only where no address is known and it is certain.

    `process` is one of ours that has a context on the GPU: its memory is told and it is no stranger. Never
    raises; where NVML or the GPU cannot be reached, `absent["nvml"]` says why.
    """
    try:
        with opened(nvml) as module:
            return _state(module, handle_of(module, pci_bus_id, index), moment, process, contained)
    except Unreachable as problem:
        return GpuState(moment=moment, clock_seconds=time.monotonic(), absent={"nvml": str(problem)})


def gpu_states(
    *, moment: Moment = "before", nvml: Any = None, contained: bool | None = None
) -> tuple[GpuState, ...]:
    """Every GPU that NVML lists; nothing where NVML cannot be reached."""
    try:
        with opened(nvml) as module:
            return tuple(_state(module, handle, moment, None, contained) for handle in all_handles(module))
    except Unreachable:
        return ()


def _state(module: Any, handle: Any, moment: Moment, process: int | None, contained: bool | None) -> GpuState:
    asking = Questions(module)
    figures: dict[str, Any] = {
        "driver": _text(asking.ask("driver", ("nvmlSystemGetDriverVersion", ()))),
        "performance_state": _performance_state(asking, handle),
        "temperature_celsius": _temperature(asking, handle),
        "throttle_reasons": _throttle_reasons(asking, handle),
        "throttled_seconds": _throttled_seconds(asking, handle),
        "utilization": _utilization(asking, handle),
        **_clocks(asking, handle),
        **_power(asking, handle),
        **_link(asking, handle),
        **_memory(asking, handle),
        **_processes(asking, handle, process, in_container() if contained is None else contained),
    }
    sure = {"moment": moment, "clock_seconds": time.monotonic(), "pci_address": address_of(module, handle)}
    try:
        return GpuState.model_validate({**sure, **figures, "absent": asking.absent})
    except ValidationError as problem:
        wrong = {str(error["loc"][0]): f"NVML gave {error['input']}" for error in problem.errors()}
        kept = {figure: value for figure, value in figures.items() if figure not in wrong}
        return GpuState.model_validate({**sure, **kept, "absent": {**asking.absent, **wrong}})


def _text(answer: str | bytes | None) -> str | None:
    """Old versions of nvidia-ml-py give bytes."""
    return answer.decode("ascii", "replace") if isinstance(answer, bytes) else answer


def _performance_state(asking: Questions, handle: Any) -> int | None:
    state = asking.ask("performance_state", ("nvmlDeviceGetPerformanceState", (handle,)))
    if state is not None and not 0 <= state <= 15:
        asking.absent["performance_state"] = "NVML does not know it"
        return None
    return None if state is None else int(state)


def _temperature(asking: Questions, handle: Any) -> float | None:
    degrees = asking.ask(
        "temperature_celsius",
        ("nvmlDeviceGetTemperatureV", (handle, _GPU_SENSOR)),
        ("nvmlDeviceGetTemperature", (handle, _GPU_SENSOR)),
    )
    return None if degrees is None else float(degrees)


def _throttle_reasons(asking: Questions, handle: Any) -> tuple[str, ...] | None:
    bits = asking.ask(
        "throttle_reasons",
        ("nvmlDeviceGetCurrentClocksEventReasons", (handle,)),
        ("nvmlDeviceGetCurrentClocksThrottleReasons", (handle,)),
    )
    if bits is None:
        return None
    if bits & _IDLE:
        bits &= ~_POWER_CAP  # some GPUs show the cap whenever they idle; nothing is slowed by it then
    return tuple(word for bit, word in REASONS.items() if bits & bit)


def _throttled_seconds(asking: Questions, handle: Any) -> dict[str, float]:
    told = {}
    for cause, policy in POLICIES.items():
        answer = asking.ask("throttled_seconds", ("nvmlDeviceGetViolationStatus", (handle, policy)))
        if answer is not None:
            told[cause] = answer.violationTime / 1e9
    if told:
        asking.absent.pop("throttled_seconds", None)
    return told


def _utilization(asking: Questions, handle: Any) -> float | None:
    rates = asking.ask("utilization", ("nvmlDeviceGetUtilizationRates", (handle,)))
    return None if rates is None else min(rates.gpu / 100, 1.0)


def _clocks(asking: Questions, handle: Any) -> dict[str, int | None]:
    """NVML tells MHz."""
    wanted = {
        "sm_hertz": ("nvmlDeviceGetClockInfo", (handle, _SM)),
        "sm_max_hertz": ("nvmlDeviceGetMaxClockInfo", (handle, _SM)),
        "memory_hertz": ("nvmlDeviceGetClockInfo", (handle, _MEMORY)),
        "memory_max_hertz": ("nvmlDeviceGetMaxClockInfo", (handle, _MEMORY)),
    }
    told = {figure: asking.positive(figure, call) for figure, call in wanted.items()}
    return {figure: None if value is None else value * 1_000_000 for figure, value in told.items()}


def _power(asking: Questions, handle: Any) -> dict[str, float | None]:
    """NVML tells milliwatts. The enforced limit is the least of all that are set."""
    wanted = {
        "power_watts": ("nvmlDeviceGetPowerUsage", (handle,)),
        "power_limit_watts": ("nvmlDeviceGetEnforcedPowerLimit", (handle,)),
    }
    told = {figure: asking.positive(figure, call) for figure, call in wanted.items()}
    return {figure: None if value is None else value / 1000 for figure, value in told.items()}


def _link(asking: Questions, handle: Any) -> dict[str, int | None]:
    """The maxima are of this GPU in this slot, not of the GPU alone (NVML's documentation)."""
    wanted = {
        "link_generation": "nvmlDeviceGetCurrPcieLinkGeneration",
        "link_generation_max": "nvmlDeviceGetMaxPcieLinkGeneration",
        "link_width": "nvmlDeviceGetCurrPcieLinkWidth",
        "link_width_max": "nvmlDeviceGetMaxPcieLinkWidth",
    }
    return {figure: asking.positive(figure, (call, (handle,))) for figure, call in wanted.items()}


def _memory(asking: Questions, handle: Any) -> dict[str, int | None]:
    """Unsupported where the GPU has no memory of its own (Orin, GB10)."""
    answer = asking.ask("memory_total_bytes", ("nvmlDeviceGetMemoryInfo", (handle,)))
    if answer is None or answer.total <= 0:
        why = asking.absent.get("memory_total_bytes", "NVML gave 0, which it cannot be")
        asking.absent.update({"memory_total_bytes": why, "memory_used_bytes": why})
        return {}
    return {"memory_total_bytes": answer.total, "memory_used_bytes": answer.used}


def _processes(asking: Questions, handle: Any, process: int | None, contained: bool) -> dict[str, int | None]:
    """Who computes on the GPU. The driver may number processes as the host does, not as a container does."""
    listed = asking.ask(
        "other_processes",
        ("nvmlDeviceGetComputeRunningProcesses", (handle,)),
        ("nvmlDeviceGetComputeRunningProcesses_v2", (handle,)),
    )
    if listed is None:
        _also_absent(asking, process, asking.absent["other_processes"])
        return {}
    ours = [entry for entry in listed if entry.pid == process]
    if process is not None and not ours:
        why = (
            "NVML does not list our own process, as inside a container, so that others cannot be told from it"
        )
        asking.absent["other_processes"] = why
        _also_absent(asking, process, why)
        return {}
    others = [entry for entry in listed if entry.pid not in {process, *_own()}]
    figures: dict[str, int | None] = {"process_bytes": _total(asking, "process_bytes", ours)} if ours else {}
    if not others and contained:
        why = "NVML lists none, but inside a container it may hide those outside"
        asking.absent["other_processes"] = asking.absent["other_processes_bytes"] = why
        return figures
    memory = _total(asking, "other_processes_bytes", others)
    return {
        **figures,
        "other_processes": len({entry.pid for entry in others}),
        "other_processes_bytes": memory,
    }


def _own() -> set[int]:
    """This process and those that it started."""
    with contextlib.suppress(psutil.Error):
        return {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
    return {os.getpid()}


def _also_absent(asking: Questions, process: int | None, why: str) -> None:
    asking.absent["other_processes_bytes"] = why
    if process is not None:
        asking.absent["process_bytes"] = why


def _total(asking: Questions, figure: str, entries: list[Any]) -> int | None:
    """Memory of these processes. A process with a context holds some, so 0 is a figure that was not found."""
    if any(not entry.usedGpuMemory for entry in entries):
        asking.absent[figure] = "NVML lists the process without its memory"
        return None
    return sum(int(entry.usedGpuMemory) for entry in entries)
