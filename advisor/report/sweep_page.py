"""The page of a sweep: the verdicts, and a chart and a table for each device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from advisor import units
from advisor.profiles.schema import Failed, Profile, Skipped
from advisor.profiles.sweeps import Point, SweepResults
from advisor.report import blocks, words
from advisor.report.blocks import columns, row
from advisor.report.charts import HEIGHT, LOW, Crossover, Curve, LineChart, Sample, Style, line_chart, styles
from advisor.report.machine import CPU_LABEL, CPU_TITLE, ON_CPU, method, pairs, workload
from advisor.report.mixes import described
from advisor.report.page import MARKED, Page, Section, around, circumstances, filled, lead, legend, panels
from advisor.report.recommendations import CONFIRM, FIGURES, nothing, sweep_failures
from advisor.report.records import records_of_points
from advisor.report.sweep_verdicts import (
    at,
    best_table,
    cell,
    crossings,
    grid_tables,
    relative,
    span,
    sweep_verdict,
)
from advisor.report.tables import memory_sentence, merged
from advisor.strategies.mixes import numbered_alike
from advisor.strategies.registry import BASELINE
from advisor.verdicts.tracks import Stop, Track, fastest, tracks
from advisor.version import __version__

_ON_CHART = {
    "predicted": "Bands show the ranges; a ring marks the recommended strategy.",
    "measured": "Vertical lines show the intervals; a ring marks the recommended strategy.",
    "cpu": "Vertical lines show the intervals.",
}
_CHANGES = " The best strategy changes between the dotted lines."
_FEW = 2
"""Fewer other strategies are drawn without a band."""
_METHOD = ("Order", "Time limit", "Figures", "Set-up")
_WORKLOAD = ("File", "SHA-256", "Frame")
_VALUES = "each value is a separate run, one after the other; no values in between were tested"
_BEST = (
    "a change is reported only between values with different recommendations; ties and undecided values "
    "are not changes"
)
_LINKS = (
    "The report of each value, linked in the table, has its stages, its memory, its advice and all raw "
    "samples."
)


def sweep_page(sweep: SweepResults) -> Page:
    """Everything a sweep says: where the best strategy changes, and the times of all at each value."""
    numbered = iter(numbered_alike(sweep.profiles))
    points = (replace(point, profile=next(numbered)) if point.profile else point for point in sweep.points)
    sweep = replace(sweep, points=tuple(points))
    first = sweep.profiles[0] if sweep.profiles else None
    parameter, all_tracks = words.name(sweep.parameter, 40), tracks(sweep)
    looks = styles(list(dict.fromkeys(name for track in all_tracks for name in track.strategies)))
    workload, span = words.name(sweep.workload), _span(sweep, parameter)
    parameters = first.workload.parameters if first else {}
    swept = sweep.grid or (sweep.parameter,)
    fixed = pairs({name: value for name, value in parameters.items() if name not in swept})
    predicted = first is not None and first.device.kind == "cpu"
    on_device = f" on {words.name(first.device.name)}" if first and not predicted else ""
    created = words.created(first.created) if first else ""
    tool = f"advisor {words.name(first.tool.version) if first else __version__}"
    limits = tuple(words.line(note, 500) for note in sweep.notes)
    notes = tuple(_notes(sweep, parameter))
    overview = _overview(all_tracks, sweep, parameter)
    alone = not (overview.blocks or sweep.grid)
    sections = (
        _lead(sweep, all_tracks, parameter, looks, limits, notes),
        *_grids(all_tracks, sweep),
        overview,
        *(_device(t, sweep, parameter, looks, i, alone=alone) for i, t in enumerate(all_tracks, 1)),
        _circumstances(sweep, first, fixed, limits + notes),
    )
    page = Page(
        "sweep",
        "memory strategy sweep",
        workload,
        sections,
        basis="predicted" if predicted else "measured",
        where=f"over {span}{on_device}",
        tool=tool,
        created=created,
        summary=words.line(first.workload.summary, 300) if first else "",
        meta=tuple(filter(None, (f"`{fixed}`" if fixed else "", created))),
        records=records_of_points(sweep),
    )
    return described(page, *sweep.profiles)


def _lead(
    sweep: SweepResults,
    all_tracks: Sequence[Track],
    parameter: str,
    looks: dict[str, Style],
    limits: tuple[str, ...],
    notes: tuple[str, ...],
) -> Section:
    drawn = [track for track in all_tracks if track.basis != "cpu"]
    predicted, confidence = len(drawn) < len(all_tracks), _confidence(sweep)
    verdicts = tuple(sweep_verdict(track, parameter, confidence) for track in drawn)
    if len(verdicts) > 1 or sweep.grid:  # a table says what is the best where
        verdicts = tuple(replace(verdict, remark="") for verdict in verdicts)
    confirm = predicted and any(verdict.basis != "nothing" for verdict in verdicts)
    what = f"Nothing could be measured or predicted at any value of {parameter}"
    none = nothing("", what, next_step="Fix the errors in the rows and run again.")
    figures: list[tuple[blocks.Block, ...]] = []
    for track in drawn:
        if sweep.grid:  # of two parameters a table, of one lines
            table = next(grid_tables(track, sweep, confidence))
            figures.append((table,) * bool(track.with_figures))
        else:
            height = HEIGHT if len(drawn) == 1 else LOW
            figures.append(tuple(_chart(track, parameter, looks, height) for _ in track.with_figures[:1]))
    following = blocks.Prose(CONFIRM * confirm, label="Next", kind="next together")
    return lead(
        replace(following, forms="html"),  # below the charts it would not be on the first screen
        *around(
            blocks.Failures(sweep_failures(sweep, parameter)),
            blocks.Verdicts(verdicts or (none,), named=len(verdicts) > 1 or predicted, forms="md txt"),
            panels(verdicts or (none,), figures or [()]),
            drawn=any(figures),
        ),
        replace(following, forms="md txt"),
        blocks.Banners("note", limits, forms="html txt"),
        blocks.Banners("note", notes, forms="html"),
    )


def _grids(all_tracks: Sequence[Track], sweep: SweepResults) -> Iterator[Section]:
    """The tables of two parameters for forms without panels; a screen has those of the first device."""
    for i, track in enumerate(t for t in all_tracks if t.basis != "cpu" and t.with_figures and sweep.grid):
        tables = tuple(grid_tables(track, sweep, _confidence(sweep)))
        yield Section(f"grid-{i}", words.name(track.device.name), tables, brief=not i, forms="md txt")


def _confidence(sweep: SweepResults) -> float | None:
    """Confidence of the intervals; None where memory decides, not time alone."""
    first = sweep.profiles[0] if sweep.profiles else None
    wanted = first.preferences if first else None
    memory = wanted and (wanted.objective == "footprint" or wanted.memory_budget_bytes)
    return first.method.confidence if first and not memory else None


def _circumstances(sweep: SweepResults, first: Profile | None, fixed: str, notes: tuple[str, ...]) -> Section:
    ran = [fact for fact in workload(first) if fact.label in _WORKLOAD] if first else []
    ran += [blocks.Fact("Other parameters", fixed)] * bool(fixed)
    facts = [fact for fact in method(first) if fact.label in _METHOD] if first else []
    facts = [blocks.Fact("Values", _VALUES), *facts, blocks.Fact("Best strategy", _BEST)]
    links = blocks.Prose(_LINKS, forms="html")
    return circumstances(first, links, command=sweep.command, method=facts, ran=ran, notes=notes)


def _span(sweep: SweepResults, parameter: str) -> str:
    if sweep.grid:
        return span(sweep)
    values = [words.value(point.value) for point in sweep.points]
    if not sweep.ordered or len(values) < 3:
        return f"{parameter} = {words.listing(values)}"
    return f"{parameter} = {values[0]} to {values[-1]}"


def _overview(all_tracks: Sequence[Track], sweep: SweepResults, parameter: str) -> Section:
    """Several devices: the recommended strategy of each at each value, in one table."""
    devices = [track for track in all_tracks if track.basis != "cpu" and track.with_figures]
    several = len(devices) > 1 and not sweep.grid
    table = best_table(sweep, devices, parameter)
    return Section("best", "At each value", (table,) * several, nav="At each value" * several, brief=True)


def _device(
    track: Track, sweep: SweepResults, parameter: str, looks: dict[str, Style], number: int, *, alone: bool
) -> Section:
    """One device over all values: its table, and what has no figures; the lead has the lines of a GPU."""
    cpu, device, gaps = track.basis == "cpu", words.name(track.device.name), merged(_gaps(track, parameter))
    figures: tuple[blocks.Block, ...] = (blocks.Prose("No strategy has figures here.", forms="html"),)
    if track.with_figures:
        table = _table(track, sweep, parameter)
        figures = table, blocks.Prose(legend(table), forms="md txt")
        if cpu:
            figures = _chart(track, parameter, looks), *figures
    further = tuple(gap for gap in gaps if gap.status != "failed")  # failures are told with the verdict
    title = "Not predicted" if track.basis == "predicted" else "Not measured"
    inside = filled(
        blocks.Prose(ON_CPU if cpu else memory_sentence(track.device), forms="html"),
        *figures,
        blocks.Items(gaps, title, forms="html"),
        blocks.Items(further, forms="md txt"),
    )
    if cpu:
        nav = "On this CPU"
        return Section(f"device-{number}", CPU_TITLE, inside, nav, brief=alone, closed=True, forms="html")
    section = Section(f"device-{number}", device, inside, nav=device, badge=track.basis, brief=alone)
    return replace(section, closed=not alone, forms="html md txt" if alone else "html txt")


def _table(track: Track, sweep: SweepResults, parameter: str) -> blocks.Table:
    """The best at each value with its time, and all times relative to the fastest there.

    Recommended strategies come first, in the order of the values, then the baseline.
    """
    device, predicted = words.name(track.device.name), track.basis == "predicted"
    order = (*(stop.optima.chosen for stop in track.stops), BASELINE, *track.with_figures)
    names = [name for name in dict.fromkeys(order) if name in track.with_figures]
    where = "" if predicted else f", {CPU_LABEL if track.basis == 'cpu' else f'measured on {device}'}"
    caption = f"Time per frame relative to the fastest at each value{where}."
    rows: list[Sequence[str | blocks.TableCell]] = []
    for stop in track.stops:
        least, cells = fastest(stop), [cell(stop, name) for name in names]
        times = (
            replace(each, value=relative(stop, name), note=each.value) if stop.seconds(name) else each
            for name, each in zip(names, cells, strict=True)
        )
        rows.append((_best(stop)[0], units.seconds(least) if least else blocks.NOTHING, *times))
    heads = blocks.Column("best", figures=False), *columns("fastest", *map(words.code, names))
    caption += f" {MARKED}" * (track.basis != "cpu")
    title = f"{'Predicted time' if predicted else 'Time'} per frame on {device}, relative to the fastest:"
    return blocks.Table(
        "sweep",
        parameter,
        heads,
        tuple(_rows(sweep.points, rows)),
        caption,
        title,
        codes=False,
        predicted=predicted,
        brief_notes=False,
        left_out="strategy",
        whole=True,
    )


def _rows(points: Sequence[Point], cells: Iterable[Sequence[str | blocks.TableCell]]) -> Iterator[blocks.Row]:
    for point, values in zip(points, cells, strict=True):
        value = words.value(point.value)
        if point.profile:
            yield row(value, *values, href=point.href)
        else:
            yield blocks.Row(value, (), missing=f"{point.status}: {words.line(point.reason, 200)}")


def _best(stop: Stop) -> tuple[str, str]:
    figures, chosen = stop.seconds(stop.optima.chosen or ""), stop.optima.chosen
    if not figures or not chosen:
        return "undecided" if stop.optima.rivals else blocks.NOTHING, ""
    return words.name(chosen), units.seconds(figures[0])


def _chart(track: Track, parameter: str, looks: dict[str, Style], height: int = HEIGHT) -> LineChart:
    predicted = track.basis == "predicted"
    where = "this CPU, not on a GPU" if track.basis == "cpu" else words.name(track.device.name)
    stops = [stop for stop in track.stops if stop.results]  # a value without a profile has no place here
    drawn = leading(stops, track.with_figures)
    curves = []
    for name in (name for name in track.with_figures if name in drawn):
        pairs = ((sample(stop, name), fastest(stop)) for stop in stops)
        curves.append(Curve(name, looks[name], tuple(s.over(t) if s and t else None for s, t in pairs)))
    omitted = len(track.with_figures) - len(drawn)
    crossed = crossings(track, parameter)
    changed = [Crossover(stops.index(low), stops.index(high), what) for low, high, what in crossed]
    note = _ON_CHART[track.basis] + _CHANGES * bool(changed)
    note += f" The table also has {words.count(omitted, 'other strategy')}." * bool(omitted)
    title = f"{'Predicted time' if predicted else 'Time'} relative to the fastest over {parameter} on {where}"
    values = [stop.value for stop in stops]
    shape = partial(line_chart, height=height, predicted=predicted, relative=True)
    return replace(shape(title, parameter, values, curves, changes=changed), note=note)


def leading(stops: Sequence[Stop], strategies: Sequence[str]) -> set[str]:
    """Strategies recommended or among the two fastest at a value, and the baseline; all if few are left."""
    names = {BASELINE} & set(strategies)
    for stop in stops:
        timed = [name for name in strategies if stop.seconds(name)]
        names.update(filter(None, (stop.optima.chosen,)))
        names.update(sorted(timed, key=lambda name: (stop.seconds(name) or (0.0,))[0])[:2])
    return names if len(strategies) - len(names) > _FEW else set(strategies)


def sample(stop: Stop, strategy: str) -> Sample | None:
    """A strategy's point on a chart; None without figures. An interval that tells nothing is not drawn."""
    figures = stop.seconds(strategy)
    if not figures:
        return None
    middle, low, high = figures
    text = f"{units.seconds(middle)} ({words.seconds_between(low, high)})"
    ends = (low, high) if words.known(low, high) else (middle, middle)
    return Sample(middle, *ends, stop.optima.chosen == strategy, text)


def _gaps(track: Track, parameter: str) -> Iterator[blocks.Item]:
    """Each strategy without figures, once for each reason, with the values it holds for."""
    results = [
        (stop, row) for name in track.strategies for stop in track.stops if (row := stop.results.get(name))
    ]
    without = [(stop, row) for stop, row in results if isinstance(row, (Failed, Skipped))]
    profiled = sum(bool(stop.results) for stop in track.stops)
    alike = words.grouped(without, lambda pair: (pair[1].strategy, pair[1].status, pair[1].reason))
    for (strategy, status, reason), where in alike.items():
        label = "not predicted" if track.basis == "predicted" else status
        place = "" if len(where) == profiled else f" (at {at(parameter, [stop for stop, _ in where])})"
        row = where[0][1]
        detail = words.block(row.detail) if isinstance(row, Failed) else ""
        yield blocks.Item((words.name(strategy),), label, words.line(reason, 500) + place, detail)


def _notes(sweep: SweepResults, parameter: str) -> Iterator[str]:
    """Notes of all values; those that differ only in figures appear once."""
    notes = []
    for value, profile in ((words.value(p.value), p.profile) for p in sweep.points if p.profile):
        notes += [(value, note) for note in (*profile.notes, *profile.environment.warnings)]
    for same in words.grouped(notes, lambda pair: FIGURES.sub("0", pair[1])).values():
        values, note = [value for value, _ in same], words.line(same[0][1], 500).rstrip(".")
        if len({text for _, text in same}) > 1:
            more = words.count(len(same) - 1, "other value")
            yield f"{note} (at {parameter} = {values[0]}; much the same at {more})."
        elif len(same) == len(sweep.profiles):
            yield f"{note}."
        else:
            yield f"{note} (at {parameter} = {words.listing(values)})."
