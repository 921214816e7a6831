"""What is left of the tables where there is room for ten rows: the best, and what they are held against."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.report.tables import Forecast, Forecasts, Row

MOST_ROWS = 10


def brief_rows(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The first ten in their order; the recommended one and the baseline are always among them."""
    needed = [row for row in rows if row.tag]
    room = MOST_ROWS - len(needed)
    others = [row for row in rows if not row.tag][:room]
    return tuple(row for row in rows if row in needed or row in others)


def brief_forecasts(table: Forecasts, devices: int) -> tuple[tuple[str, tuple[Forecast | None, ...]], ...]:
    """The ten strategies that come closest to the best of any of the first devices, in the table's order.

    The recommended ones and the baseline are always among them.
    """
    columns = [[cells[i] for _, cells in table.rows] for i in range(min(devices, len(table.devices)))]
    best = [min((c.sort for c in column if c and not c.declined), default=1.0) for column in columns]

    def distance(cells: Sequence[Forecast | None]) -> float:
        told = zip(cells[:devices], best, strict=False)
        return min((c.sort / least for c, least in told if c and not c.declined), default=float("inf"))

    def dispensable(cells: Sequence[Forecast | None]) -> bool:
        return not any(cell.recommended or cell.baseline for cell in cells[:devices] if cell)

    kept = sorted(table.rows, key=lambda row: (dispensable(row[1]), distance(row[1])))[:MOST_ROWS]
    return tuple(row for row in table.rows if row in kept)
