"""Rows and notes of tables: gaps, set-up costs, the slowest frames, CPU time, energy, where memory lies."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from advisor import stats, units
from advisor.devices.entries import explained
from advisor.profiles import schema
from advisor.profiles.conclusions import Objective, counts_latency
from advisor.report import words
from advisor.report.blocks import NOTHING, Block, Column, Fold, Item, Items, Prose, Row, Table, TableCell


def memory_sentence(device: schema.Device) -> str:
    kind = device.memory_class
    return f"Memory: {explained(kind, device.attributes)}." if kind else ""


def overlaps(of: schema.Profile | schema.Prediction, objective: Objective) -> dict[str, str]:
    """Strategies with overlapping frames: the time that the table does not show, and the frame rate."""
    notes: dict[str, str] = {}
    for row in of.results:
        if isinstance(row, (schema.Measured, schema.Predicted)) and row.latency_seconds is not None:
            between = row.median_seconds if isinstance(row, schema.Measured) else row.likely_seconds
            rate = f"{units.digits(1 / between)} frames/s"
            if counts_latency(objective):
                notes[row.strategy] = f"latency; {units.seconds(between)} between finished frames, {rate}"
            else:
                notes[row.strategy] = f"latency {units.seconds(row.latency_seconds)}, {rate}"
    return notes


def gaps(results: Iterable[schema.Result | schema.Predicted]) -> tuple[Item, ...]:
    """Failed strategies, then skipped ones; those that say the same stand together."""
    without = [row for row in results if isinstance(row, (schema.Failed, schema.Skipped))]
    single = []
    for row in sorted(without, key=lambda row: row.status):
        status = "not reached" if row.reason == schema.LATE else row.status
        detail = words.block(row.detail) if isinstance(row, schema.Failed) else ""
        single.append(Item((words.name(row.strategy),), status, words.line(row.reason), detail))
    return merged(single)


def merged(single: Iterable[Item]) -> tuple[Item, ...]:
    """Joins gaps with the same status, text and detail, in order of first appearance."""
    alike = words.grouped(single, lambda item: (item.status, item.text, item.detail))
    return tuple(Item(tuple(n for item in same for n in item.names), *key) for key, same in alike.items())


def break_even(row: schema.Measured, base: schema.Measured, ratio: stats.Ratio) -> TableCell:
    """After how many frames the set-up pays against the baseline; says so where the noise hides it.

    Both costs are linear: set-up + frames x median. They cross where the differences cancel; the range
    beneath is that of the ratio of their times. The set-up itself is one figure and has no interval.
    """
    extra = row.setup_seconds - base.setup_seconds
    if math.isinf(ratio.high):
        return TableCell("not in the final")
    if ratio.low <= 1 <= ratio.high:
        return TableCell("no clear difference per frame")
    if ratio.low > 1 and extra <= 0:
        return TableCell("immediately", sort=0)
    crossing = round(extra / (base.median_seconds * (1 - 1 / ratio.value)), 6)
    ends = sorted(extra / (base.median_seconds * (1 - 1 / end)) for end in (ratio.low, ratio.high))
    if ratio.low > 1:
        between = f"{math.ceil(ends[0])} to {math.ceil(ends[1])}"
        return TableCell(f"after {words.count(math.ceil(crossing), 'frame')}", between, sort=crossing)
    if crossing < 1:
        return TableCell("never")
    between = f"{math.floor(ends[0])} to {math.floor(ends[1])}"
    return TableCell(f"only for {words.count(math.floor(crossing), 'frame')}", between)


Figure = TypeVar("Figure", int, float)
_CAPTION = (
    "Below each percentile: its bounds, each at 95 % confidence; less where blocks differ more than half as "
    "much as frames. CPU time covers all threads, including spin waits. Energy is above idle power. Set-up "
    "runs once; one longer than the baseline's pays off after the given number of frames."
)


def more_figures(
    measured: Sequence[schema.Measured], base: schema.Measured | None, speeds: Mapping[str, stats.Ratio]
) -> Iterator[Block]:
    """The measured rows in their order, what has no figure and why, and the source of the energy figures.

    `speeds`: the baseline over each row.
    """
    if not measured:
        return
    columns = (
        Column("95 % of frames within", notes="bounds", brief="p95"),
        Column("99 % of frames within", notes="bounds", brief="p99"),
        Column("CPU time per frame", brief="CPU"),
        Column("energy per frame above idle", brief="energy"),
        Column("loop iterations per frame", brief="iterations"),
        Column("set-up"),
        Column("set-up pays off", notes="frames", brief="pays off"),
    )
    rows = []
    for row in measured:
        pays = TableCell(NOTHING)
        if base is not None and row.strategy != base.strategy and row.strategy in speeds:
            pays = break_even(row, base, speeds[row.strategy])
        cells = (*_cells(row), _cell(row.setup_seconds, units.seconds), pays)
        rows.append(Row(words.name(row.strategy), cells))
    title = "Slowest frames, CPU time, energy above idle power, set-up:"
    table = Table("more", "strategy", columns, tuple(rows), _CAPTION, title, forms="html txt")
    yield replace(_with_figures(table), sortable=True, brief_notes=False)
    single = ((row.strategy, name, why) for row in measured for name, why in row.absent.items())
    missing = [
        Item(tuple(words.name(strategy) for strategy, _, _ in same), f"no {name}", words.line(why, 200))
        for (name, why), same in words.grouped(single, lambda item: item[1:]).items()
    ]
    if missing:
        yield Fold("Figures that are missing", (Items(tuple(missing)),), kind="folded")
    sources = dict.fromkeys(row.energy.source for row in measured if row.energy)
    if sources:
        yield Prose(f"Energy: {words.listing(words.line(source, 200) for source in sources)}.", forms="html")


def by_gpu(profile: schema.Profile) -> Iterator[Block]:
    """Work, memory and energy of each GPU of several under each measured strategy, the fastest first."""
    ran, gpus = profile.workload, range(profile.workload.gpus)
    if len(gpus) < 2:
        return
    rows = []
    for row in profile.measured().values():
        for gpu in gpus:
            stages = (s.name for s in ran.frame_stages("device") if s.gpu == gpu)
            kernels = [row.stage_seconds[name] for name in stages if name in row.stage_seconds]
            place = row.footprint.places.get(f"gpu{gpu}")
            joules = row.energy.gpus[gpu] if row.energy and row.energy.gpus else None
            time = sum(kernels) if kernels else None
            size = place.peak_bytes if place else None
            cells = _cell(time, units.seconds), _cell(size, units.size), _cell(joules, units.joules)
            rows.append(Row(f"{words.name(row.strategy)}, GPU {gpu}", cells))
    columns = (
        Column("kernels per frame", brief="kernels"),
        Column("additional memory, peak", brief="memory"),
        Column("energy per frame above idle", brief="energy"),
    )
    title = "By GPU, energy above idle power:"
    table = Table("gpus", "strategy and GPU", columns, tuple(rows), title=title, label="By GPU")
    yield replace(_with_figures(table), brief_notes=False)


def _with_figures(table: Table) -> Table:
    """The columns in which some row has a figure."""
    by_column = enumerate(zip(*(row.cells for row in table.rows), strict=True))
    filled = [i for i, cells in by_column if any(cell.value != NOTHING for cell in cells)]
    rows = tuple(replace(row, cells=tuple(row.cells[i] for i in filled)) for row in table.rows)
    return replace(table, columns=tuple(table.columns[i] for i in filled), rows=rows)


def _cells(row: schema.Measured) -> Iterator[TableCell]:
    for percentile in (row.p95, row.p99):
        between = words.seconds_between(percentile.low_seconds, percentile.high_seconds) if percentile else ""
        yield _cell(percentile.seconds if percentile else None, units.seconds, between)
    yield _cell(row.cpu_seconds, units.seconds)
    energy, note = row.energy, ""
    if energy:
        note = f"{units.digits(energy.watts)} W total, {units.digits(energy.idle_watts)} W idle"
    yield _cell(energy.joules if energy else None, units.joules, note)
    loops = row.iterations
    counts = ", ".join(units.digits(loop.mean, 3) for loop in loops[:4])
    yield _cell(loops[0].mean if loops else None, lambda _: counts)


def _cell(figure: Figure | None, write: Callable[[Figure], str], note: str = "") -> TableCell:
    return TableCell(NOTHING) if figure is None else TableCell(write(figure), note, sort=figure)
