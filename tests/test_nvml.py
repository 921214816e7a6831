"""GPUs through NVML: every figure, and every way for NVML to fail, one figure at a time."""

from __future__ import annotations

import inspect
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from every import every
from machines import GPU_ADDRESS, MHZ, FakeNvml, h200, nvml_error, nvml_process

from advisor.devices.gpus import GpuLinks, gpu_links, gpu_state, gpu_states, root_port
from advisor.devices.host import Machine
from advisor.profiles.system_state import GpuState

CUDA_ADDRESS = "0000:3B:00.0"

# What each call is asked for; the calls of one row back one another up for older drivers.
FIGURES = {
    "driver": ["nvmlSystemGetDriverVersion"],
    "performance_state": ["nvmlDeviceGetPerformanceState"],
    "temperature_celsius": ["nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature"],
    "throttle_reasons": [
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetCurrentClocksThrottleReasons",
    ],
    "throttled_seconds": ["nvmlDeviceGetViolationStatus"],
    "utilization": ["nvmlDeviceGetUtilizationRates"],
    "power_limit_watts": ["nvmlDeviceGetEnforcedPowerLimit"],
    "link_generation": ["nvmlDeviceGetCurrPcieLinkGeneration"],
    "link_generation_max": ["nvmlDeviceGetMaxPcieLinkGeneration"],
    "link_width": ["nvmlDeviceGetCurrPcieLinkWidth"],
    "link_width_max": ["nvmlDeviceGetMaxPcieLinkWidth"],
    "other_processes": ["nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetComputeRunningProcesses_v2"],
}
BESIDE = {"other_processes": {"other_processes_bytes"}}
KINDS = ("NotSupported", "NoPermission", "Unknown", "GpuIsLost", "FunctionNotFound", "Timeout")


def read(nvml: Any, pci: str | None = CUDA_ADDRESS, **options: Any) -> GpuState:
    return gpu_state(pci, machine=Machine(Path("/nowhere"), nvml), **options)


def gpu(**answers: Any) -> FakeNvml:
    return FakeNvml([{**h200(), **answers}])


def told(state: GpuState) -> dict[str, Any]:
    """What was read, without what every state has."""
    return {
        name: value
        for name, value in state.model_dump().items()
        if name not in ("moment", "clock_seconds", "absent") and value not in (None, {})
    }


HEALTHY: dict[str, Any] = {
    "pci_address": GPU_ADDRESS,
    "driver": "580.82.07",
    "performance_state": 0,
    "sm_hertz": 345 * MHZ,
    "power_limit_watts": 700.0,
    "temperature_celsius": 31.0,
    "throttle_reasons": (),
    "throttled_seconds": {"power": 2.5, "heat": 2.5, "board limit": 2.5, "reliability": 2.5},
    "link_generation": 5,
    "link_generation_max": 5,
    "link_width": 16,
    "link_width_max": 16,
    "other_processes": 0,
    "other_processes_bytes": 0,
    "utilization": 0.0,
}


def test_every_figure_in_its_unit() -> None:
    state = read(FakeNvml(), moment="before")
    assert (told(state), state.moment, state.absent) == (HEALTHY, "before", {})


@every("figure", FIGURES)
def test_a_failing_call_costs_its_figure_alone(figure: str) -> None:
    calls, missing = FIGURES[figure], {figure} | BESIDE.get(figure, set())
    for kind in KINDS:
        state = read(FakeNvml(failing={call: nvml_error(kind) for call in calls}))
        assert set(state.absent) == set(HEALTHY) - set(told(state)) == missing, kind
        assert all(state.absent[name] for name in missing), kind
    older = read(FakeNvml(failing={calls[0]: nvml_error("FunctionNotFound")}))
    assert (older.absent == {}) == (len(calls) == 2), "an older driver is asked in its own way"


@every(
    ("problem", "words"),
    [
        (nvml_error("NotSupported"), "NVML does not support it on this GPU"),
        (nvml_error("LibraryNotFound"), "the NVIDIA driver's library libnvidia-ml is not installed"),
        (nvml_error("DriverNotLoaded"), "the NVIDIA driver is not loaded"),
        (nvml_error("Timeout", "Timeout"), "NVML failed: Timeout"),
        (ValueError(), "NVML failed: ValueError"),
        (ModuleNotFoundError("pynvml"), "nvidia-ml-py is not installed; pip install nvidia-ml-py"),
    ],
)
def test_nvml_that_does_not_start(problem: Exception, words: str) -> None:
    nvml = FakeNvml(failing={"nvmlInit": problem})
    state = read(nvml)
    assert (told(state), state.absent, gpu_states(machine=Machine(nvml=nvml))) == ({}, {"nvml": words}, ())


def test_nvml_is_closed_whatever_happens() -> None:
    for nvml in (FakeNvml(), FakeNvml([]), FakeNvml(failing={"nvmlDeviceGetCount": nvml_error("Unknown")})):
        read(nvml, None)
        gpu_states(machine=Machine(nvml=nvml))
        assert nvml.asked.count("nvmlInit") == 2
        assert nvml.open == 0
    assert told(read(FakeNvml(failing={"nvmlShutdown": nvml_error("Uninitialized")})))


# Which GPU


def two() -> FakeNvml:
    other = {
        "nvmlDeviceGetPciInfo": SimpleNamespace(busId="00000000:AF:00.0"),
        "nvmlDeviceGetTemperature": 77,
    }
    return FakeNvml([h200(), {**h200(), **other, "nvmlDeviceGetTemperatureV": 77}])


@every(
    ("nvml", "address", "expected"),
    [
        (two(), "0000:AF:00.0", (77, "0000:af:00.0")),
        (two(), CUDA_ADDRESS, (31, GPU_ADDRESS)),
        (gpu(nvmlDeviceGetPciInfo=None), "0000:00:00.0", (31, None)),
        (FakeNvml(), None, (31, GPU_ADDRESS)),
        *((nvml, "0000:99:00.0", "0000:99:00.0") for nvml in (two(), FakeNvml())),
        (two(), None, "NVML lists 2 GPUs"),
        (FakeNvml([]), None, "NVML lists 0 GPUs"),
    ],
    ids=lambda each: str(each) if not isinstance(each, FakeNvml) else f"of {len(each.gpus)}",
)
def test_the_pci_address_finds_the_gpu_whatever_its_number_else_the_only_one_is_meant(
    nvml: FakeNvml, address: str | None, expected: Any
) -> None:
    state = read(nvml, address)
    assert expected == (state.temperature_celsius, state.pci_address) or expected in state.absent["nvml"]
    assert isinstance(expected, tuple) or told(state) == {}


# What figures mean


def listing(*processes: tuple[int, int | None]) -> list[SimpleNamespace]:
    return [nvml_process(*each) for each in processes]


def others(count: int, size: int | str) -> dict[str, Any]:
    return {"other_processes": count, "other_processes_bytes": size}


US, ONE, TWO, MOST = 10**7, 10**7 + 1, 10**7 + 2, 2**64 - 1
EVENTS, RUNNING = "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetComputeRunningProcesses"
THROTTLED = {
    0x0: (),
    0x1 | 0x2 | 0x100: (),
    0x4: ("power cap",),
    0x4 | 0x1: (),
    0x8 | 0x40: ("hardware slowdown", "thermal slowdown by the hardware"),
    0x20 | 0x1: ("thermal slowdown by the driver",),
    0x80: ("power brake",),
    0x10: ("sync boost",),
}
ZERO, UNTOLD = "NVML reported 0, which is invalid", "NVML lists the process without its memory use"


@every(
    ("call", "answer", "changes"),
    [
        *((EVENTS, bits, {"throttle_reasons": words}) for bits, words in THROTTLED.items()),
        ("nvmlDeviceGetClockInfo", {1: 0, 2: 0}, {"sm_hertz": ZERO}),
        ("nvmlDeviceGetCurrPcieLinkWidth", 0, {"link_width": ZERO}),
        ("nvmlDeviceGetPerformanceState", 32, {"performance_state": "not reported by NVML"}),
        (RUNNING, listing((ONE, 1 << 30), (US, 1 << 30), (TWO, 2 << 30)), others(2, 3 << 30)),
        (RUNNING, listing((US, None), (ONE, None)), others(1, UNTOLD)),
        (RUNNING, listing((US, 0), (ONE, 0)), others(1, UNTOLD)),
        (RUNNING, listing((ONE, MOST), (US, 1)), others(1, f"NVML reported {MOST}")),
    ],
)
def test_what_an_answer_means(call: str, answer: Any, changes: dict[str, Any]) -> None:
    """What it changes of a healthy GPU's figures; of those that are absent, the reason."""
    state = read(gpu(**{call: answer}), process=US if call == RUNNING else None)
    absent = {name: reason for name, reason in changes.items() if isinstance(reason, str)}
    assert state.absent == absent
    assert told(state) == {n: figure for n, figure in {**HEALTHY, **changes}.items() if n not in absent}


def test_children_are_ours() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        assert (
            read(gpu(**{RUNNING: listing((child.pid, 1), (os.getpid(), 1), (ONE, 1))})).other_processes == 1
        )


def test_numbers_from_outside_a_container_prove_nothing(tmp_path: Path) -> None:
    (tmp_path / ".dockerenv").touch()
    for running, process, why in ((listing((424242, 1)), 17, "own process"), ([], None, "see")):
        machine = Machine(tmp_path, gpu(**{RUNNING: running}))
        state = gpu_state(CUDA_ADDRESS, machine=machine, process=process)
        assert set(state.absent) == {"other_processes", "other_processes_bytes"}
        assert state.other_processes is None
        assert why in state.absent["other_processes"]
    machine = Machine(tmp_path, gpu(**{RUNNING: listing((ONE, 1))}))
    assert gpu_state(CUDA_ADDRESS, machine=machine).other_processes == 1


# The real binding


def test_the_real_binding_has_what_is_asked() -> None:
    pynvml = pytest.importorskip("pynvml")
    nvml = FakeNvml()
    read(nvml)
    read(nvml, None)
    called = set(nvml.asked) | {call for calls in FIGURES.values() for call in calls}
    missing = {name for name in called if not callable(getattr(pynvml, name, None))}
    assert missing <= {"nvmlDeviceGetTemperatureV", "nvmlDeviceGetCurrentClocksEventReasons"}
    wanted = {"nvmlDeviceGetViolationStatus": 2, "nvmlDeviceGetClockInfo": 2}
    for name, count in wanted.items():
        inspect.signature(getattr(pynvml, name)).bind(*range(count))
    assert (pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM, pynvml.NVML_TEMPERATURE_GPU) == (1, 2, 0)
    assert (pynvml.NVML_PERF_POLICY_POWER, pynvml.NVML_PERF_POLICY_RELIABILITY) == (0, 5)
    for kind in KINDS:
        assert hasattr(pynvml, f"NVMLError_{kind}")


# How GPUs are joined


PLACES = ["0000:3b:00.0", "0000:5e:00.0", "0000:86:00.0"]


def linked(index: int, joined: bool) -> dict[str, Any]:
    """One of three GPUs, two of which NVLink joins by all links but one."""
    return {
        "nvmlDeviceGetPciInfo": SimpleNamespace(busId=f"0000{PLACES[index].upper()}"),
        "nvmlDeviceGetUUID": f"GPU-{index}",
        "nvmlDeviceGetNvLinkState": {link: int(link != 3) for link in range(18)} if joined else {},
        "joined": joined,
    }


class ThreeGpus(FakeNvml):
    def _answer(self, name: str, *arguments: Any) -> Any:
        if name != "nvmlDeviceGetP2PStatus":
            return super()._answer(name, *arguments)
        one, other, capability = arguments
        return 0 if one["joined"] and other["joined"] and capability == 0 else 5


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """The first two GPUs are below one root port."""
    devices = tmp_path / "sys/bus/pci/devices"
    devices.mkdir(parents=True)
    for place, port in zip(PLACES, ("0000:00:01.0", "0000:00:01.0", "0000:80:01.0"), strict=True):
        folder = tmp_path / f"sys/devices/pci{port[:7]}/{port}/{port[:5]}3a:00.0/{place}"
        folder.mkdir(parents=True)
        (devices / place).symlink_to(folder)
    return Machine(root=tmp_path, nvml=ThreeGpus([linked(0, True), linked(1, True), linked(2, False)]))


def test_who_reaches_whom_and_over_what(machine: Machine) -> None:
    first, second, third = gpu_links(machine)
    assert first == GpuLinks(PLACES[0], "GPU-0", (PLACES[1],), 17, "0000:00:01.0")
    assert (second.reaches, second.root_port) == ((PLACES[0],), "0000:00:01.0")
    assert (third.reaches, third.nvlinks, third.root_port) == ((), None, "0000:80:01.0")
    links = gpu_links(machine, ["0000:86:00.0", "00000000:3B:00.0", "0000:99:00.0"])
    assert [each.uuid for each in links] == ["GPU-2", "GPU-0", None]
    machine.nvml.failing["nvmlInit"] = RuntimeError("no NVML here")
    assert gpu_links(machine) == ()
    assert root_port("0000:99:00.0", machine.root) is None
    assert root_port("0000:3B:00.0", machine.root) == "0000:00:01.0"
