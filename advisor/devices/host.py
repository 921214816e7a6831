"""The host as memory strategies depend on it: clocks, NUMA nodes, limits on memory; read from /proc and /sys.

Reading never raises: a file may be missing, closed, or empty.
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

from advisor.profiles.system_state import CpuClocks, HostState, Limit, NumaNode

ROOT = Path("/")
# cgroup v1 writes "no limit" as the largest multiple of a page; no machine has so much.
_NO_LIMIT = 1 << 60
_CONTAINER_FILES = (".dockerenv", "run/.containerenv", "run/systemd/container")
_CONTAINER_GROUPS = re.compile(r"docker|kubepods|containerd|libpod|/lxc")
_OVERLAY_ROOT = re.compile(r"^\S+ \S+ \S+ \S+ / .* - overlay ", re.MULTILINE)
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

    def kibibytes(self, path: str, field: str) -> int | None:
        """A field of /proc/meminfo or a node's meminfo, in bytes: they say kB and mean KiB."""
        match = re.search(rf"\b{field}:\s*(\d+) kB", self.text(path) or "", re.ASCII)
        return int(match[1]) * 1024 if match else None

    def field(self, path: str, name: str) -> str | None:
        """The value after `name:` in a file of such lines."""
        match = re.search(rf"^{name}:[ \t]*(\S+)$", self.text(path) or "", re.MULTILINE)
        return match[1] if match else None

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
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
    match = re.search(r"Max locked memory\s+(\d+|unlimited)\s", tree.text("proc/self/limits") or "", re.ASCII)
    locked: Limit | None = None
    if match:
        locked = "unlimited" if match[1] == "unlimited" else int(match[1])
    # The word in brackets: `always [madvise] never`.
    pages = tree.text("sys/kernel/mm/transparent_hugepage/enabled")
    huge_pages = re.search(r"\[(\w+)\]", pages or "")
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
        memory_limit=_group_limit(tree),
        locked_memory_limit=locked,
        huge_pages=huge_pages[1] if huge_pages else None,
        allowed_cpus=tree.field("proc/self/status", "Cpus_allowed_list"),
        wsl=is_wsl(root=root),
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


def _group_limit(tree: Tree) -> Limit | None:
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
