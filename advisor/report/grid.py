"""A sweep over two parameters: the best strategy at each pair of values, and what one for all takes there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from advisor import units
from advisor.profiles.sweeps import SweepResults, Value, is_number
from advisor.report import words
from advisor.report.blocks import NOTHING, Column, Row, Table, TableCell
from advisor.verdicts.tracks import Stop, Track, fastest, one_for_range


def grid_tables(track: Track, sweep: SweepResults, number: int, confidence: float | None) -> Iterator[Table]:
    """The best strategies; then, for forms that show no notes, the one choice relative to them."""
    one = one_for_range(track, confidence) if confidence else None
    safe, device = one.strategy if one else "", words.name(track.device.name)
    prefix = "Predicted best" if track.basis == "predicted" else "Best"
    cells = _table(track, sweep, f"{prefix} strategy on {device}:", lambda stop: best(stop, safe))
    below = f", with its time per frame and that of {words.code(safe)} relative to it" if safe else ""
    yield replace(cells, identifier=f"grid-{number}", caption=f"{prefix} strategy on {device}{below}.")
    if safe:
        title = f"Time of {words.code(safe)} relative to the fastest:"
        yield _table(track, sweep, title, lambda stop: TableCell(relative(stop, safe)))


def _table(track: Track, sweep: SweepResults, title: str, cell_of: Callable[[Stop], TableCell]) -> Table:
    first, second = map(words.name, sweep.grid)
    rows, columns = (_values(sweep, i) for i in (0, 1))
    cells = {
        point.cell: cell_of(stop) if point.profile else TableCell(point.status)
        for point, stop in zip(sweep.points, track.stops, strict=True)
    }
    absent = TableCell(NOTHING)
    return Table(
        "sweep best",
        first,
        tuple(Column(f"{second} = {words.value(across)}", figures=False) for across in columns),
        tuple(Row(words.value(v), tuple(cells.get((v, across), absent) for across in columns)) for v in rows),
        title=title,
        codes=False,
        predicted=track.basis == "predicted",
        brief_notes=False,
        whole=True,
    )


def _values(sweep: SweepResults, part: int) -> list[Value]:
    """The values of one parameter: numbers ascending, others in their order."""
    values = list(dict.fromkeys(point.cell[part] for point in sweep.points))
    return sorted(values, key=float) if all(map(is_number, values)) else values


def best(stop: Stop, safe: str) -> TableCell:
    chosen, least = stop.optima.chosen, fastest(stop)
    if not chosen or not least:
        return TableCell("undecided" if stop.optima.rivals else NOTHING)
    if stop.optima.overlaps and (safely := stop.seconds(safe)) and safely[0] <= least:
        chosen = safe  # ranges overlap, and the choice for all pairs is the fastest here
    cost = f", {words.name(safe)} {relative(stop, safe)}" if safe not in ("", chosen) else ""
    return TableCell(words.name(chosen), f"{units.seconds(least)}{cost}")


def relative(stop: Stop, strategy: str) -> str:
    """The strategy's time relative to the fastest at that value."""
    figures, least = stop.seconds(strategy), fastest(stop)
    return units.ratio(figures[0] / least) if figures and least else NOTHING


def span(sweep: SweepResults) -> str:
    """n = 1 to 64 and uses = 1, 10."""
    ranges = []
    for part, name in enumerate(sweep.grid):
        values = _values(sweep, part)
        texts = list(map(words.value, values))
        short = len(values) > 2 and all(map(is_number, values))
        ranges.append(f"{words.name(name)} = {f'{texts[0]} to {texts[-1]}' if short else ', '.join(texts)}")
    return " and ".join(ranges)
