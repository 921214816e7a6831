"""The operating system beside a card: under Windows and WSL managed memory has no concurrent access.

Source: CUDA Programming Guide 2.4, "Unified and System Memory": full support of managed memory needs Linux;
elsewhere it moves whole before a launch. Neither system has HMM.
"""

from __future__ import annotations

from typing import Any, Literal

from advisor.devices.catalogue import DEFAULT_TARGETS, load
from advisor.devices.entries import Attribute, CatalogueEntry
from advisor.errors import UsageError

System = Literal["linux", "windows", "wsl"]

_NAMES: dict[System, str] = {"linux": "Linux", "windows": "Windows", "wsl": "WSL"}
_LACKING = ("concurrent_managed_access", "pageable_memory_access")
_SOURCE = "CUDA Programming Guide 2.4, Unified and System Memory: 0 on Windows and WSL"


def default_targets(system: System, gpus: int = 1) -> tuple[str, ...]:
    """The devices to predict for where none is named: those that run the system and can have so many GPUs."""
    if system == "linux" and gpus == 1:
        return DEFAULT_TARGETS
    cards = (name for name in DEFAULT_TARGETS if not load(name).attributes["integrated"].value)
    return tuple(f"{gpus}x{card}" if gpus > 1 else card for card in cards)


def under(entry: CatalogueEntry, system: System) -> CatalogueEntry:
    """The entry as that system has it. Raises `UsageError` where the device does not run it."""
    if system == "linux":
        return entry
    if entry.attributes["integrated"].value or entry.memory_class == "coherent":
        raise UsageError(
            f"--os {system} does not fit {entry.name}, which runs Linux only",
            next_step="Omit --os, or give a card with --target.",
        )
    if "total_global_mem" in entry.attributes:
        raise UsageError(
            f"--os {system} does not fit {entry.origin}: its figures were measured on one system",
            next_step=f"Omit --os, and calibrate on the machine with {_NAMES[system]}.",
        )
    lacking = {name: Attribute(value=0, source=_SOURCE) for name in _LACKING}
    changed: dict[str, Any] = {
        "name": f"{entry.name} ({_NAMES[system]})",
        "origin": f"{entry.origin} --os {system}",
        "attributes": {**entry.attributes, **lacking},
        "memory_class": "discrete",
    }
    return entry.model_copy(update=changed)
