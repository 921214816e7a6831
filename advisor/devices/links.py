"""How GPUs are joined: to the host through which port, and to one another by NVLink or PCIe.

NVML says which GPU can read the memory of which other one, and how many NVLinks are up; the kernel, below
which root port each is: GPUs below one share its link to the host.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.devices.host import ROOT, THIS_MACHINE, Machine, sysfs_address
from advisor.devices.nvml import Queries, Unreachable, address_of, all_handles, as_text, opened

_READ, _REACHES = 0, 0
"""NVML_P2P_CAPS_INDEX_READ, and NVML_P2P_STATUS_OK."""
_MOST_NVLINKS = 36
"""NVML_NVLINK_MAX_LINKS of driver 580; links that a GPU lacks answer with an error."""


@dataclass(frozen=True)
class GpuLinks:
    """One GPU. What is not known is None, or left out of `reaches`."""

    address: str
    """On the PCI bus, as sysfs writes it."""
    uuid: str | None = None
    name: str | None = None
    reaches: tuple[str, ...] = ()
    """Addresses of the GPUs whose memory it can read."""
    nvlinks: int | None = None
    """Links that are up, to whatever is at their other end."""
    root_port: str | None = None
    """The port of the host that it is below."""


def gpu_links(machine: Machine = THIS_MACHINE, only: Sequence[str] = ()) -> tuple[GpuLinks, ...]:
    """Every GPU that NVML lists, or those at the PCI addresses `only`; none where NVML cannot be asked."""
    try:
        with opened(machine.nvml) as module:
            listed = {each.address: each for each in _all(module, machine.root)}
    except Unreachable:
        return ()
    wanted = map(sysfs_address, only) if only else listed
    return tuple(listed.get(address) or GpuLinks(address) for address in wanted)


def by_number(places: Sequence[str], machine: Machine = THIS_MACHINE) -> dict[str, str | int | float]:
    """Links of the GPUs at these PCI addresses, as in a profile: `gpu0_uuid`, `gpu1_root_port` and so on."""
    facts: dict[str, str | int | float] = {}
    known = gpu_links(machine, places) or tuple(GpuLinks(place) for place in places)
    for number, (gpu, place) in enumerate(zip(known, places, strict=True)):
        port = gpu.root_port or root_port(place, machine.root)
        values = {"pci_bus_id": place, "uuid": gpu.uuid, "nvlinks": gpu.nvlinks, "root_port": port}
        facts |= {f"gpu{number}_{name}": value for name, value in values.items() if value is not None}
    return facts


def root_port(address: str, root: Path = ROOT) -> str | None:
    """The first PCI device on the way from the host to the one at that address; None where there is none.

    /sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0 lies below 0000:00:01.0.
    """
    try:
        way = (root / "sys/bus/pci/devices" / sysfs_address(address)).resolve(strict=True).parts
    except OSError:
        return None
    bridges = [part for part in way[:-1] if part.count(":") == 2]
    return bridges[0] if bridges else None


def _all(module: Any, root: Path) -> Iterator[GpuLinks]:
    handles = {address: handle for handle in all_handles(module) if (address := address_of(module, handle))}
    for address, handle in handles.items():
        queries = Queries(module, handle)
        reached = (
            other
            for other, peer in handles.items()
            if other != address and queries.query("p2p", "nvmlDeviceGetP2PStatus", peer, _READ) == _REACHES
        )
        yield GpuLinks(
            address=address,
            uuid=as_text(queries.query("uuid", "nvmlDeviceGetUUID")),
            name=as_text(queries.query("name", "nvmlDeviceGetName")),
            reaches=tuple(reached),
            nvlinks=_nvlinks(queries),
            root_port=root_port(address, root),
        )


def _nvlinks(queries: Queries) -> int | None:
    """None where no link answers: the GPU has none, or NVML does not tell."""
    states = [queries.query("nvlink", "nvmlDeviceGetNvLinkState", link) for link in range(_MOST_NVLINKS)]
    known = [state for state in states if state is not None]
    return sum(state == 1 for state in known) if known else None
