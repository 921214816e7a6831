"""One device under one view of its uncertain figures: every figure likely, or every one at one end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from advisor.devices.catalogue import CatalogueEntry, Figure
from advisor.model import terms
from advisor.model.defaults import default

Scenario = Literal["fast", "likely", "slow"]

# Pinned copies over PCIe 3 x16 in the published tables lie between 9.6 and 13.0 GB/s: 15 % about the middle.
SPREAD = 1.15
"""Range of a figure that is a single measurement: this factor either way."""

_EXACT = frozenset(
    ("memory_bytes", "device_memory_bytes_per_second", "l2_bytes", "host_cache_bytes", "migration_bytes")
)


@dataclass
class Machine:
    """Plain numbers for the terms; notes which defaults were taken, by figure."""

    entry: CatalogueEntry
    scenario: Scenario
    taken: dict[str, Figure] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)

    def find(self, name: str) -> float | None:
        """The figure in this scenario; None where there is neither a figure nor a default."""
        figure = self._figure(name)
        return None if figure is None else self._at_this_end(name, figure)

    def get(self, name: str) -> float:
        """The same for a figure that every covered class has or has a default for."""
        value = self.find(name)
        assert value is not None, name
        return value

    def memory_rate(self) -> float:
        """What a streaming kernel gets of the device's memory."""
        return self.get("device_memory_bytes_per_second") * self.get("achievable_share")

    def pageable_rate(self, direction: Literal["to_device", "to_host"]) -> float:
        """Rate of copies from or to pageable memory: as published, or staged by the CPU."""
        published: Figure | None = getattr(self.entry.figures, f"pageable_{direction}_bytes_per_second")
        if published is not None:
            return self._at_this_end("pageable", published)
        link, host = self.get(f"pinned_{direction}_bytes_per_second"), self.get("host_copy_bytes_per_second")
        return terms.overlapped_rate(link, host) if self.scenario == "fast" else terms.staged_rate(link, host)

    def _figure(self, name: str) -> Figure | None:
        known: Figure | None = getattr(self.entry.figures, name)
        if known is not None:
            return known
        assumed = default(name, self.entry, self._figure)
        if assumed is None:
            self.missing.add(name)
        else:
            self.taken[name] = assumed
        return assumed

    def _at_this_end(self, name: str, figure: Figure) -> float:
        if self.scenario == "likely" or name in _EXACT:
            return figure.value
        alone = figure.low is None and figure.high is None
        low = figure.value / SPREAD if alone else figure.low or figure.value
        high = figure.value * SPREAD if alone else figure.high or figure.value
        fast_is_small = name.endswith("_seconds")
        return low if (self.scenario == "fast") == fast_is_small else high
