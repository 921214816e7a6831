"""From attributes to the memory class, one row for each kind of machine there is."""

from __future__ import annotations

from typing import get_args

from every import every

from advisor.devices.entries import EXPLAINED, memory_class
from advisor.profiles.schema import MemoryClass

MACHINES: list[tuple[str, dict[str, int | str], MemoryClass]] = [
    ("Nano, TX1", {"integrated": 1, "compute_capability": "5.3"}, "tegra"),
    ("TX2", {"integrated": 1, "compute_capability": "6.2"}, "tegra"),
    ("Xavier", {"integrated": 1, "compute_capability": "7.2"}, "tegra-io-coherent"),
    ("Orin", {"integrated": 1, "compute_capability": "8.7"}, "tegra-io-coherent"),
    ("Thor", {"integrated": 1, "compute_capability": "11.0", "pageable": 1, "tables": 1}, "tegra-coherent"),
    ("Thor of CUDA 12", {"integrated": 1, "compute_capability": "10.1", "pageable": 1}, "tegra-coherent"),
    ("GB10", {"integrated": 1, "compute_capability": "12.1", "pageable": 1, "tables": 1}, "coherent"),
    ("PCIe card", {"integrated": 0, "compute_capability": "8.9"}, "discrete"),
    ("old PCIe card", {"integrated": 0, "compute_capability": "6.1"}, "discrete"),
    ("card with HMM", {"integrated": 0, "compute_capability": "8.9", "pageable": 1}, "discrete-hmm"),
    ("GH200", {"integrated": 0, "compute_capability": "9.0", "pageable": 1, "tables": 1}, "coherent"),
]
NAMES = {"pageable": "pageable_memory_access", "tables": "pageable_memory_access_uses_host_page_tables"}


@every(("attributes", "expected"), [m[1:] for m in MACHINES], ids=[m[0] for m in MACHINES])
def test_machines(attributes: dict[str, int | str], expected: MemoryClass) -> None:
    assert memory_class({NAMES.get(name, name): value for name, value in attributes.items()}) == expected


def test_every_class_is_reached_and_explained() -> None:
    classes = set(get_args(MemoryClass))
    assert {expected for _, _, expected in MACHINES} == classes == set(EXPLAINED)
    assert all(EXPLAINED.values())
