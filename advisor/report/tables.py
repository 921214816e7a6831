"""Rows and notes of tables: gaps, set-up costs, the slowest frames, CPU time, energy, where memory lies."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from advisor import stats, units
from advisor.devices.memory_class import explained
from advisor.profiles.conclusions import counts_latency
from advisor.profiles.schema import (
    LATE,
    Device,
    Failed,
    Measured,
    Predicted,
    Prediction,
    Profile,
    Result,
    Skipped,
)
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
from advisor.rules.base import shares_dram


def apart(device: Device) -> bool:
    """Whether host and device have memories of their own, so that a footprint is the sum of both."""
    return device.kind != "cpu" and not shares_dram(device)


def memory_told(device: Device) -> str:
    kind = device.memory_class
    return f"Memory: {explained(kind, device.attributes)}." if kind else ""


def overlaps(profile: Profile, prediction: Prediction | None = None) -> dict[str, str]:
    """For strategies with overlapping frames: the other one of the two times, and the frame rate."""
    told: dict[str, str] = {}
    for row in prediction.results if prediction else profile.results:
        if isinstance(row, (Measured, Predicted)) and row.latency_seconds is not None:
            between = row.median_seconds if isinstance(row, Measured) else row.likely_seconds
            rate = f"{units.digits(1 / between)} frames/s"
            if counts_latency(profile.preferences.objective):
                told[row.strategy] = f"latency; {units.seconds(between)} between finished frames, {rate}"
            else:
                told[row.strategy] = f"latency {units.seconds(row.latency_seconds)}, {rate}"
    return told


def gaps(results: Iterable[Result | Predicted]) -> tuple[Item, ...]:
    """Failed strategies, then skipped ones; those that say the same stand together."""
    without = [row for row in results if isinstance(row, (Failed, Skipped))]
    return merged(
        Item(
            (words.name(row.strategy),),
            "not reached" if row.reason == LATE else row.status,
            words.line(row.reason),
            words.block(row.detail) if isinstance(row, Failed) else "",
        )
        for row in sorted(without, key=lambda row: row.status)
    )


def merged(single: Iterable[Item]) -> tuple[Item, ...]:
    """Joins gaps with the same status, text and detail, in order of first appearance."""
    alike = words.grouped(single, lambda item: (item.status, item.text, item.detail))
    return tuple(Item(tuple(n for item in same for n in item.names), *told) for told, same in alike.items())


def setup_costs(
    rows: Sequence[Measured], base: Measured | None, speeds: Mapping[str, stats.Ratio]
) -> tuple[Row, ...]:
    """Set-up, what it costs more than the baseline's, what a frame saves, when that pays.

    `speeds` are the baseline's time over each row's, with their intervals.
    """
    costs = []
    for row in rows:
        against = (TableCell(NOTHING),) * 3
        if base is not None and row.strategy != base.strategy and row.strategy in speeds:
            more, saved = row.setup_seconds - base.setup_seconds, base.median_seconds - row.median_seconds
            against = _signed(more), _signed(saved), break_even(row, base, speeds[row.strategy])
        setup = TableCell(units.seconds(row.setup_seconds), sort=row.setup_seconds)
        costs.append(Row(words.name(row.strategy), (setup, *against)))
    return tuple(costs)


def _signed(seconds: float) -> TableCell:
    sign = "" if seconds == 0 else "+" if seconds > 0 else "\N{MINUS SIGN}"
    return TableCell(f"{sign}{units.seconds(abs(seconds))}", sort=seconds)


def break_even(row: Measured, base: Measured, ratio: stats.Ratio) -> TableCell:
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
        if tails := [_tail(row, chosen) for row in measured if row.p95]:
            yield chart("tails", "Slowest frames: median, and the additional time of the slowest", tails)
        metered = []
        for row, energy in ((row, row.energy) for row in measured if row.energy):
            idle = Part("idle energy", "rest", energy.idle_watts * energy.seconds / energy.frames)
            parts = Part("above idle", "kernel", energy.joules), idle
            told, best = units.joules(energy.joules), row.strategy == chosen
            metered.append(Stack(row.strategy, told, "above idle", parts, emphasised=best))
        if metered:
            yield chart("energy", "Energy per frame", metered, write=units.joules)


def _tail(row: Measured, chosen: str | None) -> Stack:
    p95, p99 = (percentile.seconds if percentile else 0.0 for percentile in (row.p95, row.p99))
    middle = min(row.latency_seconds or row.median_seconds, p95)
    parts = [Part("median", "host", middle), Part("up to p95", "transfer", p95 - middle)]
    parts += [Part("up to p99", "wait", p99 - p95)] if p99 > p95 else []
    value, share = units.seconds(max(p95, p99)), "99 %" if row.p99 else "95 %"
    return Stack(row.strategy, value, share, tuple(parts), emphasised=row.strategy == chosen)


def places(measured: Sequence[Measured]) -> Iterator[Block]:
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
    for percentile in (row.p95, row.p99):
        between = words.seconds_between(percentile.low_seconds, percentile.high_seconds) if percentile else ""
        yield _cell(percentile.seconds if percentile else None, units.seconds, between)
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
    for place in map(row.footprint.places.get, places):
        steady = f"{units.size(place.steady_bytes)} steady" if place else ""
        yield _cell(place.peak_bytes if place else None, units.size, steady)
    pages = row.host_pages
    share = pages.huge_bytes / pages.bytes if pages and pages.bytes and pages.huge_bytes is not None else None
    yield _cell(share, units.percent)
