"""The host from trees of files: NUMA nodes, limits on memory, what kind of machine it is, Jetson boards."""

from __future__ import annotations

import resource
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest
from machines import MHZ, board_files, make_tree
from rendering import Accepted

from advisor.devices.host import gpu_numa_node, host_state, is_tegra, tegra_state
from advisor.profiles.system_state import NumaNode, TegraState

LIMITS = "Limit               Soft Limit    Hard Limit    Units\nMax locked memory   {}    {}    bytes"
TWO_NODES: dict[str, str | int] = {
    "sys/devices/system/node/node0/cpulist": "0-7,16-23",
    "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal:       65536 kB\nNode 0 MemFree: 1 kB",
    "sys/devices/system/node/node10/cpulist": "",
    "sys/devices/system/node/node10/meminfo": "Node 10 MemTotal:      1024 kB",
    "sys/devices/system/node/node2/cpulist": "8-15",
}


@pytest.mark.parametrize(("written", "node"), [("0", 0), ("1", 1), ("-1", None), ("", None)])
def test_the_node_of_a_gpu(tmp_path: Path, written: str, node: int | None) -> None:
    make_tree(tmp_path, {"sys/bus/pci/devices/0000:3b:00.0/numa_node": written})
    assert gpu_numa_node("0000:3B:00.0", root=tmp_path) == node
    assert gpu_numa_node("00000000:3B:00.0", root=tmp_path) == node
    assert gpu_numa_node("0000:3c:00.0", root=tmp_path) is None


OVERLAY = "1 0 0:5 / / rw,relatime - overlay overlay rw,lowerdir=/a"
DISK = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:5 / /x rw - overlay o rw"
HUGE_PAGES = "sys/kernel/mm/transparent_hugepage/enabled"
NODES = (
    NumaNode(node=0, cpus="0-7,16-23", memory_bytes=64 << 20),
    NumaNode(node=2, cpus="8-15", memory_bytes=None),
    NumaNode(node=10, cpus="", memory_bytes=1 << 20),
)
CGROUP_2 = {
    "proc/self/cgroup": "0::/user.slice/run.scope",
    "sys/fs/cgroup/user.slice/memory.max": "2147483648",
    "sys/fs/cgroup/user.slice/run.scope/memory.max": "max",
}
CGROUP_1 = {
    "proc/self/cgroup": "9:cpu,cpuacct:/a\n5:memory:/docker/b\nnonsense",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
    "sys/fs/cgroup/memory/docker/b/memory.limit_in_bytes": "536870912",
}
NESTED = {
    "proc/self/cgroup": "0::/a/b",
    "sys/fs/cgroup/a/memory.max": "4096",
    "sys/fs/cgroup/a/b/memory.max": "8192",
}
FIELDS: list[tuple[str, object, Mapping[str, str | int]]] = [
    ("numa_nodes", NODES, TWO_NODES),
    ("numa_nodes", (), {}),
    ("locked_memory_limit", 8 << 20, {"proc/self/limits": LIMITS.format("8388608", "99999999")}),
    ("locked_memory_limit", "unlimited", {"proc/self/limits": LIMITS.format("unlimited", "99999999")}),
    ("locked_memory_limit", 0, {"proc/self/limits": LIMITS.format("0", "99999999")}),
    ("memory_limit", "unlimited", {"sys/fs/cgroup/memory.max": "max"}),
    ("memory_limit", 2 << 30, CGROUP_2),
    ("memory_limit", 512 << 20, CGROUP_1),
    ("memory_limit", 4096, NESTED),
    ("memory_limit", None, {"proc/self/cgroup": "0::/../../x"}),
    ("container", True, {".dockerenv": ""}),
    ("container", True, {"run/systemd/container": "lxc"}),
    ("container", True, {"proc/self/cgroup": "0::/kubepods/besteffort/pod1"}),
    ("container", False, {"proc/self/cgroup": "0::/user.slice"}),
    ("container", True, {"proc/self/mountinfo": OVERLAY}),
    ("container", False, {"proc/self/mountinfo": DISK}),
    ("container", False, {}),
    ("wsl", True, {"proc/sys/kernel/osrelease": "5.15.153.1-microsoft-standard-WSL2"}),
    ("wsl", True, {"proc/sys/kernel/osrelease": "4.4.0-19041-Microsoft"}),
    ("wsl", False, {"proc/sys/kernel/osrelease": "6.8.0-45-generic"}),
    ("huge_pages", "madvise", {HUGE_PAGES: "always [madvise] never"}),
    ("huge_pages", "always", {HUGE_PAGES: "[always] madvise never"}),
    ("huge_pages", None, {HUGE_PAGES: ""}),
    ("allowed_cpus", "0-3,8-11", {"proc/self/status": "Cpus_allowed:\tff\nCpus_allowed_list:\t0-3,8-11"}),
]


@pytest.mark.parametrize(("name", "value", "files"), FIELDS)
def test_what_is_read_or_absent(
    name: str, value: object, files: Mapping[str, str | int], tmp_path: Path
) -> None:
    """NUMA nodes in the order of their numbers; of locked memory the soft limit; of groups the least one."""
    state = host_state(root=make_tree(tmp_path, files))
    assert getattr(state, name) == value
    assert (name in state.absent) == (value in (None, ()))


def test_this_machine() -> None:
    state = host_state()
    soft = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    assert state.locked_memory_limit == ("unlimited" if soft == resource.RLIM_INFINITY else soft)
    assert state.memory_available_bytes == pytest.approx(psutil.virtual_memory().available, rel=0.5)


# Jetson boards of three generations


def board(root: Path, files: dict[str, str | int]) -> TegraState:
    state = tegra_state(root=make_tree(root, files))
    assert state is not None
    return state


def test_boards_of_three_generations_and_one_in_a_container(tmp_path: Path, accepted: Accepted) -> None:
    """In a container a board is known by its device tree alone."""
    inside = {
        name: text for name, text in board_files("orin").items() if name == "proc/device-tree/compatible"
    }
    boards = {**{name: board_files(name) for name in ("nano", "orin", "thor")}, "container": inside}
    states = [board(tmp_path / name, files) for name, files in boards.items()]
    accepted("".join(f"{state.model_dump_json(indent=1)}\n" for state in states), "boards.json")


@pytest.mark.parametrize(
    ("status", "mode"),
    [
        *((f"pmode:{i:04} fmode:quiet", mode) for i, mode in enumerate(("15W", "25W", "MAXN_SUPER"))),
        *((status, None) for status in ("pmode:0009", "what is this", "")),
    ],
)
def test_the_power_mode_in_use_and_the_strongest(tmp_path: Path, status: str, mode: str | None) -> None:
    state = board(tmp_path, {**board_files("orin"), "var/lib/nvpmodel/status": status})
    assert (state.power_mode, state.best_power_mode) == (mode, mode and "MAXN_SUPER")
    assert ("power_mode" in state.absent) == (mode is None)


MODE = "< POWER_MODEL ID={} NAME={} >\nCPU_ONLINE CORE_1 {}\nGPU MAX_FREQ {}\nEMC MAX_FREQ {}\n"


@pytest.mark.parametrize(
    ("first", "second", "best"),
    [
        ((1, 5, 7), (1, 5, 7), "B"),  # the one in use
        ((1, -1, -1), (0, -1, -1), "A"),  # more cores
        *(
            ((1, -1, none), (1, -1, 7), "A") for none in (0, -1)
        ),  # fewer caps: there are two ways to write none
    ],
)
def test_the_strongest_mode_has_the_fewest_caps_and_the_most_cores(
    first: tuple[int, int, int], second: tuple[int, int, int], best: str, tmp_path: Path
) -> None:
    modes = MODE.format(0, "A", *first) + MODE.format(1, "B", *second)
    assert board(tmp_path, {**board_files("thor"), "etc/nvpmodel.conf": modes}).best_power_mode == best


def test_class_folders_are_links(tmp_path: Path) -> None:
    make_tree(tmp_path, {"etc/nv_tegra_release": "# R36", "sys/devices/gpu/cur_freq": 5 * MHZ})
    (tmp_path / "sys/class/devfreq").mkdir(parents=True)
    (tmp_path / "sys/class/devfreq/17000000.gpu").symlink_to("../../devices/gpu")
    state = tegra_state(root=tmp_path)
    assert state.gpu_hertz == 5 * MHZ


@pytest.mark.parametrize("name", ["17000000.gv11b", "17000000.ga10b", "17000000.gp10b", "57000000.gpu"])
def test_the_gpu_clock_by_any_name_but_no_nonsense(tmp_path: Path, name: str) -> None:
    clock = f"sys/class/devfreq/{name}/cur_freq"
    assert board(tmp_path, {"etc/nv_tegra_release": "# R35", clock: 5 * MHZ}).gpu_hertz == 5 * MHZ
    for nonsense in ("", "0", "-1", "N/A", "12 13", "\u0663"):
        state = board(tmp_path, {clock: nonsense})
        assert (state.gpu_hertz, state.absent["gpu_hertz"]) == (None, "/sys/class/devfreq has no GPU clock")


def test_any_file_may_be_missing(tmp_path: Path) -> None:
    whole = board(tmp_path, board_files("orin"))
    for missing, content in board_files("orin").items():
        (tmp_path / missing).unlink()
        state = tegra_state(root=tmp_path)
        assert set(state.absent) <= {*TegraState.model_fields}
        make_tree(tmp_path, {missing: content})
    assert tegra_state(root=tmp_path) == whole


def test_other_machines_are_no_jetson(tmp_path: Path) -> None:
    make_tree(tmp_path, {"proc/device-tree/compatible": "raspberrypi,5-model-b\0brcm,bcm2712\0"})
    assert not is_tegra(root=tmp_path)
    assert tegra_state(root=tmp_path) is None
