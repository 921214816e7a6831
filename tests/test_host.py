"""The host: NUMA nodes, limits on memory, and what kind of machine it is, from trees of files."""

from __future__ import annotations

import resource
from pathlib import Path

import psutil
import pytest
from machines import MHZ, make_tree, nano

from advisor.devices.host import Tree, cpu_clocks, gpu_numa_node, host_state, in_container, is_wsl
from advisor.profiles.system_state import NumaNode

LIMITS = "Limit               Soft Limit    Hard Limit    Units\nMax locked memory   {}    {}    bytes"
TWO_NODES: dict[str, str | int] = {
    "sys/devices/system/node/node0/cpulist": "0-7,16-23",
    "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal:       65536 kB\nNode 0 MemFree: 1 kB",
    "sys/devices/system/node/node10/cpulist": "",
    "sys/devices/system/node/node10/meminfo": "Node 10 MemTotal:      1024 kB",
    "sys/devices/system/node/node2/cpulist": "8-15",
}


def test_numa_nodes_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    assert host_state(root=make_tree(tmp_path, TWO_NODES)).numa_nodes == (
        NumaNode(node=0, cpus="0-7,16-23", memory_bytes=64 << 20),
        NumaNode(node=2, cpus="8-15", memory_bytes=None),
        NumaNode(node=10, cpus="", memory_bytes=1 << 20),
    )


@pytest.mark.parametrize(("written", "node"), [("0", 0), ("1", 1), ("-1", None), ("", None)])
def test_the_node_of_a_gpu(tmp_path: Path, written: str, node: int | None) -> None:
    make_tree(tmp_path, {"sys/bus/pci/devices/0000:3b:00.0/numa_node": written})
    assert gpu_numa_node("0000:3B:00.0", root=tmp_path) == node
    assert gpu_numa_node("00000000:3B:00.0", root=tmp_path) == node
    assert gpu_numa_node("0000:3c:00.0", root=tmp_path) is None


@pytest.mark.parametrize(("soft", "limit"), [("8388608", 8 << 20), ("unlimited", "unlimited"), ("0", 0)])
def test_the_limit_of_locked_memory_is_the_soft_one(tmp_path: Path, soft: str, limit: int | str) -> None:
    make_tree(tmp_path, {"proc/self/limits": LIMITS.format(soft, "99999999")})
    state = host_state(root=tmp_path)
    assert state.locked_memory_limit == limit
    assert "locked_memory_limit" not in state.absent


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({"sys/fs/cgroup/memory.max": "max"}, "unlimited"),
        (
            {
                "proc/self/cgroup": "0::/user.slice/run.scope",
                "sys/fs/cgroup/user.slice/memory.max": "2147483648",
                "sys/fs/cgroup/user.slice/run.scope/memory.max": "max",
            },
            2 << 30,
        ),
        (
            {
                "proc/self/cgroup": "9:cpu,cpuacct:/a\n5:memory:/docker/b\nnonsense",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
                "sys/fs/cgroup/memory/docker/b/memory.limit_in_bytes": "536870912",
            },
            512 << 20,
        ),
        (
            {
                "proc/self/cgroup": "0::/a/b",
                "sys/fs/cgroup/a/memory.max": "4096",
                "sys/fs/cgroup/a/b/memory.max": "8192",
            },
            4096,
        ),
        ({"proc/self/cgroup": "0::/../../x"}, None),
    ],
)
def test_the_control_group_s_limit(
    tmp_path: Path, files: dict[str, str | int], limit: int | str | None
) -> None:
    state = host_state(root=make_tree(tmp_path, files))
    assert state.memory_limit == limit
    assert ("memory_limit" in state.absent) == (limit is None)


def test_the_fastest_core_speaks_for_the_cpu(tmp_path: Path) -> None:
    clocks = cpu_clocks(Tree(make_tree(tmp_path, nano())))
    assert (clocks.governors, clocks.hertz, clocks.max_hertz) == (("schedutil",), 1479 * MHZ, 1479 * MHZ)


@pytest.mark.parametrize(
    ("files", "contained"),
    [
        ({".dockerenv": ""}, True),
        ({"run/systemd/container": "lxc"}, True),
        ({"proc/self/cgroup": "0::/kubepods/besteffort/pod1"}, True),
        ({"proc/self/cgroup": "0::/user.slice"}, False),
        ({"proc/self/mountinfo": "1 0 0:5 / / rw,relatime - overlay overlay rw,lowerdir=/a"}, True),
        (
            {"proc/self/mountinfo": "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:5 / /x rw - overlay o rw"},
            False,
        ),
        ({}, False),
    ],
)
def test_containers(tmp_path: Path, files: dict[str, str | int], contained: bool) -> None:
    make_tree(tmp_path, files)
    assert in_container(root=tmp_path) is contained
    assert host_state(root=tmp_path).container is contained


@pytest.mark.parametrize(
    ("release", "wsl"),
    [
        ("5.15.153.1-microsoft-standard-WSL2", True),
        ("4.4.0-19041-Microsoft", True),
        ("6.8.0-45-generic", False),
    ],
)
def test_wsl(tmp_path: Path, release: str, wsl: bool) -> None:
    make_tree(tmp_path, {"proc/sys/kernel/osrelease": release})
    assert is_wsl(root=tmp_path) is wsl
    assert host_state(root=tmp_path).wsl is wsl


@pytest.mark.parametrize(
    ("written", "told"),
    [("always [madvise] never", "madvise"), ("[always] madvise never", "always"), ("", None)],
)
def test_huge_pages_and_the_cpus_of_this_process(tmp_path: Path, written: str, told: str | None) -> None:
    make_tree(
        tmp_path,
        {
            "sys/kernel/mm/transparent_hugepage/enabled": written,
            "proc/self/status": "Name:\tpython\nCpus_allowed:\tff\nCpus_allowed_list:\t0-3,8-11",
        },
    )
    state = host_state(root=tmp_path)
    assert (state.huge_pages, state.allowed_cpus) == (told, "0-3,8-11")
    assert ("huge_pages" in state.absent) == (told is None)


def test_this_machine() -> None:
    state = host_state()
    soft = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    assert state.locked_memory_limit == ("unlimited" if soft == resource.RLIM_INFINITY else soft)
    assert state.memory_available_bytes == pytest.approx(psutil.virtual_memory().available, rel=0.5)
