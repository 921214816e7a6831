"""From the attribute vector of a device follows one memory class, which rules and the model use.

Source of the classes: NVIDIA, CUDA for Tegra, "Memory Types"; CUDA C++ Programming Guide, "Unified
Memory"; for Thor, "CUDA for Tegra" of CUDA 13.
"""

from __future__ import annotations

from collections.abc import Mapping

from advisor.profiles import MemoryClass

EXPLAINED: dict[MemoryClass, str] = {
    "tegra": "one DRAM; pinned memory is uncached on CPU and GPU, managed memory cached on both",
    "tegra-io-coherent": "one DRAM; pinned memory is cached on the CPU only, managed memory on both",
    "tegra-coherent": "one DRAM; registered and plain memory cached by the GPU's L2, pinned memory not",
    "discrete": "its own memory behind PCIe; plain host memory is reached by copies only",
    "discrete-hmm": "its own memory behind PCIe; plain host memory is reached by page faults too",
    "coherent": "a coherent link; plain host memory is reached directly",
}


def memory_class(attributes: Mapping[str, int | float | str | bool]) -> MemoryClass:
    """The memory class of a CUDA device.

    Needs `integrated`, `pageable_memory_access`, `pageable_memory_access_uses_host_page_tables` and
    `compute_capability` ("8.7"); a missing flag counts as unsupported.
    """
    integrated = bool(attributes.get("integrated", 0))
    pageable = bool(attributes.get("pageable_memory_access", 0))
    host_tables = bool(attributes.get("pageable_memory_access_uses_host_page_tables", 0))
    if not integrated:
        return "coherent" if host_tables else "discrete-hmm" if pageable else "discrete"
    capability = _version(str(attributes.get("compute_capability", "0.0")))
    if capability < (7, 2):
        return "tegra"
    if not pageable:
        return "tegra-io-coherent"
    # Thor (11.0) keeps pinned memory out of the GPU's caches; GB10 (12.1) reaches all over its link.
    return "tegra-coherent" if capability < (12, 0) else "coherent"


def _version(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), int(minor or 0)
