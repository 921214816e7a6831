"""A Jetson board, from /proc and /sys: NVML tells little or nothing there.

The paths are those of Jetson Linux R32 (Nano, TX2, Xavier), R35 and R36 (Orin) and R38 (Thor).
"""

from __future__ import annotations

import re
from pathlib import Path

from advisor.devices.host import ROOT, Tree, cpu_clocks, unread
from advisor.profiles.system_state import Moment, TegraState

# nvpmodel -q may need root, its files do not.
_STATUS = "var/lib/nvpmodel/status"
_CONFIGURATION = "etc/nvpmodel.conf"
_UNCAPPED = float("inf")
_MODE = re.compile(r"<\s*POWER_MODEL\s+ID=(\d+)\s+NAME=(\S+?)\s*>", re.ASCII)
_LINE = re.compile(r"^(\w+)\s+(\w+)\s+(-?\d+)\s*$", re.ASCII)
_RELEASE = "etc/nv_tegra_release"
_COMPATIBLE = "proc/device-tree/compatible"
# 57000000.gpu, 17000000.gpu, gpu-gpc-0 (Thor, before gpu-nvd-0), else the bus address and the chip's name.
_GPU_CLOCKS = ("sys/class/devfreq/*gpu*", "sys/class/devfreq/17000000.*")
_REASONS = {
    "board": "/proc/device-tree/model cannot be read",
    "l4t_release": f"/{_RELEASE} cannot be read (usual in a container)",
    "power_mode": f"/{_STATUS} or /{_CONFIGURATION} cannot be read",
    "gpu_hertz": "/sys/class/devfreq has no GPU clock",
    "over_current_events": "this board or its Jetson Linux release does not count them",
    "throttle_alerts": "/sys/class/thermal has no throttle alerts",
}
# Jetson Linux Developer Guide, "Over-current throttling": what the board's three events mean.
_EVENTS = {"oc1": "under voltage", "oc2": "average over-current", "oc3": "instantaneous over-current"}


def is_tegra(*, root: Path = ROOT) -> bool:
    """Whether this is a Jetson: Jetson Linux left its mark, or the device tree names the chip."""
    tree = Tree(root)
    return tree.exists(_RELEASE) or "nvidia,tegra" in (tree.text(_COMPATIBLE) or "")


def tegra_state(*, moment: Moment = "after", root: Path = ROOT) -> TegraState | None:
    """The board now; None where this is no Jetson. What cannot be read is absent, with the reason."""
    if not is_tegra(root=root):
        return None
    tree = Tree(root)
    mode, best = _modes(tree)
    gpu = next((path for pattern in _GPU_CLOCKS for path in tree.glob(pattern)), "")
    # R36.4.3 from `# R36 (release), REVISION: 4.3, GCID: ...`.
    release = re.search(r"#\s*(R\d+)\b.*?REVISION:\s*([\d.]+)", tree.text(_RELEASE) or "", re.ASCII)
    state = TegraState(
        moment=moment,
        board=tree.text("proc/device-tree/model"),
        l4t_release=f"{release[1]}.{release[2]}" if release else None,
        power_mode=mode,
        best_power_mode=best,
        gpu_hertz=tree.hertz(f"{gpu}/cur_freq"),
        cpu=cpu_clocks(tree),
        over_current_events=_events(tree),
        throttle_alerts=_alerts(tree),
    )
    return state.model_copy(update={"absent": unread(dict(state), _REASONS)})


def _modes(tree: Tree) -> tuple[str | None, str | None]:
    """The mode that is set and the strongest one, by its caps of GPU, memory, cores and CPU; the same where
    none allows more.

    The caps are in the units of the file and only compared. A mode's number has no order: 0 is the strongest
    mode on most boards, 2 on some.
    """
    parts = _MODE.split(tree.text(_CONFIGURATION) or "")[1:]
    modes: dict[int, tuple[str, tuple[float, ...]]] = {}
    for number, name, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        lines = [match.groups() for line in body.splitlines() if (match := _LINE.match(line.strip()))]
        cores = sum(int(value) for part, _, value in lines if part == "CPU_ONLINE")
        modes[int(number)] = (name, (_cap(lines, "GPU"), _cap(lines, "EMC"), cores, _cap(lines, "CPU_")))
    # pmode:0002, on older releases pmode:0002 fmode:quiet
    mode_number = re.search(r"pmode:\s*(\d+)", tree.text(_STATUS) or "", re.ASCII)
    active = modes.get(int(mode_number[1])) if mode_number else None
    if active is None:
        return None, None
    best = max(modes.values(), key=lambda mode: (mode[1], mode is active))
    return active[0], best[0]


def _cap(lines: list[tuple[str, ...]], part: str) -> float:
    """The highest MAX_FREQ of what begins with `part`. The file writes -1 or 0 for no cap."""
    caps = [int(value) for name, key, value in lines if name.startswith(part) and key == "MAX_FREQ"]
    return max((float(cap) if cap > 0 else _UNCAPPED for cap in caps), default=_UNCAPPED)


def _events(tree: Tree) -> dict[str, int]:
    folders = [f for f in tree.glob("sys/class/hwmon/hwmon*") if "soctherm" in (tree.text(f"{f}/name") or "")]
    return {
        meaning: count
        for folder in folders
        for event, meaning in _EVENTS.items()
        if (count := tree.number(f"{folder}/{event}_event_cnt")) is not None
    }


def _alerts(tree: Tree) -> tuple[str, ...] | None:
    """Only alerts: the state of a fan, or of devfreq and cpufreq, is above 0 in health too."""
    devices = {
        tree.text(f"{device}/type") or "": tree.number(f"{device}/cur_state")
        for device in tree.glob("sys/class/thermal/cooling_device*")
    }
    alerts = {name: state for name, state in devices.items() if name.endswith("-alert") and state is not None}
    return tuple(name for name, state in alerts.items() if state > 0) if alerts else None
