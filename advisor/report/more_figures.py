"""What rows tell beside their times: the slowest frames, CPU time, energy, and where memory lies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from advisor import units
from advisor.profiles.row_figures import FrameEnergy
from advisor.profiles.schema import Measured, Profile
from advisor.report import words
from advisor.report.blocks import (
    NOTHING,
    Block,
    Column,
    Fold,
    Heading,
    Item,
    Items,
    Prose,
    Row,
    Table,
    TableCell,
)
from advisor.report.charts import Part, Stack, chart

Figure = TypeVar("Figure", int, float)
_SPENT = "CPU time covers all threads, including spin waits. Energy is above idle power."
_PLACES = (
    "Additional memory in use during two observed frames: the peak after any step, with the steady amount "
    "below. Managed memory on a card may occupy both sides at once."
)


def more_figures(measured: Sequence[Measured], chosen: str | None = None) -> Iterator[Block]:
    """Table and charts of the measured rows, in their order; nothing where no row has such figures."""
    if any(row.p95 or row.cpu_seconds is not None or row.energy for row in measured):
        yield Heading("Slowest frames, CPU time, energy", "more", "Slowest frames")
        caption = f"Below each percentile: its bounds, each at 95 % confidence. {_SPENT}"
        yield _figures(measured, caption)
        yield from _why(measured)
        yield from _charts(measured, chosen)


def places(measured: Sequence[Measured]) -> Iterator[Block]:
    """Where memory lies; nothing where no row tells."""
    if any(row.footprint.places or row.host_pages for row in measured):
        yield Heading("Where the memory is", "places")
        yield _places(measured)


def by_gpu(profile: Profile) -> Iterator[Block]:
    """What each GPU of several does, takes and costs under each measured strategy, the fastest first."""
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
            cells = (
                _cell(sum(kernels) if kernels else None, units.seconds),
                _cell(place.peak_bytes if place else None, units.size),
                _cell(joules, units.joules),
            )
            rows.append(Row(f"{words.name(row.strategy)}, GPU {gpu}", cells))
    columns = (
        Column("kernels per frame", brief="kernels"),
        Column("additional memory, peak", brief="memory"),
        Column("energy per frame", "above idle", brief="energy"),
    )
    shown = _with_figures(columns, tuple(rows))
    yield Table("gpus", "strategy and GPU", *shown, title="By GPU:", identifier="gpus", brief_notes=False)


def _figures(measured: Sequence[Measured], caption: str) -> Table:
    columns = (
        Column("95 % of frames within", notes="bounds", brief="p95"),
        Column("99 % of frames within", notes="bounds", brief="p99"),
        Column("CPU time per frame", brief="CPU"),
        Column("energy per frame", "above idle", brief="energy"),
        Column("loop iterations per frame", brief="iterations"),
    )
    rows = tuple(Row(words.name(row.strategy), tuple(_cells(row))) for row in measured)
    return Table(
        "more",
        "strategy",
        *_with_figures(columns, rows),
        caption=caption,
        title="Slowest frames, CPU time, energy:",
        forms="html txt",
        identifier="more",
        sortable=True,
        brief_notes=False,
    )


def _with_figures(
    columns: tuple[Column, ...], rows: tuple[Row, ...]
) -> tuple[tuple[Column, ...], tuple[Row, ...]]:
    """Without columns in which no row has a figure."""
    kept = [i for i in range(len(columns)) if any(row.cells[i].value != NOTHING for row in rows)]
    told = tuple(replace(row, cells=tuple(row.cells[i] for i in kept)) for row in rows)
    return tuple(columns[i] for i in kept), told


def _cells(row: Measured) -> Iterator[TableCell]:
    for found in (row.p95, row.p99):
        between = words.seconds_between(found.low_seconds, found.high_seconds) if found else ""
        yield _cell(found.seconds if found else None, units.seconds, between)
    yield _cell(row.cpu_seconds, units.seconds)
    energy, note = row.energy, ""
    if energy:
        note = f"{units.digits(energy.watts)} W total, {units.digits(energy.idle_watts)} W idle"
    yield _cell(energy.joules if energy else None, units.joules, note)
    loops = row.iterations
    told = ", ".join(units.digits(loop.mean, 3) for loop in loops[:4])
    yield _cell(loops[0].mean if loops else None, lambda _: told)


def _cell(figure: Figure | None, write: Callable[[Figure], str], note: str = "") -> TableCell:
    return TableCell(NOTHING) if figure is None else TableCell(write(figure), note, sort=figure)


def _why(measured: Sequence[Measured]) -> Iterator[Block]:
    """What has no figure, and why, said once for all of which it holds; and what counted the energy."""
    single = ((row.strategy, name, why) for row in measured for name, why in row.absent.items())
    items = [
        Item(tuple(words.name(strategy) for strategy, _, _ in same), f"no {name}", words.line(why, 200))
        for (name, why), same in words.grouped(single, lambda item: item[1:]).items()
    ]
    if items:
        yield Fold("Figures that are missing", (Items(tuple(items)),), kind="folded")
    sources = dict.fromkeys(row.energy.source for row in measured if row.energy)
    if sources:
        yield Prose(f"Energy: {words.listing(words.line(source, 200) for source in sources)}.", forms="html")


def _charts(measured: Sequence[Measured], chosen: str | None) -> Iterator[Block]:
    tails = [_tail(row, chosen) for row in measured if row.p95]
    if tails:
        yield chart("tails", "Slowest frames: median, and the additional time of the slowest", tails)
    metered = [_metered(row, row.energy, chosen) for row in measured if row.energy]
    if metered:
        yield chart("energy", "Energy per frame", metered, write=units.joules)


def _tail(row: Measured, chosen: str | None) -> Stack:
    p95, p99 = (found.seconds if found else 0.0 for found in (row.p95, row.p99))
    middle = min(row.latency_seconds or row.median_seconds, p95)
    parts = [Part("median", "host", middle), Part("up to p95", "transfer", p95 - middle)]
    parts += [Part("up to p99", "wait", p99 - p95)] if p99 > p95 else []
    value, share = units.seconds(max(p95, p99)), "99 %" if row.p99 else "95 %"
    return Stack(row.strategy, value, share, tuple(parts), emphasised=row.strategy == chosen)


def _metered(row: Measured, energy: FrameEnergy, chosen: str | None) -> Stack:
    idle = energy.idle_watts * energy.seconds / energy.frames
    parts = (Part("above idle", "kernel", energy.joules), Part("idle energy", "rest", idle))
    value = units.joules(energy.joules)
    return Stack(row.strategy, value, "above idle", parts, emphasised=row.strategy == chosen)


def _places(measured: Sequence[Measured]) -> Table:
    places = dict.fromkeys(place for row in measured for place in row.footprint.places)
    columns = (
        *(Column(place, notes="steady") for place in places),
        Column("host memory in huge pages"),
    )
    rows = tuple(Row(words.name(row.strategy), tuple(_lies(row, places))) for row in measured)
    return Table(
        "places",
        "strategy",
        *_with_figures(columns, rows),
        caption=_PLACES,
        identifier="places",
        sortable=True,
        forms="html",
    )


def _lies(row: Measured, places: Iterable[str]) -> Iterator[TableCell]:
    for found in map(row.footprint.places.get, places):
        steady = f"{units.size(found.steady_bytes)} steady" if found else ""
        yield _cell(found.peak_bytes if found else None, units.size, steady)
    pages = row.host_pages
    share = pages.huge_bytes / pages.bytes if pages and pages.bytes and pages.huge_bytes is not None else None
    yield _cell(share, units.percent)
