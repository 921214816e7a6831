"""One device as numbers for the terms: each figure's likely value and its draws."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from advisor.devices.catalogue import CatalogueEntry, Figure
from advisor.model import terms
from advisor.model.defaults import Default, default, shares_memory
from advisor.model.monte_carlo import Values, constant, log_triangular, triangular

# Pinned copies over PCIe 3 x16 in the published tables lie between 9.6 and 13.0 GB/s: 15 % about the middle.
SPREAD = 1.15
"""Range of a figure that is a single measurement: this factor either way."""

_EXACT = frozenset(("memory_bytes", "device_memory_bytes_per_second", "l2_bytes", "migration_bytes"))


@dataclass
class Machine:
    """The figures of one device as draws; notes which defaults were taken, by figure."""

    entry: CatalogueEntry
    taken: dict[str, Figure] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    _values: dict[str, Values | None] = field(default_factory=dict)

    @property
    def shares_memory(self) -> bool:
        """CPU and GPU have one DRAM."""
        return shares_memory(self.entry)

    def find(self, name: str) -> Values | None:
        """The figure's likely value and draws; None where there is neither a figure nor a default."""
        if name not in self._values:
            self._values[name] = self._drawn(name)
        return self._values[name]

    def get(self, name: str) -> Values:
        """The same for a figure that every class has or has a default for."""
        value = self.find(name)
        assert value is not None, name
        return value

    def has(self, name: str) -> bool:
        """Whether the entry itself has the figure: only calibration measures some."""
        return getattr(self.entry.figures, name, None) is not None

    def exact(self, name: str) -> float:
        """A figure that is no estimate, or 0 where it is not known."""
        value = self.find(name)
        return 0.0 if value is None else float(value[0])

    def memory_rate(self) -> Values:
        """What the best streaming kernel gets of the device's memory."""
        return self.get("device_memory_bytes_per_second") * self.get("achievable_share")

    def kernel_rate(self) -> Values:
        """What an ordinary one gets."""
        return self.memory_rate() * self.get("kernel_memory_share")

    def pageable_rate(self, direction: Literal["to_device", "to_host"]) -> Values:
        """Rate of copies from or to pageable memory: as published, or staged by the CPU.

        How far the CPU's copies hide behind the link's transfers is not known: likely not at all.
        """
        published = self.find(f"pageable_{direction}_bytes_per_second")
        if published is not None:
            return published
        link, host = self.get(f"pinned_{direction}_bytes_per_second"), self.get("host_copy_bytes_per_second")
        hidden = triangular(0.0, 0.0, 1.0, "staging hidden")
        return np.asarray(
            terms.between(terms.staged_rate(link, host), terms.overlapped_rate(link, host), hidden)
        )

    def _drawn(self, name: str) -> Values | None:
        figure = self._figure(name)
        if figure is None:
            self.missing.add(name)
        elif not self.has(name):
            self.taken[name] = figure
            share = default(name, self.entry)
            if share and share.of:
                return self.get(share.of) * _draws(name, share)
        return None if figure is None else _draws(name, figure)

    def _figure(self, name: str) -> Figure | None:
        """The entry's own, or the default in that figure's unit."""
        known: Figure | None = getattr(self.entry.figures, name, None)
        taken = known or default(name, self.entry)
        if not isinstance(taken, Default) or taken.of is None:
            return taken
        base = self._figure(taken.of)
        return None if base is None else taken.of_base(base)


def _draws(name: str, figure: Figure) -> Values:
    if name in _EXACT:
        return constant(figure.value)
    alone = figure.low is None and figure.high is None
    low = figure.value / SPREAD if alone else figure.low or figure.value
    high = figure.value * SPREAD if alone else figure.high or figure.value
    return log_triangular(low, figure.value, high, name)
