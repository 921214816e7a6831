"""Jetson boards of three generations, from trees of their files."""

from __future__ import annotations

from pathlib import Path

import pytest
from machines import MHZ, make_tree, nano, orin, thor
from rendering import Accepted

from advisor.devices.host import is_tegra, tegra_state
from advisor.profiles.system_state import TegraState


def board(root: Path, files: dict[str, str | int]) -> TegraState:
    state = tegra_state(root=make_tree(root, files))
    assert state is not None
    return state


def test_boards_of_three_generations_and_one_in_a_container(tmp_path: Path, accepted: Accepted) -> None:
    """In a container a board is known by its device tree alone."""
    inside = {name: text for name, text in orin().items() if name == "proc/device-tree/compatible"}
    boards = {"nano": nano(), "orin": orin(), "thor": thor(), "container": inside}
    states = [board(tmp_path / name, files) for name, files in boards.items()]
    accepted("".join(f"{state.model_dump_json(indent=1)}\n" for state in states), "boards.json")


@pytest.mark.parametrize(
    ("status", "mode"),
    [
        *((f"pmode:{i:04} fmode:quiet", mode) for i, mode in enumerate(("15W", "25W", "MAXN_SUPER"))),
        *((status, None) for status in ("pmode:0009", "what is this", "")),
    ],
)
def test_the_strongest_mode_is_the_one_with_the_fewest_caps(
    tmp_path: Path, status: str, mode: str | None
) -> None:
    state = board(tmp_path, {**orin(), "var/lib/nvpmodel/status": status})
    assert (state.power_mode, state.best_power_mode) == (mode, mode and "MAXN_SUPER")
    assert ("power_mode" in state.absent) == (mode is None)


def test_the_strongest_mode_among_equals_caps_and_cores(tmp_path: Path) -> None:
    modes = "< POWER_MODEL ID=0 NAME=A >\nGPU MAX_FREQ 5\n< POWER_MODEL ID=1 NAME=B >\nGPU MAX_FREQ 5\n"
    state = board(tmp_path, {**thor(), "etc/nvpmodel.conf": modes})
    assert (state.power_mode, state.best_power_mode) == ("B", "B")
    modes = "".join(
        f"< POWER_MODEL ID={i} NAME={name} >\nCPU_ONLINE CORE_1 {cores}\nGPU MAX_FREQ -1\n"
        for i, (name, cores) in enumerate([("ALL", 1), ("FEW", 0)])
    )
    assert board(tmp_path, {**thor(), "etc/nvpmodel.conf": modes}).best_power_mode == "ALL"


@pytest.mark.parametrize("uncapped", [0, -1])
def test_the_file_has_two_ways_to_write_no_cap(tmp_path: Path, uncapped: int) -> None:
    modes = "".join(
        f"< POWER_MODEL ID={i} NAME={name} >\nGPU MAX_FREQ -1\nEMC MAX_FREQ {cap}\n"
        for i, (name, cap) in enumerate([("FREE", uncapped), ("CAPPED", 4_266_000_000)])
    )
    assert board(tmp_path, {**thor(), "etc/nvpmodel.conf": modes}).best_power_mode == "FREE"


def test_class_folders_are_links(tmp_path: Path) -> None:
    make_tree(tmp_path, {"etc/nv_tegra_release": "# R36", "sys/devices/gpu/cur_freq": 5 * MHZ})
    (tmp_path / "sys/class/devfreq").mkdir(parents=True)
    (tmp_path / "sys/class/devfreq/17000000.gpu").symlink_to("../../devices/gpu")
    state = tegra_state(root=tmp_path)
    assert state.gpu_hertz == 5 * MHZ


@pytest.mark.parametrize("name", ["17000000.gv11b", "17000000.ga10b", "17000000.gp10b", "57000000.gpu"])
def test_the_gpu_clock_by_any_name(tmp_path: Path, name: str) -> None:
    files = {"etc/nv_tegra_release": "# R35", f"sys/class/devfreq/{name}/cur_freq": 5 * MHZ}
    assert board(tmp_path, files).gpu_hertz == 5 * MHZ


@pytest.mark.parametrize("nonsense", ["", "0", "-1", "N/A", "12 13", "\u0663"])
def test_nonsense_is_absent(tmp_path: Path, nonsense: str) -> None:
    files = {**orin(), "sys/class/devfreq/17000000.gpu/cur_freq": nonsense}
    state = board(tmp_path, files)
    assert state.gpu_hertz is None
    assert state.absent == {"gpu_hertz": "/sys/class/devfreq has no GPU clock"}


def test_any_file_may_be_missing(tmp_path: Path) -> None:
    whole = board(tmp_path, orin())
    for missing, content in orin().items():
        (tmp_path / missing).unlink()
        state = tegra_state(root=tmp_path)
        assert set(state.absent) <= {*TegraState.model_fields}
        make_tree(tmp_path, {missing: content})
    assert tegra_state(root=tmp_path) == whole


def test_other_machines_are_no_jetson(tmp_path: Path) -> None:
    make_tree(tmp_path, {"proc/device-tree/compatible": "raspberrypi,5-model-b\0brcm,bcm2712\0"})
    assert not is_tegra(root=tmp_path)
    assert tegra_state(root=tmp_path) is None
