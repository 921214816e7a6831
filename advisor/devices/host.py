"""The host as memory strategies depend on it: clocks, NUMA nodes, limits on memory; and a Jetson board, of
which NVML tells little or nothing. Both are read from /proc and /sys.

Reading never raises: a file may be missing, closed, or empty. A board's paths are those of Jetson Linux R32
(Nano, TX2, Xavier), R35 and R36 (Orin) and R38 (Thor).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from advisor.profiles.system_state import CpuClocks, HostState, Limit, Moment, NumaNode, TegraState

ROOT = Path("/")
# cgroup v1 writes "no limit" as the largest multiple of a page; no machine has so much.
_NO_LIMIT = 1 << 60
_CONTAINER_FILES = (".dockerenv", "run/.containerenv", "run/systemd/container")
_CONTAINERS = {
    "cgroup": "(docker|kubepods|containerd|libpod|/lxc)",
    "mountinfo": r"^\S+ \S+ \S+ \S+ (/) .* - overlay ",
}
_CPU_NAMES = ("model name", "Model", "Hardware")
_REASONS = {
    "cpu.hertz": "Linux reports no CPU clocks (usual in virtual machines)",
    "numa_nodes": "/sys/devices/system/node cannot be read",
    "memory_available_bytes": "/proc/meminfo does not report it",
    "memory_limit": "no cgroup sets one",
    "huge_pages": "/sys/kernel/mm/transparent_hugepage/enabled does not report it",
    "allowed_cpus": "/proc/self/status does not report it",
    "locked_memory_limit": "/proc/self/limits does not report it",
}


@dataclass(frozen=True)
class Machine:
    """Where readings come from: this machine; in tests a copy of its files, and a stand-in for pynvml."""

    root: Path = ROOT
    nvml: Any = None


THIS_MACHINE = Machine()


@dataclass(frozen=True)
class Tree:
    """The files below `root`; "/", or a copy made by hand in tests."""

    root: Path

    def text(self, path: str) -> str | None:
        """The file without the blanks and zero bytes around it; None where it cannot be read or is empty."""
        try:
            text = (self.root / path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        return text.strip().strip("\0") or None

    def number(self, path: str) -> int | None:
        """The whole number that the file holds and nothing else."""
        text = self.text(path)
        return int(text) if text is not None and re.fullmatch(r"-?\d+", text, re.ASCII) else None

    def hertz(self, path: str, unit: int = 1) -> int | None:
        """A clock; 0 and less mean that the driver does not know it."""
        number = self.number(path)
        return number * unit if number is not None and number > 0 else None

    def part(self, path: str, pattern: str) -> str | None:
        """The first group of the pattern where it first occurs in the file; `^` and `$` are of a line."""
        match = re.search(pattern, self.text(path) or "", re.ASCII | re.MULTILINE)
        return match[1] if match else None

    def kibibytes(self, path: str, field: str) -> int | None:
        """A field of /proc/meminfo or a node's meminfo, in bytes: they say kB and mean KiB."""
        number = self.part(path, rf"\b{field}:\s*(\d+) kB")
        return int(number) * 1024 if number else None

    def exists(self, path: str) -> bool:
        try:
            return (self.root / path).exists()
        except OSError:
            return False

    def glob(self, pattern: str) -> Iterator[str]:
        """Paths that match, numbers in their order: node2 before node10."""
        try:
            paths = [str(path.relative_to(self.root)) for path in self.root.glob(pattern)]
        except OSError:
            paths = []
        return iter(sorted(paths, key=lambda path: re.sub(r"\d+", lambda number: number[0].zfill(20), path)))


def host_state(*, root: Path = ROOT) -> HostState:
    """The host now. What the files do not state is absent, with the reason."""
    tree = Tree(root)
    written = tree.part("proc/self/limits", r"Max locked memory\s+(\d+|unlimited)\s")
    locked: Limit | None = "unlimited" if written == "unlimited" else None
    if written and not locked:
        locked = int(written)
    state = HostState(
        cpu=cpu_clocks(tree),
        numa_nodes=tuple(
            NumaNode(
                node=int(re.sub(r"\D", "", folder.rpartition("/")[2])),
                cpus=tree.text(f"{folder}/cpulist") or "",
                memory_bytes=tree.kibibytes(f"{folder}/meminfo", "MemTotal"),
            )
            for folder in tree.glob("sys/devices/system/node/node[0-9]*")
        ),
        memory_available_bytes=tree.kibibytes("proc/meminfo", "MemAvailable"),
        memory_limit=group_limit(tree),
        locked_memory_limit=locked,
        huge_pages=tree.part("sys/kernel/mm/transparent_hugepage/enabled", r"\[(\w+)\]"),
        allowed_cpus=tree.part("proc/self/status", r"^Cpus_allowed_list:[ \t]*(\S+)$"),
        wsl="microsoft" in (tree.text("proc/sys/kernel/osrelease") or "").lower(),
        container=in_container(root=root),
    )
    values = {**dict(state), "cpu.hertz": state.cpu.hertz, "numa_nodes": state.numa_nodes or None}
    return state.model_copy(update={"absent": unread(values, _REASONS)})


def unread(values: Mapping[str, object], reasons: Mapping[str, str]) -> dict[str, str]:
    return {name: why for name, why in reasons.items() if values[name] in (None, {})}


def gpu_numa_node(pci_address: str, *, root: Path = ROOT) -> int | None:
    """The NUMA node the GPU is attached to; None where the kernel does not know (it writes -1) or has no such
    device. Takes CUDA's spelling of the address too."""
    node = Tree(root).number(f"sys/bus/pci/devices/{sysfs_address(pci_address)}/numa_node")
    return node if node is not None and node >= 0 else None


def sysfs_address(pci_bus_id: str) -> str:
    """`0000:3b:00.0` from what CUDA (`0000:3B:00.0`) or NVML (`00000000:3B:00.0`) writes."""
    domain, colon, rest = pci_bus_id.strip().lower().partition(":")
    if not re.fullmatch(r"[0-9a-f]+", domain) or not colon:
        return pci_bus_id.strip().lower()
    return f"{int(domain, 16):04x}:{rest}"


def cpu_model(tree: Tree) -> str | None:
    lines = [line.partition(":")[::2] for line in (tree.text("proc/cpuinfo") or "").splitlines()]
    models = (value.strip() for wanted in _CPU_NAMES for name, value in lines if name.strip() == wanted)
    return next(models, None)


def cpu_clocks(tree: Tree) -> CpuClocks:
    """Governors, and the fastest core's clock beside what it may reach."""
    folders = list(tree.glob("sys/devices/system/cpu/cpu[0-9]*/cpufreq"))
    governors = {tree.text(f"{folder}/scaling_governor") for folder in folders}
    clocks = [(tree.hertz(f"{folder}/scaling_cur_freq", 1000), folder) for folder in folders]
    known = [(hertz, folder) for hertz, folder in clocks if hertz is not None]
    hertz, folder = max(known, default=(None, ""))
    return CpuClocks(
        governors=tuple(sorted(name for name in governors if name)),
        hertz=hertz,
        max_hertz=tree.hertz(f"{folder}/scaling_max_freq", 1000) if folder else None,
    )


def in_container(*, root: Path = ROOT) -> bool:
    """Whether this seems to be a container: its marks, its control group, or an overlay as root."""
    tree = Tree(root)
    marked = any(tree.exists(path) for path in _CONTAINER_FILES)
    return marked or any(tree.part(f"proc/self/{name}", pattern) for name, pattern in _CONTAINERS.items())


def group_limit(tree: Tree) -> Limit | None:
    """The least limit on the way from this process's group up to the root; both cgroup versions."""
    lines = [line.split(":", 2) for line in (tree.text("proc/self/cgroup") or "").splitlines()]
    files = ["sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"]
    for _, controllers, group in (line for line in lines if len(line) == 3):
        base, name = ("sys/fs/cgroup", "memory.max")
        if "memory" in controllers.split(","):
            base, name = ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
        parts = [part for part in group.split("/") if part not in ("", "..")]
        files += [f"{base}/{'/'.join(parts[: i + 1])}/{name}" for i in range(len(parts))]
    limits = [limit for path in files if (limit := tree.text(path)) is not None]
    numbers = [int(limit) for limit in limits if limit.isdecimal() and int(limit) < _NO_LIMIT]
    return min(numbers, default="unlimited" if limits else None)


@cache
def installed(*names: str) -> dict[str, str]:
    versions = {}
    for name in names:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


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
_BOARD_REASONS = {
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
    return state.model_copy(update={"absent": unread(dict(state), _BOARD_REASONS)})


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
    active = modes.get(int(tree.part(_STATUS, r"pmode:\s*(\d+)") or -1))
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
    devices = tree.glob("sys/class/thermal/cooling_device*")
    states = {tree.text(f"{each}/type") or "": tree.number(f"{each}/cur_state") for each in devices}
    alerts = {name: state for name, state in states.items() if name.endswith("-alert") and state is not None}
    return tuple(name for name, state in alerts.items() if state > 0) if alerts else None
