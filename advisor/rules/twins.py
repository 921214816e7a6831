"""Strategies with write-combined memory, each beside the same strategy with plain page-locked memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from advisor.rules.base import Case, Kind, Row
from advisor.strategies.placements.base import Placement

WRITE_COMBINED = Kind(
    "write-combined",
    lambda row: row.places(_combined),
    "The host reads every buffer it shares: none is placed in write-combined memory.",
)


@dataclass(frozen=True)
class Twins:
    """Two rows that differ by write-combining alone."""

    combined: Row
    plain: Row

    @property
    def buffers(self) -> set[str]:
        """What lies in write-combined memory."""
        return {name for name, placement in self.combined.placements.items() if _combined(placement)}


def twins(case: Case) -> Iterator[Twins]:
    """Those where both have figures, in the order of the strategies."""
    others = [row for row in case.rows.values() if not WRITE_COMBINED.has(row)]
    for combined in case.of(WRITE_COMBINED):
        for plain in others:
            if _else(combined) == _else(plain) and combined.overlaps == plain.overlaps:
                yield Twins(combined, plain)


def _combined(placement: Placement) -> bool:
    return placement.own.write_combined


def _else(row: Row) -> Mapping[str, Any]:
    """How each buffer is placed, write-combining apart."""
    return {
        name: (p.host_kind, p.own.host_kind, p.own.device_kind, p.own.registered, p.own.hints)
        for name, p in row.placements.items()
    }
