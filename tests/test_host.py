"""The host from trees of files: NUMA nodes, limits on memory, what kind of machine it is, Jetson boards."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import psutil
import pytest
from every import every
from machines import MHZ, board_files, make_tree
from rendering import Accepted

from advisor.devices.host import gpu_numa_node, host_state, is_tegra, tegra_state
from advisor.profiles.files import read_toml
from advisor.profiles.system_state import TegraState

DATA = Path(__file__).parent / "data"


@pytest.mark.parametrize(("written", "node"), [("0", 0), ("1", 1), ("-1", None), ("", None)])
def test_the_node_of_a_gpu(tmp_path: Path, written: str, node: int | None) -> None:
    make_tree(tmp_path, {"sys/bus/pci/devices/0000:3b:00.0/numa_node": written})
    assert gpu_numa_node("0000:3B:00.0", root=tmp_path) == node
    assert gpu_numa_node("00000000:3B:00.0", root=tmp_path) == node
    assert gpu_numa_node("0000:3c:00.0", root=tmp_path) is None


@every(
    "case", read_toml(DATA / "hosts.toml")["host"], ids=lambda case: f"{case['field']} {case.get('value')}"
)
def test_what_is_read_or_absent(case: dict[str, Any], tmp_path: Path) -> None:
    state = host_state(root=make_tree(tmp_path / str(len(list(tmp_path.iterdir()))), case["files"]))
    value = state.model_dump(mode="json", exclude_none=True).get(case["field"])
    assert value == case.get("value")
    assert (case["field"] in state.absent) == (value in (None, []))


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
        *(((1, -1, none), (1, -1, 7), "A") for none in (0, -1)),  # fewer caps: none is written in two ways
    ],
)
def test_the_strongest_mode_has_the_fewest_caps_and_the_most_cores(
    first: tuple[int, int, int], second: tuple[int, int, int], best: str, tmp_path: Path
) -> None:
    modes = MODE.format(0, "A", *first) + MODE.format(1, "B", *second)
    assert board(tmp_path, {**board_files("thor"), "etc/nvpmodel.conf": modes}).best_power_mode == best


@pytest.mark.parametrize("name", ["17000000.gv11b", "17000000.ga10b", "17000000.gp10b", "57000000.gpu"])
def test_the_gpu_clock_by_any_name_but_no_nonsense(tmp_path: Path, name: str) -> None:
    """Class folders are links."""
    (tmp_path / "sys/class/devfreq").mkdir(parents=True)
    (tmp_path / "sys/class/devfreq" / name).symlink_to("../../devices/gpu")
    clock = "sys/devices/gpu/cur_freq"
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
