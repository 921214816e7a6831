"""GPUs through NVML: every figure, and every way for NVML to fail, one figure at a time."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from functools import partial
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


def test_every_figure_in_its_unit() -> None:
    state = read(FakeNvml(), moment="before")
    assert told(state) == {
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
    assert (state.moment, state.absent) == ("before", {})


@every("figure", FIGURES)
def test_a_failing_call_costs_its_figure_alone(figure: str) -> None:
    missing = {figure} | BESIDE.get(figure, set())
    for kind in KINDS:
        state = read(FakeNvml(failing={call: nvml_error(kind) for call in FIGURES[figure]}))
        assert set(state.absent) == missing, kind
        assert set(told(state)) == set(told(read(FakeNvml()))) - missing, kind
        assert all(state.absent[name] for name in missing), kind


@every("figure", [name for name, calls in FIGURES.items() if len(calls) == 2])
def test_an_older_driver_is_asked_in_its_own_way(figure: str) -> None:
    nvml = FakeNvml(failing={FIGURES[figure][0]: nvml_error("FunctionNotFound")})
    assert read(nvml).absent == {}


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
    assert (told(state), state.absent) == ({}, {"nvml": words})
    assert gpu_states(machine=Machine(nvml=nvml)) == ()


def test_without_nvidia_ml_py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "pip install nvidia-ml-py" in gpu_state(None).absent["nvml"]
    assert gpu_states() == ()


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


def test_the_pci_address_finds_the_gpu_whatever_its_number() -> None:
    assert read(two(), "0000:AF:00.0").temperature_celsius == 77
    assert read(two(), CUDA_ADDRESS).temperature_celsius == 31
    assert read(two(), "0000:AF:00.0").pci_address == "0000:af:00.0"
    for nvml in (two(), FakeNvml()):
        state = read(nvml, "0000:99:00.0")
        assert told(state) == {}
        assert "0000:99:00.0" in state.absent["nvml"]
    assert read(gpu(nvmlDeviceGetPciInfo=None), "0000:00:00.0").temperature_celsius == 31
    assert [state.temperature_celsius for state in gpu_states(machine=Machine(Path("/nowhere"), two()))] == [
        31,
        77,
    ]
    failing = {"nvmlDeviceGetHandleByIndex": nvml_error("NoPermission")}
    assert gpu_states(machine=Machine(nvml=FakeNvml(failing=failing))) == ()


def test_without_an_address_the_only_gpu_is_meant() -> None:
    assert read(FakeNvml(), None).temperature_celsius == 31
    assert "NVML lists 2 GPUs" in read(two(), None).absent["nvml"]
    assert list(read(FakeNvml([]), None).absent) == ["nvml"]


# What figures mean


@every(
    ("bits", "words"),
    [
        (0x0, ()),
        (0x1 | 0x2 | 0x100, ()),
        (0x4, ("power cap",)),
        (0x4 | 0x1, ()),
        (0x8 | 0x40, ("hardware slowdown", "thermal slowdown by the hardware")),
        (0x20 | 0x1, ("thermal slowdown by the driver",)),
        (0x80, ("power brake",)),
        (0x10, ("sync boost",)),
    ],
)
def test_throttle_reasons(bits: int, words: tuple[str, ...]) -> None:
    assert read(gpu(nvmlDeviceGetCurrentClocksEventReasons=bits)).throttle_reasons == words


def test_zeros_and_figures_out_of_all_bounds_are_absent() -> None:
    state = read(
        gpu(
            nvmlDeviceGetClockInfo={1: 0, 2: 0},
            nvmlDeviceGetCurrPcieLinkWidth=0,
            nvmlDeviceGetPerformanceState=32,
        )
    )
    zero = "NVML reported 0, which is invalid"
    names = ("sm_hertz", "link_width")
    assert state.absent == {**dict.fromkeys(names, zero), "performance_state": "not reported by NVML"}
    assert not set(state.absent) & set(told(state))
    state = read(listing(nvml_process(10**7, 2**64 - 1)))
    assert state.absent == {"other_processes_bytes": f"NVML reported {2**64 - 1}"}
    assert state.other_processes == 1


# Who computes on it


def listing(*processes: SimpleNamespace) -> FakeNvml:
    return gpu(nvmlDeviceGetComputeRunningProcesses=list(processes))


FIRST, SECOND = 10**7, 10**7 + 1


@every(
    ("listed", "process", "expected"),
    [
        (((FIRST, 1 << 30), (os.getpid(), 1 << 30), (SECOND, 2 << 30)), None, (2, 3 << 30)),
        (((FIRST, 5 << 20), (SECOND, 7 << 20)), FIRST, (1, 7 << 20)),
        (((FIRST, None), (SECOND, None)), FIRST, (1, None)),
        (((FIRST, 0), (SECOND, 0)), FIRST, (1, None)),
    ],
)
def test_others_are_counted_with_their_memory_where_nvml_knows_it_and_without_us(
    listed: tuple[tuple[int, int | None], ...], process: int | None, expected: tuple[int, int | None]
) -> None:
    state = read(listing(*(nvml_process(*each) for each in listed)), process=process)
    assert (state.other_processes, state.other_processes_bytes) == expected
    assert set(state.absent) == ({"other_processes_bytes"} if expected[1] is None else set())


def test_children_are_ours() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        assert read(listing(nvml_process(child.pid), nvml_process(SECOND))).other_processes == 1


def test_numbers_from_outside_a_container_prove_nothing(tmp_path: Path) -> None:
    (tmp_path / ".dockerenv").touch()
    machine = partial(Machine, tmp_path)
    for nvml, process, why in ((listing(nvml_process(424242)), 17, "own process"), (listing(), None, "see")):
        state = gpu_state(CUDA_ADDRESS, machine=machine(nvml), process=process)
        assert set(state.absent) == {"other_processes", "other_processes_bytes"}
        assert state.other_processes is None
        assert why in state.absent["other_processes"]
    assert gpu_state(CUDA_ADDRESS, machine=machine(listing(nvml_process(FIRST)))).other_processes == 1


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
    def _nvmlDeviceGetP2PStatus(self, one: Any, other: Any, capability: int) -> int:  # noqa: N802
        assert capability == 0
        return 0 if one["joined"] and other["joined"] else 5


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
