"""The host as memory strategies depend on it: clocks, NUMA nodes, and limits on memory."""

from __future__ import annotations

import re
from pathlib import Path

from advisor.devices.files import Tree
from advisor.profiles.system_state import CpuClocks, HostState, Limit, NumaNode

ROOT = Path("/")
# cgroup v1 writes "no limit" as the largest multiple of a page; no machine has so much.
_NO_LIMIT = 1 << 60
_CONTAINER_FILES = (".dockerenv", "run/.containerenv", "run/systemd/container")
_CONTAINER_GROUPS = re.compile(r"docker|kubepods|containerd|libpod|/lxc")
_OVERLAY_ROOT = re.compile(r"^\S+ \S+ \S+ \S+ / .* - overlay ", re.MULTILINE)
_REASONS = {
    "cpu.hertz": "Linux shows no CPU clocks here, as in many virtual machines",
    "numa_nodes": "/sys/devices/system/node cannot be read",
    "memory_available_bytes": "/proc/meminfo does not tell it",
    "memory_limit": "no control group tells of one",
    "locked_memory_limit": "/proc/self/limits does not tell it",
}


def host_state(*, root: Path = ROOT) -> HostState:
    """The host now. What the files do not tell is absent, with the reason."""
    tree = Tree(root)
    state = HostState(
        cpu=cpu_clocks(tree),
        numa_nodes=_nodes(tree),
        memory_available_bytes=tree.kibibytes("proc/meminfo", "MemAvailable"),
        memory_limit=_group_limit(tree),
        locked_memory_limit=_locked_limit(tree),
        wsl=is_wsl(root=root),
        container=in_container(root=root),
    )
    known = {
        "cpu.hertz": state.cpu.hertz is not None,
        "numa_nodes": bool(state.numa_nodes),
        "memory_available_bytes": state.memory_available_bytes is not None,
        "memory_limit": state.memory_limit is not None,
        "locked_memory_limit": state.locked_memory_limit is not None,
    }
    return state.model_copy(
        update={"absent": {name: _REASONS[name] for name, told in known.items() if not told}}
    )


def gpu_numa_node(pci_address: str, *, root: Path = ROOT) -> int | None:
    """The NUMA node that the GPU hangs on; None where the kernel does not know (it writes -1) or has no such
    device. Takes CUDA's spelling of the address too."""
    node = Tree(root).number(f"sys/bus/pci/devices/{sysfs_address(pci_address)}/numa_node")
    return node if node is not None and node >= 0 else None


def sysfs_address(pci_bus_id: str) -> str:
    """`0000:3b:00.0` from what CUDA (`0000:3B:00.0`) or NVML (`00000000:3B:00.0`) writes."""
    domain, colon, rest = pci_bus_id.strip().lower().partition(":")
    if not re.fullmatch(r"[0-9a-f]+", domain) or not colon:
        return pci_bus_id.strip().lower()
    return f"{int(domain, 16):04x}:{rest}"


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


def is_wsl(*, root: Path = ROOT) -> bool:
    """Whether this is Windows Subsystem for Linux: its kernel names Microsoft."""
    return "microsoft" in (Tree(root).text("proc/sys/kernel/osrelease") or "").lower()


def in_container(*, root: Path = ROOT) -> bool:
    """Whether this seems to be a container: its marks, its control group, or an overlay as root."""
    tree = Tree(root)
    if any(tree.exists(path) for path in _CONTAINER_FILES):
        return True
    if _CONTAINER_GROUPS.search(tree.text("proc/self/cgroup") or ""):
        return True
    return bool(_OVERLAY_ROOT.search(tree.text("proc/self/mountinfo") or ""))


def _locked_limit(tree: Tree) -> Limit | None:
    found = re.search(r"Max locked memory\s+(\d+|unlimited)\s", tree.text("proc/self/limits") or "", re.ASCII)
    if not found:
        return None
    return "unlimited" if found[1] == "unlimited" else int(found[1])


def _group_limit(tree: Tree) -> Limit | None:
    """The least limit on the way from this process's group up to the root; both cgroup versions."""
    limits = [limit for path in _limit_files(tree) if (limit := tree.text(path)) is not None]
    numbers = [int(limit) for limit in limits if limit.isdecimal() and int(limit) < _NO_LIMIT]
    if numbers:
        return min(numbers)
    return "unlimited" if limits else None


def _limit_files(tree: Tree) -> list[str]:
    lines = [line.split(":", 2) for line in (tree.text("proc/self/cgroup") or "").splitlines()]
    files = ["sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"]
    for _, controllers, group in (line for line in lines if len(line) == 3):
        base, name = ("sys/fs/cgroup", "memory.max")
        if "memory" in controllers.split(","):
            base, name = ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
        parts = [part for part in group.split("/") if part not in ("", "..")]
        files += [f"{base}/{'/'.join(parts[: i + 1])}/{name}" for i in range(len(parts))]
    return files


def _nodes(tree: Tree) -> tuple[NumaNode, ...]:
    return tuple(
        NumaNode(
            node=int(re.sub(r"\D", "", folder.rpartition("/")[2])),
            cpus=tree.text(f"{folder}/cpulist") or "",
            memory_bytes=tree.kibibytes(f"{folder}/meminfo", "MemTotal"),
        )
        for folder in tree.glob("sys/devices/system/node/node[0-9]*")
    )
