"""Machines made by hand: a pynvml that any call of can fail, and trees of /proc, /sys and /etc."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

MHZ = 1_000_000
GPU_ADDRESS = "0000:3b:00.0"


class NVMLError(Exception):
    """As nvidia-ml-py's; what went wrong is in the name of the subclass."""


def nvml_error(kind: str, text: str = "") -> NVMLError:
    return type(f"NVMLError_{kind}", (NVMLError,), {})(text or kind)


def nvml_process(pid: int, used: int | None = 1 << 30) -> SimpleNamespace:
    return SimpleNamespace(pid=pid, usedGpuMemory=used)


def h200() -> dict[str, Any]:
    """What NVML answers for a healthy, idle H200 that nobody uses."""
    return {
        "nvmlDeviceGetPciInfo": SimpleNamespace(busId="00000000:3B:00.0"),
        "nvmlDeviceGetPerformanceState": 0,
        "nvmlDeviceGetTemperature": 31,
        "nvmlDeviceGetTemperatureV": 31,
        "nvmlDeviceGetCurrentClocksEventReasons": 0x1,
        "nvmlDeviceGetCurrentClocksThrottleReasons": 0x1,
        "nvmlDeviceGetViolationStatus": SimpleNamespace(referenceTime=1, violationTime=2_500_000_000),
        "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=0, memory=0),
        "nvmlDeviceGetClockInfo": {1: 345, 2: 3201},
        "nvmlDeviceGetEnforcedPowerLimit": 700_000,
        "nvmlDeviceGetCurrPcieLinkGeneration": 5,
        "nvmlDeviceGetMaxPcieLinkGeneration": 5,
        "nvmlDeviceGetCurrPcieLinkWidth": 16,
        "nvmlDeviceGetMaxPcieLinkWidth": 16,
        "nvmlDeviceGetComputeRunningProcesses": [],
        "nvmlDeviceGetComputeRunningProcesses_v2": [],
    }


@dataclass
class FakeNvml:
    """pynvml over GPUs as dictionaries of answers. `failing` maps a function's name to what it raises."""

    gpus: list[dict[str, Any]] = field(default_factory=lambda: [h200()])
    failing: dict[str, Exception] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    open: int = 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def call(*arguments: Any) -> Any:
            self.asked.append(name)
            if name in self.failing:
                raise self.failing[name]
            return self._answer(name, *arguments)

        return call

    def _answer(self, name: str, *arguments: Any) -> Any:
        match name:
            case "nvmlInit" | "nvmlShutdown":
                self.open += 1 if name == "nvmlInit" else -1
                return None
            case "nvmlSystemGetDriverVersion":
                return "580.82.07"
            case "nvmlDeviceGetCount":
                return len(self.gpus)
            case "nvmlDeviceGetHandleByIndex":
                return self.gpus[arguments[0]]
            case "nvmlDeviceGetHandleByPciBusId":
                infos = [gpu["nvmlDeviceGetPciInfo"] for gpu in self.gpus]
                ends = [info is not None and info.busId.endswith(arguments[0]) for info in infos]
                if True not in ends:
                    raise nvml_error("NotFound", "Not Found")
                return self.gpus[ends.index(True)]
            case _:
                gpu, *more = arguments
                told = gpu[name]
                return told[more[0]] if isinstance(told, dict) else told


def make_tree(root: Path, files: Mapping[str, str | int]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n", encoding="utf-8")
    return root


def _cpu(cores: int, now: int, highest: int, governor: str) -> dict[str, str | int]:
    folder = "sys/devices/system/cpu/cpu{}/cpufreq/{}"
    return {
        folder.format(core, name): value
        for core in range(cores)
        for name, value in (
            ("scaling_governor", governor),
            ("scaling_cur_freq", now if core == 1 else 102_000),
            ("scaling_max_freq", highest),
        )
    }


def _mode(number: int, name: str, **caps: int) -> str:
    lines = "".join(f"{key.replace('__', ' ')} {value}\n" for key, value in caps.items())
    return f"< POWER_MODEL ID={number} NAME={name} >\n{lines}"


def nano() -> dict[str, str | int]:
    """A Nano on Jetson Linux R32, as an ordinary user sees it: its memory clock belongs to root."""
    modes = [
        _mode(
            0, "MAXN", CPU_ONLINE__CORE_0=1, CPU_ONLINE__CORE_3=1, GPU__MAX_FREQ=921_600_000, EMC__MAX_FREQ=0
        ),
        _mode(
            1, "5W", CPU_ONLINE__CORE_0=1, CPU_ONLINE__CORE_3=0, GPU__MAX_FREQ=640_000_000, EMC__MAX_FREQ=0
        ),
    ]
    return {
        "etc/nv_tegra_release": "# R32 (release), REVISION: 7.1, GCID: 29818004, BOARD: t210ref",
        "etc/nvpmodel.conf": "# comment\n" + "\n".join(modes) + "< PM_CONFIG DEFAULT=0 >",
        "var/lib/nvpmodel/status": "pmode:0000 fmode:quiet",
        "proc/device-tree/model": "NVIDIA Jetson Nano Developer Kit\0",
        "proc/device-tree/serial-number": "1421019012345\0",
        "sys/class/devfreq/57000000.gpu/cur_freq": 76_800_000,
        "sys/class/thermal/cooling_device0/type": "pwm-fan",
        "sys/class/thermal/cooling_device0/cur_state": 3,
        **_cpu(4, 1_479_000, 1_479_000, "schedutil"),
    }


def orin() -> dict[str, str | int]:
    """An Orin Nano with the Super modes on R36, where the strongest mode is number 2; as root sees it."""
    modes = [
        _mode(0, "15W", CPU_ONLINE__CORE_0=1, GPU__MAX_FREQ=612_000_000, EMC__MAX_FREQ=2_133_000_000),
        _mode(1, "25W", CPU_ONLINE__CORE_0=1, GPU__MAX_FREQ=918_000_000, EMC__MAX_FREQ=3_199_000_000),
        _mode(2, "MAXN_SUPER", CPU_ONLINE__CORE_0=1, GPU__MAX_FREQ=-1, EMC__MAX_FREQ=-1),
    ]
    alerts = {
        f"sys/class/thermal/cooling_device{i}/{name}": value
        for i, device in enumerate(["cpufreq-cpu0", "pwm-fan", "cpu-throttle-alert", "gpu-throttle-alert"])
        for name, value in (("type", device), ("cur_state", 0))
    }
    events = {f"sys/class/hwmon/hwmon3/oc{i}_event_cnt": count for i, count in ((1, 0), (2, 15), (3, 37))}
    return {
        "etc/nv_tegra_release": "# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic",
        "etc/nvpmodel.conf": "\n".join(modes) + "\n< PM_CONFIG DEFAULT=1 >",
        "var/lib/nvpmodel/status": "pmode:0002",
        "proc/device-tree/model": "NVIDIA Jetson Orin Nano Developer Kit\0",
        "proc/device-tree/compatible": "nvidia,p3768-0000+p3767-0005\0nvidia,tegra234\0",
        "sys/class/devfreq/15340000.vic/cur_freq": 115_200_000,
        "sys/class/devfreq/17000000.gpu/cur_freq": 306_000_000,
        "sys/class/hwmon/hwmon1/name": "ina3221",
        "sys/class/hwmon/hwmon3/name": "soctherm_oc",
        **alerts,
        **events,
        **_cpu(6, 1_728_000, 1_728_000, "schedutil"),
    }


def thor() -> dict[str, str | int]:
    """A Thor on R38: new names of clocks, and the memory clock open to all."""
    modes = [_mode(0, "MAXN", GPU__MAX_FREQ=-1), _mode(1, "120W", GPU__MAX_FREQ=1_386_000_000)]
    return {
        "etc/nv_tegra_release": "# R38 (release), REVISION: 2.1, GCID: 42061081, BOARD: generic",
        "etc/nvpmodel.conf": "\n".join(modes),
        "var/lib/nvpmodel/status": "pmode:0001",
        "proc/device-tree/model": "NVIDIA Jetson AGX Thor Developer Kit\0",
        "sys/class/devfreq/bwmgr/cur_freq": 4_266_000_000,
        "sys/class/devfreq/gpu-gpc-0/cur_freq": 1_386_000_000,
        "sys/class/devfreq/gpu-nvd-0/cur_freq": 999_000_000,
        "sys/class/thermal/cooling_device8/type": "gpu-throttle-alert",
        "sys/class/thermal/cooling_device8/cur_state": 1,
        "sys/class/thermal/cooling_device12/type": "devfreq-gpu-gpc-0",
        "sys/class/thermal/cooling_device12/cur_state": 18,
        **_cpu(14, 1_200_000, 2_601_000, "schedutil"),
    }
