"""The machine in the profile: what a reader needs, what it means, and nothing that names the user."""

from __future__ import annotations

import getpass
import os
import platform
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from machines import FakeNvml, board_files, h200, make_tree, nvml_error, nvml_process
from rendering import Accepted

from advisor.devices.environment import cautions, command_line, environment, finished
from advisor.devices.host import Machine
from advisor.profiles.system_state import CpuClocks, Environment, GpuState, Moment, TegraState


def test_this_machine_without_host_or_user() -> None:
    here = environment()
    assert (here.python, here.machine) == (platform.python_version(), platform.machine())
    assert here.cpu_count == len(os.sched_getaffinity(0))
    assert here.memory_bytes == psutil.virtual_memory().total
    assert here.system.startswith("Linux ")
    text = environment().model_dump_json()
    assert not re.search(rf"\b{re.escape(platform.node())}\b", text)
    assert str(Path.home()) == "/" or str(Path.home()) not in text
    assert f'"{getpass.getuser()}"' not in text


def test_the_cpu_by_its_best_name_and_a_busy_machine(tmp_path: Path) -> None:
    board = "processor\t: 0\nBogoMIPS\t: 1\n\nHardware\t: A\nModel\t: Raspberry Pi\n"
    pc = "processor\t: 0\nmodel name\t: Intel X\nmodel name\t: Intel X\n"
    for text, name in ((pc, "Intel X"), (board, "Raspberry Pi")):
        here = environment(machine=Machine(make_tree(tmp_path, {"proc/cpuinfo": text})), busy=0.24)
        assert (here.cpu_model, here.absent, here.warnings) == (name, {}, ())
    assert "used 63 % of the CPU" in environment(busy=0.63).warnings[0]


def test_the_command_can_be_typed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    typed = command_line(["profile", "/home/ann/my work/w.py", "--set", "n=2**4"])
    assert typed == "advisor profile '~/my work/w.py' --set 'n=2**4'"
    monkeypatch.setenv("HOME", "/")
    assert command_line(["report", "/a/b"]) == "advisor report /a/b"


# Before and after the measuring

CUDA_ADDRESS = "0000:3B:00.0"
PC: dict[str, str | int] = {"proc/cpuinfo": "model name: X", "sys/bus/pci/devices/0000:3b:00.0/numa_node": 1}


def two_gpus(**answers: Any) -> FakeNvml:
    elsewhere = {"nvmlDeviceGetPciInfo": SimpleNamespace(busId="00000000:AF:00.0")}
    return FakeNvml([{**h200(), **elsewhere}, {**h200(), **answers}])


def run(
    root: Path, begun: FakeNvml, done: FakeNvml | None = None, address: str | None = CUDA_ADDRESS, **more: Any
) -> Environment:
    """The machine before and after a run that was begun without warnings."""
    before = environment(machine=Machine(root, begun)).model_copy(update={"warnings": ()})
    if (clock := root / "sys/class/devfreq/gpu-gpc-0/cur_freq").exists():
        clock.write_text("306000000")
    return finished(before, address, machine=Machine(root, done or begun), **more)


THOR = {**board_files("thor"), "proc/cpuinfo": "Model: Thor"}
STRANGER = two_gpus(nvmlDeviceGetComputeRunningProcesses=[nvml_process(10**7)])
HOT = two_gpus(nvmlDeviceGetViolationStatus={1: SimpleNamespace(violationTime=10**12)})
NO_NVML = FakeNvml(failing={"nvmlInit": nvml_error("LibraryNotFound")})
INTEGRATED = FakeNvml([{**h200(), "nvmlDeviceGetPciInfo": None}])
SITUATIONS: dict[str, tuple[dict[str, str | int], FakeNvml, str | None]] = {
    "of two GPUs the measured one": (PC, two_gpus(), CUDA_ADDRESS),
    "a stranger uses it": (PC, STRANGER, CUDA_ADDRESS),
    "it was too hot": (PC, HOT, CUDA_ADDRESS),
    "no NVML": (PC, NO_NVML, CUDA_ADDRESS),
    "no measured GPU": (THOR, two_gpus(), None),
    "an integrated GPU": (board_files("orin"), INTEGRATED, "0000:00:00.0"),
    "a Jetson": (THOR, NO_NVML, "0000:01:00.0"),
}


def test_what_is_kept_of_readings_and_warned_of(tmp_path: Path, accepted: Accepted) -> None:
    text = ""
    for name, (files, nvml, address) in SITUATIONS.items():
        root = make_tree(tmp_path / name, files)
        done = run(root, nvml if nvml in (NO_NVML, INTEGRATED) else two_gpus(), nvml, address)
        assert "10000000" not in done.model_dump_json(), "the stranger's process"
        text += f"{name}, its node {done.host.gpu_numa_node}, absent: {done.absent}\n"
        text += "".join(f"  {each.moment}: {each.pci_address}\n" for each in done.gpu_readings)
        text += "".join(f"  {each.moment}: {each.gpu_hertz} Hz\n" for each in done.tegra_readings)
        text += "".join(f"  {warning}\n" for warning in done.warnings)
    accepted(text, "readings.txt")


def test_all_gpus_are_read_before_and_warnings_of_before_stay(tmp_path: Path) -> None:
    root = make_tree(tmp_path, PC)
    begun = environment(machine=Machine(root, two_gpus())).model_copy(update={"warnings": ("Busy.",)})
    assert [reading.pci_address for reading in begun.gpu_readings] == ["0000:af:00.0", "0000:3b:00.0"]
    assert finished(begun, CUDA_ADDRESS, machine=Machine(root, STRANGER)).warnings[0] == "Busy."


def gpu(moment: Moment = "after", seconds: float = 0.0, **figures: Any) -> GpuState:
    return GpuState(moment=moment, clock_seconds=seconds, **figures)


def under_load(*readings: dict[str, Any]) -> list[GpuState]:
    return [gpu("under-load", i + 1.0, **each) for i, each in enumerate(readings)]


def clocks(*megahertz: int) -> list[GpuState]:
    return under_load(*({"sm_hertz": each * 1_000_000} for each in megahertz))


TOLD = under_load({"throttle_reasons": ()}, {"throttle_reasons": ("power cap",)}, {"other_processes": 1})


@pytest.mark.parametrize(
    ("loaded", "kept", "warnings"),
    [
        (TOLD, [2.0], 2),
        (TOLD[:1], [1.0], 0),
        (clocks(1975, 1500, 1980), [2.0, 3.0], 1),
        (clocks(1975, 1970, 1980), [3.0], 0),
    ],
)
def test_readings_under_load_are_all_judged_and_the_most_telling_kept(
    loaded: list[GpuState], kept: list[float], warnings: int, tmp_path: Path
) -> None:
    """Where the clock moved, its extremes."""
    done = run(make_tree(tmp_path, PC), FakeNvml(), under_load=loaded)
    assert [r.clock_seconds for r in done.gpu_readings if r.moment == "under-load"] == kept
    assert len(done.warnings) == warnings


# What readings mean: when a warning is given, and when there is none


def board(moment: Moment = "after", **figures: Any) -> TegraState:
    return TegraState(moment=moment, **figures)


def link(generation: int, width: int, **figures: Any) -> dict[str, Any]:
    best = {"link_generation_max": 4, "link_width_max": 16}
    return {"link_generation": generation, "link_width": width, **best, **figures}


def clocked(*megahertz: int) -> list[GpuState]:
    """Clocks under load, between those of an idle GPU."""
    return [gpu("before", sm_hertz=345_000_000), *clocks(*megahertz), gpu(sm_hertz=345_000_000)]


def heated(seconds: float) -> list[GpuState]:
    """So much of 100 s too hot."""
    after = {"heat": 7.0 + seconds, "power": 1.0}
    return [
        gpu("before", 100.0, throttled_seconds={"heat": 7.0, "power": 1.0}),
        gpu("after", 200.0, throttled_seconds=after),
    ]


def governed(governor: str, hertz: int) -> TegraState:
    return board(cpu=CpuClocks(governors=(governor,), hertz=hertz, max_hertz=2_000_000_000))


HEALTHY: dict[str, Any] = {
    "throttle_reasons": (), "other_processes": 0, "link_generation": 5, "link_generation_max": 5,
    "link_width": 16, "link_width_max": 16, "performance_state": 0, "utilization": 0.0,
    "throttled_seconds": {"power": 3.0},
}  # fmt: skip
IDLE = gpu("before", **link(1, 16, performance_state=0))
OVER_CURRENT = [
    board(moment, over_current_events={"under voltage": 4, "average over-current": events})  # type: ignore[arg-type]
    for moment, events in (("before", 9), ("after", 12))
]
Readings = GpuState | TegraState
WARNED: dict[str, list[Readings]] = {
    **{
        f"throttled by {reason}": [gpu("under-load", throttle_reasons=(reason,)), gpu(throttle_reasons=())]
        for reason in (
            "power cap", "thermal slowdown by the hardware", "hardware slowdown", "power brake", "sync boost",
        )
    },
    "counters show what was over before the last reading": [*heated(1.5)],
    "clocks that moved under load": [*clocked(1500, 1980)],
    "another process": [
        gpu("before", other_processes=0), gpu(other_processes=1, other_processes_bytes=3 << 30),
    ],
    "other processes": [gpu(other_processes=2)],
    "busy before we use it": [gpu("before", utilization=0.35)],
    "an older generation and fewer lanes": [gpu("under-load", **link(3, 8))],
    "fewer lanes": [gpu("after", **link(4, 8, performance_state=8))],
    "generation 1 under load": [gpu("under-load", **link(1, 16, performance_state=8))],
    "generation 1 and not idle": [gpu("after", **link(1, 16, performance_state=2))],
    "a power mode of a board": [board(power_mode="15W", best_power_mode="MAXN_SUPER")],
    "over-current": [*OVER_CURRENT],
    "a board that throttled": [board("before", throttle_alerts=("gpu-throttle-alert",)), board()],
    "a governor that keeps the CPU slow": [governed("schedutil", 1_000_000_000)],
}  # fmt: skip
QUIET: dict[str, list[Readings]] = {
    "nothing read": [],
    "nothing known": [gpu("before"), gpu(), board("before"), board()],
    "healthy": [gpu("before", 0.0, **HEALTHY), gpu("after", 60.0, **HEALTHY)],
    "hot for half a percent": [*heated(0.5)],
    "one counter": [gpu(seconds=5.0, throttled_seconds={"heat": 1e6})],
    "different counters": [
        gpu(throttled_seconds={"power": 0.0}), gpu(seconds=9.0, throttled_seconds={"heat": 8.0}),
    ],
    "steady clocks": [*clocked(1900, 1980)],
    "clocks of an idle GPU": [*clocked()],
    "hardly used before": [gpu("before", utilization=0.05)],
    "busy with us": [gpu("under-load", utilization=1.0), gpu("after", utilization=1.0)],
    "a link that rose under load": [IDLE, gpu("under-load", **link(4, 16))],
    "no best link known": [gpu("under-load", link_generation=1, link_width=1)],
    "an idle GPU lowers its generation": [gpu("after", **link(1, 16, performance_state=3))],
    "a GPU that may be idle does": [gpu("after", **link(1, 16, performance_state=None))],
    "the best power mode": [board(power_mode="MAXN", best_power_mode="MAXN")],
    "over-current long ago": [OVER_CURRENT[0], OVER_CURRENT[0]],
    "over-current, when is not known": [OVER_CURRENT[1]],
    "a governor that does not": [governed("schedutil", 1_950_000_000)],
    "slow by request": [governed("performance", 1_000_000_000)],
}  # fmt: skip


def warnings(readings: list[Readings]) -> tuple[str, ...]:
    boards = [each for each in readings if isinstance(each, TegraState)]
    return cautions([each for each in readings if isinstance(each, GpuState)], boards)


def test_a_warning_says_what_and_what_to_do(accepted: Accepted) -> None:
    text = "".join(f"{name}: {' | '.join(warnings(readings))}\n" for name, readings in WARNED.items())
    accepted(text, "cautions.txt")
    assert [name for name, readings in WARNED.items() if len(warnings(readings)) != 1] == []
    assert {name: said for name, readings in QUIET.items() if (said := warnings(readings))} == {}
