"""Machines made by hand: a pynvml that any call of can fail, and trees of /proc, /sys and /etc."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from advisor.profiles.files import read_toml

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


def board_files(*names: str) -> dict[str, str | int]:
    """The files of a board, `nano`, `orin` or `thor`, and of its power monitors."""
    return {path: content for name in names for path, content in _BOARDS[name].items()}


_BOARDS = read_toml(Path(__file__).parent / "data" / "boards.toml")
