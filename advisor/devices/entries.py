"""A device of the catalogue: attributes and figures, each with its source.

A file that cannot be right is refused here; the words for the reader are in catalogue.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, StringConstraints, field_validator, model_validator

from advisor.errors import nearest
from advisor.profiles.base import Record, optional
from advisor.profiles.schema import MOST_GPUS, Device, MemoryClass
from advisor.texts import quoted, shortened

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


FLAGS = (
    "integrated", "can_map_host_memory", "managed_memory", "concurrent_managed_access",
    "pageable_memory_access", "pageable_memory_access_uses_host_page_tables", "host_register_supported",
    "host_native_atomic_supported", "direct_managed_mem_access_from_host",
)  # fmt: skip
"""CUDA's device attributes that are 0 or 1, in snake case."""

_COUNTS = ("multiprocessor_count", "l2_cache_size", "async_engine_count", "total_global_mem")
ATTRIBUTES = ("compute_capability", *FLAGS, *_COUNTS)

Positive = Annotated[float, Field(ge=1e-12, le=1e21)]
"""Bounds far beyond what there is in any unit, within which it can be divided and drawn."""
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class Figure(Record):
    """A physical figure in the unit its name ends in, with its source.

    `low` and `high` are the range its sources span; without them the figure is one measurement.
    """

    value: Positive
    low: Positive | None = None
    high: Positive | None = None
    source: Text

    @model_validator(mode="after")
    def _is_ordered(self) -> Figure:
        low, high = self.low or self.value, self.high or self.value
        if not low <= self.value <= high:
            raise ValueError(f"low <= value <= high, got {low:g}, {self.value:g} and {high:g}")
        return self


class Attribute(Record):
    value: int | str
    source: Text


class Figures(Record):
    """The model's inputs. All but the first two may be absent."""

    memory_bytes: Figure
    device_memory_bytes_per_second: Figure = Field(description="The memory's peak, as specified")
    achievable_share: Figure | None = optional("Share of that peak that a streaming kernel reaches")
    l2_bytes: Figure | None = None
    l2_bytes_per_second: Figure | None = None
    flops_per_second: Figure | None = optional("32-bit arithmetic")
    link_bytes_per_second: Figure | None = optional("One direction of the link, as specified")
    pinned_to_device_bytes_per_second: Figure | None = None
    pinned_to_host_bytes_per_second: Figure | None = None
    pageable_to_device_bytes_per_second: Figure | None = None
    pageable_to_host_bytes_per_second: Figure | None = None
    zero_copy_read_bytes_per_second: Figure | None = optional("Kernels reading mapped host memory")
    zero_copy_write_bytes_per_second: Figure | None = None
    zero_copy_reread_bytes_per_second: Figure | None = optional("Repeated reads of what fits the caches")
    link_again_share: Figure | None = optional("What crosses the link of two mapped operands' re-reads")
    link_again_alone_share: Figure | None = optional("The same of one mapped operand")
    routine_again_share: Figure | None = optional("Routines' re-reads of mapped memory, over an H200's")
    peer_bytes_per_second: Figure | None = optional("From GPU to GPU, with peer access enabled")
    host_read_bytes_per_second: Figure | None = optional("One CPU thread, cached memory")
    host_write_bytes_per_second: Figure | None = None
    host_copy_bytes_per_second: Figure | None = optional("Bytes copied, not moved")
    host_uncached_read_bytes_per_second: Figure | None = optional("One CPU thread, uncached memory")
    host_uncached_write_bytes_per_second: Figure | None = None
    host_uncached_access_seconds: Figure | None = optional("One such read, however wide")
    host_pinned_read_bytes_per_second: Figure | None = optional("One CPU thread, page-locked memory")
    host_pinned_write_bytes_per_second: Figure | None = None
    host_pinned_copy_bytes_per_second: Figure | None = optional("From plain memory into it, bytes copied")
    host_write_combined_read_bytes_per_second: Figure | None = optional("One CPU thread, page-locked memory")
    host_write_combined_write_bytes_per_second: Figure | None = None
    host_write_combined_copy_bytes_per_second: Figure | None = optional("From plain memory, copied")
    host_managed_read_bytes_per_second: Figure | None = optional("One CPU thread, pages at the host")
    host_managed_write_bytes_per_second: Figure | None = None
    host_managed_copy_bytes_per_second: Figure | None = optional("From plain memory into it, bytes copied")
    host_slowdown: Figure | None = optional("One CPU thread's time for the same work, over a desktop's")
    host_cache_bytes: Figure | None = optional("The CPU's largest cache")
    launch_seconds: Figure | None = None
    synchronize_seconds: Figure | None = None
    pageable_copy_call_seconds: Figure | None = optional("Time of an empty copy")
    pinned_copy_call_seconds: Figure | None = None
    prefetch_call_seconds: Figure | None = optional("One prefetch, or attaching where there is none")
    fault_seconds: Figure | None = optional("Service time of one managed-memory fault")
    migration_bytes: Figure | None = optional("Bytes one fault migrates")
    migration_to_device_bytes_per_second: Figure | None = optional("Sequential reads, faults included")
    migration_to_host_bytes_per_second: Figure | None = None
    prefetch_to_device_bytes_per_second: Figure | None = optional("The call and waiting for it")
    prefetch_to_host_bytes_per_second: Figure | None = None
    write_fault_seconds: Figure | None = optional("The CPU's first write to a 4 KiB page that migrated back")

    @field_validator("achievable_share")
    @classmethod
    def _is_share(cls, figure: Figure | None) -> Figure | None:
        if figure is not None and max(figure.value, figure.high or 0) > 1:
            raise ValueError(f"a share of at most 1, got {figure.high or figure.value:g}")
        return figure


class CatalogueEntry(Record):
    """One device: what it is, what follows from it, and how fast its paths are."""

    name: Text
    memory_class: MemoryClass
    attributes: dict[str, Attribute]
    figures: Figures
    gpus: int = Field(default=1, ge=1, le=MOST_GPUS, description="So many of it in one machine")
    gpus_share_link: bool = optional("They have one link to the host together, else each its own", False)
    origin: str = Field(description="The slug, or the path of a user's file")

    @field_validator("attributes", mode="before")
    @classmethod
    def _are_cuda_attributes(cls, attributes: Any) -> Any:
        for key in attributes if isinstance(attributes, dict) else ():
            if key in Figures.model_fields:
                raise ValueError(f"only attributes here; {key} belongs under [figures]")
            if key not in ATTRIBUTES:
                near = nearest(key, ATTRIBUTES, 3)
                raise ValueError(f"attributes of CUDA devices, but {shortened(key)} is not one{near}")
        return attributes

    @field_validator("attributes")
    @classmethod
    def _are_possible(cls, attributes: dict[str, Attribute]) -> dict[str, Attribute]:
        for key, attribute in attributes.items():
            if expected := _range_of(key, attribute.value):
                raise ValueError(f"{key} as {expected}, got {quoted(attribute.value)}")
        for key in ("integrated", "compute_capability"):
            if key not in attributes:
                raise ValueError(f"{key}, which is missing")
        return attributes

    @model_validator(mode="after")
    def _is_complete(self) -> CatalogueEntry:
        attributes = self._attributes()
        follows = memory_class(attributes)
        if follows != self.memory_class:
            deciding = ", ".join(f"{key} = {attributes[key]}" for key in _DECIDING if key in attributes)
            raise ValueError(
                f"memory_class = {follows!r}, which follows from {deciding}, got {self.memory_class!r}"
            )
        if not attributes["integrated"]:
            measured = ["pinned_to_device_bytes_per_second", "pinned_to_host_bytes_per_second"]
            if self.memory_class == "coherent":
                measured += ["zero_copy_read_bytes_per_second", "zero_copy_write_bytes_per_second"]
            missing = [f"figures.{name}" for name in measured if getattr(self.figures, name) is None]
            if self.figures.link_bytes_per_second is None and missing:
                raise ValueError(
                    f"figures.link_bytes_per_second or {', '.join(missing)}, which are missing: a link has "
                    "no default"
                )
        return self

    def _attributes(self) -> dict[str, int | float | str | bool]:
        return {key: attribute.value for key, attribute in self.attributes.items()}

    def device(self) -> Device:
        attributes = self._attributes()
        if self.figures.l2_bytes is not None:
            attributes["l2_cache_size"] = int(self.figures.l2_bytes.value)
        attributes["total_global_mem"] = int(self.figures.memory_bytes.value)
        return Device(name=self.name, kind="catalogue", memory_class=self.memory_class, attributes=attributes)


_DECIDING = (
    "integrated", "compute_capability", "pageable_memory_access",
    "pageable_memory_access_uses_host_page_tables",
)  # fmt: skip


def _range_of(key: str, value: int | str) -> str | None:
    """The expected range of an attribute, or None where it is right."""
    if key in FLAGS:
        return None if value in (0, 1) else "0 or 1"
    if key == "compute_capability":
        fits = isinstance(value, str) and re.fullmatch(r"[0-9]{1,2}\.[0-9]{1,2}", value)
        return None if fits else 'in "8.7"'
    if isinstance(value, int) and value >= 2**63:
        return "an integer below 2**63"
    return None if isinstance(value, int) and value > 0 else "a positive integer"
