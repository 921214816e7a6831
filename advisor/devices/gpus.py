"""The state of a GPU through NVML: clocks, power, heat, PCIe link, and who else is on it; how GPUs are
joined, to the host through which port, and to one another by NVLink or PCIe.

nvidia-ml-py may be missing, old, or fail at any call: then a figure is absent. Nothing here raises but
`Unreachable`, and that only inside this package.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from pydantic import ValidationError

from advisor.devices.host import ROOT, THIS_MACHINE, Machine, in_container, sysfs_address
from advisor.profiles.system_state import GpuState, Moment

# Names of nvidia-ml-py's exceptions, and what they mean to a reader.
_MEANINGS = {
    "NVMLError_LibraryNotFound": "the NVIDIA driver's library libnvidia-ml is not installed",
    "NVMLError_DriverNotLoaded": "the NVIDIA driver is not loaded",
    "NVMLError_LibRmVersionMismatch": "the driver's library and its kernel module differ in version; "
    "restart the machine",
    "NVMLError_NotSupported": "NVML does not support it on this GPU",
    "NVMLError_FunctionNotFound": "the driver is too old to report it",
    "NVMLError_NoPermission": "NVML denies it to this user",
    "NVMLError_GpuIsLost": "the GPU has fallen off the bus",
}


class Unreachable(Exception):
    """NVML, or the GPU in it, cannot be reached; the text says why."""


class Queries:
    """Queries NVML, one figure of one GPU at a time; what it does not answer is noted in `absent`."""

    def __init__(self, module: Any, gpu: Any = None) -> None:
        self._module = module
        self._gpu = gpu
        self.absent: dict[str, str] = {}

    def query(self, figure: str, calls: str | tuple[str, ...], *arguments: Any, of_gpu: bool = True) -> Any:
        """The answer of the first call that gives one, else None; later calls are for older drivers."""
        passed = (self._gpu, *arguments) if of_gpu else arguments
        for name in (calls,) if isinstance(calls, str) else calls:
            # Whatever goes wrong in a call (an NVMLError, a function that this nvidia-ml-py lacks, a text
            # that cannot be decoded) costs one figure, never the run.
            try:
                answer = getattr(self._module, name)(*passed)
            except Exception as problem:
                self.absent[figure] = reason(problem)
            else:
                self.absent.pop(figure, None)
                return answer
        return None


@contextlib.contextmanager
def opened(module: Any = None) -> Iterator[Any]:
    """NVML, initialised; closed again at the end. `module` stands in for pynvml. Raises `Unreachable`."""
    try:
        nvml = module or importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception as problem:  # an outdated package of that name can fail in any way
        raise Unreachable(reason(problem)) from None
    try:
        yield nvml
    finally:
        with contextlib.suppress(Exception):
            nvml.nvmlShutdown()


def handle_of(nvml: Any, pci_bus_id: str | None) -> Any:
    """The GPU at that PCI address, which is sure: CUDA_VISIBLE_DEVICES renumbers CUDA's GPUs, and CUDA orders
    them by speed, NVML by address. Raises `Unreachable` rather than describe another GPU."""
    handles = all_handles(nvml)
    if pci_bus_id is None:
        if len(handles) == 1:
            return handles[0]
        raise Unreachable(f"NVML lists {len(handles)} GPUs, and no PCI address identifies the one in use")
    queries = Queries(nvml)
    handle = queries.query("gpu", "nvmlDeviceGetHandleByPciBusId", pci_bus_id, of_gpu=False)
    if handle is not None:
        return handle
    # The only GPU may have no PCI address in NVML: integrated GPUs have one in CUDA alone.
    if len(handles) == 1 and address_of(nvml, handles[0]) is None:
        return handles[0]
    raise Unreachable(f"NVML has no GPU at {pci_bus_id}: {queries.absent['gpu']}")


def all_handles(nvml: Any) -> list[Any]:
    queries = Queries(nvml)
    count = queries.query("count", "nvmlDeviceGetCount", of_gpu=False) or 0
    handles = [queries.query("gpu", "nvmlDeviceGetHandleByIndex", i, of_gpu=False) for i in range(count)]
    return [handle for handle in handles if handle is not None]


def address_of(nvml: Any, handle: Any) -> str | None:
    """The GPU's PCI address as sysfs writes it; None for one that has none."""
    answer = Queries(nvml, handle).query("pci", "nvmlDeviceGetPciInfo")
    text = getattr(answer, "busId", None)
    return sysfs_address(text) if text else None


def reason(problem: Exception) -> str:
    if isinstance(problem, ImportError):
        return "nvidia-ml-py is not installed; pip install nvidia-ml-py"
    if isinstance(problem, AttributeError):
        return "this nvidia-ml-py is too old for this query"
    kind = type(problem).__name__
    return _MEANINGS.get(kind, f"NVML failed: {str(problem) or kind}")


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
_SM, _GPU_SENSOR = (1,), (0,)


_POSITIVE: dict[str, tuple[str, tuple[int, ...], float]] = {
    "sm_hertz": ("nvmlDeviceGetClockInfo", _SM, 1_000_000),
    "power_limit_watts": ("nvmlDeviceGetEnforcedPowerLimit", (), 1e-3),
    "link_generation": ("nvmlDeviceGetCurrPcieLinkGeneration", (), 1),
    "link_generation_max": ("nvmlDeviceGetMaxPcieLinkGeneration", (), 1),
    "link_width": ("nvmlDeviceGetCurrPcieLinkWidth", (), 1),
    "link_width_max": ("nvmlDeviceGetMaxPcieLinkWidth", (), 1),
}
"""Figures above 0: call, arguments, and a factor for MHz and mW. The enforced power limit is the least of all
limits; the link's maxima are of this GPU in this slot, not of the GPU alone (NVML's documentation)."""


def gpu_state(
    pci_bus_id: str | None,
    *,
    moment: Moment = "after",
    process: int | None = None,
    machine: Machine = THIS_MACHINE,
) -> GpuState:
    """The GPU at that PCI address now; where none is known, the only GPU.

    `process` is one of ours that has a context on the GPU: it does not count as another process. Never
    raises; where NVML or the GPU cannot be reached, `absent["nvml"]` says why.
    """
    contained = in_container(root=machine.root)
    try:
        with opened(machine.nvml) as module:
            return _state(module, handle_of(module, pci_bus_id), moment, process, contained)
    except Unreachable as problem:
        return GpuState(moment=moment, clock_seconds=time.monotonic(), absent={"nvml": str(problem)})


def gpu_states(*, moment: Moment = "before", machine: Machine = THIS_MACHINE) -> tuple[GpuState, ...]:
    contained = in_container(root=machine.root)
    try:
        with opened(machine.nvml) as module:
            return tuple(_state(module, handle, moment, None, contained) for handle in all_handles(module))
    except Unreachable:
        return ()


def _state(module: Any, handle: Any, moment: Moment, process: int | None, contained: bool) -> GpuState:
    queries = Queries(module, handle)
    rates = queries.query("utilization", "nvmlDeviceGetUtilizationRates")
    state = queries.query("performance_state", "nvmlDeviceGetPerformanceState")
    if state is not None and not 0 <= state <= 15:
        queries.absent["performance_state"], state = "not reported by NVML", None
    thermometers = ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature")
    degrees = queries.query("temperature_celsius", thermometers, *_GPU_SENSOR)
    figures: dict[str, Any] = {
        "performance_state": state,
        "temperature_celsius": None if degrees is None else float(degrees),
        "throttle_reasons": _throttle_reasons(queries),
        "throttled_seconds": _throttled_seconds(queries),
        "utilization": None if rates is None else min(rates.gpu / 100, 1.0),
        **{figure: _positive(queries, figure) for figure in _POSITIVE},
        **_processes(queries, process, contained),
    }
    sure = {"moment": moment, "clock_seconds": time.monotonic(), "pci_address": address_of(module, handle)}
    sure["driver"] = queries.query("driver", "nvmlSystemGetDriverVersion", of_gpu=False)
    try:
        return GpuState.model_validate({**sure, **figures, "absent": queries.absent})
    except ValidationError as problem:
        wrong = {str(error["loc"][0]): f"NVML reported {error['input']}" for error in problem.errors()}
        valid = {figure: value for figure, value in figures.items() if figure not in wrong}
        return GpuState.model_validate({**sure, **valid, "absent": {**queries.absent, **wrong}})


def _positive(queries: Queries, figure: str) -> float | None:
    """A figure of `_POSITIVE`; None for a 0, which some drivers report where they do not know it."""
    call, arguments, scale = _POSITIVE[figure]
    answer = queries.query(figure, call, *arguments)
    if answer is not None and answer <= 0:
        queries.absent[figure] = f"NVML reported {answer}, which is invalid"
        return None
    return answer if answer is None else round(int(answer) * scale, 3)


def _throttle_reasons(queries: Queries) -> tuple[str, ...] | None:
    calls = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
    bits = queries.query("throttle_reasons", calls)
    if bits is None:
        return None
    if bits & _IDLE:
        bits &= ~_POWER_CAP  # some GPUs show the cap whenever they idle; nothing is slowed by it then
    return tuple(word for bit, word in REASONS.items() if bits & bit)


def _throttled_seconds(queries: Queries) -> dict[str, float]:
    seconds = {}
    for cause, policy in POLICIES.items():
        answer = queries.query("throttled_seconds", "nvmlDeviceGetViolationStatus", policy)
        if answer is not None:
            seconds[cause] = answer.violationTime / 1e9
    if seconds:
        queries.absent.pop("throttled_seconds", None)
    return seconds


def _processes(queries: Queries, process: int | None, contained: bool) -> dict[str, int]:
    """Processes that compute on the GPU, which the driver may number as the host does, not as a container."""
    calls = ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetComputeRunningProcesses_v2")
    listed = queries.query("other_processes", calls)
    pids = [entry.pid for entry in listed or ()]
    if listed is None or (process is not None and process not in pids):
        unlisted = (
            "NVML does not list advisor's own process (usual in a container), so other processes cannot "
            "be identified"
        )
        why = queries.absent.get("other_processes", unlisted)
        queries.absent.update(dict.fromkeys(("other_processes", "other_processes_bytes"), why))
        return {}
    own = {process, os.getpid()}
    with contextlib.suppress(psutil.Error):
        own |= {child.pid for child in psutil.Process().children(recursive=True)}
    others = [entry for entry in listed if entry.pid not in own]
    if not others and contained:
        why = "NVML lists none, but in a container it may not see processes outside"
        queries.absent["other_processes"] = queries.absent["other_processes_bytes"] = why
        return {}
    count = len({entry.pid for entry in others})
    # A process with a context holds some memory, so 0 is a figure that was not found.
    if any(not entry.usedGpuMemory for entry in others):
        queries.absent["other_processes_bytes"] = "NVML lists the process without its memory use"
        return {"other_processes": count}
    total = sum(int(entry.usedGpuMemory) for entry in others)
    return {"other_processes": count, "other_processes_bytes": total}


_READ, _REACHES = 0, 0
"""NVML_P2P_CAPS_INDEX_READ, and NVML_P2P_STATUS_OK."""
_MOST_NVLINKS = 36
"""NVML_NVLINK_MAX_LINKS of driver 580; links that a GPU lacks answer with an error."""


@dataclass(frozen=True)
class GpuLinks:
    """One GPU. What is not known is None, or left out of `reaches`."""

    address: str
    """On the PCI bus, as sysfs writes it."""
    uuid: str | None = None
    reaches: tuple[str, ...] = ()
    """Addresses of the GPUs whose memory it can read."""
    nvlinks: int | None = None
    """Links that are up, to whatever is at their other end."""
    root_port: str | None = None
    """The port of the host that it is below."""


def gpu_links(machine: Machine = THIS_MACHINE, only: Sequence[str] = ()) -> tuple[GpuLinks, ...]:
    """Every GPU that NVML lists, or those at the PCI addresses `only`, as far as NVML describes them."""
    listed: dict[str, GpuLinks] = {}
    with contextlib.suppress(Unreachable), opened(machine.nvml) as module:
        listed = {each.address: each for each in _listed(module, machine.root)}
    wanted = map(sysfs_address, only) if only else listed
    return tuple(listed.get(a) or GpuLinks(a, root_port=root_port(a, machine.root)) for a in wanted)


def by_number(places: Sequence[str]) -> dict[str, str | int | float]:
    """Links of the GPUs at these PCI addresses, named as in a profile: `gpu0_uuid`, `gpu1_root_port`, …"""
    facts: dict[str, str | int | float] = {}
    for number, (gpu, place) in enumerate(zip(gpu_links(only=places), places, strict=True)):
        values = {"pci_bus_id": place, "uuid": gpu.uuid, "root_port": gpu.root_port}
        facts |= {f"gpu{number}_{name}": value for name, value in values.items() if value is not None}
    return facts


def root_port(address: str, root: Path = ROOT) -> str | None:
    """The first PCI device on the way from the host to the one at that address; None where there is none.

    /sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0 lies below 0000:00:01.0.
    """
    try:
        way = (root / "sys/bus/pci/devices" / sysfs_address(address)).resolve(strict=True).parts
    except OSError:
        return None
    bridges = [part for part in way[:-1] if part.count(":") == 2]
    return bridges[0] if bridges else None


def _listed(module: Any, root: Path) -> Iterator[GpuLinks]:
    handles = {address: handle for handle in all_handles(module) if (address := address_of(module, handle))}
    for address, handle in handles.items():
        queries = Queries(module, handle)
        reached = (
            other
            for other, peer in handles.items()
            if other != address and queries.query("p2p", "nvmlDeviceGetP2PStatus", peer, _READ) == _REACHES
        )
        states = (queries.query("nvlink", "nvmlDeviceGetNvLinkState", n) for n in range(_MOST_NVLINKS))
        links = [state for state in states if state is not None]
        yield GpuLinks(
            address=address,
            uuid=queries.query("uuid", "nvmlDeviceGetUUID"),
            reaches=tuple(reached),
            # None where no link answers: the GPU has none, or NVML does not tell.
            nvlinks=sum(state == 1 for state in links) if links else None,
            root_port=root_port(address, root),
        )
