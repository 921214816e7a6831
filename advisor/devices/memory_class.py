"""From the attribute vector of a device follows one memory class, which rules and the model use.

Sources: CUDA Programming Guide 2.4, "Unified and System Memory" (the paradigms follow from
concurrentManagedAccess, pageableMemoryAccess and pageableMemoryAccessUsesHostPageTables); CUDA for Tegra
13.2, table 1 (what is cached where), 3.1 "I/O Coherency" (from Xavier on), 3.2 "Sysmem Full Coherency" and
4.1 (from Thor on).
"""

from __future__ import annotations

from collections.abc import Mapping

from advisor.profiles.schema import MemoryClass

EXPLAINED: dict[MemoryClass, str] = {
    "tegra": "one DRAM; pinned memory is uncached on CPU and GPU, managed memory is cached on both",
    "tegra-io-coherent": "one DRAM; pinned memory is cached only on the CPU, managed memory on both",
    "tegra-coherent": "one DRAM; the GPU's L2 caches registered and pageable memory, not pinned memory",
    "discrete": "own memory behind PCIe; pageable memory needs copies",
    "discrete-hmm": "own memory behind PCIe; pageable memory is also accessible by page faults",
    "coherent": "a coherent link; pageable memory is accessed directly",
}


_TEGRA = {
    "pinned": "uncached on the CPU and on the GPU: CPU reads and repeated kernel reads are slow",
    "registered": "not supported",
    "pageable": "CPU only; kernels need a copy",
    "managed": "cached on both sides; caches are maintained at launch and synchronization",
}
_CACHED_ON_CPU = "cached on the CPU, uncached on the GPU: repeated kernel reads are slow"
_DISCRETE = {
    "pinned": "copied at the full PCIe rate; kernels read it over PCIe, in every pass",
    "registered": "like pinned",
    "pageable": "copies only, through the driver's pinned buffer",
    "managed": "pages migrate to the side that touches them, by faults or prefetch",
}
FOLLOWS: dict[MemoryClass, dict[str, str]] = {
    "tegra": _TEGRA,
    "tegra-io-coherent": {**_TEGRA, "pinned": _CACHED_ON_CPU, "registered": "like pinned"},
    "tegra-coherent": {
        "pinned": _CACHED_ON_CPU,
        "registered": "cached by the GPU's L2",
        "pageable": "cached by the GPU's L2; kernels access it in place",
        "managed": "uncached on the GPU, like pinned, once its pages are mapped by faults or prefetch",
    },
    "discrete": _DISCRETE,
    "discrete-hmm": {**_DISCRETE, "pageable": "kernels access it in place; pages migrate by faults"},
    "coherent": {
        "pinned": "kernels access it over the coherent link",
        "registered": "like pinned",
        "pageable": "kernels access it in place, over the coherent link",
        "managed": "accessed in place, or migrated to the side that touches it",
    },
}
"""Each kind of memory that the CPU can reach, on a device of the class."""


WHOLE = "moves whole to the GPU before each launch, and back when the CPU touches it between launches"
"""Managed memory on a card without concurrent managed access."""


def moves_whole(attributes: Mapping[str, int | float | str | bool]) -> bool:
    """Whether the card lacks concurrent managed access: below compute capability 6.0, on Windows, in WSL and
    with some virtual GPUs. False where the attribute is not known."""
    return not attributes.get("integrated", 0) and attributes.get("concurrent_managed_access") == 0


def explained(kind: MemoryClass, attributes: Mapping[str, int | float | str | bool]) -> str:
    """The meaning of the class, and what the device lacks of it."""
    return EXPLAINED[kind] + (f"; managed memory {WHOLE}" if moves_whole(attributes) else "")


def memory_class(attributes: Mapping[str, int | float | str | bool]) -> MemoryClass:
    """The memory class of a CUDA device.

    Needs `integrated`, `pageable_memory_access`, `pageable_memory_access_uses_host_page_tables` and
    `compute_capability` ("8.7"); a missing flag counts as unsupported. The use of the host's page tables
    means nothing where pageable memory is not accessible at all.
    """
    pageable = bool(attributes.get("pageable_memory_access", 0))
    host_tables = pageable and bool(attributes.get("pageable_memory_access_uses_host_page_tables", 0))
    if not attributes.get("integrated", 0):
        return "coherent" if host_tables else "discrete-hmm" if pageable else "discrete"
    major, _, minor = str(attributes.get("compute_capability", "0.0")).partition(".")
    capability = (int(major), int(minor or 0))
    if capability < (7, 2):
        return "tegra"
    if not pageable:
        return "tegra-io-coherent"
    # All flags are 1 on Thor (11.0; 10.1 before CUDA 13) and on GB10 (12.1) alike, but Thor's GPU does not
    # cache pinned and managed memory.
    return "tegra-coherent" if capability < (12, 0) else "coherent"
