"""How GPUs are joined, from NVML and the kernel's folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from advisor.devices.gpus import GpuLinks, gpu_links, root_port
from advisor.devices.host import Machine

PLACES = ["0000:3b:00.0", "0000:5e:00.0", "0000:86:00.0"]


class Nvml:
    """pynvml over three GPUs, the first two joined by NVLink."""

    broken = False

    def nvmlInit(self) -> None:  # noqa: N802
        if self.broken:
            raise RuntimeError("no NVML here")

    def nvmlShutdown(self) -> None:  # noqa: N802
        pass

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 3

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetPciInfo(self, index: int) -> Any:  # noqa: N802
        return type("Info", (), {"busId": f"0000{PLACES[index].upper()}".encode()})

    def nvmlDeviceGetUUID(self, index: int) -> str:  # noqa: N802
        return f"GPU-{index}"

    def nvmlDeviceGetName(self, index: int) -> str:  # noqa: N802
        return "H200"

    def nvmlDeviceGetP2PStatus(self, one: int, other: int, capability: int) -> int:  # noqa: N802
        assert capability == 0
        return 0 if {one, other} == {0, 1} else 5

    def nvmlDeviceGetNvLinkState(self, index: int, link: int) -> int:  # noqa: N802
        if index == 2 or link >= 18:
            raise RuntimeError("not supported")
        return int(link != 3)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """The first two GPUs are below one root port."""
    devices = tmp_path / "sys/bus/pci/devices"
    devices.mkdir(parents=True)
    for place, port in zip(PLACES, ("0000:00:01.0", "0000:00:01.0", "0000:80:01.0"), strict=True):
        folder = tmp_path / f"sys/devices/pci{port[:7]}/{port}/{port[:5]}3a:00.0/{place}"
        folder.mkdir(parents=True)
        (devices / place).symlink_to(folder)
    return Machine(root=tmp_path, nvml=Nvml())


def test_who_reaches_whom_and_over_what(machine: Machine) -> None:
    first, second, third = gpu_links(machine)
    assert first == GpuLinks(PLACES[0], "GPU-0", "H200", (PLACES[1],), 17, "0000:00:01.0")
    assert (second.reaches, second.root_port) == ((PLACES[0],), "0000:00:01.0")
    assert (third.reaches, third.nvlinks, third.root_port) == ((), None, "0000:80:01.0")
    found = gpu_links(machine, ["0000:86:00.0", "00000000:3B:00.0", "0000:99:00.0"])
    assert [each.uuid for each in found] == ["GPU-2", "GPU-0", None]
    machine.nvml.broken = True
    assert gpu_links(machine) == ()
    assert root_port("0000:99:00.0", machine.root) is None
    assert root_port("0000:3B:00.0", machine.root) == "0000:00:01.0"
