"""The page of a sweep: the verdicts, and a chart and a table for each device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from advisor.profiles.schema import Failed, Profile, Skipped
from advisor.profiles.sweeps import Point, SweepResults
from advisor.report import blocks, words
from advisor.report.lines import HEIGHT, LOW, Crossover, Curve, LineChart, Sample, Style, line_chart, styles
from advisor.report.machine import CPU_LABEL, ON_CPU, environment, method, pairs, workload
from advisor.report.mixes import described
from advisor.report.page import MARKED, Page, Section, around, circumstances, filled, lead, legend, panels
from advisor.report.recommendations import FIGURES, nothing, sweep_failures
from advisor.report.sweep_verdicts import at, cell, crossings, sweep_verdict
from advisor.report.tables import memory_told, merged
from advisor.strategies.mixes import numbered_alike
from advisor.strategies.registry import BASELINE
from advisor.verdicts.tracks import Stop, Track, tracks
from advisor.version import __version__

_ON_CHART = {
    "predicted": "Bands show the ranges; a ring marks the recommended strategy.",
    "measured": "Vertical lines show the intervals; a ring marks the recommended strategy.",
    "cpu": "Vertical lines show the intervals.",
}
_CHANGES = " The best strategy changes between the dotted lines."
_STRIPS = " The strip at the bottom is where it changes on 90 % of simulated devices."
_LESS = 0.01
"""From so much less time on, a difference is seen in the three digits of a table."""
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
_PREDICTED = "Predicted, not measured. Run the same command on the device to confirm."


def sweep_page(sweep: SweepResults) -> Page:
    """Everything a sweep says: where the best strategy changes, and the times of all at each value."""
    numbered = iter(numbered_alike(sweep.profiles))
    points = (replace(point, profile=next(numbered)) if point.profile else point for point in sweep.points)
    sweep = replace(sweep, points=tuple(points))
    first = sweep.profiles[0] if sweep.profiles else None
    parameter, found = words.name(sweep.parameter, 40), tracks(sweep)
    looks = styles(list(dict.fromkeys(name for track in found for name in track.strategies)))
    workload, span = words.name(sweep.workload), _span(sweep, parameter)
    held = first.workload.parameters if first else {}
    fixed = pairs({name: value for name, value in held.items() if name != sweep.parameter})
    predicted = first is not None and first.device.kind == "cpu"
    on_device = f" on {words.name(first.device.name)}" if first and not predicted else ""
    made = words.created(first.created) if first else ""
    tool = f"advisor {words.name(first.tool.version) if first else __version__}"
    limits = (*(words.line(note, 500) for note in sweep.notes), *_faster_when_larger(sweep, found, parameter))
    notes = tuple(_notes(sweep, parameter))
    page = Page(
        kind="sweep",
        brand="memory strategy sweep",
        name=workload,
        where=f"over {span}{on_device}",
        basis="predicted" if predicted else "measured",
        summary=words.line(first.workload.summary, 300) if first else "",
        meta=tuple(filter(None, (f"`{fixed}`" if fixed else "", made))),
        sections=(
            _lead(sweep, found, parameter, looks, limits, notes),
            *(_device(track, sweep, parameter, looks, i) for i, track in enumerate(found, 1)),
            _circumstances(sweep, first, fixed, limits + notes, ", ".join(filter(None, (tool, made)))),
        ),
        tool=tool,
        created=made,
    )
    return described(page, *sweep.profiles)


def _lead(
    sweep: SweepResults,
    found: Sequence[Track],
    parameter: str,
    looks: dict[str, Style],
    limits: tuple[str, ...],
    notes: tuple[str, ...],
) -> Section:
    predicted, drawn = any(track.basis == "cpu" for track in found), [t for t in found if t.basis != "cpu"]
    told = tuple(sweep_verdict(track, parameter) for track in drawn)
    confirm = predicted and any(verdict.basis != "nothing" for verdict in told)
    what = f"Nothing could be measured or predicted at any value of {parameter}"
    none = nothing("", what, next_step="Fix the errors in the rows and run again.")
    missing = [point for point in sweep.points if point.status == "not run"]
    height = HEIGHT if len(drawn) == 1 else LOW
    charts = [
        _chart(track, parameter, looks, i, height) if track.with_figures else None
        for i, track in enumerate(found, 1)
        if track.basis != "cpu"
    ]
    return lead(
        *around(
            blocks.Failures(sweep_failures(sweep, parameter)),
            blocks.Verdicts(told or (none,), named=len(told) > 1 or predicted, forms="md txt"),
            panels(told or (none,), [filled(chart) for chart in charts] or [()]),
            drawn=any(charts),
        ),
        blocks.Prose(_PREDICTED * confirm, label="Next", kind="next together"),
        blocks.Banners("note", limits, forms="html txt"),
        blocks.Banners("note", notes, forms="html"),
        blocks.Items(tuple(_missing(missing, parameter)), "Values that were not run"),
    )


def _missing(points: Sequence[Point], parameter: str) -> Iterator[blocks.Item]:
    """Values that were not run, those with the same reason together; failed ones are told before."""
    for reason, where in words.grouped(points, lambda point: point.reason).items():
        values = words.listing([words.value(point.value) for point in where], limit=12)
        yield blocks.Item((f"{parameter} = {values}",), "not run", words.line(reason))


def _circumstances(
    sweep: SweepResults, first: Profile | None, fixed: str, notes: tuple[str, ...], made: str
) -> Section:
    ran = tuple(f for f in workload(first) if f.label in _WORKLOAD) if first else ()
    taken = [fact for fact in method(first) if fact.label in _METHOD] if first else []
    taken = [blocks.Fact("Command", words.line(sweep.command, 500)), blocks.Fact("Values", _VALUES), *taken]
    machine = environment(first) if first else ()
    return circumstances(
        blocks.Prose(_LINKS, forms="html"),
        method=(*taken, blocks.Fact("Best strategy", _BEST)),
        ran=ran,
        machine=machine,
        facts=(
            *(ran[:1] + machine)[:8],
            blocks.Fact("other parameters", fixed),
            blocks.Fact("command", words.code(sweep.command, 500) if sweep.command else ""),
        ),
        notes=notes,
        made=made,
    )


def _span(sweep: SweepResults, parameter: str) -> str:
    values = [words.value(point.value) for point in sweep.points]
    if not sweep.ordered or len(values) < 3:
        return f"{parameter} = {words.listing(values)}"
    return f"{parameter} = {values[0]} to {values[-1]}"


def _device(
    track: Track, sweep: SweepResults, parameter: str, looks: dict[str, Style], number: int
) -> Section:
    """One device over all values: its table, and what has no figures; the lead has the lines of a GPU."""
    cpu, device, gaps = track.basis == "cpu", words.name(track.device.name), merged(_gaps(track, parameter))
    figures: tuple[blocks.Block, ...] = (blocks.Prose("No strategy has figures here.", forms="html"),)
    if track.with_figures:
        table = _table(track, sweep, parameter, number)
        figures = table, blocks.Prose(legend(table), forms="md txt")
        if cpu:
            figures = _chart(track, parameter, looks, number), *figures
    # Failures are told first of all; what was predicted is told with its device.
    where = f" on {device}" if track.basis == "predicted" else ""
    further = (replace(gap, status=f"{gap.status}{where}") for gap in gaps if gap.status != "failed")
    return Section(
        f"device-{number}",
        "Measured on this CPU, not on a GPU" if cpu else device,
        filled(
            blocks.Prose(ON_CPU if cpu else memory_told(track.device), forms="html"),
            *figures,
            blocks.Items(gaps, "Strategies without figures", forms="html"),
            blocks.Items(tuple(further), forms="md txt"),
        ),
        nav="On this CPU" if cpu else device,
        badge="" if cpu else track.basis,
        brief=True,
        forms="html" if cpu else "html md txt",
    )


def _table(track: Track, sweep: SweepResults, parameter: str, number: int) -> blocks.Table:
    shown, device, predicted = track.with_figures, words.name(track.device.name), track.basis == "predicted"
    where = CPU_LABEL if track.basis == "cpu" else f"measured on {device}"
    caption = f"Time per frame, {where}, with the interval of the median below."
    if predicted:
        caption = "Predicted time per frame: the likely value, with the range below."
    return blocks.Table(
        "sweep",
        parameter,
        tuple(blocks.Column(words.name(name)) for name in shown),
        tuple(_rows(sweep.points, track.stops, shown)),
        caption=caption if track.basis == "cpu" else f"{caption} {MARKED}",
        title=f"{'Predicted time' if predicted else 'Time'} per frame on {device}:",
        identifier=f"device-{number}",
        codes=False,
        code_heads=True,
        predicted=predicted,
        brief_notes=False,
        left_out="strategy",
    )


def _rows(points: Sequence[Point], stops: Sequence[Stop], strategies: Sequence[str]) -> Iterator[blocks.Row]:
    """Where there is little room, the ends matter and the values at which the recommendation changes."""
    chosen = [stop.optima.chosen for stop in stops]
    for i, (point, stop) in enumerate(zip(points, stops, strict=True)):
        matters = i in (0, len(stops) - 1) or chosen[i] != chosen[i - 1]
        yield replace(_row(point, stop, strategies), rank=0.0 if matters else 1.0)


def _row(point: Point, stop: Stop, strategies: Sequence[str]) -> blocks.Row:
    value = words.value(point.value)
    if point.profile is None:
        return blocks.Row(value, (), missing=f"{point.status}: {words.line(point.reason, 200)}")
    if not any(stop.seconds(strategy) for strategy in strategies):
        return blocks.Row(value, (), href=point.href, missing="no figures")
    return blocks.Row(value, tuple(cell(stop, strategy) for strategy in strategies), href=point.href)


def _chart(
    track: Track, parameter: str, looks: dict[str, Style], index: int, height: int = HEIGHT
) -> LineChart:
    predicted = track.basis == "predicted"
    where = "this CPU, not on a GPU" if track.basis == "cpu" else words.name(track.device.name)
    stops = [stop for stop in track.stops if stop.results]  # a value without a profile has no place here
    shown = leading(stops, track.with_figures)
    curves = [
        Curve(name, looks[name], tuple(sample(stop, name) for stop in stops)) for name in track.with_figures
    ]
    others = words.count(len(curves) - len(shown), "other strategy") if len(shown) < len(curves) else ""
    note = f"The band contains {others}, listed in the table. " if others else ""
    changed = [
        Crossover(stops.index(low), stops.index(high), told, (found.first, found.last) if found else None)
        for low, high, told, found in crossings(track, parameter)
    ]
    strips = _STRIPS * any(crossover.ends for crossover in changed)
    return line_chart(
        f"lines-{index}",
        f"{'Predicted time' if predicted else 'Time'} of one frame over {parameter} on {where}",
        parameter,
        [stop.value for stop in stops],
        [curve for curve in curves if curve.strategy in shown],
        height=height,
        predicted=predicted,
        note=note + _ON_CHART[track.basis] + _CHANGES * bool(changed) + strips,
        others=[curve for curve in curves if curve.strategy not in shown],
        changes=changed,
    )


def leading(stops: Sequence[Stop], strategies: Sequence[str]) -> set[str]:
    """Strategies recommended or among the two fastest at a value, and the baseline; all if few are left."""
    found = {BASELINE} & set(strategies)
    for stop in stops:
        timed = [name for name in strategies if stop.seconds(name)]
        found.update(filter(None, (stop.optima.chosen,)))
        found.update(sorted(timed, key=lambda name: (stop.seconds(name) or (0.0,))[0])[:2])
    return found if len(strategies) - len(found) > _FEW else set(strategies)


def sample(stop: Stop, strategy: str) -> Sample | None:
    """A strategy's point on a chart; None without figures."""
    figures = stop.seconds(strategy)
    return Sample(*figures, chosen=stop.optima.chosen == strategy) if figures else None


def _gaps(track: Track, parameter: str) -> Iterator[blocks.Item]:
    """Each strategy without figures, once for each reason, with the values it holds for."""
    found = [
        (stop, row) for name in track.strategies for stop in track.stops if (row := stop.results.get(name))
    ]
    without = [(stop, row) for stop, row in found if isinstance(row, (Failed, Skipped))]
    profiled = sum(bool(stop.results) for stop in track.stops)
    alike = words.grouped(without, lambda pair: (pair[1].strategy, pair[1].status, pair[1].reason))
    for (strategy, status, reason), where in alike.items():
        shown = "not predicted" if track.basis == "predicted" else status
        place = "" if len(where) == profiled else f" (at {at(parameter, [stop for stop, _ in where])})"
        row = where[0][1]
        detail = words.block(row.detail) if isinstance(row, Failed) else ""
        yield blocks.Item((words.name(strategy),), shown, words.line(reason, 500) + place, detail)


def _faster_when_larger(sweep: SweepResults, found: Sequence[Track], parameter: str) -> Iterator[str]:
    """The first neighbouring values of which the larger is predicted faster: host stages are timed."""
    for low, high in pairwise(i for i, point in enumerate(sweep.points) if point.profile):
        before, now = sweep.points[low].profile, sweep.points[high].profile
        if not before or not now or not now.workload.frame_stages("host"):
            continue
        larger = sum(b.bytes for b in now.workload.buffers) > sum(b.bytes for b in before.workload.buffers)
        ends = [(track.stops[low], track.stops[high]) for track in found if track.basis == "predicted"]
        if larger and any(_falls(*pair) for pair in ends):
            here, there = (words.value(sweep.points[i].value) for i in (high, low))
            yield f"Predicted faster at {parameter} = {here} than at {there}: noise of timed host stages."
            return


def _falls(before: Stop, now: Stop) -> bool:
    """Whether a strategy is seen to take less time at the second of two values."""
    pairs = [(before.seconds(name), now.seconds(name)) for name in now.results]
    return any(a and b and b[0] * (1 + _LESS) < a[0] for a, b in pairs)


def _notes(sweep: SweepResults, parameter: str) -> Iterator[str]:
    """Notes of all values; those that differ only in figures appear once."""
    said = [
        (words.value(point.value), note)
        for point in sweep.points
        if point.profile
        for note in (*point.profile.notes, *point.profile.environment.warnings)
    ]
    for told in words.grouped(said, lambda pair: FIGURES.sub("0", pair[1])).values():
        values, note = [value for value, _ in told], words.line(told[0][1], 500).rstrip(".")
        if len({text for _, text in told}) > 1:
            more = words.count(len(told) - 1, "other value")
            yield f"{note} (at {parameter} = {values[0]}; much the same at {more})."
        elif len(told) == len(sweep.profiles):
            yield f"{note}."
        else:
            yield f"{note} (at {parameter} = {words.listing(values)})."
