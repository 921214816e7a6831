"""Strategies with write-combined memory, each beside the same strategy with plain page-locked memory."""

from __future__ import annotations

from typing import Any

from advisor.rules.base import Case, Kind, Row

WRITE_COMBINED = Kind(
    "write-combined",
    lambda row: bool(combined_buffers(row)),
    "The host reads every buffer it shares: none is placed in write-combined memory.",
)


def combined_buffers(row: Row) -> set[str]:
    """What lies in write-combined memory."""
    return {name for name, placed in row.placements.items() if placed.own.write_combined}


def twins(case: Case) -> list[tuple[Row, Row]]:
    """Rows that differ by write-combining alone, the combined one first; in the order of the strategies."""
    plain = [row for row in case.rows.values() if not WRITE_COMBINED.has(row)]
    return [(row, other) for row in case.of(WRITE_COMBINED) for other in plain if _else(row) == _else(other)]


def _else(row: Row) -> Any:
    """How frames follow one another and how each buffer is placed, write-combining apart."""
    placements = {
        name: (p.host_kind, p.own.host_kind, p.own.device_kind, p.own.registered, p.own.hints)
        for name, p in row.placements.items()
    }
    return row.overlaps, placements
